"""Acknowledgements come before the commit or the close that is called after them."""

from __future__ import annotations

from typing import Any

from mqclient.errors import IllegalStateError
from mqclient.wire.packets import (
    Acknowledge,
    ExceptionResponse,
    NullResponse,
)
from tests.support.network import message, pending
from tests.unit.mqclient.core.session.order import BRANCH, CHANNEL, OrderTestCase


class AcknowledgementTests(OrderTestCase):
    def acknowledged(self) -> list[int]:
        return [packet.message_id for packet in self.broker.got(Acknowledge)]

    def test_what_was_acknowledged_in_one_turn_is_sent_at_its_end_in_one_packet(self) -> None:
        self.start()
        for received in self.receive(1, 2, 3):
            self.world.finish(received.acknowledge())
        self.assertEqual(self.acknowledged(), [])
        self.end_turn()
        self.assertEqual(self.acknowledged(), [3])
        for received in self.receive(4):
            self.world.finish(received.acknowledge())
        self.end_turn()
        self.assertEqual(self.acknowledged(), [3, 4])

    def test_a_turn_costs_one_call_of_the_loop_however_many_messages_and_consumers_there_are(self) -> None:
        self.start()
        second = self.world.finish(self.session.create_consumer("q"))
        for number in range(4):
            self.broker.deliver(CHANNEL, message(number, consumer_id=number % 2))
        before = len(self.world.clock.getDelayedCalls())
        for consumer in (self.consumer, second, self.consumer, second):
            self.world.finish(self.world.finish(consumer.receive_immediate()).acknowledge())
        self.assertEqual(len(self.world.clock.getDelayedCalls()), before + 1)
        self.end_turn()
        self.assertEqual(self.acknowledged(), [2, 3])

    def test_blocking_waits_for_the_answer_whatever_the_size_of_a_batch(self) -> None:
        self.start(block_on_acknowledge=True)
        self.broker.silent.add(Acknowledge)
        first, second = self.receive(1, 2)
        call: Any = first.acknowledge()
        self.world.network.stir()
        self.assertEqual(self.acknowledged(), [1])
        self.assertTrue(pending(call))
        self.broker.silent.clear()
        self.broker.deliver(CHANNEL, NullResponse())
        self.world.finish(call)
        self.broker.answers[Acknowledge] = lambda _: ExceptionResponse(104, "unknown message")
        self.failure(IllegalStateError, second.acknowledge())

    def test_in_a_transaction_they_are_sent_with_its_end(self) -> None:
        self.start(transacted=True)
        for received in self.receive(1, 2):
            self.world.finish(received.acknowledge())
        self.end_turn()
        self.assertEqual(self.acknowledged(), [])
        self.world.finish(self.session.commit())
        self.assertEqual(self.told(), ["SESS_ACKNOWLEDGE", "SESS_COMMIT"])

    def test_a_session_for_branches_sends_them_at_the_end_of_the_turn_outside_of_a_branch(self) -> None:
        self.start(branches=True)
        first, second, third = self.receive(1, 2, 3)
        self.world.finish(first.acknowledge())
        self.end_turn()
        self.world.finish(second.acknowledge())
        self.world.finish(self.session.xa_resource.start(BRANCH))
        self.world.finish(third.acknowledge())
        self.end_turn()
        self.world.finish(self.session.xa_resource.end(BRANCH))
        self.assertEqual(self.told(), ["SESS_ACKNOWLEDGE 2", "SESS_XA_START", "SESS_ACKNOWLEDGE", "SESS_XA_END"])

    def test_closing_sends_them_first(self) -> None:
        for what in ("consumer", "session", "session.factory", "world.locator"):
            self.start()
            for received in self.receive(1, 2):
                self.world.finish(received.acknowledge())
            self.world.finish(self.close(what))
            self.assertEqual(self.told()[:2], ["SESS_ACKNOWLEDGE", "SESS_CONSUMER_CLOSE"])
            self.end_turn()
            self.assertEqual(self.acknowledged(), [2])

    def test_what_the_broker_took_back_before_the_end_of_the_turn_is_not_acknowledged(self) -> None:
        self.start(reconnect_attempts=-1)
        for received in self.receive(1):
            self.world.finish(received.acknowledge())
        self.world.network.link.cut()
        self.world.advance(3)
        self.assertEqual(self.acknowledged(), [])
