"""What a browser has shown, so that it goes on after a reconnect: the broker lets it begin at the head of the queue again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.core.session.session import Session

BROWSED_MAX = 100_000
"""Messages that one browser remembers.  What it shows beyond that is shown again after a reconnect."""


class Browsed:
    """Remembers nothing when the connection would not come back anyway."""

    __slots__ = ("_again", "_ids", "_node_id", "_session", "_wanted")

    def __init__(self, session: Session) -> None:
        settings = session.settings
        self._session = session
        self._wanted = settings.reconnect_attempts != 0 or settings.failover_attempts != 0
        self._ids: set[int] = set()
        self._node_id = session.factory.node_id
        self._again = False

    def shown(self, message_id: int) -> None:
        if self._wanted and len(self._ids) < BROWSED_MAX:
            self._ids.add(message_id)

    def begin_anew(self) -> None:
        """The broker begins at the head again."""
        self._again = True
        if self._session.factory.node_id != self._node_id:
            # Another node numbers its messages in another way.
            self._node_id = self._session.factory.node_id
            self._ids.clear()

    def repeats(self, message_id: int) -> bool:
        return self._again and message_id in self._ids
