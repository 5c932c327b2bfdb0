"""Brokers that share a store, and the worlds in which they do: a folder or a database."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.life import BrokerLife
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.filesystem import FileLock
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, Row
from mqbroker.storage.sql.schema import table
from tests.support.beats import ClockBeat
from tests.support.clock import START_MS, FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns
from tests.support.parts import KnownListeners, make_parts

EXPIRATION_MS = 60_000


class OneProcess:
    """The disk as one of several processes sees it, whose locks end with it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._locks: list[FileLock] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def lock(self, path: str, patience: float = 0.0) -> FileLock | None:
        lock = self._disk.lock(path)
        if lock is not None:
            self._locks.append(lock)
        return lock

    def lose_locks(self) -> None:
        for lock in self._locks:
            lock.release()


class KnownPresence:
    """Knows what the cluster is told."""

    def __init__(self) -> None:
        self.shown = ""
        self.other = False

    def show(self, node_id: str) -> None:
        self.shown = node_id

    def hide(self) -> None:
        self.shown = ""

    def other_backup(self) -> bool:
        return self.other


class World(Protocol):
    """Where brokers have their store."""

    def configure(self, configuration: Configuration) -> None:
        """Say where the store is."""

    def files(self) -> Any:
        """The disk of one more process."""

    def parts(self, clock: FakeClock) -> dict[str, Any]:
        """What an activation needs beside the clock of its process."""

    def kill(self, node: Node) -> None:
        """The process is no more; what it holds may be had."""

    def state(self) -> bytes: ...


