"""Clients of brokers of ours that host each other's backup: Java ones and mqclient follow to the hosted backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.colocated import B, ColocatedCase, ReplicatedCase
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow


class Following(ColocatedCase):
    def kill(self) -> None:
        self.second.kill()
        self.first.wait_for("AMQ221010")

    def bring_back(self) -> None:
        self.second = self.start(B)

    def follow_with(self, *generations: str) -> None:
        clients: list[Client] = [PythonClient(), *map(JavaClient, generations)]
        for client in clients:
            self.addCleanup(client.close)
        self.first, self.second = self.both()
        follow(f"tcp://127.0.0.1:{self.ports[B]}?{FOLLOW}", clients, (self.kill, self.bring_back))


@pytest.mark.usefixtures("java")
class SharedStoreTests(Following):
    def test_clients_follow_to_the_hosted_backup_and_back(self) -> None:
        self.follow_with("jms-2.44.0")


@pytest.mark.usefixtures("java")
class ReplicationTests(ReplicatedCase, Following):
    def test_clients_follow_to_the_hosted_backup_and_back(self) -> None:
        self.follow_with("jms-2.6.4")
