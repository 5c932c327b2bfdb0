"""What the tests of storage share: a store on a simulated disk."""

from __future__ import annotations

import random
from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import QueueRecord, Recovered, Store
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.journal.journal import LATE_WRITE_SECONDS
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.files import TEMPORARY
from mqclient.wire.message import CoreMessage, encode_message
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter

JOURNAL = "/data/journal"
BINDINGS = "/data/bindings"
LARGE = "/data/large-messages"
PAGING = "/data/paging"


def settings(**changes: Any) -> StoreSettings:
    values: dict[str, Any] = {"journal_file_size": 4096, "bindings_file_size": 4096, "paging_directory": PAGING, **changes}
    return StoreSettings(JOURNAL, BINDINGS, LARGE, **values)


class Rig:
    """A disk, and one broker process after the other that uses it."""

    store_class: type[FileStore] = FileStore

    def __init__(self, seed: int = 1, capacity: int | None = None, **changes: Any) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk(self.rng, capacity)
        self.settings = settings(**changes)
        self.failures: list[str] = []
        self.recovered: dict[int, Message] = {}
        self.clock: FakeClock
        self.writer: SimulatedDiskWriter
        self.store: FileStore

    def make(self) -> FileStore:
        """A new process, which has not touched the disk yet."""
        self.clock = FakeClock()
        self.writer = SimulatedDiskWriter()
        self.store = self.store_class(self.settings, self.disk, self.writer, self.clock, self.rng.randbytes, self.failures.append)
        return self.store

    def start(self) -> Recovered:
        store = self.make()
        store.open()
        recovered = store.load()
        self.recovered = {message.message_id: message for message, _ in recovered.messages}
        self.settle()
        return recovered

    def settle(self) -> None:
        """Let everything happen that is due."""
        while self.clock.run_due() or self.writer.run_one() or self._late_write():
            pass

    def _late_write(self) -> bool:
        """Let the time pass until acknowledgements are written that nobody waits for; false when there are none."""
        store = self.store
        waiting = store.synced < store.ticket() and not store.failed and self.clock.pending > 0
        if waiting:
            self.clock.advance(LATE_WRITE_SECONDS)
        return waiting

    def stop(self) -> None:
        done: list[bool] = []
        self.store.stop(lambda: done.append(True))
        self.settle()
        assert done == [True]

    def restart(self) -> Recovered:
        self.stop()
        return self.start()

    def crash(self) -> Recovered:
        """The machine stops now and starts again."""
        self.disk.crash()
        return self.start()

    def queue(self, name: str = "q", address: str = "a") -> int:
        """Store a queue; returns its id."""
        queue_id = self.store.next_id()
        batch = self.store.begin()
        batch.put_queue(QueueRecord(queue_id, name, address, 1))
        self.store.commit(batch)
        return queue_id

    def add(self, *queue_ids: int, body: bytes = b"body") -> Message:
        """Hand over one message."""
        message = make_message(self.store, body)
        batch = self.store.begin()
        batch.add_message(message, queue_ids)
        self.store.commit(batch)
        return message

    def acknowledge(self, queue_id: int, *messages: Message) -> None:
        batch = self.store.begin()
        for message in messages:
            batch.acknowledge(queue_id, message)
        self.store.commit(batch)

    def files(self, directory: str = JOURNAL) -> list[str]:
        return [name for name in self.disk.list(directory) if name.startswith("mqbroker-") and not name.endswith(TEMPORARY)]


def make_message(store: Store, body: bytes = b"body", address: str = "a") -> Message:
    return Message.received(encode_message(CoreMessage(address=address, durable=True, body=body)), store.next_id())


def ids(recovered: Recovered) -> list[int]:
    return [message.message_id for message, _ in recovered.messages]
