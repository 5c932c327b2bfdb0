"""`kill -9` under load of a broker that keeps its messages in a database: what it had confirmed is kept, exactly once."""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from pathlib import Path

from tests.integration.kill.rounds import run_rounds
from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.support.postgresql import PostgresqlServer, refuse_without

ROUNDS = 2


def store(url: str) -> Additions:
    return Additions(core=f"<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>")


class DatabaseKillTests(unittest.TestCase):
    def rounds(self, url: str) -> None:
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            outcome = run_rounds(MqbrokerProcess(folder / "broker", store(url)), folder, ROUNDS, random.Random(seed))
        self.assertEqual(outcome.problems, [], f"replay with MQBROKER_SEED={seed}")
        self.assertGreater(outcome.counts["sent"], 10 * ROUNDS, "hardly any load")
        self.assertGreater(outcome.counts["large"], ROUNDS, "hardly any large messages")

    def test_sqlite(self) -> None:
        self.rounds("jdbc:sqlite:data/mq.db")

    def test_postgresql(self) -> None:
        refuse_without()
        server = PostgresqlServer()
        self.addCleanup(server.close)
        database = server.database(timeout=20_000)
        self.rounds(f"jdbc:{database.name}?user=tests")
