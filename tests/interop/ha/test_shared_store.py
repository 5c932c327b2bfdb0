"""Clients of a pair of ours with one store: Java ones and mqclient follow to the backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.pair import PRIMARY, SharedPairCase
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow


@pytest.mark.usefixtures("java")
class SharedStoreTests(SharedPairCase):
    options = "<failover-on-shutdown>true</failover-on-shutdown>"

    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for("AMQ221010")

    def bring_back(self) -> None:
        self.primary = self.start(PRIMARY, "AMQ221034")
        self.primary.wait_for("AMQ221007")
        self.backup.wait_for("AMQ221109", times=2)
        self.backup.wait_for("AMQ221031", times=2)

    def stop(self) -> None:
        self.primary.stop()
        self.backup.wait_for("AMQ221010", times=2)

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0"), JavaClient("jms-2.6.4")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}", clients, (self.kill, self.bring_back, self.stop))
