"""Clients of brokers of ours that host each other's backup: Java ones and mqclient follow to the hosted backup and back.

The kind of store makes no difference to what clients are told of a hosted backup.
"""

from __future__ import annotations

import pytest

from tests.integration.ha.colocated import B, ReplicatedCase
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow


@pytest.mark.usefixtures("java")
class ReplicationTests(ReplicatedCase):
    def kill(self) -> None:
        self.second.kill()
        self.first.wait_for("AMQ221010")

    def bring_back(self) -> None:
        self.second = self.start(B)

    def test_clients_follow_to_the_hosted_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0"), JavaClient("jms-2.6.4")]
        for client in clients:
            self.addCleanup(client.close)
        self.first, self.second = self.both()
        follow(f"tcp://127.0.0.1:{self.ports[B]}?{FOLLOW}", clients, (self.kill, self.bring_back))
