"""Sending: large uploads, credits for producers, what the broker stamps on messages."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_DUPLICATE_ID, decode_message
from mqclient.wire.properties import BYTES, STRING
from tests.support.broker import PERMISSIONS, USERS, World, message_id, of_kind


class LargeUploadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.take()

    @property
    def holders(self) -> list[int]:
        return [body.holders for body in self.world.store.bodies.values()]

    def test_a_second_one_replaces_an_unfinished_one(self) -> None:
        self.session.begin_large()
        self.session.chunk(b"first")
        self.session.begin_large()
        self.session.chunk(b"second", 6)
        self.assertEqual(self.holders, [0, 1])
        self.assertEqual(self.world.queue("q").message_count, 1)

    def test_an_abandoned_one_is_removed_with_its_session(self) -> None:
        self.session.begin_large()
        self.session.chunk(bytes(1000))
        self.session.ok(wire.SessionClose())
        self.assertEqual(self.holders, [0])

    def test_an_abandoned_one_is_removed_with_its_connection(self) -> None:
        self.session.begin_large()
        self.session.chunk(bytes(1000))
        self.session.peer.lose()
        self.assertEqual(self.holders, [0])

    def test_a_piece_without_beginning_is_an_error(self) -> None:
        self.session.chunk(b"x", 1, reply=True, number=-4)
        (answer,) = self.session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((answer.error_code, answer.correlation_id), (104, -4))
        self.session.chunk(b"x", 1)
        self.assertEqual(self.session.take(), [])

    def test_every_piece_is_answered_when_asked(self) -> None:
        self.session.begin_large()
        for number in (1, 2):
            self.session.chunk(b"x", reply=True, number=number)
        self.session.chunk(b"x", 3, reply=True, number=3)
        self.assertEqual(self.session.take(), [wire.NullResponse(1), wire.NullResponse(2), wire.NullResponse(3)])

    def test_the_last_answer_waits_for_the_disk(self) -> None:
        self.world.store.held = True
        self.session.begin_large()
        self.session.chunk(b"x", 1, reply=True)
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-2)])

    def test_one_that_nobody_takes_leaves_no_body(self) -> None:
        self.session.ok(wire.CreateAddress("empty", (0,), True, False))
        self.session.begin_large("empty", routing_type=None)
        self.session.chunk(b"x", 1)
        self.assertEqual(self.holders, [0])

    def test_one_in_a_transaction_that_is_rolled_back_leaves_no_body(self) -> None:
        session = self.world.peer().open(auto_commit_sends=False)
        session.begin_large()
        session.chunk(b"x", 1)
        self.assertEqual(self.holders, [1])
        session.ok(wire.Rollback(False))
        self.assertEqual(self.holders, [0])

    def test_a_duplicate_leaves_no_body(self) -> None:
        for _ in range(2):
            self.session.begin_large(properties={KEY_DUPLICATE_ID: (STRING, "same")})
            self.session.chunk(b"x", 1)
        self.assertEqual(self.holders, [1, 0])

    def test_a_management_request_leaves_no_body(self) -> None:
        self.session.begin_large("activemq.management", routing_type=None)
        self.session.chunk(b"x", 1, reply=True)
        self.assertEqual(len(of_kind(self.session.take(), wire.NullResponse)), 1)
        self.assertEqual(self.holders, [0])

    def test_damaged_headers_close_the_connection(self) -> None:
        self.session.send(wire.SessionSendLarge(b"\x00" * 12))
        self.assertTrue(self.session.peer.transport.aborted)
        self.assertEqual(self.holders, [])


class StatedQueuesTests(SynchronousTestCase):
    """_AMQ_ROUTE_TO."""

    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        for name, filter_string in (("s1", None), ("s2", "never = 1"), ("s3", None)):
            self.session.create_queue(name, "news", routing_type=0, filter_string=filter_string)
        self.session.create_queue("other")
        self.session.take()

    def stated(self, *names: str) -> bytes:
        return b"".join(self.world.queue(name).queue_id.to_bytes(8, "big") for name in names)

    def counts(self) -> list[int]:
        return [self.world.queue(name).message_count for name in ("s1", "s2", "s3", "other")]

    def test_exactly_these_queues_whatever_their_filters(self) -> None:
        self.session.publish(address="news", routing_type=0, properties={"_AMQ_ROUTE_TO": (BYTES, self.stated("s2", "s3", "s2"))})
        self.assertEqual(self.counts(), [0, 1, 1, 0])
        self.session.consume("s3")
        (packet,) = self.session.received()
        self.assertNotIn("_AMQ_ROUTE_TO", decode_message(packet.message).properties)
        self.assertEqual(decode_message(packet.message).address, "news")

    def test_queues_of_other_addresses_and_unknown_ids_get_nothing(self) -> None:
        for value in (self.stated("other"), bytes(8), b"short", b""):
            self.session.publish(address="news", routing_type=None, properties={"_AMQ_ROUTE_TO": (BYTES, value)})
        self.session.publish(address="news", routing_type=None, properties={"_AMQ_ROUTE_TO": (STRING, "s1")})
        self.assertEqual(self.counts(), [0, 0, 0, 0])

    def test_names_with_a_suffix_are_taken_out(self) -> None:
        properties = {"_AMQ_ROUTE_TOx": (BYTES, self.stated("s2")), "_AMQ_ACK_ROUTE_TOx": (BYTES, b""), "kept": (STRING, "v")}
        self.session.publish(address="news", routing_type=0, properties=properties)
        self.assertEqual(self.counts(), [1, 0, 1, 0])
        self.session.consume("s1")
        (packet,) = self.session.received()
        self.assertEqual(set(decode_message(packet.message).properties), {"kept", "_AMQ_ROUTING_TYPE"})

    def test_a_large_message(self) -> None:
        self.session.begin_large("news", routing_type=0, properties={"_AMQ_ROUTE_TO": (BYTES, self.stated("s2"))})
        self.session.chunk(b"x", 1)
        self.assertEqual(self.counts(), [0, 1, 0, 0])

    def test_in_a_transaction(self) -> None:
        session = self.world.peer().open(auto_commit_sends=False)
        session.publish(address="news", routing_type=0, properties={"_AMQ_ROUTE_TO": (BYTES, self.stated("s2"))})
        self.assertEqual(self.counts(), [0, 0, 0, 0])
        session.ok(wire.Commit())
        self.assertEqual(self.counts(), [0, 1, 0, 0])

    def test_the_sender_needs_the_permission_for_each_queue(self) -> None:
        everything = {permission: frozenset({"all"}) for permission in PERMISSIONS}
        settings = {"#": everything, "news::s2": {**everything, "send": frozenset({"nobody"})}}
        self.world = World(Configuration(security_settings=settings))
        session = self.world.peer().open(username="admin", password=USERS["admin"])
        for name in ("s1", "s2"):
            session.create_queue(name, "news", routing_type=0)
        for name, expected in (("s1", wire.NullResponse), ("s2", wire.ExceptionResponse)):
            session.publish(address="news", routing_type=0, properties={"_AMQ_ROUTE_TO": (BYTES, self.stated(name))}, reply=True)
            (answer,) = session.take()
            self.assertIsInstance(answer, expected)


class ProducerCreditTests(SynchronousTestCase):
    def world_with(self, policy: str) -> World:
        world = World(
            Configuration(security_enabled=False, address_settings={"q": {"address_full_policy": policy, "max_size_bytes": 2000}})
        )
        self.session = world.session()
        self.session.create_queue("q")
        self.session.take()
        return world

    def fill(self) -> None:
        self.session.publish(bytes(2000))

    def drain(self, world: World) -> None:
        consumer = world.session()
        consumer.consume()
        for packet in consumer.received():
            consumer.send(wire.Acknowledge(0, message_id(packet), False))

    def ask(self, credits: int = 100, address: str = "q") -> list[wire.Packet]:
        self.session.send(wire.ProducerRequestCredits(credits, address))
        return self.session.take()

    def test_exactly_what_is_asked_for_any_address(self) -> None:
        self.world_with("BLOCK")
        self.assertEqual(self.ask(77), [wire.ProducerCredits(77, "q")])
        self.assertEqual(self.ask(5, "unknown"), [wire.ProducerCredits(5, "unknown")])
        self.assertEqual(self.ask(5, "q::q"), [wire.ProducerCredits(5, "q::q")])

    def test_block_withholds_them_until_there_is_room(self) -> None:
        world = self.world_with("BLOCK")
        self.fill()
        self.assertEqual(self.ask(1) + self.ask(2), [])
        self.drain(world)
        self.assertEqual(self.session.take(), [wire.ProducerCredits(1, "q"), wire.ProducerCredits(2, "q")])

    def test_a_session_that_closed_gets_none(self) -> None:
        world = self.world_with("BLOCK")
        self.fill()
        self.ask()
        self.session.ok(wire.SessionClose())
        self.assertEqual(world.messaging.core.addresses["q"].memory.waiting, 0)

    def test_fail_says_so_at_once_and_grants_later(self) -> None:
        world = self.world_with("FAIL")
        self.fill()
        self.assertEqual(self.ask(9), [wire.ProducerFailCredits(9, "q")])
        self.session.publish(reply=True, number=-3)
        (answer,) = self.session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((answer.error_code, answer.correlation_id), (210, -3))
        self.drain(world)
        self.assertEqual(self.session.take(), [wire.ProducerCredits(9, "q")])

    def test_drop_grants_always(self) -> None:
        world = self.world_with("DROP")
        self.fill()
        self.assertEqual(self.ask(9), [wire.ProducerCredits(9, "q")])
        self.session.publish(reply=True)
        self.assertIsInstance(self.session.take()[0], wire.NullResponse)
        self.assertEqual(world.queue("q").message_count, 1)

    def test_producers_are_not_answered(self) -> None:
        self.world_with("BLOCK")
        self.session.send(wire.CreateProducer(1, "q"))
        self.session.send(wire.RemoveProducer(1))
        self.session.send(wire.RemoveProducer(5))
        self.assertEqual(self.session.take(), [])


class StampTests(SynchronousTestCase):
    def received(self, configuration: Configuration, **request: Any) -> Any:
        world = World(configuration)
        session = world.peer().open(username="admin", password="secret", **request)
        session.create_queue("q")
        session.publish(b"x")
        session.consume()
        (packet,) = session.received()
        return decode_message(packet.message)

    def test_bytes_pass_unchanged(self) -> None:
        content = self.received(Configuration())
        self.assertEqual(set(content.properties), {"_AMQ_ROUTING_TYPE"})

    def test_the_validated_user(self) -> None:
        content = self.received(Configuration(populate_validated_user=True))
        self.assertEqual(content.get("_AMQ_VALIDATED_USER"), "admin")

    def test_the_time_of_arrival(self) -> None:
        content = self.received(Configuration(address_settings={"q": {"enable_ingress_timestamp": True}}))
        self.assertIsInstance(content.get("_AMQ_INGRESS_TIMESTAMP"), int)

    def test_a_message_may_have_to_name_its_user(self) -> None:
        world = World(Configuration(security_enabled=False, reject_empty_validated_user=True))
        session = world.session()
        session.create_queue("q")
        session.publish(reply=True, number=-8)
        (*_, answer) = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((answer.error_code, answer.correlation_id), (104, -8))
        self.assertEqual(world.queue("q").message_count, 0)
