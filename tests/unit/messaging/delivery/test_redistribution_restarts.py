"""Forwarding and redistribution over restarts and crashes, also of addresses that page."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.delivery.arriving import take_arrival
from mqbroker.messaging.delivery.distribution import everything
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.properties import BYTES
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered

NODE = "6d0f3f0c-0000-4000-8000-000000000001"
MOVING: dict[str, Any] = {"redistribution_delay": 0}


class Clustered(PagingBroker):
    """A broker that has learned of a queue of another one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("remote_", "messages_", "divert_")):
            return lambda *args: None
        return super().__getattr__(name)

    @property
    def forwarding(self) -> Any:
        return self.messaging.administration.create_store_and_forward(f"$.artemis.internal.sf.c.{NODE}")

    def learn(self, consumers: int = 1) -> RemoteBinding:
        binding = RemoteBinding(
            "q", "q", f"q{NODE}", self.rig.store.next_id(), 77, 1, LoadBalancing.ON_DEMAND, self.forwarding, self.core.routing
        )
        self.core.routing.bind_remote(binding)
        for _ in range(consumers):
            binding.consumer_added(None)
            self.messaging.redistribution.consumer_appeared(binding)
        self.settle()
        return binding

    def forwarded(self) -> list[bytes]:
        """The bodies of what waits for the other broker, each of which says for which queue it is."""
        receiver = Taker(self, self.forwarding)
        for reference in receiver.references:
            found = reference.message.property(f"_AMQ_ROUTE_TO{self.forwarding.name}")
            assert found == (77).to_bytes(8, "big"), found
        return receiver.drain()


class ForwardingTests(SynchronousTestCase):
    settings: dict[str, Any] = MOVING

    def setUp(self) -> None:
        self.broker = Clustered({"#": self.settings})
        self.broker.make_queue("q")
        self.bodies = numbered(50)

    def send_all(self) -> None:
        for body in self.bodies:
            self.broker.send(body)

    def test_what_waits_for_another_broker_survives(self) -> None:
        self.broker.learn()
        self.send_all()
        self.broker.crash()
        self.assertTrue(self.broker.forwarding.definition.internal)
        self.assertEqual(self.broker.forwarded(), self.bodies)
        self.broker.restart()
        self.assertEqual(self.broker.forwarding.message_count, 0)

    def test_a_moved_message_is_on_exactly_one_queue_after_a_crash(self) -> None:
        self.send_all()
        self.broker.learn()
        self.broker.settle()
        self.broker.crash()
        near = self.broker.core.queues["q"]
        self.assertEqual(near.message_count + self.broker.forwarding.message_count, len(self.bodies))
        self.assertEqual(Taker(self.broker, near).drain() + self.broker.forwarded(), self.bodies)

    def test_a_crash_before_the_move_is_durable_leaves_messages_where_they_were(self) -> None:
        self.send_all()
        routing, number = self.broker.core.routing, self.broker.rig.store.next_id()
        binding = RemoteBinding("q", "q", f"q{NODE}", number, 77, 1, LoadBalancing.ON_DEMAND, self.broker.forwarding, routing)
        self.broker.settle()
        self.broker.core.routing.bind_remote(binding)
        binding.consumer_added(None)
        self.broker.messaging.redistribution.consumer_appeared(binding)
        self.broker.messaging.core.turn.end()
        self.broker.crash()
        near = self.broker.core.queues["q"]
        self.assertEqual(sorted(Taker(self.broker, near).drain() + self.broker.forwarded()), self.bodies)

    def test_bridge_duplicate_ids_survive(self) -> None:
        queue = self.broker.core.queues["q"]
        for restarts in (False, True):
            if restarts:
                self.broker.restart()
            properties = {"_AMQ_ROUTE_TO": (BYTES, queue.queue_id.to_bytes(8, "big")), "_AMQ_BRIDGE_DUP": (BYTES, bytes(24))}
            message = self.broker.message(b"1", properties=properties)
            arrival = take_arrival(self.broker.core, message, "q", 1, everything)
            self.broker.messaging.sending.send(message, "q", None, 1, self.broker.context, None, arrival)
            self.broker.settle()
        self.assertIsNotNone(self.broker.core.known_duplicate_ids(f"{BRIDGE_CACHE}q"))
        self.assertEqual(self.broker.core.queues["q"].message_count, 1)

    def test_diverts_of_management_survive(self) -> None:
        self.broker.messaging.diverts.create(DivertConfiguration("d", "q", ("t",)))
        self.broker.settle()
        self.broker.restart()
        self.assertEqual(self.broker.messaging.diverts.names(), ["d"])
        self.broker.messaging.diverts.destroy("d")
        self.broker.settle()
        self.broker.restart()
        self.assertEqual(self.broker.messaging.diverts.names(), [])


class PagedForwardingTests(ForwardingTests):
    """The same where the address pages."""

    settings = {**ALWAYS, **MOVING}

    def test_paged_messages_are_forwarded_without_a_consumer_here(self) -> None:
        self.send_all()
        self.assertGreater(self.broker.pages(), 0)
        self.broker.learn()
        for _ in range(20):
            self.broker.settle()
        self.assertEqual(self.broker.forwarded(), self.bodies)
