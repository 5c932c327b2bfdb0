"""A messaging core on a clock and a store that the test moves by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.node.messaging import messaging_of
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, TypedValue
from tests.support.clock import FakeClock
from tests.support.held_store import HeldStore


class Collector:
    """A consumer that keeps what it is given.  ``room`` is how many messages it takes."""

    def __init__(self, bench: Bench, queue: Queue, filter_text: str | None = None, priority: int = 0, room: int = 1_000_000) -> None:
        self.filter: Filter | None = parse_filter(filter_text)
        self.priority = priority
        self.cursor: Cursor | None = None
        self.room = room
        self.ready = room > 0
        self.references: list[Reference] = []
        self.deleted = False
        self.queue = queue
        self._bench = bench
        queue.add_consumer(self)
        bench.turn()

    def handle(self, reference: Reference) -> None:
        self.references.append(reference)
        self.room -= 1
        self.ready = self.room > 0

    def handle_first(self, reference: Reference, key: str) -> None:
        self.handle(reference)

    def queue_deleted(self) -> None:
        self.deleted = True

    def give_room(self, room: int) -> None:
        self.room += room
        self.ready = self.room > 0
        self._bench.messaging.core.turn.mark_queue(self.queue)
        self._bench.turn()

    @property
    def bodies(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.references]

    def leave(self) -> None:
        self.queue.remove_consumer(self)


class Bench:
    """Messaging with its store and clock, and shortcuts for tests.  ``options`` are those of the configuration."""

    def __init__(
        self,
        settings: dict[str, dict[str, Any]] | None = None,
        disk_space: Callable[[], Iterable[DiskSpace]] | None = None,
        **options: Any,
    ) -> None:
        self.clock = FakeClock()
        self.store = HeldStore()
        configuration = Configuration(address_settings=settings or {}, **options)
        store: Any = self.store
        self.messaging = messaging_of(configuration, store, Recovered(), self.clock, lambda: 0.5, disk_space=disk_space)
        self.context = OperationContext(self.store)

    @property
    def core(self) -> Any:
        return self.messaging.core

    def turn(self) -> None:
        self.messaging.core.turn.end()

    def queue(self, name: str, address: str | None = None, routing_type: int = 1, **attributes: Any) -> Queue:
        configuration = QueueConfiguration(name=name, address=address or name, routing_type=routing_type, **attributes)
        return self.messaging.administration.create_queue(configuration)

    def message(
        self,
        body: bytes = b"",
        address: str = "q",
        *,
        durable: bool = True,
        priority: int = 4,
        expiration: int = 0,
        routing_type: int | None = 1,
        properties: dict[str, TypedValue] | None = None,
    ) -> Message:
        values = dict(properties or {})
        if routing_type is not None:
            values[KEY_ROUTING_TYPE] = (BYTE, routing_type)
        content = CoreMessage(
            address=address, durable=durable, priority=priority, expiration=expiration, properties=values, body=body, type=4
        )
        return Message.received(encode_message(content), self.store.next_id())

    def send(self, body: bytes = b"", address: str = "q", queue: str | None = None, transaction: Any = None, **headers: Any) -> int:
        message = self.message(body, address, **headers)
        return self.send_message(message, queue, transaction)

    def send_message(self, message: Message, queue: str | None = None, transaction: Any = None) -> int:
        ticket = self.messaging.sending.send(message, message.address, queue, message.routing_type, self.context, transaction)
        self.turn()
        return ticket