class FolderWorld:
    """A folder on a disk that all reach."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))

    def configure(self, configuration: Configuration) -> None:
        """In the folders of each configuration."""

    def files(self) -> OneProcess:
        return OneProcess(self.disk)

    def parts(self, clock: FakeClock) -> dict[str, Any]:
        return {}

    def kill(self, node: Node) -> None:
        node.files.lose_locks()

    def state(self) -> bytes:
        return NodeLock(self.disk, "/data/journal").state()


class TimedDatabase(SqliteDatabase):
    """A database whose time the test decides."""

    now = "test_now()"

    def __init__(self, path: str, wall_ms: Callable[[], int]) -> None:
        super().__init__(path)
        self._wall_ms = wall_ms
        self.away = False
        """Does nobody answer?"""

    def connect(self) -> Connection:
        if self.away:
            raise DatabaseAwayError("nobody answers")
        connection = super().connect()
        connection._connection.create_function("test_now", 0, self._wall_ms)  # type: ignore[attr-defined]
        return AnsweringConnection(self, connection)


class AnsweringConnection:
    """A connection to a database that may be away."""

    def __init__(self, database: TimedDatabase, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    def begin(self) -> None:
        self._ask().begin()

    def commit(self) -> None:
        self._ask().commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._ask().rows(statement, parameters)

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        return self._ask().run(statement, parameters)

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        self._ask().run_many(statement, parameters)

    def close(self) -> None:
        self._connection.close()

    def _ask(self) -> Connection:
        if self._database.away:
            raise DatabaseAwayError("nobody answers")
        return self._connection


class DatabaseWorld:
    """A database, whose time passes when that of some process does."""

    def __init__(self, add_cleanup: Callable[..., object]) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-pair-")
        add_cleanup(folder.cleanup)
        self._clocks: list[FakeClock] = []
        self.database = TimedDatabase(str(Path(folder.name) / "pair.db"), self._wall_ms)
        self._connection = self.database.connect()
        add_cleanup(self._connection.close)

    def _wall_ms(self) -> int:
        return START_MS + round(1000 * sum(clock.seconds for clock in self._clocks))

    def configure(self, configuration: Configuration) -> None:
        # The lease lasts: who is killed loses it, and not who is slow.
        configuration.database_store = DatabaseStoreConfiguration("jdbc:sqlite:pair.db", lock_expiration=EXPIRATION_MS)

    def files(self) -> SimulatedDisk:
        return SimulatedDisk(random.Random(1))

    def parts(self, clock: FakeClock) -> dict[str, Any]:
        self._clocks.append(clock)
        return {"database": self.database, "make_beat": lambda: ClockBeat(clock)}

    def kill(self, node: Node) -> None:
        if node.state == "active":
            self._connection.run(table("UPDATE {lease} SET expires = 0 WHERE name = 'primary'"))

    def state(self) -> bytes:
        return str(self._connection.rows(table("SELECT state FROM {pair}"))[0][0]).encode()


class Node:
    """One broker, with a clock of its own: what stands still is stopped."""

    def __init__(
        self, world: World, seed: int, policy: SharedStoreConfiguration, timeout_ms: int = -1, problem: Exception | None = None
    ) -> None:
        self.clock = FakeClock()
        self.files = world.files()
        self.presence = KnownPresence()
        self.failures: list[str] = []
        self.stops_wanted = 0
        self.activations = 0
        self.writers: list[WriterInTurns] = []
        configuration = Configuration(security_enabled=False, name="b", shared_store=policy, journal_lock_acquisition_timeout=timeout_ms)
        world.configure(configuration)
        entropy = random.Random(seed).randbytes
        more = world.parts(self.clock)
        outside = Surroundings(
            self.clock, entropy, self.presence, _no_side, nullcontext(), lambda function: self.clock.call_later(0, function), **more
        )
        self.activation: Any = make_activation(configuration, outside)
        parts = make_parts(
            self.clock,
            self.files,
            make_writer=self._make_writer,
            activation=self.activation,
            entropy=random.Random(seed).randbytes,
            make_listeners=lambda server: KnownListeners(server, problem),
            database=more.get("database"),
        )
        settings = BrokerSettings(configuration, Path("/"))
        self.life = BrokerLife(settings, parts, self.failures.append, self._stop_wanted, self._activated)

    def _make_writer(self, in_turn: Any) -> WriterInTurns:
        self.writers.append(WriterInTurns(in_turn))
        return self.writers[-1]

    def _stop_wanted(self) -> None:
        self.stops_wanted += 1

    def _activated(self) -> None:
        self.activations += 1

    @property
    def state(self) -> str:
        return self.life.state

    def run(self, seconds: float = 0.0) -> None:
        end = self.clock.seconds + seconds
        while True:
            for writer in self.writers:
                writer.run()
            self.clock.advance(0)
            if any(writer.waiting for writer in self.writers) or self.clock.due:
                continue
            if self.clock.seconds >= end:
                return
            self.clock.advance(min(0.1, end - self.clock.seconds))

    def stop(self) -> bool:
        done = self.life.stop()
        self.run()
        return bool(done.called)

    def queue(self, name: str) -> None:
        queue = QueueConfiguration(name=name, address=name, routing_type=1, durable=True)
        messaging = self.life.active.messaging
        messaging.core.turn.run(messaging.administration.create_queue, queue)
        self.run()

    def queues(self) -> set[str]:
        return {name for name in self.life.active.messaging.core.queues if not name.startswith("$")}


def primary(**options: Any) -> SharedStoreConfiguration:
    return SharedStoreConfiguration(False, **options)


def backup(**options: Any) -> SharedStoreConfiguration:
    return SharedStoreConfiguration(True, **options)


def _no_side(name: str | None) -> Any:
    raise AssertionError("nobody asks other brokers")


class NodeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = self.make_world()
        self.seed = 0

    def make_world(self) -> World:
        return FolderWorld()

    def node(self, policy: SharedStoreConfiguration, **options: Any) -> Node:
        self.seed += 1
        node = Node(self.world, self.seed, policy, **options)
        node.life.start()
        node.run(1.0)
        return node

    def kill(self, node: Node) -> None:
        self.world.kill(node)

    def state(self) -> bytes:
        """What the store says of its brokers."""
        return self.world.state()
