"""Requests of sessions that need the consent of others: they wait for it, are refused, and give back what they got."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.administration.registrar import CONSUMER_PLACE, AddressDefinition, Change, Reservation
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.errors import DuplicateMetadataError, IllegalStateError, MaxConsumerLimitExceededError
from mqclient.wire import packets as wire
from tests.support.broker import World, of_kind
from tests.support.registrar import SlowRegistrar

CLIENT_ID = "jms-client-id"


class RegistrarCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.registrar = SlowRegistrar()
        self.world = World(registrar=self.registrar)
        self.session = self.world.peer().open(name="s")

    def hold(self) -> None:
        self.registrar.slow = True

    def asked(self) -> list[Any]:
        return list(self.registrar.open)


class DefinitionTests(RegistrarCase):
    def test_each_request_is_agreed_on(self) -> None:
        self.session.ok(wire.CreateAddress("a", (1,), True))
        self.session.ok(wire.CreateAddress("a", (0, 1), True))
        self.session.create_queue("q", "a", durable=False)
        self.session.ok(wire.CreateSharedQueueV2("a", "s", durable=True, routing_type=0))
        self.session.ok(wire.DeleteQueue("q"))
        self.assertEqual([(each.action, each.definition.name) for each in self.registrar.agreed], CHANGES)
        self.assertEqual(self.registrar.agreed[1], Change("update", AddressDefinition("a", frozenset((0, 1)))))
        self.assertEqual(self.registrar.made_changes, self.registrar.agreed)

    def test_a_request_waits_and_what_follows_it_stays_behind_it(self) -> None:
        self.hold()
        self.session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        self.session.publish(b"1", reply=True, number=7)
        self.session.peer.ping()
        self.assertEqual((self.session.peer.read(), list(self.world.messaging.core.queues)), ([], []))
        [change] = self.asked()
        self.assertEqual((change.action, change.definition.name, change.definition.durable), ("create", "q", True))
        self.registrar.decide()
        answers = [packet for _, packet in self.session.peer.read()]
        self.assertEqual([packet.NAME for packet in answers], ["NULL_RESPONSE", "NULL_RESPONSE", "PING"])
        self.assertEqual(self.world.queue("q").message_count, 1)

    def test_the_peer_of_a_request_that_waits_lives_and_others_go_on(self) -> None:
        self.session.peer.ping(1000)
        self.hold()
        self.session.send(wire.CreateAddress("a", (1,), True))
        self.registrar.slow = False
        self.world.clock.advance(60)
        self.assertFalse(self.session.peer.transport.closed)
        self.world.peer().open(name="other").create_queue("other")

    def test_a_refusal_is_the_answer(self) -> None:
        for slow in (False, True):
            self.registrar.slow, self.registrar.no = slow, IllegalStateError("the master broker is not there")
            self.session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
            self.registrar.decide()
            [answer] = self.session.take()
            assert isinstance(answer, wire.ExceptionResponse)
            self.assertEqual((answer.error_code, answer.message), (IllegalStateError.code, "the master broker is not there"))
        self.assertEqual((list(self.world.messaging.core.queues), list(self.world.messaging.core.addresses)), ([], []))

    def test_what_is_wrong_is_said_before_others_are_asked(self) -> None:
        self.session.create_queue("q")
        self.hold()
        self.session.error(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        self.session.error(wire.CreateQueueV2("f", "f", filter_string="a = ", durable=True, routing_type=1))
        self.session.error(wire.DeleteQueue("none"))
        self.assertEqual(self.asked(), [])

    def test_who_goes_withdraws_the_request(self) -> None:
        self.hold()
        self.session.send(wire.CreateQueueV2("q", "q", temporary=True, routing_type=1))
        [change] = self.asked()
        self.session.peer.lose()
        self.assertEqual(self.registrar.withdrawn, [change])
        self.registrar.decide()
        self.assertEqual(list(self.world.messaging.core.queues), [])

    def test_who_goes_after_the_decision_and_before_the_answer_withdraws_it(self) -> None:
        """A peer that does not read gets no more answers: its request waits on."""
        self.hold()
        self.session.send(wire.CreateQueueV2("q", "q", temporary=True, routing_type=1))
        [change] = self.asked()
        self.session.peer.connection.pause_output()
        self.registrar.decide()
        self.session.peer.lose()
        self.assertEqual((self.registrar.withdrawn, list(self.world.messaging.core.queues)), ([change], []))

    def test_a_request_that_waited_counts_once_in_the_confirmation_window(self) -> None:
        session = self.world.peer().open(name="w", window_size=1)
        session.take()
        self.hold()
        session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        self.registrar.decide()
        self.assertEqual([each.command_id for each in of_kind(session.take(), wire.PacketsConfirmed)], [0])

    def test_what_the_broker_does_by_itself_is_not_asked_for(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", temporary=True, routing_type=1))
        self.hold()
        self.session.peer.lose()
        self.assertEqual((self.asked(), list(self.world.messaging.core.queues)), ([], []))


CHANGES = [("create", "a"), ("update", "a"), ("create", "q"), ("create", "s"), ("delete", "q")]


class ReturningTests(RegistrarCase):
    def test_a_client_gets_its_temporary_queue_as_it_is(self) -> None:
        """Another part of the broker has kept it while the client was away."""
        core, departing = self.world.messaging.core, self.world.server.departing
        queue = self.world.messaging.administration.define_queue(QueueDefinition("t", "t", 1, durable=False, temporary=True))
        departing.expect(queue)
        self.world.peer().open(name="sender").publish(b"1", "t")
        request = wire.CreateQueueV2("t", "t", temporary=True, routing_type=1)
        self.session.ok(request)
        self.assertEqual((core.queues["t"] is queue, queue.message_count), (True, 1))
        self.session.error(request)
        self.session.peer.lose()
        self.assertEqual(list(core.queues), [])


class NameTests(RegistrarCase):
    def claim(self, session: Any) -> None:
        session.send(wire.UniqueAddMetadata(CLIENT_ID, "me"))

    def test_a_client_id_is_reserved_as_long_as_its_session_lives(self) -> None:
        self.session.ok(wire.UniqueAddMetadata(CLIENT_ID, "me"))
        self.assertEqual(self.registrar.owners, {(CLIENT_ID, "me"): "s"})
        self.session.ok(wire.SessionClose())
        self.assertEqual(self.registrar.owners, {})

    def test_one_that_a_client_brings_along_is_held(self) -> None:
        self.session.send(wire.AddMetadataV2(CLIENT_ID, "me", False))
        self.session.send(wire.AddMetadataV2("other", "me", False))
        self.assertEqual(self.registrar.owners, {(CLIENT_ID, "me"): "s"})
        self.session.peer.lose()
        self.assertEqual(self.registrar.owners, {})

    def test_one_that_somebody_else_has(self) -> None:
        self.registrar.owners[CLIENT_ID, "me"] = "a session of another broker"
        self.assertEqual(self.session.error(wire.UniqueAddMetadata(CLIENT_ID, "me")), DuplicateMetadataError.code)
        self.session.peer.lose()
        self.assertEqual(len(self.registrar.owners), 1)

    def test_the_claim_waits(self) -> None:
        self.hold()
        self.claim(self.session)
        self.assertEqual((self.session.take(), self.asked()), ([], [Reservation(CLIENT_ID, "me", "s")]))
        self.registrar.decide()
        self.assertEqual(len(of_kind(self.session.take(), wire.NullResponse)), 1)

    def test_who_goes_while_it_waits_leaves_the_name_to_others(self) -> None:
        self.hold()
        self.claim(self.session)
        self.session.peer.lose()
        self.assertEqual(self.registrar.withdrawn, [Reservation(CLIENT_ID, "me", "s")])
        self.registrar.slow = False
        self.world.peer().open(name="other").ok(wire.UniqueAddMetadata(CLIENT_ID, "me"))
        self.assertEqual(self.registrar.owners, {(CLIENT_ID, "me"): "other"})

    def test_of_two_that_wait_one_gets_it(self) -> None:
        other = self.world.peer().open(name="other")
        self.hold()
        for session in (self.session, other):
            self.claim(session)
        self.registrar.decide()
        self.assertEqual(len(of_kind(self.session.take(), wire.NullResponse)), 1)
        self.assertEqual([each.error_code for each in of_kind(other.take(), wire.ExceptionResponse)], [DuplicateMetadataError.code])


class PlaceTests(RegistrarCase):
    def setUp(self) -> None:
        super().setUp()
        self.session.create_queue("one", max_consumers=1)
        self.session.create_queue("exclusive", exclusive=True)
        self.session.create_queue("q")

    def test_places_are_reserved_where_they_are_few(self) -> None:
        for number, queue in enumerate(("one", "exclusive", "q")):
            self.session.consume(queue, number)
        self.assertEqual(self.registrar.owners, {(CONSUMER_PLACE, "one"): "s/0", (CONSUMER_PLACE, "exclusive"): "s/1"})
        self.session.ok(wire.ConsumerClose(0))
        self.assertEqual(list(self.registrar.owners), [(CONSUMER_PLACE, "exclusive")])
        self.session.peer.lose()
        self.assertEqual(self.registrar.owners, {})

    def test_one_that_a_client_brings_along_is_held(self) -> None:
        self.session.send(wire.AddMetadataV2(CLIENT_ID, "me", False))
        self.session.send(wire.AddMetadataV2("other", "me", False))
        self.assertEqual(self.registrar.owners, {(CLIENT_ID, "me"): "s"})
        self.session.peer.lose()
        self.assertEqual(self.registrar.owners, {})

    def test_one_that_somebody_else_has(self) -> None:
        self.registrar.owners[CONSUMER_PLACE, "one"] = "a consumer of another broker"
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "one", None)), MaxConsumerLimitExceededError.code)
        self.assertEqual(self.world.queue("one").consumer_count, 0)

    def test_a_browser_needs_none(self) -> None:
        self.registrar.owners[CONSUMER_PLACE, "one"] = "a consumer of another broker"
        self.session.call(wire.CreateConsumer(0, "one", None, browse_only=True))

    def test_the_consumer_waits_and_then_gets_messages(self) -> None:
        self.session.publish(b"1", "one")
        self.hold()
        self.session.consume("one")
        self.assertEqual((self.session.bodies(), self.world.queue("one").consumer_count), ([], 0))
        self.registrar.decide()
        self.assertEqual(self.session.bodies(), [b"1"])

    def test_who_goes_while_it_waits_leaves_the_place_to_others(self) -> None:
        self.hold()
        self.session.consume("one")
        self.session.peer.lose()
        self.registrar.decide()
        self.assertEqual((self.registrar.owners, self.world.queue("one").consumer_count), ({}, 0))
        self.assertEqual(self.registrar.withdrawn, [Reservation(CONSUMER_PLACE, "one", "s/0")])
