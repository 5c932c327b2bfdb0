"""What a passive broker of a pair does with its data, and with those of the active one."""

from __future__ import annotations

from typing import Any

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof.copy_record import write_record
from mqbroker.ha.replication import passive_side
from tests.unit.ha.replication.support import FOLDER
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
