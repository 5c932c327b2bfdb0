"""Clients of brokers of ours that host each other's backup: Java ones and mqclient follow to the hosted backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.colocated import HOSTED, A, B, C, ColocatedCase, D
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow


class FollowingCase(ColocatedCase):
    shown: str
    """Written when a hosted backup may take over."""

    def kill(self) -> None:
        self.second.kill()
        self.first.wait_for("AMQ221010")

    def bring_back(self) -> None:
        self.second = self.start(B)

    def clients_follow(self) -> None:
        for name in self.voters:
            self.start(name)
        self.first, self.second = self.start(A), self.start(B)
        for broker in (self.first, self.second):
            broker.wait_for(HOSTED)
            broker.wait_for(self.shown)
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0"), JavaClient("jms-2.6.4")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"tcp://127.0.0.1:{self.ports[B]}?{FOLLOW}", clients, (self.kill, self.bring_back))


@pytest.mark.usefixtures("java")
class SharedStoreTests(FollowingCase):
    shown = "AMQ221031"

    def test_clients_follow_to_the_hosted_backup_and_back(self) -> None:
        self.clients_follow()


@pytest.mark.usefixtures("java")
class ReplicationTests(FollowingCase):
    names = (A, B, C, D)
    voters = (C, D)
    store = "replication"
    primary = "<retry-replication-wait>200</retry-replication-wait>"
    backup = "<retry-replication-wait>200</retry-replication-wait><allow-failback>true</allow-failback>"
    shown = "AMQ221024: this replica is in sync"

    def test_clients_follow_to_the_hosted_backup_and_back(self) -> None:
        self.clients_follow()
