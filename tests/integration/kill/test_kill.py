"""Ten rounds of `kill -9` under load: what the broker had confirmed before each is kept, exactly once.

`MQBROKER_SEED` repeats the moments of the kills; `MQBROKER_TEST_PEER=artemis` runs the same against the real Artemis.
"""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from pathlib import Path

from tests.integration.kill.rounds import PAGE_FILES, run_rounds
from tests.interop.peers import new_peer, peer_name

ROUNDS = 10


class KillTests(unittest.TestCase):
    def test_ten_rounds_of_kill(self) -> None:
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            outcome = run_rounds(new_peer(peer_name(), folder / "broker"), folder, ROUNDS, random.Random(seed))
        self.assertEqual(outcome.problems, [], f"replay with MQBROKER_SEED={seed}")
        self.assertGreater(outcome.counts["sent"], 10 * ROUNDS, "hardly any load")
        self.assertGreater(outcome.counts["large"], ROUNDS, "hardly any large messages")
        self.assertGreater(outcome.counts["paged large"], 3, "hardly any large messages in pages")
        self.assertGreater(outcome.counts[PAGE_FILES], 3, "hardly any paging")
