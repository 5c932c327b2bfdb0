"""A pair of processes whose sequences come from the lock manager on a shared disk."""

from __future__ import annotations

from mqbroker.ha.locks.file_manager import FOLDER, FileLockManager
from mqbroker.lock_managers import FILE
from mqbroker.process.localfs import LocalFileSystem
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.replicated_pair import FAIL_BACK, IN_SYNC, ReplicatedPairCase


class LockManagerTests(FollowingClients, ReplicatedPairCase):
    def setUp(self) -> None:
        super().setUp()
        self.locks = self.folder / "locks"
        self.locks.mkdir()

    def configuration(self, name: str) -> str:
        manager = (
            f'<manager><class-name>{FILE[0]}</class-name><properties><property key="{FOLDER}" value="{self.locks}"/></properties></manager>'
        )
        return super().configuration(name).replace("<replication>", f"<replication>{manager}")

    @property
    def number(self) -> int:
        [name] = [path.name for path in self.locks.iterdir() if not path.name.startswith("ML:")]
        return FileLockManager({FOLDER: str(self.locks)}, LocalFileSystem()).number(name)

    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        self.options = FAIL_BACK
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        self.assertEqual(self.number, 1)
        self.lose_the_primary_under_load(primary, backup, self.start)
        self.assertEqual(self.number, 3)

    def test_a_backup_with_the_newest_data_starts_alone_and_the_primary_follows(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        primary.wait_for(IN_SYNC)
        session = self.connect("primary").create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        primary.hold_up()
        backup.kill()
        primary.kill()
        self.start("backup", "AMQ221010")
        self.start("primary", IN_SYNC)
        self.assertEqual(self.received("backup"), ["kept"])

    def test_without_its_lock_manager_a_broker_waits(self) -> None:
        self.locks.rmdir()
        primary = self.start("primary", "does not exist")
        self.locks.mkdir()
        primary.wait_for("AMQ221007")
