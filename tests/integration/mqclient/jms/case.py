"""What every test against a broker needs: connections that are closed in the end, and names that nobody else uses."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import Connection, ConnectionFactory, JMSContext, Message, MessageConsumer, Session, TextMessage
from mqclient.shells.threads import SharedBuffer
from tests.integration.brokers import broker_url

WAIT = 30_000  # ms: for what must come; a busy machine may stand still for seconds
NOTHING = 150  # ms: for what must not come


def waits_for_messages(thread: threading.Thread) -> bool:
    """Has the thread come to the wait of a receive?  What it is in is seen from now on, whatever the other threads do."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not SharedBuffer.wait.__code__:
        frame = frame.f_back
    return frame is not None


class BrokerCase(SynchronousTestCase):
    """A test with a broker.  ``self.name`` is a fresh address."""

    def setUp(self) -> None:
        self.name = f"{self.id().rpartition('.')[2]}.{uuid.uuid4()}"

    def factory(self, **settings: Any) -> ConnectionFactory:
        factory = ConnectionFactory(broker_url(), **settings)
        self.addCleanup(factory.close)
        return factory

    def connect(self, **settings: Any) -> Connection:
        """A started connection."""
        connection = self.factory(**settings).create_connection()
        self.addCleanup(connection.close)
        connection.start()
        return connection

    def session(self, mode: int = 1, **settings: Any) -> Session:
        """A session of a started connection of its own."""
        return self.connect(**settings).create_session(mode)

    def context(self, mode: int = 1, **settings: Any) -> JMSContext:
        context = self.factory(**settings).create_context(session_mode=mode)
        self.addCleanup(context.close)
        return context

    def texts(self, consumer: MessageConsumer, count: int) -> list[str | None]:
        """The texts of the next ``count`` messages."""
        return [self.text(consumer.receive(WAIT)) for _ in range(count)]

    def text(self, message: Message | None) -> str | None:
        assert isinstance(message, TextMessage), f"a text message was expected, not {message}"
        return message.text

    def assert_empty(self, consumer: MessageConsumer) -> None:
        self.assertIsNone(consumer.receive(NOTHING))

    def eventually(self, true: Callable[[], object]) -> None:
        """Wait until ``true()`` is."""
        deadline = time.monotonic() + WAIT / 1000
        while not true():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")
            time.sleep(0.01)
