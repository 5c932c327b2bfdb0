"""Contexts."""

from __future__ import annotations

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
