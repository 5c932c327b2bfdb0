"""The order of the replies of a session, and permissions that are asked once."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.errors import DuplicateIdRejectedError
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import STRING
from tests.support.broker import PERMISSIONS, World, message_id
from tests.unit.server.test_session_state import names


class OrderTests(SynchronousTestCase):
    """Nothing is answered or delivered before what it depends on is on the disk, and answers keep the order of the requests."""

    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.world.store.held = True

    def test_a_durable_send_is_answered_when_it_is_stored(self) -> None:
        self.session.publish(reply=True, number=-9)
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-9)])

    def test_no_consumer_sees_a_message_before_it_is_stored(self) -> None:
        other = self.world.session()
        other.consume()
        self.session.publish(b"x")
        self.assertEqual(other.bodies(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(other.bodies(), [b"x"])

    def test_a_query_waits_behind_an_earlier_durable_send(self) -> None:
        self.session.publish(reply=True, number=-2)
        self.session.send(wire.QueueQuery("q"))
        self.session.publish(b"soft", durable=False, reply=True, number=-3)
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(names(self.session.take()), ["NULL_RESPONSE", "SESS_QUEUEQUERY_RESP_V3", "NULL_RESPONSE"])

    def test_another_session_does_not_wait(self) -> None:
        self.session.publish(reply=True)
        other = self.session.peer.open()
        self.assertIsInstance(other.call(wire.QueueQuery("q")), wire.QueueQueryResponseV3)

    def test_messages_of_one_session_keep_their_order_whatever_their_durability(self) -> None:
        other = self.world.session()
        other.consume()
        for number in range(6):
            self.session.publish(b"%d" % number, durable=number % 2 == 0)
        self.assertEqual(other.bodies(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(other.bodies(), [b"%d" % number for number in range(6)])

    def test_a_blocking_acknowledgement_waits_for_the_disk(self) -> None:
        self.world.store.held = False
        self.session.publish()
        self.session.take()
        self.session.consume()
        (message,) = self.session.received()
        self.world.store.held = True
        self.session.send(wire.Acknowledge(0, message_id(message), True))
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-1)])

    def test_close_is_answered_after_everything_else(self) -> None:
        self.session.publish(reply=True, number=-2)
        self.session.send(wire.SessionClose())
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-2), wire.NullResponse(-1)])
        self.assertEqual(self.session.peer.connection.sessions, {})

    def test_a_closing_session_takes_no_more_packets(self) -> None:
        self.session.publish()
        self.session.send(wire.SessionClose())
        self.session.send(wire.CreateConsumer(0, "q"))
        self.session.publish(b"late")
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(names(self.session.take()), ["NULL_RESPONSE"])
        self.assertEqual((self.world.queue("q").consumer_count, self.world.queue("q").message_count), (0, 1))

    def test_a_commit_is_answered_with_its_number_when_it_is_stored(self) -> None:
        session = self.world.peer().open(auto_commit_sends=False, auto_commit_acks=False)
        session.publish()
        session.send(wire.Commit(-7))
        self.assertEqual(session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(session.take(), [wire.NullResponse(-7)])
        session.send(wire.Commit(None))
        self.assertEqual(session.take(), [wire.NullResponse(-1)])

    def test_a_commit_with_a_known_id_is_refused_when_the_work_with_that_id_is_stored(self) -> None:
        """Its sender takes the refusal for the answer to the first commit, whose own answer is lost."""
        lost, asking = (self.world.peer().open(auto_commit_sends=False, auto_commit_acks=False) for _ in range(2))
        for session in (lost, asking):
            session.publish(properties={KEY_DUPLICATE_ID: (STRING, "the commit")})
            session.send(wire.Commit(-7))
        lost.peer.lose()
        self.assertEqual(asking.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        (answer,) = asking.take()
        self.assertEqual(getattr(answer, "error_code", None), DuplicateIdRejectedError.code)

    def test_a_queue_is_said_to_be_gone_when_that_is_stored(self) -> None:
        self.session.send(wire.DeleteQueue("q"))
        other = self.world.session()
        other.send(wire.DeleteQueue("q"))
        self.assertEqual(other.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(names(other.take()), ["EXCEPTION"])

    def test_replies_to_a_lost_client_are_dropped(self) -> None:
        self.session.publish(reply=True)
        self.session.peer.lose()
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [])
        self.assertEqual(self.world.queue("q").message_count, 1)


class PermissionTests(SynchronousTestCase):
    """Each request is refused to a user who lacks its permission, and leaves nothing behind."""

    def setUp(self) -> None:
        self.world = World(Configuration())
        self.admin = self.world.peer().open(username="admin", password="secret")
        self.admin.create_queue("q")
        self.admin.ok(wire.CreateQueueV2("t", "temp", durable=False))
        self.nobody = self.world.peer().open(username="nobody", password="nothing")

    def test_requests(self) -> None:
        for request in (
            wire.CreateAddress("new", (1,), True, False),
            wire.CreateQueueV2("q", "new", durable=True),
            wire.CreateQueueV2("q", "new", durable=False),
            wire.CreateQueueV2("new", "new", durable=False, temporary=True),
            wire.CreateSharedQueueV2("q", "new", None, True),
            wire.CreateSharedQueueV2("q", "new", None, False),
            wire.DeleteQueue("q"),
            wire.DeleteQueue("temp"),
            wire.CreateConsumer(0, "q"),
            wire.CreateConsumer(0, "q", browse_only=True),
        ):
            self.assertEqual(self.nobody.error(request), 105, request)
        self.assertEqual(set(self.world.messaging.core.queues), {"q", "temp"})
        self.assertEqual(self.world.queue("q").consumer_count, 0)

    def test_sends(self) -> None:
        for address in ("q", "q::q", "activemq.management", "new"):
            self.nobody.publish(address=address, reply=True, number=-5)
            (answer,) = self.nobody.take()
            assert isinstance(answer, wire.ExceptionResponse)
            self.assertEqual((answer.error_code, answer.correlation_id), (105, -5))
        self.nobody.publish()
        self.assertEqual(self.nobody.take(), [], "nobody asked for an answer")
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_a_refused_send_makes_the_transaction_fail(self) -> None:
        self.world.configuration.security_settings["secret.#"] = {}
        world = World(Configuration(security_settings={"#": dict.fromkeys(PERMISSIONS, frozenset({"all"})), "no.#": {}}))
        session = world.peer().open(username="admin", password="secret", auto_commit_sends=False)
        session.create_queue("q")
        session.publish()
        session.publish(address="no.way")
        self.assertEqual(session.error(wire.Commit(-3)), 105)
        self.assertEqual(world.queue("q").message_count, 0)

    def test_a_large_message_is_refused_before_it_fills_the_disk(self) -> None:
        self.nobody.begin_large()
        for _ in range(3):
            self.nobody.chunk(bytes(1000))
        self.assertEqual(self.world.store.bodies, {})
        self.nobody.chunk(b"", 3000, reply=True)
        (answer,) = self.nobody.take()
        self.assertEqual(getattr(answer, "error_code", None), 105)

    def test_wrong_passwords(self) -> None:
        peer = self.world.peer()
        users: list[dict[str, Any]] = [
            {},
            {"username": "admin"},
            {"username": "admin", "password": "x"},
            {"username": "who", "password": "secret"},
        ]
        for user in users:
            peer.session(**user)
            (answer,) = peer.take(SESSION_CHANNEL)
            self.assertEqual(getattr(answer, "error_code", None), 105)
        self.assertFalse(peer.transport.closed)
        peer.open(username="admin", password="secret")
