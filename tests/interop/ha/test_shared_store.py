"""Unchanged Java clients follow a pair of ours with one store, to its backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.pair import BACKUP, PRIMARY, SharedPairCase
from tests.interop.puppet import Puppet

FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200"


@pytest.mark.usefixtures("java")
class JavaClientTests(SharedPairCase):
    def test_a_java_client_follows_to_the_backup_and_back(self) -> None:
        with Puppet() as java:
            java.connect("c", f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}")
            java.send("c", "queue://q", 20)
            (node,) = java.topology("c").values()
            self.assertEqual(node, [str(self.ports[PRIMARY]), str(self.ports[BACKUP])])
            self.primary.kill()
            self.backup.wait_for("AMQ221010")
            java.send("c", "queue://q", 20)
            self.start(PRIMARY, "AMQ221034").wait_for("AMQ221007")
            self.backup.wait_for("AMQ221109", times=2)
            java.send("c", "queue://q", 20)
            java.consume("k", "c", "queue://q")
            self.assertEqual(java.take_all("k", 60), [*range(20)] * 3)
