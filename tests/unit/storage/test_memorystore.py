"""The store in memory."""

from __future__ import annotations

import os
from unittest import TestCase

from mqbroker.storage.memorystore import MemoryStore
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.support import LARGE, Rig, make_message


class MemoryStoreTests(TestCase):
    def test_everything_is_durable_at_once(self) -> None:
        store = MemoryStore(os.urandom)
        batch = store.begin()
        batch.acknowledge(1, make_message(store))
        ticket = store.commit(batch)
        self.assertEqual(store.synced, ticket)
        called: list[int] = []
        store.when_synced(ticket, called.append, 1)
        self.assertEqual(called, [1])

    def test_bodies_go_to_files_and_leave_none_behind(self) -> None:
        rig = Rig()
        rig.disk.open(f"{LARGE}/5.msg").close()
        writer = SimulatedDiskWriter()
        store = MemoryStore(os.urandom, (rig.disk, LARGE, writer))
        store.open()
        self.assertEqual(rig.disk.list(LARGE), [])
        body, other = store.create_large_body(6), store.create_large_body(7)
        body.append(b"x" * 1000)
        other.append(b"y")
        writer.run()
        self.assertEqual(rig.disk.list(LARGE), ["6.msg", "7.msg"])
        body.hold()
        body.release()
        writer.run()
        self.assertEqual(rig.disk.list(LARGE), ["6.msg", "7.msg"])
        body.release()
        writer.run()
        self.assertEqual(rig.disk.list(LARGE), ["7.msg"])
        stopped: list[bool] = []
        other.append(b"still on its way")
        store.stop(lambda: stopped.append(True))
        writer.run()
        self.assertEqual((rig.disk.list(LARGE), stopped), ([], [True]))

    def test_a_failing_disk_ends_it(self) -> None:
        rig = Rig()
        writer = SimulatedDiskWriter()
        reasons: list[str] = []
        store = MemoryStore(os.urandom, (rig.disk, LARGE, writer), reasons.append)
        rig.disk.fail("write", OSError(5, "broken"))
        body = store.create_large_body(6)
        body.append(b"x")
        writer.run()
        self.assertTrue(store.failed)
        self.assertEqual(len(reasons), 1)
        batch = store.begin()
        batch.acknowledge(1, make_message(store))
        self.assertGreater(store.commit(batch), store.synced)
