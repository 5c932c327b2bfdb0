"""The class names of lock managers: Java's mean ours, an import path one of your own, and any other is refused by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import LockManagerConfiguration, ReplicationConfiguration
from mqbroker.ha.locks.contract import LockManager
from mqbroker.ha.locks.file_manager import FileLockManager
from mqbroker.ha.locks.proof import LockProof
from mqbroker.ha.locks.zookeeper.manager import ZooKeeperLockManager
from mqbroker.lock_managers import FILE, ZOOKEEPER, make_lock_manager, make_lock_proof
from tests.support.locks import LockService, MemoryLockManager


class Own(MemoryLockManager):
    """A manager of somebody else's."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(LockService())
        if "colour" in properties:
            raise ValueError("the property colour is unknown")


class MakeTests(SynchronousTestCase):
    def refused(self, name: str | None, **properties: str) -> str:
        return str(self.assertRaises(ValueError, make_lock_manager, LockManagerConfiguration(name, properties)))

    def made(self, name: str, properties: dict[str, str]) -> LockManager:
        return make_lock_manager(LockManagerConfiguration(name, properties))

    def test_both_names_of_the_file_manager(self) -> None:
        for name in FILE:
            self.assertIsInstance(self.made(name, {"locks-folder": "/locks"}), FileLockManager)

    def test_an_import_path(self) -> None:
        self.assertIsInstance(self.made(f"{__name__}:Own", {"size": "1"}), Own)

    def test_a_property_that_is_unknown(self) -> None:
        self.assertIn(f"the lock manager {FILE[0]} cannot be used: the property x is unknown", self.refused(FILE[0], x="1"))
        self.assertIn("Own cannot be used: the property colour is unknown", self.refused(f"{__name__}:Own", colour="red"))

    def test_zookeeper_is_the_default(self) -> None:
        for name in (None, *ZOOKEEPER):
            self.assertIsInstance(make_lock_manager(LockManagerConfiguration(name, {"connect-string": "a,b,c"})), ZooKeeperLockManager)
            self.assertIn(f"{name or ZOOKEEPER[0]} cannot be used: the property connect-string is missing", self.refused(name))

    def test_zookeeper_without_its_client(self) -> None:
        with mock.patch.dict(sys.modules, {"mqbroker.zookeeper": None}):
            found = make_lock_manager, LockManagerConfiguration(None, {"connect-string": "a"})
            self.assertIn("it needs kazoo: pip install 'mqbroker[zookeeper]'", str(self.assertRaises(ValueError, *found)))

    def test_any_other_class_is_refused_by_name(self) -> None:
        for name in ("org.foo.MyQuorumVotingPlugin", "Own", ":Own", "module:"):
            self.assertIn(
                f"the lock manager {name} cannot be used: expected {ZOOKEEPER[0]}, {FILE[0]}, or an import path", self.refused(name)
            )
        self.assertIn("the lock manager nowhere:Own cannot be used: No module named", self.refused("nowhere:Own"))
        self.assertIn("has no attribute", self.refused(f"{__name__}:Nobody"))

    def test_the_manager_has_a_thread_of_its_own(self) -> None:
        clock: Any = None
        reactor: Any = type("Reactor", (), {"callFromThread": lambda *args: None})()
        policy = ReplicationConfiguration(False, manager=LockManagerConfiguration(f"{__name__}:Own"))
        proof = make_lock_proof(policy, clock, reactor)
        assert isinstance(proof, LockProof)
        self.assertIsNone(proof._shared_name)
        competing = make_lock_proof(replace(policy, coordination_id="peer-1"), clock, reactor)
        assert competing is not None
        self.assertEqual(competing._shared_name, "peer.1")
        self.assertIsNone(make_lock_proof(ReplicationConfiguration(False), clock, reactor))
