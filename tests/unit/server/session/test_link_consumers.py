"""Consumers that belong to another broker: credits are messages, and messages can be given back."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from tests.support.broker import Session, World, message_id, of_kind


class LinkConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, address_settings={"near": {"local_delivery_preferred": True}}))
        self.sender = self.world.session()
        for name in ("q", "near"):
            self.sender.create_queue(name)
        self.link = self.open()

    def open(self) -> Session:
        session = self.world.session()
        session.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other", False))
        return session

    @property
    def link_name(self) -> str:
        (name,) = (name for name, each in self.world.server.sessions.by_name.items() if wire.HOME_LINK_KEY in each.metadata)
        return name

    def publish(self, *bodies: bytes, address: str = "q") -> None:
        for body in bodies:
            self.sender.publish(body, address)

    def waiting(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.world.queue("q").references]

    def test_credits_are_messages(self) -> None:
        self.publish(b"1" * 5000, b"2", b"3")
        self.link.consume(credits=2)
        self.assertEqual(len(self.link.received()), 2)
        self.link.send(wire.FlowToken(0, 1))
        self.assertEqual(self.link.bodies(), [b"3"])
        self.publish(b"4")
        self.assertEqual(self.link.received(), [])

    def test_nothing_is_left_of_a_consumer_that_is_closed(self) -> None:
        """A link may live for years, and its other broker open consumers for each of its clients' requests."""
        (session,) = (each for each in self.world.server.sessions.by_name.values() if wire.HOME_LINK_KEY in each.metadata)
        for routing_type in (0, 1):
            self.sender.create_queue(f"s{routing_type}", f"a{routing_type}", routing_type=routing_type, durable=False)
            self.link.consume(f"s{routing_type}", credits=2)
            self.link.ok(wire.ConsumerClose(0))
        links = session.consumers._links
        assert links is not None
        self.assertEqual(links._by_address, {})

    def test_credits_are_taken_back(self) -> None:
        self.link.consume(credits=5)
        self.link.send(wire.FlowToken(0, 0))
        self.publish(b"1")
        self.assertEqual(self.link.received(), [])

    def test_the_marker_that_was_asked_for_comes_when_the_connection_can_take_it(self) -> None:
        """The other broker asks for nothing before it has come."""
        self.link.consume(credits=5)
        session = self.world.server.sessions.by_name[self.link_name]
        session.connection.pause_output()  # as it may happen while messages are sent before the marker
        session.consumers.by_id[0].force(0)
        self.assertEqual(self.link.received(), [])
        session.connection.resume_output()
        self.assertEqual([packet.delivery_count for packet in self.link.received()], [0])

    def test_a_large_message_costs_one_credit(self) -> None:
        self.sender.begin_large()
        self.sender.chunk(b"x" * 300_000, 300_000)
        self.publish(b"2")
        self.link.consume(credits=2)
        packets = self.link.take()
        self.assertEqual(len(of_kind(packets, wire.SessionReceiveLarge)), 1)
        self.assertEqual(sum(len(each.chunk) for each in of_kind(packets, wire.SessionReceiveContinuation)), 300_000)
        self.assertEqual(len(of_kind(packets, wire.SessionReceive)), 1)

    def test_what_is_given_back_uncounted_waits_in_its_place(self) -> None:
        self.publish(b"1", b"2", b"3")
        self.link.consume(credits=3)
        first, second, _ = self.link.received()
        self.link.send(wire.FlowToken(0, 0))
        self.link.send(wire.ReturnMessages(0, False, (message_id(first), message_id(second), 99)))
        self.assertEqual(self.waiting(), [b"1", b"2"])
        other = self.world.session()
        other.consume()
        self.assertEqual([packet.delivery_count for packet in other.received()], [1, 1])

    def test_what_was_consumed_in_vain_is_counted(self) -> None:
        self.publish(b"1")
        self.link.consume(credits=1)
        (first,) = self.link.received()
        self.link.send(wire.ReturnMessages(0, True, (message_id(first),)))
        self.link.send(wire.FlowToken(0, 1))
        self.assertEqual([packet.delivery_count for packet in self.link.received()], [2])

    def test_other_consumers_give_nothing_back(self) -> None:
        self.publish(b"1")
        plain = self.world.session()
        plain.consume()
        (first,) = plain.received()
        plain.send(wire.ReturnMessages(0, False, (message_id(first),)))
        self.assertEqual((self.waiting(), plain.received()), ([], []))

    def test_local_consumers_come_first_where_that_is_preferred(self) -> None:
        self.link.consume("near", credits=5)
        local = self.world.session()
        local.consume("near")
        self.publish(b"1", b"2", address="near")
        self.assertEqual((local.bodies(), self.link.received()), ([b"1", b"2"], []))
        local.send(wire.ConsumerClose(0))
        self.publish(b"3", address="near")
        self.assertIn(b"3", self.link.bodies())

    def test_a_new_link_of_a_member_ends_its_former_one_so_that_messages_come_in_order(self) -> None:
        """The member has lost its link, which nothing here has shown yet."""
        others = self.world.session()
        others.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "a third one", False))
        self.publish(b"1", b"2", b"3")
        self.link.consume(credits=2)
        self.assertEqual(self.link.bodies(), [b"1", b"2"])
        again = self.open()
        self.assertTrue(self.link.peer.transport.closed)
        self.assertFalse(others.peer.transport.closed)
        again.consume(credits=3)
        self.assertEqual(again.bodies(), [b"1", b"2", b"3"])

    def test_who_is_no_member_ends_no_link(self) -> None:
        world = World(Configuration(cluster_user="cu", cluster_password="cp"))
        member = world.session(username="cu", password="cp")
        user = world.session(username="admin", password="secret")
        for session in (member, user):
            session.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other", False))
        self.assertFalse(member.peer.transport.closed)

    def test_only_the_cluster_user_has_home_links(self) -> None:
        world = World(Configuration(cluster_user="cu", cluster_password="cp"))
        sender = world.session(username="admin", password="secret")
        sender.create_queue("q")
        sender.publish(b"1" * 100)
        sender.publish(b"2" * 100)
        link = world.session(username="admin", password="secret")
        link.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other", False))
        link.consume(credits=2)  # bytes: enough for one message
        self.assertEqual(len(link.received()), 1)


class RecordedCountTests(SynchronousTestCase):
    """persist-delivery-count-before-delivery, also for what a link gets as a reference."""

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, persist_delivery_count_before_delivery=True))
        self.sender = self.world.session()
        self.link = self.world.session()
        self.link.send(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other", False))
        for number in range(2):
            self.sender.create_queue(f"s{number}", "topic", routing_type=0)
            self.link.consume(f"s{number}", number, credits=1)

    def check(self) -> None:
        """One delivery carries the body, the other one refers to it; both are counted in the store."""
        self.assertEqual(len(of_kind(self.link.take(), wire.ReceiveHeld)), 1)
        recorded = self.world.store.entries("count")
        self.assertEqual([entry[-1] for entry in recorded], [1, 1])
        self.assertEqual(len(set(recorded)), 2)

    def test_a_message(self) -> None:
        self.sender.publish(b"1", "topic", routing_type=0)
        self.check()

    def test_a_large_message(self) -> None:
        self.sender.begin_large("topic", routing_type=0)
        self.sender.chunk(b"x" * 300_000, 300_000)
        self.check()
