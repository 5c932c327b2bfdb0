"""Calls over a channel: one at a time, with their answers, refusals and ends."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import (
    ConnectionTimedOutError,
    ObjectClosedError,
    QueueDoesNotExistError,
    UnblockedError,
)
from mqclient.wire.packets import (
    Commit,
    CreateConsumer,
    ExceptionResponse,
    NullResponse,
    QueueQuery,
)
from tests.support.network import ScriptedBroker, World, pending
from tests.unit.mqclient.core.connection.test_connection import CHANNEL


class CallTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, call_timeout=1000)
        self.session = self.world.session()

    def test_one_call_at_a_time_and_packets_keep_their_order(self) -> None:
        self.broker.silent.add(QueueQuery)
        calls = [self.session.queue_query("one"), self.session.queue_query("two"), self.session.start()]
        self.world.network.stir()
        self.assertEqual([packet.queue_name for packet in self.broker.got(QueueQuery)], ["one"])
        self.broker.silent.clear()
        self.broker.deliver(CHANNEL, self.broker._info("one"))
        self.assertEqual([packet.queue_name for packet in self.broker.got(QueueQuery)], ["one", "two"])
        self.assertEqual([self.world.finish(call).name for call in calls[:2]], ["one", "two"])
        self.assertEqual(self.broker.names(CHANNEL), ["SESS_QUEUEQUERY", "SESS_QUEUEQUERY", "SESS_START"])

    def test_exception_fails_the_call(self) -> None:
        self.broker.answers[CreateConsumer] = lambda packet: ExceptionResponse(100, "AMQ229017: no queue")
        error = self.assertRaises(QueueDoesNotExistError, self.world.finish, self.session.create_consumer("none"))
        self.assertIn("AMQ229017", str(error))
        self.assertEqual(list(self.session.consumers), [])

    def test_call_without_answer_fails_the_connection(self) -> None:
        self.broker.silent.add(QueueQuery)
        call, waiting = self.session.queue_query("q"), self.session.queue_query("q")
        self.world.advance(1.05)
        self.assertIn("SESS_QUEUEQUERY", str(self.assertRaises(ConnectionTimedOutError, self.world.finish, call)))
        self.assertRaises(ConnectionTimedOutError, self.world.finish, waiting)
        self.assertTrue(self.session.closed)
        self.assertRaises(ObjectClosedError, self.world.finish, self.session.queue_query("q"))

    def test_cancelled_call_keeps_its_answer_from_the_next(self) -> None:
        self.broker.silent.add(QueueQuery)
        first: Any = self.session.queue_query("one")
        self.world.network.stir()
        first.cancel()
        self.assertRaises(CancelledError, self.world.finish, first)
        second = self.session.queue_query("two")
        self.world.network.stir()
        self.broker.deliver(CHANNEL, self.broker._info("one"))
        self.assertTrue(pending(second))
        self.broker.deliver(CHANNEL, self.broker._info("two"))
        self.assertEqual(self.world.finish(second).name, "two")

    def test_a_call_with_a_value_that_does_not_fit_fails_alone(self) -> None:
        """Else the channel would wait for the answer to a packet that was never sent, and then give the connection up."""
        factory: Any = self.session.factory
        wrongs: tuple[tuple[Callable[[], Any], type[Exception]], ...] = (
            (lambda: self.session.create_consumer("q", priority=2**31), struct.error),
            (lambda: self.session.queue_query(cast(Any, 5)), TypeError),
            (lambda: self.session.create_producer(cast(Any, 5)), TypeError),
            (lambda: factory.create_session("user", 1234), TypeError),
        )
        for wrong, error in wrongs:
            self.broker.silent.add(QueueQuery)
            self.session.queue_query("one")
            behind = wrong()
            self.world.network.stir()
            self.broker.silent.clear()
            self.broker.deliver(CHANNEL, self.broker._info("one"))
            self.assertRaises(error, self.world.finish, behind)
            self.assertEqual(self.world.finish(self.session.queue_query("two")).name, "two")
            self.world.finish(self.world.finish(factory.create_session()).close())
        self.world.advance(1.05)
        self.assertFalse(self.session.closed)

    def test_answer_of_an_asynchronous_request_does_not_answer_a_call(self) -> None:
        """The Java client takes any EXCEPTION, and the answer to a commit it did not wait for, as the answer to the call in progress."""
        self.broker.silent |= {QueueQuery, Commit}
        self.world.finish(self.session.commit(block=False))
        call = self.session.queue_query("q")
        self.world.network.stir()
        self.broker.deliver(CHANNEL, NullResponse(1))
        self.broker.deliver(CHANNEL, ExceptionResponse(111, "rolled back", 1))
        self.assertTrue(pending(call))
        self.assertIn("111", self.world.runtime.warnings[0])
        self.broker.deliver(CHANNEL, self.broker._info("q"))
        self.world.finish(call)

    def test_damaged_packet_ends_the_connection(self) -> None:
        link = self.world.network.link
        link.to_client.append(bytes.fromhex("0000000a" + "4b" + "000000000000000a" + "00"))
        self.world.network.stir()
        self.assertTrue(self.session.closed)
        self.assertTrue(link.closed_by_client)

    def test_close_is_orderly_and_calls_fail_after_it(self) -> None:
        self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.create_producer("q"))
        self.world.finish(self.session.close())
        self.world.finish(self.session.close())
        self.assertEqual(self.broker.names(CHANNEL)[-3:], ["SESS_CONSUMER_CLOSE", "REMOVE_PRODUCER", "SESS_CLOSE"])
        self.assertRaises(ObjectClosedError, self.world.finish, self.session.commit())
        self.world.finish(self.session.factory.close())
        self.assertFalse(self.world.network.link.open)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_silent_broker_is_noticed(self) -> None:
        world = World(self.broker, connection_ttl=3000, client_failure_check_period=1000)
        session = world.session()
        world.advance(10)
        self.assertFalse(session.closed)
        world.network.stir = lambda: None  # type: ignore[method-assign]  # packets are dropped, nothing is closed
        receive = session.queue_query("q")
        world.advance(4.1)
        self.assertTrue(session.closed)
        self.assertRaises(UnblockedError, world.finish, receive)

    def test_answers_that_wait_in_the_socket_of_a_client_that_stood_still_are_read_first(self) -> None:
        world = World(self.broker, connection_ttl=3000, client_failure_check_period=1000)
        session = world.session()
        network, stir = world.network, world.network.stir
        network.stir = lambda: None  # type: ignore[method-assign]
        world.advance(1.5)
        self.assertFalse(session.closed)
        network.stir = stir  # type: ignore[method-assign]
        world.clock.callLater(7.9, stir)
        world.clock.advance(8)  # one turn for all of it: the timers of these seconds, then the sockets
        self.assertFalse(session.closed)
        world.advance(10)
        self.assertFalse(session.closed)
