"""Producers that send more than they may."""

from __future__ import annotations

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.session import overdrafts
from mqbroker.server.transport.reasons import REPEATED_REASON_SECONDS
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL
from tests.support.broker import World, message_id
from tests.unit.server.test_hostile import HostileCase


class OverdraftTests(HostileCase):
    """Senders that ignore that they have no credits."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(overdrafts, "SLICE", 5000)
        self.patch(overdrafts, "OVERDRAFT_MAX", 100_000)
        settings = {"q": {"max_size_bytes": 20_000, "address_full_policy": "BLOCK"}}
        self.world = World(Configuration(security_enabled=False, address_settings=settings))
        self.session = self.world.peer().open()
        self.session.create_queue("q")
        self.queue = self.world.queue("q")

    @property
    def reading(self) -> bool:
        return self.session.peer.transport.reading

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            self.session.publish(bytes(1000), durable=False)

    def test_the_connection_is_not_read_from_until_there_is_room(self) -> None:
        self.send(15)
        self.assertTrue(self.reading)
        self.send(50)
        self.assertFalse(self.reading)
        count = self.queue.message_count
        self.assertLess(self.queue.address.memory.size, 32_000)
        self.assertTrue(any("AMQ222183" in line for line in self.lines))
        consumer = self.world.peer().open()
        consumer.consume()
        for _ in range(5):
            for packet in consumer.received():
                consumer.send(wire.IndividualAcknowledge(0, message_id(packet), False))
            self.world.clock.advance(0.01)
        self.assertEqual(self.queue.messages_acknowledged, 65, "nothing is lost")
        self.assertGreater(65, count)
        self.assertTrue(self.reading)

    def test_who_has_credits_may_use_them(self) -> None:
        self.session.send(wire.ProducerRequestCredits(20_000, "q"))
        self.send(30)
        self.assertTrue(self.reading)
        self.send(30)
        self.assertFalse(self.reading)

    def test_credits_without_measure_are_not_honoured(self) -> None:
        self.patch(overdrafts, "CREDITS_HONOURED_MAX", 10_000)
        self.session.send(wire.ProducerRequestCredits(0x7FFFFFFF, "q"))
        self.send(40)
        self.assertFalse(self.reading)

    def test_it_lives_meanwhile_and_is_told_so(self) -> None:
        self.session.peer.ping(5000)
        self.send(40)
        self.session.peer.read()
        peers = [self.session.peer.connection]
        for _ in range(20):
            self.world.clock.advance(0.999)
            self.session.peer.ping(5000)
        self.assertFalse(peers[0].closed)
        self.assertIn((PING_CHANNEL, wire.Ping(5000)), self.session.peer.read())

    def test_an_acknowledgement_behind_it_is_heard(self) -> None:
        self.session.consume(credits=10_000_000)
        received = self.session.received()
        self.send(60)
        received = self.session.received()
        for packet in received:
            self.session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.assertFalse(self.reading)
        for _ in range(30):
            self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
            for packet in self.session.received():
                self.session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.assertEqual((self.queue.messages_acknowledged, self.reading), (60, True))

    def test_a_large_message_while_the_disk_is_full(self) -> None:
        self.session.begin_large()
        self.session.chunk(bytes(50_000))
        self.assertTrue(self.reading)
        self.world.messaging.core.global_memory.disk_full = True
        for _ in range(3):
            self.session.chunk(bytes(4000))
        self.assertFalse(self.reading)
        (body,) = self.world.store.bodies.values()
        self.assertEqual(body.size, 58_000)
        self.world.messaging.core.global_memory.disk_full = False
        self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
        self.assertEqual((body.size, self.reading), (62_000, True))

    def test_one_that_goes_on_for_ever_is_given_up(self) -> None:
        for _ in range(200):
            self.send(10)
            self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
        self.assertTrue(self.session.peer.transport.aborted)
        self.assertLess(self.queue.address.memory.size, 140_000)
        self.assertTrue(any("sends without credits" in line for line in self.lines))

    def test_its_end_leaves_no_timer(self) -> None:
        before = self.world.clock.pending
        self.send(60)
        self.session.peer.lose()
        self.world.clock.advance(REPEATED_REASON_SECONDS + 1)
        self.assertLessEqual(self.world.clock.pending, before)
        self.assertEqual(self.queue.address.memory.waiting, 0)
