"""The store of a broker that keeps nothing (``persistence-enabled=false``, embedded): the same contract, everything durable at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import (
    AddressRecord,
    BranchRecord,
    PagedMessage,
    PageFolder,
    Pager,
    PageReader,
    QueueRecord,
    Recovered,
    StoreBatch,
    WritingTurn,
)
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.disk.nodelock import new_node_id
from mqbroker.storage.files.largebodies import LargeBodies
from mqbroker.storage.tickets import Tickets


class MemoryBatch:
    """A batch of which nothing is kept; ``work`` says whether there was anything."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work = False

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        self.work = True

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        self.work = True

    def acknowledge(self, queue_id: int, message: Message) -> None:
        self.work = True

    def add_paged(self, folder: PageFolder, message: Message, queue_ids: Sequence[int], durable_ids: Sequence[int], page_size: int) -> None:
        raise NotImplementedError("this store has no pages")

    def acknowledge_unread(self, reader: PageReader) -> int:
        raise NotImplementedError("this store has no pages")

    def acknowledge_until(self, reader: PageReader, key: int) -> tuple[int, bool, list[PagedMessage]]:
        raise NotImplementedError("this store has no pages")

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None:
        self.work = True

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        self.work = True

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None:
        self.work = True

    def add_duplicate_ids(self, cache: str, size: int, ids: bytes, record_id: int) -> None:
        self.work = True

    def delete_duplicate_id(self, record_id: int) -> None:
        self.work = True

    def put_branch(self, record: BranchRecord) -> None:
        self.work = True

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        self.work = True

    def end_branch(self, branch_id: int, commit: bool) -> None:
        self.work = True

    def put_address(self, record: AddressRecord) -> None:
        self.work = True

    def delete_address(self, address_id: int) -> None:
        self.work = True

    def put_queue(self, record: QueueRecord) -> None:
        self.work = True

    def delete_queue(self, queue_id: int) -> None:
        self.work = True

    def put_setting(self, kind: str, key: str, value: str) -> None:
        self.work = True

    def delete_setting(self, kind: str, key: str) -> None:
        self.work = True


class MemoryLargeBody:
    """A body in memory."""

    __slots__ = ("_data", "body_id", "size")

    def __init__(self, body_id: int) -> None:
        self.body_id = body_id
        self._data = bytearray()
        self.size = 0

    def append(self, chunk: bytes) -> None:
        self._data += chunk
        self.size = len(self._data)

    def complete(self) -> None:
        pass

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def hold(self) -> None:
        pass

    def release(self) -> None:
        """Nothing to do: references to the body keep it alive."""


class MemoryStore(Tickets):
    """See :class:`mqbroker.messaging.ports.Store`.

    ``large_messages`` are a file system, a directory and a disk writer for the bodies of large messages, so that these do not
    fill the memory; without it they are kept there.  ``on_failure`` hears when such a file cannot be written.
    """

    def __init__(
        self,
        entropy: Callable[[int], bytes],
        large_messages: tuple[FileSystem, str, DiskWriter] | None = None,
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(on_failure)
        self.node_id = new_node_id(entropy)
        self.pager: Pager | None = None
        self._next_id = 1
        self._bodies: LargeBodies | None = None
        if large_messages is not None:
            file_system, directory, writer = large_messages
            self._writer = writer
            self._make_directory = partial(file_system.make_directory, directory)
            self._bodies = LargeBodies(file_system, directory, writer, False, lambda function: function(), self.fail)

    def open(self) -> None:
        """Bodies of large messages that another process has left are removed."""
        if self._bodies is not None:
            self._make_directory()
            self._bodies.remove_orphans(())

    def load(self) -> Recovered:
        self.check_open()
        return Recovered()

    def write_at_end_of(self, turn: WritingTurn) -> None:
        """Nothing to do: this store writes nothing."""

    def next_id(self) -> int:
        number = self._next_id
        self._next_id = number + 1
        return number

    def begin(self) -> MemoryBatch:
        return MemoryBatch()

    def commit(self, batch: StoreBatch) -> int:
        own: MemoryBatch = batch  # type: ignore[assignment]
        if own.work:
            self.last += 1
            if not self.failed:
                self.own.hold(self.last)
        return self.last

    def create_large_body(self, body_id: int) -> LargeBody:
        if self._bodies is None:
            return MemoryLargeBody(body_id)
        return self._bodies.create(body_id)

    def stop(self, done: Callable[[], object]) -> None:
        """Let go of everything, then call ``done``."""
        self.close()
        if self._bodies is None:
            done()
            return
        # After what the disk writer has still to write.
        self._writer.submit([self._bodies.close_files, partial(self._bodies.remove_orphans, ())], lambda _: done())

    def abort(self) -> None:
        self.stop(lambda: None)

    def withdraw(self) -> None:
        self.abort()

    def close(self) -> None:
        super().close()
        if self._bodies is not None:
            self._bodies.close()
