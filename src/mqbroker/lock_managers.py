"""The lock manager that a configuration names."""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.threads import ThreadedDiskWriter

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import LockManagerConfiguration, ReplicationConfiguration
    from mqbroker.ha.locks.contract import LockManager
    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.process.clocks import ReactorClock

FILE = (
    "org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager",
    "org.apache.activemq.artemis.quorum.file.FileBasedPrimitiveManager",
)
ZOOKEEPER = (
    "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager",
    "org.apache.activemq.artemis.quorum.zookeeper.CuratorDistributedPrimitiveManager",
)
"""Java's class names: the present one, and that of older versions."""


def make_lock_manager(configuration: LockManagerConfiguration) -> LockManager:
    """Raises ValueError, with a text that names the class, for a manager that cannot be used."""
    name = configuration.class_name or ZOOKEEPER[0]
    try:
        if name in FILE:
            from mqbroker.ha.locks.file_manager import FileLockManager

            return FileLockManager(configuration.properties, LocalFileSystem())
        if name in ZOOKEEPER:
            return _zookeeper(configuration)
        found: LockManager = _imported(name)(configuration.properties)
    except Exception as error:  # the operator's code may raise anything
        raise ValueError(f"the lock manager {name} cannot be used: {error}") from error
    return found


def session_seconds(configuration: LockManagerConfiguration) -> float | None:
    """How long the lock manager keeps the lock of a broker that it does not hear of; None where that is not known, or no time."""
    from mqbroker.ha.locks.zookeeper.properties import ZooKeeperProperties

    if (configuration.class_name or ZOOKEEPER[0]) not in ZOOKEEPER:
        return None
    try:
        return ZooKeeperProperties.parse(configuration.properties).session_ms / 1000
    except ValueError:
        return None  # the start says so


def make_lock_proof(policy: ReplicationConfiguration, clock: ReactorClock, reactor: Any) -> LockProof | None:
    """The lock manager of ``policy`` with a thread of its own; None without one.  Raises ValueError."""
    from mqbroker.ha.locks.coordination import coordinated_name
    from mqbroker.ha.locks.proof import LockProof

    if policy.manager is None:
        return None
    worker = ThreadedDiskWriter(reactor.callFromThread, "mqbroker-locks")
    shared_name = None if policy.coordination_id is None else coordinated_name(policy.coordination_id)
    return LockProof(make_lock_manager(policy.manager), worker, reactor.callFromThread, clock, shared_name)


def _zookeeper(configuration: LockManagerConfiguration) -> LockManager:
    from mqbroker.ha.locks.zookeeper.manager import ZooKeeperLockManager

    try:
        from mqbroker.zookeeper import connect
    except ImportError as error:
        raise ValueError(f"it needs kazoo: pip install 'mqbroker[zookeeper]' ({error})") from error
    return ZooKeeperLockManager(configuration.properties, connect, os.urandom, time.sleep)


def _imported(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise ValueError(
            f"expected {ZOOKEEPER[0]}, {FILE[0]}, or an import path package.module:Class of one of your own; Java classes cannot be run"
        )
    return getattr(import_module(module), name)
