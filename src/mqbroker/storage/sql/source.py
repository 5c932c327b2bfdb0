"""The source of a queue's rows: the broker's own session, or one that it has inherited from another broker.

Rows of an inherited session keep the number of that session and the ids that its queues had: nothing is written for a message that changes
its owner.  Places, message ids and queue ids come from one sequence of the database, so they are unique over all sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.storage.sql.folder import SqlFolder

END = (1 << 63) - 1
"""A place behind all others."""


class Source:
    """The rows that one session has of a queue in a folder.

    ``queue_id`` is the queue's in these rows.  ``place`` is that of the last message that was read, and ``early`` are places behind it that
    are not read: their messages are in memory.  ``unread`` messages can be read.  ``adopted``: rows up to this place are pages, later ones
    only if they are marked.  ``origin`` is the inherited session, None for the own one.
    """

    __slots__ = ("adopted", "early", "folder", "origin", "place", "queue_id", "session", "unread", "unsettled")

    def __init__(
        self, folder: SqlFolder, session: int, queue_id: int, place: int, adopted: int, origin: Origin | None = None, unread: int = 0
    ) -> None:
        self.folder = folder
        self.session = session
        self.queue_id = queue_id
        self.place = place
        self.adopted = adopted
        self.origin = origin
        self.unread = self.unsettled = unread
        self.early: set[int] = set()

    @property
    def readable(self) -> int:
        """The place up to which messages can be read."""
        return self.folder.readable if self.origin is None else END

    def settled(self, messages: int) -> None:
        """So many messages of an inherited session are done with."""
        origin = self.origin
        if origin is not None and messages:
            self.unsettled -= messages
            if self.unsettled <= 0:
                origin.sources.discard(self)
                origin.check()


class Origin:
    """An inherited session, and what is still in it: ``sources`` with messages that are not settled, messages ``kept`` in memory (own queue
    id, place), and prepared ``branches`` with the places of their messages.

    ``queues`` are the ids that queues have there, by the ids that they have here.  ``emptied`` is called when nothing seems to be left.
    """

    __slots__ = ("_emptied", "branches", "kept", "queues", "session", "sources")

    def __init__(self, session: int, emptied: Callable[[Origin], object]) -> None:
        self.session = session
        self.queues: dict[int, int] = {}
        self.sources: set[Source] = set()
        self.kept: set[tuple[int, int]] = set()
        self.branches: dict[int, list[int]] = {}
        self._emptied = emptied

    def acknowledged(self, queue_id: int, place: int) -> None:
        """A message in memory is done with."""
        self.kept.discard((queue_id, place))
        self.check()

    def branch_ended(self, branch_id: int, commit: bool) -> None:
        """A branch has ended; without ``commit`` its messages are gone."""
        places = self.branches.pop(branch_id, [])
        if not commit and places:
            gone = set(places)
            self.kept = {entry for entry in self.kept if entry[1] not in gone}
        self.check()

    def queue_gone(self, queue_id: int) -> None:
        """A queue of this broker is gone, with everything that it had here."""
        if self.queues.pop(queue_id, None) is not None:
            self.kept = {entry for entry in self.kept if entry[0] != queue_id}
            self.check()

    def check(self) -> None:
        """Tell when nothing is left."""
        if not (self.sources or self.kept or self.branches):
            self._emptied(self)
