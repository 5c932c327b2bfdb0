"""A copy of files that change meanwhile: in the end both sides have the same."""

from __future__ import annotations

import random
from contextlib import nullcontext
from unittest import TestCase, mock

from mqbroker.storage.mirror import copying
from mqbroker.storage.mirror.changes import ChangeDecoder, Close, MakeDirectory, Open, Remove, Sync, SyncDirectory, Write
from mqbroker.storage.mirror.copying import Copy
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.outgoing import Outgoing
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.mirror.support import ROOTS, forbidden

PIECE = 64
DIRECTORIES = ("/data/journal", "/data/bindings", "/data/large-messages")


class Rig:
    """Files, a copy of them, and a second disk; small pieces, so that much happens in between."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk, self.other = SimulatedDisk(self.rng), SimulatedDisk(self.rng)
        for disk in (self.disk, self.other):
            for root in ROOTS:
                disk.make_directory(ROOTS.path(root))
                disk.sync_directory("/data")
        self.mirrored = MirroredFileSystem(self.disk, ROOTS, nullcontext())
        self.open: dict[str, object] = {}
        self.number = 0
        self.failures: list[str] = []
        self.writer = SimulatedDiskWriter()
        self.folder = ReplicaFolder(self.other, ROOTS, self.writer, lambda: None, lambda number: None, self.failures.append)
        self.outgoing = Outgoing(lambda function: function(), lambda: None)
        self.copy = Copy(self.mirrored, self.outgoing)

    def pass_on(self) -> bytes:
        raw = b"".join(map(bytes, self.outgoing.take()))
        self.folder.take(raw)
        self.writer.run()
        assert not self.failures, self.failures
        return raw

    def write(self, path: str, size: int) -> None:
        file = self.mirrored.open(path)
        file.write(0, self.rng.randbytes(size))
        file.close()

    def names(self) -> list[str]:
        return [path for path in self.disk.files() if "server" not in path]

    def new_name(self, like: str = "") -> str:
        self.number += 1
        directory = like.rpartition("/")[0]
        if not directory:
            folders = [f"/data/paging/{name}" for name in self.disk.list("/data/paging")]
            directory = self.rng.choice((*DIRECTORIES, *folders))
        return f"{directory}/{self.number % 12}"

    def do_something(self) -> None:
        rng, names = self.rng, self.names()
        what = rng.randrange(9)
        if what <= 1:
            path = self.new_name()
            if len(self.open) < 6:
                self.open[f"{path} {self.number}"] = self.mirrored.open(path)
        elif what == 2 and self.open:
            self.open.pop(rng.choice(sorted(self.open))).close()  # type: ignore[attr-defined]
        elif what <= 4 and self.open:
            file = self.open[rng.choice(sorted(self.open))]
            file.write(rng.randrange(300), rng.randbytes(rng.randrange(1, 200)))  # type: ignore[attr-defined]
            if rng.random() < 0.3:
                file.sync()  # type: ignore[attr-defined]
        elif what == 5 and names:
            path = rng.choice(names)
            self.mirrored.rename(path, self.new_name(path if rng.random() < 0.7 else ""))
        elif what == 6 and names:
            self.mirrored.remove(rng.choice(names))
        elif what == 7:
            folder = f"/data/paging/q-{rng.randrange(4)}"
            if folder.rpartition("/")[2] not in self.disk.list("/data/paging"):
                self.mirrored.make_directory(folder)
            elif not self.disk.list(folder):
                self.mirrored.remove_directory(folder)
        elif self.open:
            self.open[rng.choice(sorted(self.open))].allocate(rng.randrange(400))  # type: ignore[attr-defined]

    def begin(self) -> None:
        self.mirrored.attach(self.copy)

    def finish(self) -> None:
        while not self.copy.end:
            self.copy.step()
        self.pass_on()

    def copied(self) -> dict[str, bytes]:
        return self.other.files()


class CopyTests(TestCase):
    def test_both_sides_have_the_same_whatever_happens_meanwhile(self) -> None:
        with mock.patch.object(copying, "PIECE", PIECE), mock.patch.object(copying, "SYNC_BYTES", 3 * PIECE):
            for seed in range(200):
                rig = Rig(seed)
                for _ in range(rig.rng.randrange(40)):
                    rig.do_something()
                rig.begin()
                while not rig.copy.end:
                    rig.copy.step()
                    for _ in range(rig.rng.choice((0, 1, 2))):
                        rig.do_something()
                    rig.pass_on()
                self.check(rig, seed)

    def test_what_changes_after_the_copy_is_told(self) -> None:
        for seed in range(50):
            rig = Rig(seed)
            rig.begin()
            rig.finish()
            for _ in range(60):
                rig.do_something()
            rig.pass_on()
            self.check(rig, seed)

    def check(self, rig: Rig, seed: int) -> None:
        files = {path: content for path, content in rig.disk.files().items() if "server" not in path}
        self.assertEqual(rig.copied(), files, f"seed {seed}")
        self.assertEqual(rig.other.list("/data/paging"), rig.disk.list("/data/paging"))

    def test_a_power_failure_after_the_copy_takes_nothing(self) -> None:
        rig = Rig(1)
        rig.mirrored.make_directory("/data/paging/q")
        for path in ("/data/journal/a", "/data/paging/q/b", "/data/large-messages/c"):
            rig.write(path, 100)
        rig.begin()
        rig.finish()
        rig.other.crash()
        self.assertEqual(rig.copied(), rig.disk.files())

    def test_it_is_told_in_pieces_and_synced_now_and_then(self) -> None:
        rig = Rig(1)
        rig.write("/data/journal/a", 5 * PIECE + 1)
        rig.begin()
        rig.pass_on()
        with mock.patch.object(copying, "PIECE", PIECE), mock.patch.object(copying, "SYNC_BYTES", 2 * PIECE):
            told = []
            while not rig.copy.end:
                rig.copy.step()
                told.append(b"".join(map(bytes, rig.outgoing.take())))
        decoder = ChangeDecoder()
        list(decoder.feed(b"\x01\x01"))
        kinds = [[type(change) for change in decoder.feed(each)] for each in told if each]
        self.assertEqual(kinds[0], [Open, Write])
        self.assertEqual(kinds[1:], [[Write, Sync], [Write], [Write, Sync], [Write], [Write, Sync, Close, *4 * [SyncDirectory]]])
        self.assertEqual((rig.copy.done, rig.copy.all), (5 * PIECE + 1, 5 * PIECE + 1))

    def test_a_step_has_few_files(self) -> None:
        rig = Rig(1)
        for number in range(100):
            rig.write(f"/data/large-messages/{number}.msg", 1)
        rig.begin()
        steps = 0
        while not rig.copy.end:
            rig.copy.step()
            opened = b"".join(map(bytes, rig.outgoing.take())).count(b"large-messages/")
            self.assertLess(opened, 20)
            steps += 1
        self.assertGreater(steps, 6)

    def test_a_file_that_goes_before_its_turn_is_left_out(self) -> None:
        rig = Rig(1)
        rig.write("/data/journal/a", 100)
        rig.write("/data/journal/b", 100)
        rig.begin()
        rig.pass_on()
        rig.mirrored.remove("/data/journal/b")
        rig.mirrored.remove("/data/journal/a")
        self.assertEqual(rig.outgoing.take(), [])
        rig.finish()
        self.assertEqual((rig.copied(), rig.copy.all), ({}, 0))

    def test_a_file_that_goes_in_the_middle_is_removed_there(self) -> None:
        rig = Rig(1)
        rig.write("/data/journal/a", 3 * PIECE)
        rig.begin()
        with mock.patch.object(copying, "PIECE", PIECE):
            while not rig.copy.done:
                rig.copy.step()
            rig.pass_on()
            self.assertEqual(list(rig.copied()), ["/data/journal/a"])
            rig.mirrored.remove("/data/journal/a")
            rig.finish()
        self.assertEqual((rig.copied(), rig.other.open_files), ({}, 0))

    def test_what_the_broker_alone_has_and_what_is_of_others_is_not_copied(self) -> None:
        rig = Rig(1)
        for path in ("/data/journal/server.lock", "/data/journal/a\\b", "/data/journal/a"):
            rig.disk.open(path).write(0, b"x")
        rig.disk.make_directory("/data/journal/oldreplica.1")
        rig.disk.make_directory("/data/journal/lost+found")
        rig.begin()
        rig.finish()
        self.assertEqual(rig.copied(), {"/data/journal/a": b"x"})

    def test_a_folder_of_the_disk_itself_is_not_looked_into(self) -> None:
        rig = Rig(1)
        for directory in ("journal", "paging"):
            rig.disk.make_directory(f"/data/{directory}/lost+found")
        rig.disk.open("/data/journal/a").write(0, b"x")
        with forbidden(rig.disk):
            rig.begin()
            rig.finish()
        self.assertEqual(rig.copied(), {"/data/journal/a": b"x"})
        self.assertFalse(rig.other.exists("/data/paging/lost+found"))

    def test_files_where_folders_are_expected_are_of_others(self) -> None:
        rig = Rig(1)
        rig.begin()
        with mock.patch.object(SimulatedDisk, "list", side_effect=NotADirectoryError(20, "not a directory")):
            self.assertEqual(rig.copy._names("paging"), [])

    def test_a_file_that_vanishes_by_itself_is_left_out(self) -> None:
        rig = Rig(1)
        rig.write("/data/journal/a", 10)
        rig.write("/data/journal/b", 10)
        rig.begin()
        rig.disk.fail("read", FileNotFoundError(2, "no such file"))
        with mock.patch.object(SimulatedDisk, "size", side_effect=[FileNotFoundError(2, "no such file"), 10]):
            rig.finish()
        self.assertEqual((rig.copied(), rig.copy.all), ({}, 0))

    def test_an_open_file_that_is_gone_is_not_told_of(self) -> None:
        rig = Rig(1)
        file = rig.mirrored.open("/data/journal/a")
        rig.mirrored.remove("/data/journal/a")
        rig.begin()
        rig.finish()
        number = rig.outgoing.number
        file.write(0, b"x")
        file.sync()
        file.close()
        self.assertEqual(rig.outgoing.number, number)

    def test_a_copy_begins_with_the_folders_and_what_is_open(self) -> None:
        rig = Rig(1)
        rig.mirrored.make_directory("/data/paging/q")
        rig.mirrored.open("/data/journal/a")
        rig.begin()
        changes = list(ChangeDecoder().feed(rig.pass_on()))
        folders = ["bindings", "journal", "large-messages", "paging", "paging/q"]
        self.assertEqual(changes[1:], [*map(MakeDirectory, folders), Open(1, "journal/a")])
        rig.write("/data/journal/b", 1)
        rig.mirrored.remove("/data/journal/b")
        self.assertEqual(rig.copied(), {"/data/journal/a": b""})
        decoder = ChangeDecoder()
        list(decoder.feed(b"\x01\x01"))
        self.assertEqual(list(decoder.feed(rig.pass_on()))[-1], Remove("journal/b"))
