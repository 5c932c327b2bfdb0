"""Clients of a replicated pair of ours with a voter: Java ones and mqclient follow to the backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.pair import PRIMARY
from tests.integration.ha.replicated_pair import EventfulPairCase
from tests.interop.ha.clients import FOLLOW, NOTICE, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow


@pytest.mark.usefixtures("java")
class ReplicationTests(EventfulPairCase):
    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0"), JavaClient("jms-2.6.4")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}&{NOTICE}", clients, self.events)
