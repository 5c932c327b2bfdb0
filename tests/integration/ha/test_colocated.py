"""Processes that host the backups of each other, with a shared store."""

from __future__ import annotations

from tests.integration.ha.colocated import HOSTED, A, B, C, ColocatedCase, D, hosted_by

TEXTS = [f"m{number}" for number in range(50)]


class SharedStoreTests(ColocatedCase):
    def test_the_hosted_backup_serves_what_the_dead_broker_had(self) -> None:
        first, second = self.start(A), self.start(B)
        for broker in (first, second):
            broker.wait_for(HOSTED)
            broker.wait_for("AMQ221031")
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for("AMQ221010")
        self.assertEqual(self.received(hosted_by(A)), TEXTS)


class ReplicationTests(ColocatedCase):
    names = (A, B, C, D)
    voters = (C, D)
    store = "replication"
    primary = "<retry-replication-wait>200</retry-replication-wait>"
    backup = "<retry-replication-wait>200</retry-replication-wait><allow-failback>true</allow-failback>"

    def test_the_hosted_backup_serves_what_the_dead_broker_had(self) -> None:
        for name in self.voters:
            self.start(name)
        first, second = self.start(A), self.start(B)
        for broker in (first, second):
            broker.wait_for(HOSTED)
            broker.wait_for("AMQ221024", times=2)
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for("AMQ221010")
        self.assertEqual(self.received(hosted_by(A)), TEXTS)
        self.start(B)
        first.wait_for("AMQ221024", times=4)
        first.stop()
