"""A Java client of a pair of ours with one database follows to the backup."""

from __future__ import annotations

import pytest

from tests.integration.ha.database_pair import DatabasePairCase
from tests.integration.ha.pair import PRIMARY
from tests.interop.ha.clients import FOLLOW, JavaClient
from tests.interop.ha.following import follow


@pytest.mark.usefixtures("java")
class DatabasePairTests(DatabasePairCase):
    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for("AMQ221010")

    def test_a_client_follows_to_the_backup(self) -> None:
        client = JavaClient("jms-2.44.0")
        self.addCleanup(client.close)
        follow(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}", [client], (self.kill,))
