"""The folder of several machines: what each of them sees, syncs and loses, and what a former holder may not do."""

from __future__ import annotations

import random
import unittest

from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.disk.filesystem import File
from tests.simulation.ha.folder import FolderView, FolderWatch
from tests.simulation.world import World
from tests.support.disk import SimulatedCrash, SimulatedDisk

FOLDER = "/data/journal"
PATH = f"{FOLDER}/file"


class FolderTests(unittest.TestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.disk = SimulatedDisk(random.Random(1))
        self.watch = FolderWatch(self.world)
        self.met: list[str] = []
        self.first, self.second = self.view("first"), self.view("second")

    def view(self, name: str) -> FolderView:
        return FolderView(self.disk, random.Random(name), name, name, self.watch, lambda operation, path: self.met.append(operation))

    def take(self, view: FolderView) -> None:
        Epoch(view, FOLDER, random.Random(view.name).randbytes).begin()

    def written(self, view: FolderView, data: bytes, path: str = PATH) -> File:
        file = view.open(path)
        file.write(0, data)
        return file

    def test_everybody_reads_what_anybody_has_written(self) -> None:
        self.take(self.first)
        self.written(self.first, b"abc")
        self.assertEqual((self.second.read(PATH), self.second.list(FOLDER)), (b"abc", ["file", "server.epoch"]))

    def test_what_a_former_holder_makes_is_left_for_the_next_start(self) -> None:
        self.take(self.first)
        self.written(self.first, b"abc")
        self.take(self.second)
        self.written(self.first, b"def", f"{FOLDER}/late")
        self.assertEqual(self.disk.not_removed, {f"{FOLDER}/late"})

    def test_a_machine_loses_only_what_it_has_written_and_not_synced(self) -> None:
        lost = 0
        for seed in range(20):
            self.setUp()
            self.first._rng = random.Random(seed)
            self.take(self.first)
            self.written(self.first, b"abc").sync()
            self.first.open(PATH).write(3, b"def")
            self.take(self.second)
            self.second.open(PATH).write(6, b"ghi")
            self.first.crash()
            content = self.second.read(PATH)
            self.assertEqual((content[:3], content[6:]), (b"abc", b"ghi"))
            lost += content[3:6] != b"def"
        self.assertTrue(0 < lost < 20)

    def test_a_sync_is_of_the_writes_of_the_own_machine(self) -> None:
        lost = 0
        for seed in range(20):
            self.setUp()
            self.take(self.first)
            self.written(self.first, b"abc")
            self.take(self.second)
            self.second.open(PATH).sync()
            self.first.sync_directory(FOLDER)
            copy = self.disk.copy(random.Random(seed))
            copy.crash()
            lost += copy.read(PATH) != b"abc"
        self.assertGreater(lost, 0)

    def test_a_lock_that_was_lost_is_not_released_again(self) -> None:
        lock = self.first.lock(PATH)
        assert lock is not None
        self.assertIsNone(self.second.lock(PATH))
        self.first.lose_locks()
        self.assertIsNotNone(self.second.lock(PATH))
        lock.release()
        self.assertEqual(self.disk.locks, {PATH})

    def test_a_process_that_has_ended_does_nothing(self) -> None:
        self.take(self.first)
        self.first.end_process()
        with self.assertRaises(SimulatedCrash):
            self.first.open(PATH)
        self.assertFalse(self.disk.exists(PATH))

    def test_a_former_holder_writes_to_files_of_its_own_only(self) -> None:
        self.take(self.first)
        own = self.written(self.first, b"abc")
        self.take(self.second)
        self.written(self.second, b"def", PATH + "2")
        own.write(3, b"x")
        self.assertEqual(self.world.violations, [])
        for wrong in (
            lambda: self.first.open(PATH + "2").write(0, b"x"),
            lambda: self.first.rename(PATH, PATH + "2"),
            lambda: self.view("third").open(PATH).write(0, b"x"),
            lambda: self.written(self.first, b"P", f"{FOLDER}/server.lock"),
        ):
            self.world.violations.clear()
            wrong()
            self.assertEqual(len(self.world.violations), 1)

    def test_who_was_held_up_after_its_look_at_the_epoch_cannot_know(self) -> None:
        epoch = Epoch(self.first, FOLDER, random.Random(1).randbytes)
        epoch.begin()
        epoch.check()
        self.take(self.second)
        self.written(self.first, b"P", f"{FOLDER}/server.lock")
        self.assertEqual(self.world.violations, [])

    def test_a_holder_acknowledges_only_what_it_has_synced_before_the_next_came(self) -> None:
        self.take(self.first)
        file = self.written(self.first, b"abc")
        file.sync()
        self.take(self.second)
        self.watch.acknowledged(self.first)
        self.assertEqual(self.world.violations, [])
        file.sync()
        self.watch.acknowledged(self.first)
        self.assertEqual(self.world.violations, ["first acknowledges what it has synced after second had taken the folder"])

    def test_an_epoch_that_was_lost_with_its_machine_was_none(self) -> None:
        self.take(self.first)
        self.second.open(f"{FOLDER}/server.epoch").write(0, b"x" * 24)
        self.assertEqual(len(self.watch.turns), 2)
        for seed in range(20):
            self.second._rng = random.Random(seed)
            self.second.crash()
        self.watch.power_lost(self.first.epoch)
        self.assertEqual([turn.view for turn in self.watch.turns], [self.first])
