"""A replicated pair of real Artemis brokers, for which mqbrokers vote: mqclient and a Java client follow to the backup and back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import TestCase

import pytest

from tests.interop.artemis import START_SECONDS, ArtemisBroker
from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.cluster.pair import POLICY, SYNCHRONISED, TAKES_OVER, VOTES
from tests.interop.cluster.scenarios import until
from tests.interop.ha.clients import FOLLOW, Client, JavaClient, PythonClient
from tests.interop.ha.following import follow
from tests.interop.processes import ManagedProcess, wait_for_port

CHECK = "               <check-for-active-server>true</check-for-active-server>"
FAIL_BACK = "\n               <allow-failback>true</allow-failback>"
ACTIVE = "AMQ221007"


@pytest.mark.usefixtures("java")
class ArtemisPairTests(TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="mqbroker-java-pair-")
        self.addCleanup(temporary.cleanup)
        policies = {0: POLICY.format(role="primary", options=CHECK), 1: POLICY.format(role="backup", options=VOTES + FAIL_BACK)}
        nodes = Nodes(("artemis", "artemis", "mqbroker", "mqbroker"), Path(temporary.name), Shape(core=policies))
        self.addCleanup(nodes.__exit__, None, None, None)
        self.primary, self.backup = self._artemis(nodes, 0), self._artemis(nodes, 1)
        self.told: list[ManagedProcess] = []
        """Every process of a Java broker."""
        for voter in nodes.brokers[2:]:
            voter.start()
        self._launch(self.primary)
        wait_for_port(self.primary.port, START_SECONDS, self.primary.process)
        self._launch(self.backup)
        self._await(self.backup, SYNCHRONISED)

    def _artemis(self, nodes: Nodes, number: int) -> ArtemisBroker:
        broker = nodes[number]
        assert isinstance(broker, ArtemisBroker)
        return broker

    def _launch(self, broker: ArtemisBroker) -> None:
        broker.launch()
        self.told.append(broker.process)

    def _await(self, broker: ArtemisBroker, code: str, times: int = 1) -> None:
        until(lambda: _count(broker.process, code) >= times, f"{code} of {broker.folder.name}, {times} times", START_SECONDS)

    def kill(self) -> None:
        self.primary.kill()
        # By the votes of ours: nobody else is there.
        self._await(self.backup, TAKES_OVER)
        self._await(self.backup, ACTIVE)

    def bring_back(self) -> None:
        self._launch(self.primary)
        self._await(self.primary, ACTIVE)
        self._await(self.backup, SYNCHRONISED, 2)

    def stop(self) -> None:
        self.primary.stop()
        self._await(self.backup, ACTIVE, 2)

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"{self.primary.url}?{FOLLOW}", clients, (self.kill, self.bring_back, self.stop))
        errors = [line for process in self.told for line in process.output() if " ERROR " in line]
        self.assertEqual(errors, [])


def _count(process: ManagedProcess, code: str) -> int:
    return sum(code in line for line in process.output())
