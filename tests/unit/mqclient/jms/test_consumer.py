"""A listener that fails: one line for each message, and one traceback for a series of the same failure."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from inspect import iscoroutine
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.jms import AcknowledgeMode, IllegalStateException, Message, MessageConsumer, Queue, TransactionRolledBackException
from mqclient.jms.exceptions import JMS_ERRORS
from mqclient.jms.work import SessionWork
from mqclient.shells.blocking_consumers import Consumer as BlockingConsumer


class Core:
    """The consumer and the session below."""

    closed = False

    def __init__(self) -> None:
        self.handler: Any = None
        self.rolled_back = 0

    def set_message_handler(self, handler: Any, dispatcher: object) -> None:
        self.handler = handler

    def acknowledge(self, message: ClientMessage) -> None:
        pass

    def rollback(self, considered: bool) -> None:
        self.rolled_back += 1


class Connection:
    large_bodies = None
    settings = SimpleNamespace(block_on_acknowledge=False)

    def call(self, function: Any, *args: object) -> Any:
        result = function(*args)
        if iscoroutine(result):
            with JMS_ERRORS:
                self.assert_finished(result)
        return result

    def assert_finished(self, coroutine: Any) -> None:
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("it waits")


class ListenerTests(SynchronousTestCase):
    def setUp(self) -> None:
        work = cast(Any, SessionWork.__new__(SessionWork))
        self.core = work.core = Core()
        work.closed, work.connection, work.mode = False, Connection(), AcknowledgeMode.AUTO_ACKNOWLEDGE
        work.pre_acknowledges, work.acknowledges, work._dispatcher = False, True, object()
        self.consumer = MessageConsumer(work, cast(BlockingConsumer, self.core), Queue("orders"), None)
        self.errors: list[BaseException | None] = []
        self.consumer.listener = self.fail_as_told

    def fail_as_told(self, message: Message) -> None:
        error = self.errors.pop(0)
        if isinstance(error, ValueError):
            raise error
        if error is not None:
            raise error

    def records(self, *errors: BaseException | None) -> list[logging.LogRecord]:
        self.errors = list(errors)
        with self.assertLogs("mqclient.jms.consumer") as logs:
            for count in range(1, len(errors) + 1):
                self.core.handler(ClientMessage(user_id=bytes(15) + b"\x07", delivery_count=count))
        return logs.records

    def test_the_line_has_queue_message_delivery_and_error(self) -> None:
        [record] = self.records(ValueError("no such customer"))
        self.assertEqual(
            record.getMessage(),
            "the listener of queue://orders failed with message ID:00000000-0000-1000-8000-000000000007 "
            "at delivery 1: ValueError: no such customer",
        )
        self.assertEqual(record.levelno, logging.ERROR)
        self.assertEqual(self.core.rolled_back, 1)

    def test_ten_failures_of_one_kind_have_one_traceback(self) -> None:
        records = self.records(*[ValueError(f"customer {number}") for number in range(10)])
        self.assertEqual([record.exc_info is not None for record in records], [True] + [False] * 9)
        self.assertIn("at delivery 10: ValueError: customer 9", records[9].getMessage())

    def test_another_kind_has_its_own(self) -> None:
        records = self.records(ValueError("a"), None, ValueError("b"), KeyError("c"), ValueError("d"))
        self.assertEqual([record.exc_info is not None for record in records], [True, False, True, True])

    def test_the_end_of_the_program_in_a_listener_is_a_failure_like_any_other(self) -> None:
        """Else the message would be acknowledged with the next one, although it was not handled."""
        records = self.records(SystemExit(1), CancelledError())
        self.assertIn("at delivery 1: SystemExit: 1", records[0].getMessage())
        self.assertEqual((len(records), self.core.rolled_back), (2, 2))


class One:
    """The core consumer and the core session of a session that acknowledges one message at a time."""

    def __init__(self) -> None:
        self.consumer, self.closed, self.incarnation = self, False, 0
        self.did: list[object] = []

    async def individual_acknowledge(self, message: ClientMessage) -> None:
        self.did.append(message.message_id)

    async def commit(self, block: bool) -> None:
        self.did.append("commit")


class IndividualTests(SynchronousTestCase):
    def setUp(self) -> None:
        work = cast(Any, SessionWork.__new__(SessionWork))
        self.core = work.core = One()
        work.closed, work.connection, work.mode = False, Connection(), AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE
        work.pre_acknowledges = False
        self.consumer = MessageConsumer(work, cast(BlockingConsumer, self.core), Queue("orders"), None)

    def receive(self, number: int) -> Message:
        return self.consumer._wrap(ClientMessage(message_id=number, incarnation=self.core.incarnation))

    def test_one_that_has_gone_back_to_its_queue_takes_no_others_with_it(self) -> None:
        """The others would all come again, and fail like this one: without end, where several are always in hand."""
        before = self.receive(1)
        self.core.incarnation += 1  # after a failure of the connection, or of a listener
        after = self.receive(2)
        self.assertRaises(TransactionRolledBackException, before.acknowledge)
        after.acknowledge()
        self.assertEqual(self.core.did, [2, "commit"])

    def test_after_the_consumer_it_is_too_late(self) -> None:
        """The message has gone back to its queue: whoever believed that it is acknowledged would get it again and again."""
        message = self.receive(1)
        self.core.closed = True
        self.assertRaises(IllegalStateException, message.acknowledge)
        self.assertEqual(self.core.did, [])
