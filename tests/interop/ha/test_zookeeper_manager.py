"""The lock manager on a real ZooKeeper of three: the contract, its faults, and the real command line of Artemis on the same nodes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from mqbroker.config.model.cluster import LockManagerConfiguration
from mqbroker.ha.locks.conformance import NAME, LosableLockManagerContract
from mqbroker.ha.locks.contract import LockManager, UnavailableError
from mqbroker.ha.locks.coordination import coordinated_name
from mqbroker.ha.locks.file_manager import FOLDER
from mqbroker.lock_managers import FILE, ZOOKEEPER, make_lock_manager
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock, new_node_id
from tests.interop.artemis import ArtemisBroker, tool_environment
from tests.interop.ha.zookeeper import TICK_MS, EnsembleCase
from tests.interop.instance import Additions

SESSION_MS = 6000
"""A third of it, in which no server answers, ends a session: servers on a busy machine may be silent for a second."""
SECONDS = 60.0
"""On a busy machine."""
TOOL_SECONDS = 120.0


class ManagerCase(EnsembleCase):
    def made(self, **properties: str) -> LockManager:
        given = {"connect-string": self.ensemble.connect_string, "namespace": self.namespace, "session-ms": str(SESSION_MS)}
        return make_lock_manager(
            LockManagerConfiguration(None, given | {key.replace("_", "-"): value for key, value in properties.items()})
        )

    def lose(self, manager: Any) -> None:
        """Another client ends the session, as its own does in order."""
        session = manager._session
        other = KazooClient(self.ensemble.connect_string, client_id=session._client.client_id)
        other.start()
        other.stop()
        other.close()
        deadline = time.monotonic() + SECONDS
        while not session.is_over:
            assert time.monotonic() < deadline, "the loss of the session is not noticed"
            time.sleep(0.05)


class ContractTests(LosableLockManagerContract, ManagerCase):
    def make_manager(self) -> LockManager:
        return self.made()

    def lose(self, manager: Any) -> None:
        ManagerCase.lose(self, manager)


class FaultTests(ManagerCase):
    def setUp(self) -> None:
        super().setUp()
        self.lost: list[str] = []
        self.is_lost = threading.Event()

    def told(self, reason: str) -> None:
        self.lost.append(reason)
        self.is_lost.set()

    def started(self, **properties: str) -> LockManager:
        manager = self.made(**properties)
        manager.start(self.told)
        self.addCleanup(manager.stop)
        return manager

    def test_a_leader_that_dies_takes_no_lock_away(self) -> None:
        # An election may last longer than a third of a short session.
        holder, other = self.started(session_ms="10000"), self.started(session_ms="10000", retries="-1", retries_ms="100")
        self.assertTrue(holder.try_lock(NAME))
        self.assertTrue(holder.change_number(NAME, 0, 1))
        self.ensemble.kill_leader()
        self.assertEqual(other.number(NAME), 1)
        self.assertFalse(other.try_lock(NAME))
        self.assertTrue(holder.change_number(NAME, 1, 2))
        self.assertEqual(self.lost, [])

    def test_an_ensemble_that_is_away_for_longer_than_the_session(self) -> None:
        holder = self.started()
        self.assertTrue(holder.try_lock(NAME))
        self.assertTrue(holder.change_number(NAME, 0, -1))
        self.ensemble.kill()
        self.assertTrue(self.is_lost.wait(SECONDS))
        self.assertIn("no server has answered for 1.98 s", self.lost[0])
        with self.assertRaises(UnavailableError):
            holder.number(NAME)
        holder.stop()
        with self.assertRaises(UnavailableError):
            self.made(connection_ms="500").start(self.told)
        self.ensemble.start()
        deadline = time.monotonic() + SECONDS
        other = self.started()
        while not other.try_lock(NAME):
            assert time.monotonic() < deadline, "the session of the former holder does not end"
            time.sleep(0.1)
        holder.start(self.told)
        self.assertEqual(holder.number(NAME), -1)
        self.assertFalse(holder.change_number(NAME, -1, 1))
        self.assertTrue(other.change_number(NAME, -1, 1))
        self.assertEqual(len(self.lost), 1)

    def test_what_the_start_warns_of(self) -> None:
        asked = {str(SESSION_MS): None, "100": ("lengthens", 2 * TICK_MS), "18000": ("shortens", 20 * TICK_MS)}
        for session_ms, expected in asked.items():
            manager = self.made(session_ms=session_ms)
            warnings = list(manager.start(self.told))
            manager.stop()
            text = "" if expected is None else f"session-ms is {session_ms}, and the ensemble {expected[0]} the session to {expected[1]} ms"
            self.assertEqual(len(warnings), 0 if expected is None else 1)
            self.assertIn(text, "".join(warnings))
        manager = self.made(connect_string=self.ensemble.connect_string.split(",")[0])
        self.assertIn("connect-string has 1 server", "".join(manager.start(self.told)))
        manager.stop()

    def test_a_path_that_is_missing_is_made(self) -> None:
        manager = self.started(connect_string=f"{self.ensemble.connect_string}/{self.namespace}/chroot")
        self.assertTrue(manager.try_lock(NAME))
        self.assertTrue(manager.change_number(NAME, 0, 1))


POLICY = "<ha-policy><replication><primary>{manager}{more}</primary></replication></ha-policy>"


class ArtemisToolTests(ManagerCase):
    """``artemis activation list`` and ``set`` read and change what our managers have, and keep to their locks."""

    def setUp(self) -> None:
        super().setUp()
        temporary = tempfile.TemporaryDirectory(prefix="mqbroker-artemis-tool-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def instance(self, manager: str, more: str = "") -> None:
        additions = Additions(core=POLICY.format(manager=manager, more=more))
        ArtemisBroker(self.folder / "artemis", additions)

    def tool(self, *arguments: str) -> str:
        command = [str(self.folder / "artemis" / "bin" / "artemis"), "activation", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=tool_environment(), timeout=TOOL_SECONDS)
        return done.stdout + done.stderr

    def play(self, manager: LockManager, name: str, *node: str) -> None:
        """``node`` are the options that name the node ``name``; nothing is known of it yet."""
        self.take(manager, name)
        self.assertIn("lock is still held", self.tool("list", "--remote", *node))
        self.assertIn("lock is still held", self.tool("set", "--remote", "--to", "9", *node))
        self.have_it_changed(manager, name, *node)
        self.assertIn(f"Coordinated activation sequence for NodeID={name}: -10", self.tool("list", "--remote", *node))

    def take(self, manager: LockManager, name: str) -> None:
        manager.start(lambda reason: None)
        self.addCleanup(manager.stop)
        self.assertTrue(manager.try_lock(name))
        self.assertTrue(manager.change_number(name, 0, 5))

    def have_it_changed(self, manager: LockManager, name: str, *node: str) -> None:
        """The tool reads what the manager has written, and the manager what the tool has."""
        manager.unlock(name)
        self.assertIn(f"NodeID={name} from 5 to 9", self.tool("set", "--remote", "--to", "9", *node))
        self.assertEqual(manager.number(name), 9)
        self.assertTrue(manager.try_lock(name))
        self.assertTrue(manager.change_number(name, 9, -10))
        manager.unlock(name)

    def find(self, manager: LockManager, name: str, *node: str) -> None:
        """The manager and the tool mean the same node; :meth:`play` looks at the lock, too."""
        self.take(manager, name)
        self.have_it_changed(manager, name, *node)

    def test_on_nodes_of_zookeeper(self) -> None:
        self.instance(self.manager_xml(SESSION_MS))
        self.play(self.made(), NAME, "--node-id", NAME)

    def test_on_nodes_that_it_has_made_itself(self) -> None:
        self.instance(self.manager_xml(SESSION_MS))
        self.assertIn(f"NodeID={NAME} from 0 to 3", self.tool("set", "--remote", "--to", "3", "--node-id", NAME))
        manager = self.made()
        manager.start(lambda reason: None)
        self.addCleanup(manager.stop)
        self.assertTrue(manager.try_lock(NAME))
        self.assertTrue(manager.change_number(NAME, 3, -4))
        self.assertTrue(manager.change_number(NAME, -4, 4))

    def test_on_the_node_of_competing_primaries(self) -> None:
        self.instance(self.manager_xml(SESSION_MS), "<coordination-id>peer-journal-001</coordination-id>")
        self.find(self.made(), coordinated_name("peer-journal-001"))

    def test_on_the_files_of_a_shared_folder(self) -> None:
        locks = self.folder / "locks"
        locks.mkdir()
        properties = f'<properties><property key="{FOLDER}" value="{locks}"/></properties>'
        self.instance(f"<manager><class-name>{FILE[0]}</class-name>{properties}</manager>")
        self.play(make_lock_manager(LockManagerConfiguration(FILE[0], {FOLDER: str(locks)})), NAME, "--node-id", NAME)

    def test_on_the_folder_of_one_of_our_brokers(self) -> None:
        self.instance(self.manager_xml(SESSION_MS))
        journal = self.folder / "artemis" / "data" / "journal"
        journal.mkdir(parents=True)
        node_id = new_node_id(os.urandom)
        NodeLock(LocalFileSystem(), str(journal)).write_node_id(node_id)
        self.find(self.made(), node_id)

    def test_a_namespace_is_optional_for_us_and_for_it(self) -> None:
        self.instance(self.manager_xml(SESSION_MS).replace(f'<property key="namespace" value="{self.namespace}"/>', ""))
        self.assertNotIn("namespace", (self.folder / "artemis" / "etc" / "broker.xml").read_text())
        manager = make_lock_manager(LockManagerConfiguration(ZOOKEEPER[1], {"connect-string": self.ensemble.connect_string}))
        self.find(manager, NAME, "--node-id", NAME)
