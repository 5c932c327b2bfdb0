"""Sends that make what they need, where others have to agree to it."""

from __future__ import annotations

from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from tests.support.broker import World, message_id, of_kind
from tests.unit.messaging.administration.test_registrar import RegistrarCase


class SendTests(RegistrarCase):
    def test_a_send_waits_for_its_address_and_then_for_its_queue(self) -> None:
        self.hold()
        self.session.publish(b"1", reply=True, number=1)
        self.session.publish(b"2", reply=True, number=2)
        asked = []
        while self.asked():
            self.assertEqual(self.session.take(), [])
            asked += [(each.action, type(each.definition).__name__, each.definition.auto_created) for each in self.asked()]
            self.registrar.decide()
        self.assertEqual(asked, [("create", "AddressDefinition", True), ("create", "QueueDefinition", True)])
        self.assertEqual([each.correlation_id for each in of_kind(self.session.take(), wire.NullResponse)], [1, 2])
        self.assertEqual((self.world.queue("q").message_count, self.session.server_session.sends.messages_sent), (2, 2))

    def test_a_send_whose_address_is_refused_fails(self) -> None:
        self.hold()
        self.registrar.no = IllegalStateError("not now")
        self.session.publish(b"1", reply=True, number=1)
        self.registrar.decide()
        [answer] = self.session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((answer.error_code, answer.correlation_id), (IllegalStateError.code, 1))

    def test_in_a_transaction_the_refusal_shows_at_its_commit(self) -> None:
        session = self.world.peer().open(name="t", auto_commit_sends=False)
        session.create_queue("known")
        session.publish(b"1", "known")
        self.hold()
        self.registrar.no = IllegalStateError("not now")
        session.publish(b"2", "unknown")
        session.send(wire.Commit())
        self.assertEqual(session.take(), [])
        self.registrar.decide()
        self.assertEqual([each.error_code for each in of_kind(session.take(), wire.ExceptionResponse)], [IllegalStateError.code])
        self.assertEqual(self.world.queue("known").message_count, 0)

    def test_a_large_message_waits_with_its_body(self) -> None:
        self.hold()
        self.session.begin_large()
        self.session.chunk(b"large body", 10, reply=True)
        self.registrar.decide()
        self.registrar.decide()
        self.assertEqual(len(of_kind(self.session.take(), wire.NullResponse)), 1)
        [reference] = self.world.queue("q").references
        assert reference.message.large is not None
        self.assertEqual(reference.message.large.read(0, 100), b"large body")

    def test_who_goes_meanwhile_has_sent_nothing(self) -> None:
        self.hold()
        self.session.publish(b"1")
        self.session.peer.lose()
        self.assertEqual(len(self.registrar.withdrawn), 1)
        self.registrar.decide()
        self.assertEqual(dict(self.world.messaging.core.addresses), {})

    def test_dead_letters_go_to_what_the_broker_makes_for_them_alone(self) -> None:
        self.world.configuration.address_settings["q"] = {
            "max_delivery_attempts": 1,
            "dead_letter_address": "dead",
            "auto_create_dead_letter_resources": True,
        }
        world = World(self.world.configuration, registrar=self.registrar)
        session = world.peer().open(name="d", auto_commit_acks=False)
        session.create_queue("q")
        session.publish(b"1")
        self.hold()
        session.consume()
        [message] = session.received()
        session.send(wire.Acknowledge(0, message_id(message), requires_response=False))
        session.send(wire.Rollback())
        self.assertEqual(([each.message_count for each in world.messaging.core.addresses["dead"].queues], self.asked()), ([1], []))
