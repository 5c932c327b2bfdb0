"""Sends that wait for credits."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.sending.flow import BLOCKED_SECONDS
from mqclient.errors import MQError
from mqclient.wire.packets import ProducerCredits
from tests.support.network import ScriptedBroker, World, pending


class BlockedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.broker.credits = False
        self.world = World(self.broker, reconnect_attempts=-1)
        self.session = self.world.session()
        self.producer = self.world.finish(self.session.create_producer("orders"))

    def send(self) -> Any:
        return self.producer.send(self.session.create_message())

    def test_a_send_that_waits_long_is_told_once_with_its_address_and_that_it_goes_on(self) -> None:
        sends = [self.send(), self.send()]
        self.world.advance(BLOCKED_SECONDS - 1)
        self.assertEqual(self.world.runtime.warnings, [])
        self.world.advance(3 * BLOCKED_SECONDS)
        [line] = self.world.runtime.warnings
        self.assertIn("AMQ212054: sends to address orders have been waiting for 10 s", line)
        self.broker.deliver(10, ProducerCredits(100_000, "orders"))
        for send in sends:
            self.world.finish(send)
        self.assertEqual(self.world.runtime.warnings[1:], ["sends to address orders continue"])

    def test_sends_that_go_on_slowly_are_not(self) -> None:
        sends = [self.send() for _ in range(20)]
        for _ in range(4):
            self.world.advance(BLOCKED_SECONDS * 0.6)
            self.broker.deliver(10, ProducerCredits(100, "orders"))
        self.assertTrue(pending(sends[-1]))
        self.assertFalse(pending(sends[0]))
        self.assertEqual(self.world.runtime.warnings, [])

    def test_nor_those_that_wait_for_the_connection(self) -> None:
        self.send()
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.world.advance(3 * BLOCKED_SECONDS)
        self.assertEqual([line for line in self.world.runtime.warnings if "AMQ212054" in line], [])

    def test_no_timer_is_left_when_nothing_waits(self) -> None:
        timers = len(self.world.clock.getDelayedCalls())
        send = self.send()
        self.world.network.stir()
        self.assertEqual(len(self.world.clock.getDelayedCalls()), timers + 1)
        send.addErrback(lambda failure: failure.trap(MQError))
        closed = self.producer.close()
        self.world.advance(31)  # the call timeout: so long the send may still get its credits
        self.world.finish(closed)
        self.assertEqual(len(self.world.clock.getDelayedCalls()), timers)
