"""What a passive broker of a pair does with its data, and with those of the active one."""

from __future__ import annotations

from typing import Any

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof import copy_keeper
from mqbroker.ha.proof.copy_record import CopyState, write_record
from mqbroker.ha.replication import passive_side
from mqbroker.ha.replication.replica_machine import completing
from tests.unit.ha.replication.support import FOLDER, Node, PairCase, alone
from tests.unit.ha.replication.test_one_active import OneActiveCase


class KeptTests(OneActiveCase):
    def test_data_that_no_other_copy_has_are_kept_although_the_first_copy_fails(self) -> None:
        primary, _ = self.pair()
        backup = self.nodes.pop()
        backup.kill()
        self.run_until(lambda: primary.record.sequence == 2)
        write_record(backup.disk, FOLDER, backup.record.gave_up(diverged=True))
        empty, failures = passive_side.empty_folders, [OSError(28, "no space left on device")]

        def fail_once(*args: Any) -> None:
            if failures:
                raise failures.pop()
            empty(*args)

        self.patch(passive_side, "empty_folders", fail_once)
        again = self.node("backup", 2, 1, policy=ReplicationConfiguration(True, None, None, 0, retry_replication_wait=200))
        again.disk = backup.disk
        again.start()
        self.run_until(lambda: primary.replica_state == "in sync")
        self.assertEqual((failures, again.record.diverged), ([], False))
        self.assert_kept(again)


class LossTests(PairCase):
    def test_an_active_broker_that_dies_while_its_replica_notes_to_be_complete_is_followed(self) -> None:
        primary, backup = self.completing()
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.assertEqual((backup.record.sequence, backup.failures), (2, []))

    def test_an_active_broker_that_only_lost_the_connection_meanwhile_keeps_its_place(self) -> None:
        primary, backup = self.completing()
        for link in self.network.links:
            link.cut()
        self.run_until(lambda: primary.replica_state == "in sync")
        self.assertEqual((primary.state, backup.state, backup.activations), ("active", "passive", 0))
        self.assertEqual((primary.record.sequence, backup.record.sequence), (2, 2))

    def completing(self) -> tuple[Node, Node]:
        """The replica has everything, and its disk is not done with the record that says so."""
        primary = alone(self)
        backup = self.node("backup", 2, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200))
        backup.write_seconds = 0.1
        backup.start()
        self.run_until(lambda: primary.replica_state == completing.name)
        self.assertFalse(backup.record.complete)
        return primary, backup


class AnotherActiveTests(PairCase):
    def test_a_backup_that_was_down_when_another_one_took_over_follows_that_one(self) -> None:
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.replica_state == "in sync")
        backup.kill()
        self.run_until(lambda: primary.record.sequence == 2)
        other = self.node("other", 3, 1, 2, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.replica_state == "in sync")
        primary.kill()
        self.run_until(lambda: other.state == "active")
        backup.start()
        self.run_until(lambda: other.replica_state == "in sync")
        self.assertEqual((other.record.sequence, backup.record.sequence, backup.failures), (3, 3, []))


class FullDiskTests(PairCase):
    def test_a_replica_without_room_for_its_record_tries_again(self) -> None:
        primary, backup = self.pair(retry_replication_wait=200)
        backup.kill()
        self.run_until(lambda: primary.record.sequence == 2)
        write, failures = copy_keeper.write_record, [OSError(28, "no space left on device")] * 3

        def fail_at_first(*args: Any) -> None:
            if failures and args[2].state is CopyState.INCOMPLETE:
                raise failures.pop()
            write(*args)

        self.patch(copy_keeper, "write_record", fail_at_first)
        backup.start()
        self.run_until(lambda: primary.replica_state == "in sync")
        self.assertEqual((failures, backup.failures, backup.record.sequence), ([], [], 2))
