"""Sessions of the core client for a command, where none can be had."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.cli.data.sessions import core_sessions
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import NoConnection


class SessionsTests(TestCase):
    def error(self, url: str) -> str:
        options = ConnectionOptions(url, "artemis", None, None, None, True, False, None)
        with self.assertRaises(NoConnection) as raised, core_sessions(options):
            self.fail("connected")
        return str(raised.exception)

    def test_a_url_that_cannot_be_read(self) -> None:
        self.assertIn("--url", self.error("tcp://127.0.0.1:nothing"))

    def test_a_broker_that_is_not_reached(self) -> None:
        self.assertIn("Connection failed::", self.error("tcp://127.0.0.1:9"))
