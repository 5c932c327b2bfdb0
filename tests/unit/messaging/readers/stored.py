"""Readers over a file store on a simulated disk, which restarts and crashes."""

from __future__ import annotations

from functools import partial
from typing import Any

from mqbroker.messaging.delivery.branches import Branches
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.reader import Reader
from mqbroker.messaging.readers.ranges import Range
from mqbroker.messaging.readers.rows import Rows
from mqclient.errors import MQError
from mqclient.wire.message import decode_message
from mqclient.wire.primitives import Xid
from tests.support.late_store import read_now
from tests.unit.messaging.paging_support import PagingBroker, numbered


class StoredBroker(PagingBroker):
    """One broker after the other on one disk, with shortcuts for readers of the queue ``q``."""

    def start(self) -> None:
        super().start()
        self.messaging.readers.start()
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.rig.clock.advance(seconds)
        self.settle()

    @property
    def q(self) -> Queue:
        queue: Queue = self.core.queues["q"]
        return queue

    @property
    def branches(self) -> Branches:
        return self.messaging.branches

    def open(self, name: str = "r", start: int = -1) -> Reader:
        found: list[Reader] = []
        self.messaging.readers.open(self.q, name, start, lambda reader, newest, ticket: found.append(reader), print)
        self.settle()
        return found[0]

    def reserve(
        self, reader: Reader | None, after: int, until: int = -1, messages: int = -1, size: int = -1, parts: int = 1, settle: bool = True
    ) -> Range:
        found: list[Any] = []
        name, epoch = (None, 0) if reader is None else (reader.name, reader.epoch)
        limits = (messages, size, parts)
        readers = self.messaging.readers
        readers.reserve(self.q, name, epoch, after, until, limits, lambda given, ticket: found.append(given), found.append)
        self.settle()
        if isinstance(found[0], MQError):
            raise found[0]
        given: Range = found[0]
        return given

    def rows(self, after: int, until: int, max_bytes: int = 1 << 20, filter: str | None = None) -> list[tuple[int, bytes]]:
        """(id, body) of a whole range."""
        found: list[tuple[int, bytes]] = []
        while after < until:
            block = read_now(partial(self.messaging.readers.read, self.q, after, until, max_bytes, parse_filter(filter)))
            found += bodies_of(block.rows)
            assert block.position >= after
            after = block.position
            assert block.end == (after >= until)
            self.settle()
        return found

    def bodies(self, after: int, until: int, **more: Any) -> list[bytes]:
        return [body for _, body in self.rows(after, until, **more)]

    def settle_reader(self, reader: Reader, until: int, wait: bool = True) -> bool:
        """Returns whether it was answered."""
        done: list[int] = []
        self.messaging.readers.settle(self.q, reader.name, reader.epoch, until, done.append, print)
        if wait:
            self.settle()
            assert done
        return bool(done)


def bodies_of(rows: Rows) -> list[tuple[int, bytes]]:
    found = []
    for row, message_id in enumerate(rows.ids):
        body = rows.bodies.get(row)
        found.append((message_id, decode_message(rows.buffers[row]).body if body is None else read_now(partial(body.read, 0, 1 << 20))))
    return found


def xid(number: int) -> Xid:
    return Xid(1, b"branch", b"%d" % number)


def filled(count: int = 300, settings: dict[str, dict[str, Any]] | None = None) -> StoredBroker:
    broker = StoredBroker(settings)
    broker.make_queue("q")
    for body in numbered(count):
        broker.send(body, settle=False)
    broker.settle()
    return broker
