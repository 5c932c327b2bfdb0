"""Asynchronous sends that cannot even begin."""

from __future__ import annotations

from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import ClientMessage
from mqclient.errors import AddressFullError
from mqclient.jms import InvalidDestinationException, JMSException, Message, Queue, TemporaryQueue
from mqclient.jms.producer import MessageProducer
from mqclient.jms.work import SessionWork
from mqclient.shells.blocking_sends import Producer as BlockingProducer
from tests.support.clock import ClientClock


class Producer:
    """Raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def send(self, message: ClientMessage, address: str | None = None, **_: object) -> None:
        raise self._error


class Connection:
    connection_id = "c"


class Listener:
    def on_completion(self, message: Message) -> None:
        raise AssertionError("it was not sent")

    def on_exception(self, message: Message, exception: JMSException) -> None:
        raise AssertionError("whoever sends has the exception")


class AsyncSendTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.work = cast(Any, SessionWork.__new__(SessionWork))
        self.work.runtime, self.work.connection, self.work.closed = ClientClock(), Connection(), False
        self.work._pending = set()

    def producer(self, error: Exception) -> MessageProducer:
        return MessageProducer(self.work, cast(BlockingProducer, Producer(error)), Queue("q"))

    def test_a_file_that_cannot_be_read(self) -> None:
        """The caller has the exception; nobody waits for that send any more, neither commit nor close."""
        producer = self.producer(OSError("the disk is gone"))
        self.assertRaises(OSError, producer.send_async, "x")
        with self.assertRaises(OSError):
            producer.send("x", completion_listener=Listener())
        self.assertEqual(self.work._pending, set())

    def test_what_the_broker_refuses_is_in_the_future(self) -> None:
        future = self.producer(AddressFullError("full")).send_async("x")
        self.assertIsInstance(future.exception(0), JMSException)
        self.assertEqual(self.work._pending, set())


class TemporaryTests(SynchronousTestCase):
    def test_a_temporary_destination_that_has_gone_is_not_made_anew(self) -> None:
        """A broker creates on demand what a message is sent to: a queue that nobody knows, and nobody deletes."""
        work = cast(Any, SessionWork.__new__(SessionWork))
        work.runtime, work.connection, work.closed, work.lookup = ClientClock(), Connection(), False, self
        producer = MessageProducer(work, cast(BlockingProducer, Producer(AssertionError("it was sent"))), TemporaryQueue("t"))
        self.assertRaises(InvalidDestinationException, producer.send, "x")

    def prepare_send(self, destination: object) -> None:
        raise InvalidDestinationException(f"{destination} no longer exists")
