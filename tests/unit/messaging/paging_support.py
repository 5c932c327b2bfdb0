"""A messaging core over a file store on a simulated disk, for tests of paging."""

from __future__ import annotations

from typing import Any

from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.messaging.turns.steps import Steps
from mqbroker.node.messaging import messaging_of
from mqbroker.storage.settings import StoreSettings
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, TypedValue
from tests.support.late_store import read_now
from tests.unit.storage.support import Rig

ALWAYS = {"max_size_bytes": 0, "page_size_bytes": 4096}
"""Address settings with which everything goes through pages, small ones."""


def body_of(message: Message) -> bytes:
    """The body, wherever it is."""
    body = message.large
    return message.decoded().body if body is None else read_now(lambda: body.read(0, 1 << 20))


def unread(queue: Queue) -> list[Message]:
    """What the queue has in pages."""
    pages = queue.pages
    return [] if pages is None else read_now(lambda: [message for message in pages.unread() if message is not None])


class Taker:
    """A consumer that keeps what it is given.  ``room`` is how many messages it takes."""

    def __init__(
        self, broker: PagingBroker, queue: Queue, room: int = 1_000_000, filter_text: str | None = None, settle: bool = True
    ) -> None:
        self.filter: Filter | None = parse_filter(filter_text)
        self.priority = 0
        self.cursor: Cursor | None = None
        self.room = room
        self.ready = room > 0
        self.references: list[Reference] = []
        self.queue = queue
        self._broker = broker
        queue.add_consumer(self)
        if settle:
            broker.settle()

    def handle(self, reference: Reference) -> None:
        self.references.append(reference)
        self.room -= 1
        self.ready = self.room > 0

    def queue_deleted(self) -> None:
        self.ready = False

    def give_room(self, room: int) -> None:
        self.room += room
        self.ready = self.room > 0
        self._broker.messaging.core.turn.mark_queue(self.queue)
        self._broker.settle()

    @property
    def bodies(self) -> list[bytes]:
        return [body_of(reference.message) for reference in self.references]

    def acknowledge(self, count: int | None = None) -> list[bytes]:
        """Settle the oldest ``count`` messages; returns their bodies."""
        count = len(self.references) if count is None else count
        done, self.references = self.references[:count], self.references[count:]
        bodies = [body_of(reference.message) for reference in done]
        self._broker.messaging.settlement.acknowledge(done)
        self._broker.settle()
        return bodies

    def drain(self) -> list[bytes]:
        """Settle until nothing more comes."""
        bodies: list[bytes] = []
        while self.references:
            bodies += self.acknowledge()
        return bodies

    def roll_back(self) -> None:
        """Everything in delivery goes back."""
        returned, self.references = self.references, []
        self._broker.messaging.settlement.redeliver(returned)
        self._broker.settle()

    def leave(self) -> None:
        self.queue.remove_consumer(self)
        returned, self.references = self.references, []
        self._broker.messaging.settlement.cancel(returned)
        self._broker.settle()


class PagingBroker:
    """One broker process after the other on one disk.  ``settings`` are address settings by match."""

    def __init__(self, settings: dict[str, dict[str, Any]] | None = None, seed: int = 1, rig: Rig | None = None, **options: Any) -> None:
        self.rig = rig or Rig(seed, journal_file_size=16384)
        self._settings = settings if settings is not None else {"#": ALWAYS}
        self._options = options
        self.messaging: Messaging
        self.context: OperationContext
        self.start()

    def start(self) -> None:
        recovered = self.rig.start()
        configuration = Configuration(address_settings=self._settings, **self._options)
        self.messaging = messaging_of(configuration, self.rig.store, recovered, self.rig.clock, lambda: 0.5)
        self.context = OperationContext(self.rig.store)
        self.reports: list[str] = []
        self.messaging.core.observers.append(self)  # type: ignore[arg-type]
        self.settle()

    # An observer.

    def message_dropped(self, code: str, text: str) -> None:
        self.reports.append(code)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("address_", "queue_")):
            return lambda *args: None
        raise AttributeError(name)

    @property
    def core(self) -> Any:
        return self.messaging.core

    @property
    def store_settings(self) -> StoreSettings:
        return self.rig.settings

    def settle(self) -> None:
        self.messaging.core.turn.end()
        self.rig.settle()

    def restart(self) -> None:
        self.messaging.stop()
        self.rig.stop()
        self.start()

    def crash(self) -> None:
        self.rig.disk.crash()
        self.start()

    def finish(self, steps: Steps[Any]) -> Any:
        """Let work in steps come to its end; returns its result."""
        ends: list[tuple[Any, Exception | None]] = []
        self.core.steps.start(steps, lambda result, failure: ends.append((result, failure)))
        self.rig.settle()
        ((result, failure),) = ends
        if failure is not None:
            raise failure
        return result

    def make_queue(self, name: str, address: str | None = None, routing_type: int = 1, **attributes: Any) -> Queue:
        configuration = QueueConfiguration(name=name, address=address or name, routing_type=routing_type, **attributes)
        queue = self.messaging.core.queues.get(configuration.name) or self.messaging.administration.create_queue(configuration)
        self.settle()
        return queue

    def message(
        self,
        body: bytes,
        address: str = "q",
        *,
        durable: bool = True,
        priority: int = 4,
        expiration: int = 0,
        routing_type: int = 1,
        properties: dict[str, TypedValue] | None = None,
    ) -> Message:
        values = {**(properties or {}), KEY_ROUTING_TYPE: (BYTE, routing_type)}
        content = CoreMessage(
            address=address, durable=durable, priority=priority, expiration=expiration, properties=values, body=body, type=4
        )
        return Message.received(encode_message(content), self.rig.store.next_id())

    def send(self, body: bytes, address: str = "q", transaction: Transaction | None = None, settle: bool = True, **headers: Any) -> int:
        message = self.message(body, address, **headers)
        ticket = self.messaging.sending.send(message, address, None, headers.get("routing_type", 1), self.context, transaction)
        if settle:
            self.settle()
        return ticket

    def pages(self, address: str = "q") -> int:
        return sum(folder.page_count for folder in self.rig.store.pager.folders() if folder.address == address)  # type: ignore[union-attr]

    def page_files(self) -> list[str]:
        disk, directory = self.rig.disk, self.rig.settings.paging_directory
        assert directory is not None
        return [name for folder in disk.list(directory) for name in disk.list(f"{directory}/{folder}") if name.endswith(".page")]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(start, start + count)]
