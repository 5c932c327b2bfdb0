"""A listener that fails: one line for each message, and one traceback for a series of the same failure."""

from __future__ import annotations

import logging
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.jms import AcknowledgeMode, Message, MessageConsumer, Queue
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

    def call(self, function: Any, *args: object) -> Any:
        return function(*args)


class ListenerTests(SynchronousTestCase):
    def setUp(self) -> None:
        work = cast(Any, SessionWork.__new__(SessionWork))
        self.core = work.core = Core()
        work.closed, work.connection, work.mode = False, Connection(), AcknowledgeMode.AUTO_ACKNOWLEDGE
        work.pre_acknowledges, work.acknowledges, work._dispatcher = False, True, object()
        self.consumer = MessageConsumer(work, cast(BlockingConsumer, self.core), Queue("orders"), None)
        self.errors: list[Exception | None] = []
        self.consumer.listener = self.fail_as_told

    def fail_as_told(self, message: Message) -> None:
        error = self.errors.pop(0)
        if isinstance(error, ValueError):
            raise error
        if error is not None:
            raise error

    def records(self, *errors: Exception | None) -> list[logging.LogRecord]:
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
