"""Ten rounds of `kill -9` under load: what the broker had confirmed before each is kept, exactly once.

`MQBROKER_SEED` repeats the moments of the kills; `MQBROKER_TEST_PEER=artemis` runs the same against the real Artemis.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.integration.kill.verdict import judge, read_logs
from tests.interop.mqbroker_process import ROOT
from tests.interop.peers import new_peer, peer_name
from tests.interop.processes import ManagedProcess

ROUNDS = 10
LOAD_SECONDS = (0.3, 1.2)  # between two kills
DRAIN_SECONDS = 60.0
CLIENTS = {"producer": 3, "transactor": 2, "consumer": 2}


class KillTests(unittest.TestCase):
    def test_ten_rounds_of_kill(self) -> None:
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        with tempfile.TemporaryDirectory() as folder:
            self.rounds(Path(folder), random.Random(seed), f"replay with MQBROKER_SEED={seed}")

    def rounds(self, folder: Path, rng: random.Random, hint: str) -> None:
        broker = new_peer(peer_name(), folder / "broker")
        broker.start()
        self.addCleanup(broker.kill)
        logs = folder / "logs"
        logs.mkdir()
        path = ":".join(str(ROOT / part) for part in (".", "src", "clients/mqclient/src"))
        clients = []
        for role, count in CLIENTS.items():
            command = [sys.executable, "-m", "tests.integration.kill.worker", role, str(count), broker.url, str(logs)]
            clients.append(ManagedProcess(command, ROOT, {"PYTHONPATH": path}))
            self.addCleanup(clients[-1].kill)
        self.wait_for_load(logs, clients)
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(*LOAD_SECONDS))
            broker.kill()
            broker.start()
        (logs / "stop").touch()
        for client in clients:
            self.assertEqual(client.wait(DRAIN_SECONDS), 0, client.tail())
        broker.stop()
        events = read_logs(sorted(logs.glob("*.log")))
        self.assertEqual(judge(events), [], hint)
        confirmed = sum(event.verb == "sent" for event in events)
        self.assertGreater(confirmed, 10 * ROUNDS, "hardly any load")

    def wait_for_load(self, logs: Path, clients: list[ManagedProcess]) -> None:
        """The rounds begin when the first message has made its way through all three roles."""
        deadline = time.monotonic() + 30
        while not any(b" acked " in path.read_bytes() for path in logs.glob("c*.log")):
            for client in clients:
                client.raise_if_dead()
            self.assertLess(time.monotonic(), deadline, "\n".join(client.tail() for client in clients))
            time.sleep(0.05)
