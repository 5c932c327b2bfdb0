"""What an operator of a program reads in its log: connections that are lost and come back, sends that wait."""

from __future__ import annotations

import threading
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.blocking import _LoggingRuntime
from mqclient.core.factories.locator import Locator
from mqclient.core.sending.flow import BLOCKED_SECONDS
from mqclient.errors import MQError
from mqclient.shells.threads import Dispatcher
from mqclient.wire.packets import ProducerCredits
from tests.unit.mqclient.core_support import ScriptedBroker, World, connector, pending


class ConnectionTests(SynchronousTestCase):
    def start(self, **settings: Any) -> None:
        self.world = World(ScriptedBroker(), **settings)
        self.factory = self.world.factory()
        self.world.session(self.factory)

    def test_one_line_when_it_is_lost_and_one_when_it_is_back(self) -> None:
        self.start(reconnect_attempts=-1)
        brokers = self.world.network.brokers
        broker = brokers.pop("61616")
        self.world.network.link.cut("the cable")
        self.world.advance(10)
        [line] = self.world.runtime.warnings
        self.assertIn("the connection to broker:61616 was lost: the cable; the client connects again", line)
        brokers["61616"] = broker
        self.world.advance(10)
        self.assertEqual(self.world.runtime.warnings[1:], ["connected again, to broker:61616"])

    def test_one_line_when_it_is_lost_for_good(self) -> None:
        self.start()
        self.world.network.link.cut("the cable")
        [line] = self.world.runtime.warnings
        self.assertIn("the connection to broker:61616 was lost: the cable; its sessions are closed", line)

    def test_one_more_when_no_attempt_has_helped(self) -> None:
        self.start(reconnect_attempts=2)
        self.world.network.brokers.clear()
        self.world.network.link.cut("the cable")
        self.world.advance(10)
        self.assertEqual(len(self.world.runtime.warnings), 2)
        self.assertIn("its sessions are closed (nobody listens on 61616)", self.world.runtime.warnings[1])

    def test_nothing_when_it_is_closed(self) -> None:
        self.start(reconnect_attempts=-1)
        self.world.finish(self.world.locator.close())
        self.assertEqual(self.world.runtime.warnings, [])

    def test_nothing_by_the_client_where_the_owner_of_a_link_tells(self) -> None:
        self.start()
        self.world.locator = Locator(self.world.runtime, [connector()], follow=False)
        self.world.session()
        self.world.network.link.cut()
        self.assertEqual(self.world.runtime.warnings, [])


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


class BlockingShellTests(SynchronousTestCase):
    def test_it_logs_with_logging(self) -> None:
        runtime = _LoggingRuntime(World().clock)
        with self.assertLogs("mqclient.blocking", "WARNING") as logs:
            runtime.log_warning("so it is")
            runtime.log_failure("it failed", ValueError("why"))
        self.assertEqual([record.getMessage() for record in logs.records], ["so it is", "it failed"])
        self.assertIn("ValueError: why", logs.output[1])

    def test_and_so_do_the_threads_of_listeners(self) -> None:
        dispatcher, done = Dispatcher(), threading.Event()
        with self.assertLogs("mqclient.shells.threads", "ERROR") as logs:
            dispatcher.submit(int, "no number")
            dispatcher.submit(done.set)
            self.assertTrue(done.wait(5))
        dispatcher.close(5000)
        self.assertIn("a listener failed", logs.output[0])
        self.assertIn("no number", logs.output[0])
