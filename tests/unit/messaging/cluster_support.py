"""Brokers that know each other's queues, linked by hand: no sockets, no clocks but the test's."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from mqbroker.messaging.delivery.arriving import has_marks, take_arrival
from mqbroker.messaging.delivery.distribution import everything
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.definitions import ANYCAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.properties import TypedValue
from tests.unit.messaging.support import Bench, Collector

_NUMBER = struct.Struct(">q")


class Node(Bench):
    """A broker of a cluster."""

    def __init__(self, number: int, clock: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.store.node_id = str(UUID(int=number + (0xAB << 96)))
        self.reports: list[tuple[str, str]] = []
        self.redistributed: list[tuple[str, str, int]] = []
        self.told: list[str] = []
        self.core.observers.append(_Observer(self))

    @property
    def node_id(self) -> str:
        return self.store.node_id

    def store_and_forward(self, other: Node) -> Queue:
        return self.messaging.administration.create_store_and_forward(f"$.artemis.internal.sf.c.{other.node_id}")

    def learn(
        self,
        other: Node,
        queue: Queue,
        balancing: LoadBalancing = LoadBalancing.ON_DEMAND,
        consumers: int = 0,
        via: Node | None = None,
        remote_id: int | None = None,
    ) -> RemoteBinding:
        """A queue of ``other`` becomes known here, with so many consumers without a filter."""
        definition = queue.definition
        binding = RemoteBinding(
            definition.address,
            definition.address if definition.routing_type == ANYCAST else queue.name,
            f"{queue.name}{other.node_id}",
            self.store.next_id(),
            queue.queue_id if remote_id is None else remote_id,
            1,
            balancing,
            self.store_and_forward(via or other),
            self.core.routing,
            queue.filter,
        )
        self.core.routing.bind_remote(binding)
        for _ in range(consumers):
            self.appear(binding)
        return binding

    def appear(self, binding: RemoteBinding, filter_string: str | None = None) -> None:
        """A consumer has come to a remote queue."""
        binding.consumer_added(filter_string)
        self.messaging.redistribution.consumer_appeared(binding)
        self.turn()

    def arrive(self, message: Message, transaction: Any = None) -> int:
        """A message from another broker, as a session takes it."""
        name = message.address.partition("::")[0]
        queue = message.address.partition("::")[2] or None
        arrival = take_arrival(self.core, message, name, message.routing_type, everything) if has_marks(message) else None
        ticket = self.messaging.sending.send(message, name, queue, message.routing_type, self.context, transaction, arrival)
        self.turn()
        return ticket


class Link:
    """The bridge from one broker to another."""

    def __init__(self, source: Node, target: Node) -> None:
        self.source = source
        self.target = target
        self.queue = source.store_and_forward(target)
        self.collector = Collector(source, self.queue, room=0)
        self.moved = 0

    def encoded(self, message: Message) -> bytes:
        """What the bridge sends for a message."""
        copy = message.duplicate(message.message_id)
        stated = copy.strip_properties(("_AMQ_ROUTE_TO".encode("utf-16-le"),))
        value = stated[f"_AMQ_ROUTE_TO{self.queue.name}"][1]
        assert isinstance(value, bytes)
        copy.append_bytes_property("_AMQ_ROUTE_TO".encode("utf-16-le"), value)
        bridge = UUID(self.source.node_id).bytes + _NUMBER.pack(message.message_id)
        copy.append_bytes_property("_AMQ_BRIDGE_DUP".encode("utf-16-le"), bridge)
        return copy.buffer

    def pump(self, count: int = 1_000_000, acknowledge: bool = True) -> int:
        """Carry over what waits.  Returns the number of messages."""
        self.collector.give_room(count)
        references, self.collector.references = self.collector.references, []
        self.collector.room, self.collector.ready = 0, False
        for reference in references:
            message = reference.message
            if message.large is not None:
                message.large.hold()
                received = Message.read(self.encoded(message), message.headers, large=message.large)
                received = received.duplicate(self.target.store.next_id())
                message.large.release()
            else:
                received = Message.received(self.encoded(message), self.target.store.next_id())
            self.target.arrive(received)
        if acknowledge:
            self.source.messaging.settlement.acknowledge(references)
        else:
            self.source.messaging.settlement.cancel(references)
        self.source.turn()
        self.moved += len(references)
        return len(references)


class _Observer:
    def __init__(self, node: Node) -> None:
        self._node = node

    def messages_redistributed(self, queue: Queue, binding: RemoteBinding, count: int) -> None:
        self._node.redistributed.append((queue.name, binding.node_id, count))

    def message_dropped(self, code: str, text: str) -> None:
        self._node.reports.append((code, text))

    def __getattr__(self, name: str) -> Any:
        return lambda thing: self._node.told.append(name)


def texts(queue: Queue) -> list[bytes]:
    """The bodies of the messages that wait in a queue."""
    return [reference.message.decoded().body for reference in queue.references]


def properties_of(collector: Collector) -> dict[str, TypedValue]:
    return collector.references[-1].message.properties
