"""Pairs of real Artemis brokers, a replicated one for which mqbrokers vote and one with one store: mqclient and a Java client follow."""

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
from tests.interop.ha.once import LONG_PAUSE_SECONDS, follow_exactly_once, in_all_shells
from tests.interop.ha.pairs import BACKUP, PRIMARY, READY, SHARED_STORE, Pair
from tests.interop.processes import ManagedProcess, wait_for_port

CHECK = "               <check-for-active-server>true</check-for-active-server>"
FAIL_BACK = "\n               <allow-failback>true</allow-failback>"
ACTIVE = "AMQ221007"
GOES_ON = "AMQ221010"
"""Written by the backup of a shared store that has become active."""
GIVES_WAY = "               <failover-on-shutdown>true</failover-on-shutdown>"


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
        _await(self.backup.process, SYNCHRONISED)

    def _artemis(self, nodes: Nodes, number: int) -> ArtemisBroker:
        broker = nodes[number]
        assert isinstance(broker, ArtemisBroker)
        return broker

    def _launch(self, broker: ArtemisBroker) -> None:
        broker.launch()
        self.told.append(broker.process)

    def kill(self) -> None:
        self.primary.kill()
        # By the votes of ours: nobody else is there.
        _await(self.backup.process, TAKES_OVER)
        _await(self.backup.process, ACTIVE)

    def give_back(self) -> None:
        self._launch(self.primary)
        _await(self.primary.process, ACTIVE)

    def bring_back(self) -> None:
        self.give_back()
        _await(self.backup.process, SYNCHRONISED, 2)

    def stop(self) -> None:
        self.primary.stop()
        _await(self.backup.process, ACTIVE, 2)

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"{self.primary.url}?{FOLLOW}", clients, (self.kill, self.bring_back, self.stop))
        errors = [line for process in self.told for line in process.output() if " ERROR " in line]
        self.assertEqual(errors, [])

    def test_work_with_exactly_once_takes_effect_once(self) -> None:
        # A real Artemis that gives way while a transaction with receipts is open may stop half-way (AMQ222247): no third failover.
        follow_exactly_once(f"{self.primary.url}?{FOLLOW}", in_all_shells(LONG_PAUSE_SECONDS), (self.kill, self.give_back))


@pytest.mark.usefixtures("java")
class ArtemisSharedStoreTests(TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="mqbroker-java-store-")
        self.addCleanup(temporary.cleanup)
        options = dict.fromkeys(("primary", "backup"), GIVES_WAY)
        self.pair = Pair(SHARED_STORE, "artemis", Path(temporary.name), options)
        self.addCleanup(self.pair.__exit__, None, None, None)
        self.pair.start()
        self.told = [self.pair.process(number) for number in (PRIMARY, BACKUP)]

    def kill(self) -> None:
        self.pair[PRIMARY].kill()
        _await(self.pair.process(BACKUP), GOES_ON)

    def bring_back(self) -> None:
        self.pair[PRIMARY].launch()
        self.told.append(self.pair.process(PRIMARY))
        _await(self.pair.process(PRIMARY), ACTIVE)
        _await(self.pair.process(BACKUP), READY[SHARED_STORE], 2)

    def stop(self) -> None:
        self.pair[PRIMARY].stop()
        _await(self.pair.process(BACKUP), GOES_ON, 2)

    def test_clients_follow_to_the_backup_and_back(self) -> None:
        clients: list[Client] = [PythonClient(), JavaClient("jms-2.44.0")]
        for client in clients:
            self.addCleanup(client.close)
        follow(f"{self.pair[PRIMARY].url}?{FOLLOW}", clients, (self.kill, self.bring_back, self.stop))
        errors = [line for process in self.told for line in process.output() if " ERROR " in line]
        self.assertEqual(errors, [])


def _await(process: ManagedProcess, code: str, times: int = 1) -> None:
    until(lambda: sum(code in line for line in process.output()) >= times, f"{code}, {times} times", START_SECONDS)
