"""The consumers of clients here on one queue with one filter: whose turn it is, and whose a message group is."""

from __future__ import annotations

from collections.abc import Sequence

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.consumer import QueueConsumer
from mqbroker.messaging.queues.groups import GROUP_ID_KEY, has_group

GROUPS_MAX = 10_000
"""Message groups of one queue whose consumers are remembered; beyond that the oldest one may get another consumer."""


class Takers:
    """``consumers`` come in the order of their priorities, the highest first; each has the same filter.

    With ``exclusive`` all messages go to the first one.  The messages of a group go to one consumer as long as there is that consumer; each
    home gives the groups that it keeps to one of its consumers, so they come here in order.
    """

    def __init__(self) -> None:
        self.consumers: Sequence[QueueConsumer] = ()
        self._next = 0
        self._groups: dict[str, QueueConsumer] = {}

    def set(self, consumers: Sequence[QueueConsumer]) -> None:
        """The consumers have changed to these."""
        self.consumers = consumers
        self._next = 0
        self._groups = {group: owner for group, owner in self._groups.items() if owner in consumers}

    @property
    def ready(self) -> bool:
        """Can any of them take a message?"""
        return any(consumer.ready for consumer in self.consumers)

    def choose(self, message: Message, exclusive: bool) -> QueueConsumer | None:
        """The consumer that gets ``message`` now; None when the message has to wait."""
        if exclusive:
            first = self.consumers[0] if self.consumers else None
            return first if first is not None and first.ready else None
        if not has_group(message):
            return self._turn()
        group = message.raw_property(GROUP_ID_KEY)
        if not isinstance(group, str):
            return self._turn()
        owner = self._groups.get(group)
        if owner is not None:
            return owner if owner.ready else None
        owner = self._turn()
        if owner is not None:
            if len(self._groups) >= GROUPS_MAX:
                del self._groups[next(iter(self._groups))]
            self._groups[group] = owner
        return owner

    def _turn(self) -> QueueConsumer | None:
        """The next ready one among those of the highest priority that has any."""
        consumers = self.consumers
        count = len(consumers)
        best: QueueConsumer | None = None
        place = 0
        for step in range(count):
            at = (self._next + step) % count
            consumer = consumers[at]
            if consumer.ready and (best is None or consumer.priority > best.priority):
                best, place = consumer, at
        if best is not None:
            self._next = place + 1
        return best
