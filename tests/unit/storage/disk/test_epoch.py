"""``server.epoch``: the last one who took a folder, and how the one before finds out."""

from __future__ import annotations

import random
import struct

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.errors import FencedError
from tests.support.disk import SimulatedDisk

NODE = "01234567-89ab-4cde-8f01-23456789abcd"


class EpochTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rng = random.Random(1)
        self.disk = SimulatedDisk(self.rng)
        self.disk.make_directory("/lock")
        self.disk.sync_directory("/")
        self.first, self.second = self.epoch(), self.epoch()

    def epoch(self) -> Epoch:
        return Epoch(self.disk, "/lock", self.rng.randbytes)

    def test_each_one_that_takes_the_folder_raises_it(self) -> None:
        self.first.begin()
        self.first.check()
        self.second.begin()
        self.second.check()
        self.assertEqual((self.first.number, self.second.number), (1, 2))
        self.assertNotEqual(self.first.token, self.second.token)

    def test_a_former_one_finds_out(self) -> None:
        self.first.begin()
        self.second.begin()
        self.assertIn("another broker has taken this folder", str(self.assertRaises(FencedError, self.first.check)))

    def test_of_two_that_take_it_at_once_one_has_it(self) -> None:
        """They have read the same number; the later write stays."""
        self.first.begin()
        self.disk.remove("/lock/server.epoch")
        self.second.begin()
        self.assertEqual((self.first.number, self.second.number), (1, 1))
        self.second.check()
        self.assertRaises(FencedError, self.first.check)

    def test_who_has_not_taken_it_has_none(self) -> None:
        self.first.begin()
        self.assertRaises(FencedError, self.second.check)

    def test_a_file_that_is_gone_or_cannot_be_read_is_an_end(self) -> None:
        self.first.begin()
        self.disk.fail("read", OSError(116, "stale file handle"))
        self.assertIn("cannot be read", str(self.assertRaises(FencedError, self.first.check)))
        self.disk.remove("/lock/server.epoch")
        self.assertRaises(FencedError, self.first.check)

    def test_it_survives_a_crash_of_the_machine(self) -> None:
        self.first.begin()
        self.disk.crash()
        self.second.begin()
        self.assertEqual(self.second.number, 2)

    def test_a_torn_file_does_not_keep_anybody_out(self) -> None:
        file = self.disk.open("/lock/server.epoch")
        file.write(0, struct.pack(">Q", 7))
        self.first.begin()
        self.first.check()
        self.assertEqual(self.first.number, 1)

    def test_a_broker_that_does_not_share_the_folder_fences_whoever_did(self) -> None:
        self.first.begin()
        OwnFolder(self.disk, "/lock").open(lambda: NODE)
        self.assertRaises(FencedError, self.first.check)
