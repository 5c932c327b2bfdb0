"""The messages that a browser has shown.  After a reconnect the broker begins at the head of the queue again, and these are skipped."""

from __future__ import annotations

from typing import Protocol

from mqclient.core.settings import LocatorSettings

BROWSED_MAX = 100_000
"""Messages that one browser of the client remembers. A message that it shows beyond that is shown again after a reconnect."""


class Node(Protocol):
    """The broker at the other end of the connection, which may be another one after a reconnect."""

    @property
    def node_id(self) -> str | None: ...


class Browsed:
    """The ids of the messages that one browser has shown; empty when the connection never comes back (no reconnect attempts)."""

    __slots__ = ("_again", "_ids", "_node", "_node_id", "_wanted")

    def __init__(self, settings: LocatorSettings, node: Node) -> None:
        self._node = node
        self._wanted = settings.reconnect_attempts != 0 or settings.failover_attempts != 0
        self._ids: set[int] = set()
        self._node_id = node.node_id
        self._again = False

    def shown(self, message_id: int) -> None:
        if self._wanted and len(self._ids) < BROWSED_MAX:
            self._ids.add(message_id)

    def begin_anew(self) -> None:
        """The broker begins at the head again."""
        self._again = True
        if self._node.node_id != self._node_id:
            # Another node numbers its messages in another way.
            self._node_id = self._node.node_id
            self._ids.clear()

    def repeats(self, message_id: int) -> bool:
        return self._again and message_id in self._ids
