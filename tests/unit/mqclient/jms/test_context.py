"""Contexts: their producers, and their consumers when the connection cannot be started."""

from __future__ import annotations

from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import JMSContext, JMSException
from mqclient.jms.connection import Connection
from mqclient.jms.session import Session


class Played:
    """The connection, the session and the consumer."""

    def __init__(self) -> None:
        self.closed = self.producers = 0

    def create_session(self, mode: int) -> Session:
        return cast(Session, self)

    def create_producer(self) -> Played:
        self.producers += 1
        return self

    def create_consumer(self, *_: Any, **__: Any) -> Played:
        return self

    def start(self) -> None:
        raise JMSException("the connection did not come back")

    def close(self) -> None:
        self.closed += 1


class StartTests(SynchronousTestCase):
    def test_a_consumer_that_the_caller_does_not_get_is_closed(self) -> None:
        """The consumer would take messages for nobody as long as the context lives."""
        played = Played()
        context = JMSContext(cast(Connection, played))
        self.assertRaises(JMSException, context.create_consumer, "queue://q")
        self.assertEqual(played.closed, 1)


class ProducerTests(SynchronousTestCase):
    def test_all_share_one_of_the_session(self) -> None:
        """Producers of a context have no close(), and a program may make one for each message: client and broker would keep them all."""
        played = Played()
        context = JMSContext(cast(Connection, played))
        one, other = context.create_producer(priority=9), context.create_producer()
        self.assertEqual((one.priority, other.priority, played.producers), (9, 4, 1))
