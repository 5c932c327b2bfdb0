"""The pages of all addresses in a database (decision 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mqbroker.messaging.event import Event
from mqbroker.storage.sql.folder import SqlFolder
from mqbroker.storage.sql.reader import Rows, SqlPageReader
from mqbroker.storage.sql.removals import mark_queue
from mqbroker.storage.sql.source import Source
from mqbroker.storage.sql.work import Work

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.storage.sql.batch import SqlBatch


class Arrival:
    """Messages of one batch on their way to the pages: by folder and queue (messages, durable ones), and their bytes."""

    __slots__ = ("place", "queues", "size")

    def __init__(self) -> None:
        self.queues: dict[tuple[SqlFolder, int], tuple[int, int]] = {}
        self.place = 0
        self.size = 0


class SqlPager:
    """See :class:`mqbroker.messaging.ports.Pager`.

    ``next_place`` draws a place behind all others; ``write`` hands work over for the next transaction.  ``rows``, and the own ``session``
    with the last place that an earlier process has left, are there once the store is loaded.
    """

    def __init__(self, next_place: Callable[[], int], write: Callable[[Work], object]) -> None:
        self.backlog = 0
        self.drained: Event[()] = Event()
        self.last_place = 0
        self.removing: set[int] = set()
        """The sessions with references that are marked to go."""
        self.session = self.adopted = 0
        self.rows: Rows
        self._next_place = next_place
        self._write = write
        self._folders: dict[str, SqlFolder] = {}

    def folder(self, address: str) -> SqlFolder:
        found = self._folders.get(address)
        if found is None:
            found = self._folders[address] = SqlFolder(self, address)
        return found

    def folders(self) -> Sequence[SqlFolder]:
        return [folder for folder in self._folders.values() if folder.messages]

    def own_source(self, folder: SqlFolder, queue_id: int, place: int) -> Source:
        """The rows of a queue in the own session, behind this place."""
        return Source(folder, self.session, queue_id, place, self.adopted)

    def reader(self, folder: SqlFolder, queue_id: int) -> SqlPageReader:
        return SqlPageReader(self.rows, folder, queue_id)

    def drop_rows(self, address: str, sources: Sequence[Source]) -> None:
        """A queue is gone: nothing of it stays in a folder."""
        work = Work()
        for source in sources:
            mark_queue(work, source.session, source.queue_id, address)
        self._write(work)

    def put(self, batch: SqlBatch) -> Arrival | None:
        """Put the rows of a batch's messages for pages into it.  Returns what arrives when they are durable."""
        if not batch.paged:
            return None
        arrival = Arrival()
        for folder, message, queue_ids, durable_ids, page_size in batch.paged:
            self.last_place = arrival.place = place = self._next_place()
            batch.put_message(message, place, folder.address, queue_ids, durable_ids, paged=True)
            folder.came(message, queue_ids, page_size)
            arrival.size += self._count(arrival, folder, message, queue_ids, durable_ids)
        self.backlog += arrival.size
        return arrival

    @staticmethod
    def _count(arrival: Arrival, folder: SqlFolder, message: Message, queue_ids: Sequence[int], durable_ids: Sequence[int]) -> int:
        for queue_id in queue_ids:
            messages, durable = arrival.queues.get((folder, queue_id), (0, 0))
            arrival.queues[folder, queue_id] = (messages + 1, durable + (queue_id in durable_ids))
        return len(message.buffer)

    def arrived(self, arrival: Arrival) -> None:
        """The messages of ``arrival`` are durable: the queues can read them."""
        self.backlog -= arrival.size
        for folder in {folder for folder, _ in arrival.queues}:
            folder.readable = max(folder.readable, arrival.place)
        for (folder, queue_id), (messages, durable) in arrival.queues.items():
            folder.arrived(queue_id, messages, durable)
        self.drained()
