"""Arrivals for queues that are not there yet."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.routing.awaited import PATIENCE_SECONDS
from mqbroker.messaging.routing.remote import REMOTE_ID_BASE, LoadBalancing, RemoteBinding
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from mqclient.wire.properties import BYTES
from tests.support.broker import World


class AwaitedTests(SynchronousTestCase):
    """A message that states a queue of another broker which is not known here yet."""

    ID = REMOTE_ID_BASE + 7

    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.create_queue("away")
        self.session.take()

    def bring(self, body: bytes = b"1", number: int = -2) -> None:
        ids = self.ID.to_bytes(8, "big") + self.world.queue("q").queue_id.to_bytes(8, "big")
        self.session.publish(body, reply=True, number=number, properties={"_AMQ_ROUTE_TO": (BYTES, ids)})

    def waiting(self, queue: str) -> list[bytes]:
        return [decode_message(reference.message.buffer).body for reference in self.world.queue(queue).references]

    def come(self) -> None:
        routing = self.world.messaging.core.routing
        binding = RemoteBinding("q", "q", "q" + "n" * 36, self.ID, 5, 1, LoadBalancing.ON_DEMAND, self.world.queue("away"), routing)
        self.world.server.turn.run(routing.bind_remote, binding)
        self.world.clock.advance(0)

    def test_it_waits_for_the_queue_and_what_follows_stays_behind_it(self) -> None:
        self.bring(b"1")
        self.session.publish(b"2", reply=True, number=-3)
        self.world.clock.advance(PATIENCE_SECONDS / 2)
        self.assertEqual((self.session.take(), self.waiting("q")), ([], []))
        self.come()
        self.assertEqual([packet.correlation_id for packet in self.session.take() if isinstance(packet, wire.NullResponse)], [-2, -3])
        self.assertEqual((self.waiting("q")[0], self.waiting("away")[0]), (b"1", b"1"))

    def test_a_queue_that_does_not_come_is_not_waited_for_again(self) -> None:
        self.bring(b"1")
        self.world.clock.advance(PATIENCE_SECONDS)
        self.world.clock.advance(0)
        self.assertEqual((len(self.session.take()), self.waiting("q")), (1, [b"1"]))
        self.bring(b"2", number=-3)
        self.assertEqual((len(self.session.take()), self.waiting("q")), (1, [b"1", b"2"]))
        self.come()
        self.bring(b"3", number=-4)
        self.assertEqual((self.waiting("q"), self.waiting("away")), ([b"1", b"2", b"3"], [b"3"]))

    def test_whoever_brought_it_may_go(self) -> None:
        self.bring()
        self.session.peer.connection.lost("cut")
        self.come()
        self.assertEqual(self.waiting("q"), [])

    def test_a_broker_that_stops_waits_no_more(self) -> None:
        self.bring()
        self.world.messaging.stop()
        self.world.clock.advance(PATIENCE_SECONDS)
        self.assertEqual(self.waiting("q"), [])
