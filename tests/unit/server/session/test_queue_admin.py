"""Queues that sessions make, ask about and delete."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import decode_message, encode_message
from tests.support.broker import Peer, World
from tests.support.registrar import ReadingRegistrar, SlowRegistrar
from tests.unit.server.test_robustness import manage


class PutOffTests(SynchronousTestCase):
    def test_a_request_that_ends_without_the_decision_leaves_it_to_nobody(self) -> None:
        """Somebody else has made the queue meanwhile."""
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        session, other = world.session(), world.session()
        registrar.slow = True
        session.send(wire.CreateQueueV2("q", "q"))
        (question,) = registrar.open
        registrar.slow = False
        other.ok(wire.CreateQueueV2("q", "q"))
        registrar.decide()
        (answer,) = session.take()
        self.assertIsInstance(answer, wire.ExceptionResponse)
        self.assertEqual(registrar.withdrawn, [question])

    def test_so_does_a_message_that_is_sent_in_a_run_then(self) -> None:
        """Somebody else has made its queue meanwhile."""
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        session, other = world.session(), world.session()
        registrar.slow = True
        session.send(wire.SessionSend(encode_message(session.message(b"x", "q")), False, 0))
        (question,) = registrar.open
        registrar.slow = False
        other.ok(wire.CreateQueueV2("q", "q", routing_type=1))
        registrar.decide()
        self.assertEqual(world.queue("q").message_count, 1)
        self.assertEqual(registrar.withdrawn, [question])

    def come_back(self, request: wire.Packet, *others: str) -> tuple[World, Peer]:
        """A client comes back while its request waits, and sends it again; then the decision is made."""
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        peer, again = world.peer(), world.peer()
        session = peer.open(name="n", window_size=1000)
        for name in others:
            peer.open(name=name, window_size=1000)
        registrar.slow = True
        session.send(request)
        again.version = 136
        again.send(wire.ReattachSession("n", -1), SESSION_CHANNEL)
        again.send(request, session.channel)
        registrar.decide()
        self.assertEqual(again.take(SESSION_CHANNEL), [wire.ReattachSessionResponse(-1, True)])
        self.assertEqual(again.take(session.channel), [wire.NullResponse(-1)])
        return world, peer

    def test_a_request_that_has_come_again_waits_anew(self) -> None:
        self.come_back(wire.UniqueAddMetadata("jms-client-id", "me", True))
        world, _ = self.come_back(wire.CreateQueueV2("q", "q"))
        self.assertIn("q", world.messaging.core.queues)

    def test_a_decision_that_was_made_before_is_taken_by_the_request_that_has_come_again(self) -> None:
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        session, again = world.peer().open(name="n", window_size=1000), world.peer()
        session.create_queue("other")
        world.store.held = True
        session.publish(b"not stored yet", "other")
        registrar.slow = True
        session.send(wire.CreateQueueV2("q", "q"))
        again.version = 136
        again.send(wire.ReattachSession("n", -1), SESSION_CHANNEL)
        registrar.decide()
        world.store.held = False
        world.store.sync()
        again.take(session.channel)
        again.send(wire.CreateQueueV2("q", "q"), session.channel)
        self.assertEqual((registrar.open, registrar.withdrawn), ({}, []))
        self.assertEqual(again.take(session.channel), [wire.NullResponse(-1)])

    def test_the_connection_that_it_came_from_does_not_stay(self) -> None:
        """Its client has closed the other session meanwhile."""
        world, peer = self.come_back(wire.CreateQueueV2("q", "q"), "closed")
        self.assertTrue(peer.transport.aborted)
        world.clock.advance(70)
        self.assertNotIn("closed", world.server.sessions.by_name)

    def test_so_does_a_request_of_management(self) -> None:
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        session, other = world.session(), world.session()
        other.ok(wire.CreateQueueV2("q", "q"))
        registrar.slow = True
        manage(session, "broker", "destroyQueue", "q")
        (question,) = registrar.open
        registrar.slow = False
        other.ok(wire.DeleteQueue("q"))
        registrar.decide()
        self.assertEqual(registrar.withdrawn, [question])

    def test_so_does_one_that_waits_for_another_decision_then(self) -> None:
        """Somebody else has changed the queue meanwhile."""
        registrar = SlowRegistrar()
        world = World(registrar=registrar)
        session, other = world.session(), world.session()
        other.ok(wire.CreateQueueV2("q", "q"))
        registrar.slow = True
        session.send(wire.DeleteQueue("q"))
        (question,) = registrar.open
        world.messaging.administration.update_queue(world.queue("q"), max_consumers=5)
        registrar.decide()
        self.assertEqual(registrar.withdrawn, [question])
        registrar.decide()
        (answer,) = session.take()
        self.assertIsInstance(answer, wire.NullResponse)
        self.assertEqual(registrar.withdrawn, [question])


class ReadingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.registrar = ReadingRegistrar()
        self.world = World(registrar=self.registrar)
        self.session, self.other = self.world.session(), self.world.session()

    def test_an_answer_waits_once_until_others_were_heard(self) -> None:
        for exists in (True, False):
            self.session.send(wire.QueueQuery("q"))
            self.assertEqual(self.session.take(), [])
            if exists:
                self.other.ok(wire.CreateQueueV2("q", "q"))
            else:
                self.other.ok(wire.DeleteQueue("q"))
            self.registrar.go_on()
            [answer] = self.session.take()
            self.assertEqual(answer.exists, exists)

    def test_the_queue_of_a_shared_subscription_that_is_there(self) -> None:
        shared = wire.CreateSharedQueueV2("a", "q", durable=True, requires_response=True)
        self.session.ok(shared)
        self.session.send(shared)
        self.other.ok(wire.DeleteQueue("q"))
        self.registrar.go_on()
        self.assertEqual([each.NAME for each in self.session.take()], ["NULL_RESPONSE"])
        self.assertIn("q", self.world.messaging.core.queues)

    def test_one_to_delete_that_is_not_there(self) -> None:
        self.session.send(wire.DeleteQueue("q"))
        self.other.ok(wire.CreateQueueV2("q", "q"))
        self.registrar.go_on()
        self.assertEqual([each.NAME for each in self.session.take()], ["NULL_RESPONSE"])

    def test_who_asks_for_what_ends_with_its_client_does_not_wait(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        self.session.send(wire.QueueQuery("t"))
        self.assertEqual(len(self.session.take()), 1)


class QueueLifeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()

    def exists(self, name: str) -> bool:
        return name in self.world.messaging.core.queues

    def test_temporary_queues_live_as_long_as_their_connection(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        other = self.session.peer.open()
        self.session.ok(wire.SessionClose())
        self.assertTrue(self.exists("t"))
        other.consume("t")
        self.session.peer.lose()
        self.assertFalse(self.exists("t"))
        self.assertNotIn("t", self.world.messaging.core.addresses)

    @mock.patch("mqbroker.config.model.matching.CACHED_NAMES_MAX", 20)
    def test_names_of_clients_that_are_gone_are_forgotten(self) -> None:
        core = self.world.messaging.core
        sizes = []
        for number in range(50):
            visitor, name = self.world.session(), f"t{number}"
            visitor.ok(wire.CreateQueueV2(name, name, durable=False, temporary=True, routing_type=number % 2))
            visitor.publish(address=name)
            visitor.peer.lose()
            sizes.append((len(core.routing._positions), len(core.settings._resolved), len(self.world.security.repository._resolved)))
        self.assertEqual({size[0] for size in sizes}, {0})
        self.assertLessEqual(max(max(size) for size in sizes), 20)

    def come_back(self, former: Peer) -> None:
        """A client makes its session and its temporary queue again, before this broker has noticed the end of its former connection."""
        again = self.world.peer().open(name="n")
        again.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1, requires_response=False))
        again.consume("t")
        again.take()
        former.lose()
        again.publish(b"x", "t")
        self.assertEqual([decode_message(packet.message).body for packet in again.received()], [b"x"])
        again.peer.lose()
        self.assertFalse(self.exists("t"))

    def ask_in_vain(self) -> Peer:
        """A new connection of a client whose former session cannot be reattached."""
        peer = self.world.peer()
        peer.version = 136
        peer.send(wire.ReattachSession("n", -1), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.ReattachSessionResponse(-1, False)])
        return peer

    def test_a_client_that_has_come_back_keeps_its_temporary_queues(self) -> None:
        session = self.world.peer().open(name="n")
        session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1))
        self.come_back(session.peer)

    def test_a_client_whose_session_cannot_be_reattached_keeps_its_temporary_queues(self) -> None:
        session = self.world.peer().open(name="n", window_size=1000)
        session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        session.server_session.reattachable = False
        peer = self.ask_in_vain()
        again = peer.open(name="n")
        again.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1, requires_response=False))
        session.peer.lose()
        self.assertTrue(self.exists("t"))
        peer.lose()
        self.assertFalse(self.exists("t"))

    def test_a_client_that_makes_its_session_anew_keeps_its_temporary_queues(self) -> None:
        """The client has no confirmation window.  Clients ask for the former session before they make one of another name."""
        session = self.world.peer().open(name="n")
        session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1))
        session.consume("t")
        session.publish(b"held", "t")
        self.assertEqual(len(session.received()), 1)
        peer = self.ask_in_vain()
        again = peer.open(name="another")
        again.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1, requires_response=False))
        again.consume("t")
        self.assertEqual([decode_message(packet.message).body for packet in again.received()], [b"held"])
        session.peer.lose()
        self.assertTrue(self.exists("t"))
        peer.lose()
        self.assertFalse(self.exists("t"))

    def test_so_does_one_whose_first_try_has_failed_unseen(self) -> None:
        """The connection of that try took the queues over, and has not answered how the new session is called."""
        create = wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1)
        session = self.world.peer().open(name="n")
        session.ok(create)
        tried, peer, other = self.ask_in_vain(), self.ask_in_vain(), self.world.peer()
        self.assertEqual(other.open().error(create), 101)
        again = peer.open(name="another")
        again.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1, requires_response=False))
        again.consume("t")
        tried.lose()
        other.lose()
        again.publish(b"here", "t")
        self.assertEqual(len(again.received()), 1)
        peer.lose()
        self.assertFalse(self.exists("t"))

    def test_the_consumers_of_a_vanished_temporary_queue_are_told(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        other = self.world.session()
        other.consume("t", 7)
        self.session.peer.lose()
        self.assertEqual(other.take(), [wire.DisconnectConsumer(7)])

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 2)
    def test_many_temporary_queues_go_a_few_at_a_time(self) -> None:
        names = [f"t{number}" for number in range(7)]
        for name in names:
            self.session.ok(wire.CreateQueueV2(name, name, durable=False, temporary=True))
        last = self.world.queue("t6")
        self.session.peer.lose()
        self.assertEqual([name for name in names if self.exists(name)], names[2:])
        other = self.world.session()
        other.ok(wire.DeleteQueue("t5"))
        other.ok(wire.CreateQueueV2("t6", "t6", durable=False, temporary=True))  # as a client that has come back
        self.assertTrue(last.deleted)
        while self.world.server.departing:
            self.world.clock.advance(0)
        self.assertEqual([name for name in names if self.exists(name)], ["t6"])
        other.peer.lose()
        self.assertFalse(self.exists("t6"))

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 2)
    def test_one_that_cannot_be_deleted_does_not_keep_the_others(self) -> None:
        for number in range(5):
            self.session.ok(wire.CreateQueueV2(f"t{number}", f"t{number}", durable=False, temporary=True))
        self.session.peer.lose()
        delete = self.world.messaging.administration.delete_queue
        with mock.patch.object(self.world.messaging.administration, "delete_queue", side_effect=[OSError("a fault"), delete]):
            self.assertRaisesRegex(OSError, "a fault", self.world.clock.advance, 0)
        for _ in range(5):
            self.world.clock.advance(0)
        self.assertEqual([number for number in range(5) if self.exists(f"t{number}")], [2])

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 1)
    def test_departing_queues_get_nothing_more(self) -> None:
        """It would be lost with them, although another queue of the address could take it."""
        other = self.world.session()
        other.create_queue("stays", "shared")
        for number in range(4):
            self.session.ok(wire.CreateQueueV2("shared", f"t{number}", durable=False, temporary=True, routing_type=1))
        self.session.peer.lose()
        self.assertGreater(len(self.world.server.departing), 0)
        for _ in range(6):
            other.publish(b"x", "shared")
        self.assertEqual(self.world.queue("stays").message_count, 6)
        departing = {name for name in self.world.messaging.core.queues if name.startswith("t")}
        self.assertEqual({queue.name for queue in self.world.server.departing.others()} & departing, set())

    def test_a_shared_queue_lives_as_long_as_it_has_consumers(self) -> None:
        request = wire.CreateSharedQueueV2("news", "shared", None, False, routing_type=0)
        self.session.ok(request)
        second = self.world.session()
        second.ok(request)
        self.session.consume("shared")
        second.consume("shared")
        self.session.ok(wire.ConsumerClose(0))
        self.assertTrue(self.exists("shared"))
        second.peer.lose()
        self.assertFalse(self.exists("shared"))

    def test_a_shared_queue_with_another_filter_or_address_is_refused(self) -> None:
        self.session.ok(wire.CreateSharedQueueV2("news", "shared", "a = 1", True, routing_type=0))
        self.assertEqual(self.session.error(wire.CreateSharedQueueV2("news", "shared", "a = 2", True, routing_type=0)), 118)
        self.assertEqual(self.session.error(wire.CreateSharedQueueV2("olds", "shared", "a = 1", True, routing_type=0)), 118)

    def test_deleting_a_queue_in_use_is_refused(self) -> None:
        self.session.create_queue("q")
        self.session.consume()
        self.assertEqual(self.session.error(wire.DeleteQueue("q")), 104)
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.session.ok(wire.ConsumerClose(0), wire.DeleteQueue("q"))

    def test_a_message_without_address_is_refused(self) -> None:
        self.session.publish(address="", reply=True)
        (answer,) = self.session.take()
        self.assertEqual(getattr(answer, "error_code", None), 106)
        self.assertEqual(self.world.messaging.core.addresses, {})

    def test_a_wildcard_query_names_the_queues_of_all_its_addresses(self) -> None:
        for name in ("a.one", "a.two", "b.one"):
            self.session.create_queue(name)
        self.session.create_queue("all", "a.#")
        answer = self.session.call(wire.BindingQuery("a.#"))
        assert isinstance(answer, wire.BindingQueryResponseV5)
        self.assertEqual(set(answer.queue_names), {"a.one", "a.two", "all"})

    def test_the_extension_of_readers_is_recognised_without_side_effects(self) -> None:
        before = set(self.world.messaging.core.addresses)
        answer = self.session.call(wire.BindingQuery(wire.READERS_ADDRESS))
        assert isinstance(answer, wire.BindingQueryResponseV5)
        self.assertEqual((answer.exists, answer.queue_names), (True, ()))
        self.assertEqual(set(self.world.messaging.core.addresses), before)
