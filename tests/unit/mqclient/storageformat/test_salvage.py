"""What a salvage prints of a segment."""

from __future__ import annotations

import random
from unittest import TestCase

from mqbroker.storage.files.recover import salvage
from mqclient.storageformat.errors import Loss
from mqclient.storageformat.frames import HEADER_SIZE, KIND_BINDINGS, KIND_MESSAGES
from mqclient.storageformat.records import AcknowledgeRecord, BindingRecord, MessageRecord
from mqclient.storageformat.salvage import JournalRecord, journal_records
from tests.support.disk import SimulatedDisk
from tests.unit.storage.support import BINDINGS, JOURNAL, Rig, ids


class PrintTests(TestCase):
    def test_every_record_is_shown_with_its_place(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        message = rig.add(queue)
        rig.acknowledge(queue, message)
        rig.stop()
        shown = list(journal_records(rig.disk, JOURNAL, KIND_MESSAGES))
        records = [each.record for each in shown if isinstance(each, JournalRecord)]
        self.assertEqual(len(records), len(shown))
        self.assertEqual([each.message_id for each in records if isinstance(each, MessageRecord)], [message.message_id])
        self.assertIn(AcknowledgeRecord(queue, message.message_id), records)
        bindings = [each.record for each in journal_records(rig.disk, BINDINGS, KIND_BINDINGS) if isinstance(each, JournalRecord)]
        self.assertEqual([each.value["name"] for each in bindings if isinstance(each, BindingRecord)], ["q"])

    def test_damage_is_shown_where_it_is(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        rig.add(queue)
        rig.stop()
        path = f"{JOURNAL}/{rig.files()[0]}"
        rig.disk.flip_bit(path, HEADER_SIZE + 20)
        first = next(iter(journal_records(rig.disk, JOURNAL, KIND_MESSAGES)))
        assert isinstance(first, Loss)
        self.assertEqual((first.file, first.offset), (path, HEADER_SIZE))

    def test_an_empty_folder_shows_nothing(self) -> None:
        disk = SimulatedDisk(random.Random(1))
        self.assertEqual(list(journal_records(disk, JOURNAL, KIND_MESSAGES)), [])
        self.assertEqual(ids(salvage(disk, Rig().settings).recovered), [])
        self.assertIsNone(salvage(disk, Rig().settings).node_id)
