"""The stop of a broker whose database is away."""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
import threading
import time
import unittest
from pathlib import Path

from mqbroker.node.life import STOP_SECONDS
from mqclient import jms
from tests.interop.instance import PASSWORD, USER, Additions
from tests.interop.mqbroker_process import MqbrokerProcess

STORE = "<store><database-store><jdbc-connection-url>jdbc:sqlite:data/mq.db</jdbc-connection-url></database-store></store>"


class StopTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-stop-")
        self.addCleanup(folder.cleanup)
        self.broker = MqbrokerProcess(Path(folder.name), Additions(core=STORE))
        self.addCleanup(self.broker.kill)
        self.answers: list[str] = []

    def send(self, text: str) -> None:
        """A send that was answered is noted."""
        try:
            with jms.ConnectionFactory(self.broker.url) as factory, factory.create_connection(USER, PASSWORD) as connection:
                session = connection.create_session()
                session.create_producer(session.create_queue("q")).send(session.create_text_message(text))
                self.answers.append(text)
        except jms.JMSException:
            return

    def test_it_ends_in_time_and_says_what_was_not_written(self) -> None:
        self.broker.start()
        self.send("before")
        process = self.broker.process
        other = sqlite3.connect(self.broker.folder / "data" / "mq.db", isolation_level=None)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        waits = threading.Thread(target=self.send, args=("meanwhile",), daemon=True)
        waits.start()
        process.wait_for_line("it is asked again", 20)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(30), 1)
        self.assertLess(time.monotonic() - begun, STOP_SECONDS + 5)
        waits.join(20)
        self.assertEqual(self.answers, ["before"])
        self.assertIn("accepted and not written", process.tail())
        self.assertEqual(other.execute("SELECT COUNT(*) FROM mqbroker_message").fetchall(), [(1,)])
        other.execute("ROLLBACK")
        self.broker.start()
        self.broker.stop()
