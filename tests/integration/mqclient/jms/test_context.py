"""Contexts."""

from __future__ import annotations

from mqclient.jms import AcknowledgeMode, JMSContext
from tests.integration.mqclient.jms.case import WAIT
from tests.integration.mqclient.jms.test_session import ModeCase


class ContextTests(ModeCase):
    def test_shared_connection_of_contexts(self) -> None:
        first = self.context()
        second = first.create_context()
        first.close()
        second.create_producer().send(self.name, "x")
        self.assertEqual(second.create_consumer(self.name).receive_body(WAIT), "x")
        second.close()
        self.assertTrue(second.connection.closed)

    def test_a_transaction_as_a_function(self) -> None:
        context = self.context(AcknowledgeMode.SESSION_TRANSACTED)

        def send(given: JMSContext) -> str:
            self.assertIs(given, context)
            context.create_producer().send(self.name, "x")
            return "sent"

        self.assertEqual(context.transaction(send), "sent")

        def fail(given: JMSContext) -> None:
            context.create_producer().send(self.name, "y")
            raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, context.transaction, fail)
        context.commit()
        self.assertEqual(self.left(), ["x"])
