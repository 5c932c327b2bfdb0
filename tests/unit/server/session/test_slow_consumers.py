"""Slow consumers: who is one, and what happens to it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import decode_message
from tests.support.broker import Session, World, message_id, of_kind


class SlowConsumerTests(SynchronousTestCase):
    def watch(self, **settings: Any) -> World:
        """A broker whose queue q is looked at every 3 seconds: fewer than 10 messages per second are slow."""
        names = {f"slow_consumer_{name}": value for name, value in settings.items()}
        q = {"slow_consumer_threshold": 10, "slow_consumer_check_period": 3, **names}
        self.seen: list[wire.SessionReceive] = []
        self.world = World(Configuration(security_enabled=False, address_settings={"q": q}))
        self.listener = self.world.session()
        self.listener.ok(wire.CreateQueueV2("activemq.notifications", "n", durable=False, temporary=True, routing_type=0))
        self.listener.consume("n", filter="_AMQ_NotifType = 'CONSUMER_SLOW'")
        self.listener.take()
        return self.world

    def consumer(self, messages: int = 100, **request: Any) -> Session:
        """A consumer of the queue q, which holds ``messages``."""
        session = self.world.peer().open(**request)
        session.create_queue("q")
        for _ in range(messages):
            session.publish()
        session.consume()
        return session

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.clock.advance(1.0)

    def slow(self) -> list[dict[str, object]]:
        """The notifications that have come since the last look."""
        contents = [decode_message(packet.message) for packet in self.listener.received()]
        return [{name: value for name, (_, value) in content.properties.items()} for content in contents]

    def acknowledge(self, session: Session, count: int) -> None:
        self.seen += session.received()
        for packet in self.seen[:count]:
            session.send(wire.IndividualAcknowledge(0, message_id(packet), requires_response=False))
        del self.seen[:count]

    def test_the_notification(self) -> None:
        self.watch()
        session = self.consumer()
        self.pass_seconds(2)
        self.assertEqual(self.slow(), [])
        self.pass_seconds(5)
        told = self.slow()[0]
        connection = session.peer.connection
        names = ("Address", "ConsumerCount", "ConsumerName", "SessionName", "ConnectionName")
        self.assertEqual(
            {name: told[f"_AMQ_{name}"] for name in names},
            {
                "Address": "q",
                "ConsumerCount": 1,
                "ConsumerName": 0,
                "SessionName": session.name,
                "ConnectionName": connection.connection_id,
            },
        )
        self.assertEqual(told["_AMQ_RemoteAddress"], connection.remote)
        self.assertFalse(connection.closed)

    def test_the_consumer_of_a_home_link_is_never_slow(self) -> None:
        self.watch()
        session = self.world.peer().open()
        session.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other", False))
        session.create_queue("q")
        for _ in range(100):
            session.publish()
        session.consume(credits=100)
        self.pass_seconds(10)
        self.assertEqual(self.slow(), [])

    def test_it_is_told_in_every_period(self) -> None:
        self.watch()
        self.consumer()
        self.pass_seconds(10)
        first = len(self.slow())
        self.pass_seconds(6)
        self.assertEqual((first > 0, len(self.slow())), (True, 2))

    def test_kill_says_why_and_closes_the_connection(self) -> None:
        self.watch(policy="KILL")
        session = self.consumer()
        other = self.world.session()
        session.peer.read()
        self.pass_seconds(8)
        self.assertEqual(len(of_kind(session.peer.take(SESSION_CHANNEL), wire.DisconnectConsumerKill)), 1)
        self.assertTrue(session.peer.connection.closed)
        self.assertFalse(other.peer.connection.closed)
        self.assertEqual(self.world.queue("q").message_count, 100)
        self.assertEqual(self.slow(), [])

    def test_clients_of_old_versions_are_closed_without_a_word(self) -> None:
        self.watch(policy="KILL")
        session = self.consumer(version=127)
        self.pass_seconds(8)
        self.assertTrue(session.peer.connection.closed)
        self.assertEqual(of_kind([packet for _, packet in session.peer.read()], wire.DisconnectConsumerKill), [])

    def test_who_acknowledges_enough_is_not_slow(self) -> None:
        self.watch()
        session = self.consumer()
        for _ in range(9):
            self.acknowledge(session, 10)
            for _ in range(10):
                session.publish()
            self.pass_seconds(1)
        self.assertEqual(self.slow(), [])

    def test_who_takes_messages_without_acknowledgement_is_not_slow(self) -> None:
        self.watch()
        session = self.consumer(pre_acknowledge=True)
        for _ in range(9):
            for _ in range(10):
                session.publish()
            self.pass_seconds(1)
        self.assertEqual(self.slow(), [])

    def test_nobody_is_slow_at_a_queue_with_too_little(self) -> None:
        self.watch()
        self.consumer(messages=9)
        self.pass_seconds(9)
        self.assertEqual(self.slow(), [])

    def test_a_non_destructive_queue_whose_messages_were_seen(self) -> None:
        self.watch()
        session = self.world.peer().open()
        session.create_queue("q", non_destructive=True)
        for _ in range(100):
            session.publish()
        session.consume()
        self.acknowledge(session, 60)
        self.pass_seconds(4)
        self.slow()
        self.pass_seconds(4)
        self.assertTrue(self.slow(), "40 wait for their acknowledgement")
        self.acknowledge(session, 40)
        self.pass_seconds(4)
        self.slow()
        self.pass_seconds(4)
        self.assertEqual(self.slow(), [])

    def test_with_more_consumers_there_has_to_be_more(self) -> None:
        self.watch()
        self.consumer(messages=15)
        self.world.session().consume()
        self.pass_seconds(9)
        self.assertEqual(self.slow(), [])

    def test_a_consumer_is_not_judged_by_a_part_of_a_period(self) -> None:
        self.watch()
        creator = self.world.session()
        creator.create_queue("q")
        for _ in range(50):
            creator.publish()
        self.pass_seconds(5)
        self.world.session().consume()
        self.pass_seconds(3)
        self.assertEqual(self.slow(), [])
        self.pass_seconds(3)
        self.assertEqual(len(self.slow()), 1)

    def test_units_and_zero(self) -> None:
        self.watch(threshold_measurement_unit="MESSAGES_PER_MINUTE")
        session = self.consumer(messages=5)
        for _ in range(9):
            self.acknowledge(session, 1)
            session.publish()
            self.pass_seconds(1)
        self.assertEqual(self.slow(), [], "ten in a minute")
        self.watch(threshold=0)
        self.consumer(messages=1)
        self.pass_seconds(7)
        self.assertTrue(self.slow(), "it takes none at all")

    def test_settings_hold_as_soon_as_they_are_made(self) -> None:
        world = World()
        self.world = world
        session = self.consumer()
        self.pass_seconds(10)
        self.assertFalse(session.peer.connection.closed)
        world.messaging.core.settings.set("q", {"slow_consumer_threshold": 10, "slow_consumer_policy": "KILL"})
        world.messaging.core.apply_settings()
        self.pass_seconds(12)
        self.assertTrue(session.peer.connection.closed)

    def test_after_a_stop_nobody_looks(self) -> None:
        world = self.watch()
        world.server.stop()
        pending = world.clock.pending
        world.server.slow_consumers.stop()
        self.assertEqual(world.clock.pending, pending)
