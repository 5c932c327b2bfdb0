"""Clients of a replicated pair of ours with a voter: Java ones and mqclient follow to the backup and back."""

from __future__ import annotations

import pytest

from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.replicated_pair import COPIED, FAIL_BACK, VOTER, ReplicatedPairCase
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow

NOTICE = "connectionTTL=2000&clientFailureCheckPeriod=500&callTimeout=8000"
"""Clients notice within 2 s that their broker says nothing any more.

A call may not end before the broker does, which answers nothing for up to 5 s while it has no proof: Java clients before 2.7 would take
an answer that comes later for that of their next call, and count a message as acknowledged that is not.
"""
TAKEN_OVER = "AMQ221010"


@pytest.mark.usefixtures("java")
class ReplicationTests(ReplicatedPairCase):
    options = FAIL_BACK

    def setUp(self) -> None:
        super().setUp()
        self.start(VOTER)
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, COPIED)

    def kill(self) -> None:
        self.primary.kill()
        self.backup.wait_for(TAKEN_OVER)

    def bring_back(self) -> None:
        self.primary = self.start(PRIMARY)
        self.backup.wait_for(COPIED, times=2)

    def stand_still(self) -> None:
        """No connection of the primary ends, and it says nothing, until the backup is active.  Then it gives way, and comes back.

        Java clients stay with such a broker as long as its machine accepts connections.
        """
        self.primary.hold_up()
        self.backup.wait_for(TAKEN_OVER, times=2)
        self.primary.go_on()
        self.primary.wait_for("AMQ221007", times=2)
        self.backup.wait_for(COPIED, times=3)

    def stop(self) -> None:
        self.primary.stop()
        self.backup.wait_for(TAKEN_OVER, times=3)

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0"), JavaClient("jms-2.6.4")]
        for client in clients:
            self.addCleanup(client.close)
        events = (self.kill, self.bring_back, self.stand_still, self.stop)
        follow(f"tcp://127.0.0.1:{self.ports[PRIMARY]}?{FOLLOW}&{NOTICE}", clients, events)
