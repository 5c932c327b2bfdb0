from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.ha.shared_store.folder import FolderLocks
from mqbroker.ha.shared_store.rows import RowLocks
from mqbroker.node.activation import ActiveAtOnce, Surroundings, make_activation
from mqbroker.node.stores import store_settings
from tests.support.beats import ClockBeat
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.unit.ha.shared_store.nodes import TimedDatabase


class Candidate:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def granted(self) -> None:
        self.told.append("granted")

    def lost(self, reason: str) -> None:
        self.told.append(reason)

    def give_way(self, again: bool) -> None:
        self.told.append(again)


def made(**policies: Any) -> Any:
    outside: Any = Surroundings(FakeClock(), bytes, None, lambda name: None, nullcontext(), None)  # type: ignore[arg-type]
    return make_activation(Configuration(**policies), outside)


class ActivationTests(SynchronousTestCase):
    def test_a_broker_without_a_policy_is_active_at_once(self) -> None:
        activation, candidate = made(), Candidate()
        self.assertIsInstance(activation, ActiveAtOnce)
        activation.seek(candidate)
        activation.hand_over()  # to nobody: it is an orderly stop as any other
        self.assertEqual((candidate.told, activation.role, activation.state), (["granted"], "primary", ""))

    def test_a_shared_store_is_waited_for_in_the_role_of_the_configuration(self) -> None:
        for backup, role in ((True, "backup"), (False, "primary")):
            activation = made(shared_store=SharedStoreConfiguration(backup=backup))
            self.assertEqual((activation.role, activation.state), (role, "idle"))

    def test_a_store_in_a_database_has_its_locks_there(self) -> None:
        database = TimedDatabase(":memory:", lambda: 0)
        outside: Any = Surroundings(
            FakeClock(),
            bytes,
            None,  # type: ignore[arg-type]
            lambda name: None,  # type: ignore[arg-type, return-value]
            nullcontext(),
            lambda function: function(),
            database=database,
            make_beat=lambda: ClockBeat(FakeClock()),
        )
        store = DatabaseStoreConfiguration("jdbc:sqlite:x.db", message_table="T")
        activation: Any = make_activation(Configuration(shared_store=SharedStoreConfiguration(False), database_store=store), outside)
        place = activation.claim(None, "", None)
        self.assertIsInstance(place._locks, RowLocks)
        self.assertEqual(place._locks._broker, "table T")
        folder = made(shared_store=SharedStoreConfiguration(False)).claim(SimulatedDisk(random.Random(1)), "/", None)
        self.assertIsInstance(folder._locks, FolderLocks)

    def test_a_copy_has_the_role_of_the_configuration_and_gets_a_file_system_that_tells(self) -> None:
        for backup, role in ((True, "backup"), (False, "primary")):
            activation = made(replication=ReplicationConfiguration(backup=backup))
            self.assertEqual((activation.role, activation.state), (role, ""))
            disk = SimulatedDisk(random.Random(1))
            settings = store_settings(BrokerSettings(Configuration(), Path("/")))
            self.assertIs(activation.files(disk, settings).inner, disk)

    def test_others_have_the_file_system_as_it_is_and_let_go_at_once(self) -> None:
        activation, done = made(), []
        disk: Any = object()
        self.assertIs(activation.files(disk, disk), disk)
        activation.serve(SimpleNamespace(cluster=None), disk, {})
        activation.leave()
        activation.let_go(lambda: done.append(1))
        self.assertEqual(done, [1])
