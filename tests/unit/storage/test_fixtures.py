"""Journals that earlier versions wrote are read."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.ports import BranchRecord, BranchState, RecoveredReference
from mqclient.storageformat.frames import FORMAT_VERSION
from mqclient.wire.primitives import Xid
from tests.unit.storage.make_fixture import FIXTURES, FOLDERS
from tests.unit.storage.support import Rig


class FixtureTests(TestCase):
    def test_there_is_one_of_this_version(self) -> None:
        self.assertTrue((FIXTURES / f"version-{FORMAT_VERSION}").is_dir())

    def rig_with(self, version: int) -> Rig:
        rig = Rig()
        for name, folder in FOLDERS.items():
            there = FIXTURES / f"version-{version}" / name
            for file in there.iterdir() if there.is_dir() else ():
                rig.disk.make_directory(folder)
                rig.disk.open(f"{folder}/{file.name}").write(0, file.read_bytes())
        return rig

    def test_version_1(self) -> None:
        self.check_version_1(self.rig_with(1), 0)

    def test_version_2(self) -> None:
        rig = self.rig_with(2)
        self.check_version_1(rig, 2)
        for recovered in (rig.restart(), rig.restart()):
            prepared, decided = recovered.branches
            branch_id = prepared.record.branch_id
            self.assertEqual(
                prepared.record,
                BranchRecord(
                    branch_id,
                    Xid(7, b"branch", b"%d" % branch_id),
                    BranchState.PREPARED,
                    1_700_000_000_000,
                    ((recovered.queues[0].queue_id, 1),),
                    (2, 3),
                ),
            )
            ((message, references),) = prepared.messages
            self.assertEqual(message.decoded().body, b"%d" % branch_id)
            self.assertEqual(references, [RecoveredReference(recovered.queues[0].queue_id, 0, 1_900_000_000_000)])
            self.assertEqual((decided.record.state, decided.messages), (BranchState.COMMITTED, []))
            committed = [message.decoded().body for message, _ in recovered.messages[-2:]]
            self.assertEqual(committed, [b"%d" % (branch_id + 1), b"%d" % decided.record.branch_id])

    def test_version_3(self) -> None:
        """Pages, plain and packed: two of 31 messages are acknowledged, one was tried four times and is delayed."""
        rig = self.rig_with(3)
        self.check_version_1(rig, 2, 4)
        for _ in range(2):
            recovered = rig.restart()
            assert rig.store.pager is not None
            (folder,) = rig.store.pager.folders()
            self.assertEqual(folder.address, "paged")
            left = {queue.name: queue.queue_id for queue in recovered.queues if queue.queue_id in folder.queue_ids()}
            self.assertEqual(set(left), {"p0", "p1"})
            for queue_id in left.values():
                self.assertEqual(folder.remaining(queue_id), 29)
                reader, messages = folder.reader(queue_id), []
                while (some := reader.read()) is not None:
                    messages += some
                second, *rest, large = messages
                self.assertEqual(
                    (second.message.decoded().body, second.delivery_count, second.scheduled), (b"1" * 50, 4, 1_900_000_000_000)
                )
                self.assertEqual([each.message.decoded().body for each in rest], [b"%d" % number * 50 for number in range(3, 30)])
                assert large.message.large is not None
                self.assertEqual(large.message.large.read(0, 1000), b"large" * 100)

    def check_version_1(self, rig: Rig, more: int, queues: int = 0) -> None:
        """Everything that there was in format 1, and ``more`` messages after it."""
        for recovered in (rig.start(), rig.restart()):
            self.assertEqual([(each.name, each.routing_types) for each in recovered.addresses], [("orders", {0, 1})])
            queue, other = recovered.queues[: len(recovered.queues) - queues]
            self.assertEqual((queue.name, queue.address, queue.routing_type, queue.filter_string), ("q", "orders", 1, "color = 'red'"))
            self.assertEqual(queue.attributes, {"exclusive": True, "max-consumers": -1})
            self.assertEqual((other.name, other.routing_type, other.filter_string, other.attributes), ("other", 0, None, {"user": "bob"}))
            self.assertEqual(recovered.settings, {("address-settings", "orders.#"): '{"maxSizeBytes":1000}'})
            self.assertEqual([each.duplicate_id for each in recovered.duplicate_ids], [b"dup-%d" % number for number in range(20)])
            *regular, large = recovered.messages[: len(recovered.messages) - more]
            numbers = [number for number in range(20) if number % 3 or number % 2 == 0]
            self.assertEqual([message.decoded().body for message, _ in regular], [b"%d" % number * 100 for number in numbers])
            for number, (message, references) in zip(numbers, regular, strict=True):
                self.assertEqual((message.address, message.priority, message.property("color")), ("orders", number % 10, "red"))
                expected = ([queue.queue_id] if number % 3 else []) + ([other.queue_id] if number % 2 == 0 else [])
                self.assertEqual([each.queue_id for each in references], expected)
            self.assertEqual(
                regular[numbers.index(2)][1],
                [RecoveredReference(queue.queue_id, 5, 0), RecoveredReference(other.queue_id, 0, 1_800_000_000_000)],
            )
            body = large[0].large
            assert body is not None
            self.assertEqual((large[0].address, body.read(0, 1000)), ("elsewhere", b"large" * 100))
