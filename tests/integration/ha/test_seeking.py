"""A copy of a pair that seeks the proof: other brokers are answered, and clients are sent away."""

from __future__ import annotations

import time

from tests.integration.brokers import START_TIMEOUT
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.replicated_pair import IN_SYNC, ReplicatedPairCase
from tests.interop.processes import answers, serves


class SeekingTests(FollowingClients, ReplicatedPairCase):
    def test_a_copy_that_seeks_answers_pings_and_takes_no_session(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        primary.wait_for(IN_SYNC)
        port = self.ports["primary"]
        self.assertTrue(answers(port, START_TIMEOUT))
        self.assertTrue(serves(port, START_TIMEOUT))
        self.assertFalse(serves(self.ports["backup"]))
        primary.kill()
        backup.kill()
        primary = self.start("primary", "this broker may not be active yet")
        self.assertTrue(answers(port, START_TIMEOUT))
        self.assertFalse(serves(port))
        self.start("backup", IN_SYNC)
        deadline = time.monotonic() + START_TIMEOUT
        while not serves(port):
            self.assertLess(time.monotonic(), deadline, "the two copies have met, and none is active")
            time.sleep(0.05)
        primary.wait_for("AMQ221007")
