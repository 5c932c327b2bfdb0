"""The contents of messages that a home has sent over its link, as long as it may refer to them.

A message for several subscriptions crosses a link once.  The home refers to it while it is in delivery to any consumer of the link, as far
as the home knows: so the content is kept here until the home has confirmed the acknowledgement, not until that was sent.
"""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.messaging.message.message import Message
from mqclient.errors import MQError


class Contents:
    """By the id that a message has at the home.  ``when_stored(function)`` calls ``function`` once the home has done all it was told."""

    def __init__(self, when_stored: Callable[[Callable[[MQError | None], object]], object]) -> None:
        self._when_stored = when_stored
        self._kept: dict[int, tuple[Message, int]] = {}
        """The content, and how many consumers have not settled it."""
        self._settled: set[int] = set()
        """The ids of messages that all consumers have settled since the last question."""
        self._asking = False

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, home_id: int, message: Message) -> None:
        """A consumer has got the message."""
        known = self._kept.get(home_id)
        if known is None and message.large is not None:
            message.large.hold()
        self._kept[home_id] = message if known is None else known[0], 1 if known is None else known[1] + 1
        self._settled.discard(home_id)

    def find(self, home_id: int) -> Message | None:
        """The content; None where the home cannot have meant it."""
        known = self._kept.get(home_id)
        return None if known is None else known[0]

    def settled(self, home_id: int) -> None:
        """A consumer is done with the message, and the home was told, or is told in this turn."""
        known = self._kept.get(home_id)
        if known is None:
            return
        self._kept[home_id] = known[0], known[1] - 1
        if known[1] == 1:
            self._settled.add(home_id)
            self._ask()

    def _ask(self) -> None:
        if not self._asking and self._settled:
            self._asking = True
            asked, self._settled = self._settled, set()
            self._when_stored(lambda failure: self._confirmed(asked))

    def _confirmed(self, asked: set[int]) -> None:
        self._asking = False
        for home_id in asked:
            known = self._kept.get(home_id)
            # Meanwhile the home may have sent it to a further consumer.
            if known is not None and known[1] == 0 and home_id not in self._settled:
                del self._kept[home_id]
                if known[0].large is not None:
                    known[0].large.release()
        self._ask()
