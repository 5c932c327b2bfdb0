"""Old segments go: when they are dead, and when little of them is live."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from mqbroker.messaging.ports import RecoveredReference
from mqbroker.storage.files.journal.compaction import Compactor
from mqbroker.storage.files.journal.maintenance import Maintenance
from mqbroker.storage.files.recover import read_folder
from tests.unit.storage.support import Rig, ids, make_message


def started(**changes: Any) -> tuple[Rig, int]:
    rig = Rig(**changes)
    rig.start()
    queue = rig.queue()
    rig.settle()
    return rig, queue


class CompactionTests(TestCase):
    def test_few_live_messages_are_moved_out_of_the_way(self) -> None:
        rig, queue = started(journal_compact_min_files=4, journal_compact_percentage=30)
        kept = []
        for number in range(200):
            message = rig.add(queue, body=bytes(500))
            if number % 20:
                rig.acknowledge(queue, message)
            else:
                kept.append(message.message_id)
            rig.settle()
        self.assertLessEqual(len(rig.files()), 8)
        self.assertEqual(ids(rig.restart()), kept)

    def test_without_compaction_they_stay(self) -> None:
        rig, queue = started(journal_compact_min_files=0)
        for number in range(200):
            message = rig.add(queue, body=bytes(500))
            if number % 20:
                rig.acknowledge(queue, message)
            rig.settle()
        self.assertGreater(len(rig.files()), 20)

    def test_what_is_mostly_live_is_left_alone(self) -> None:
        rig, queue = started(journal_compact_min_files=2, journal_compact_percentage=30)
        rig.add(queue, body=bytes(500))
        rig.settle()
        first = rig.files()[0]
        for number in range(100):
            message = rig.add(queue, body=bytes(500))
            if number % 2:
                rig.acknowledge(queue, message)
            rig.settle()
        self.assertEqual(rig.files()[0], first)

    def test_counts_schedules_and_duplicate_ids_are_moved_too(self) -> None:
        rig, queue = started(journal_compact_min_files=2, journal_compact_percentage=50)
        other = rig.queue("other")
        message = rig.add(queue, other, body=b"kept")
        record_id = rig.store.next_id()
        batch = rig.store.begin()
        batch.delivery_count(queue, message, 4)
        batch.schedule(other, message, 99)
        batch.add_duplicate_id("a", b"dup", record_id)
        rig.store.commit(batch)
        first = rig.files()[0]
        for _ in range(60):
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        self.assertNotIn(first, rig.files())
        for recovered in (rig.restart(), rig.crash()):
            self.assertEqual(recovered.messages[0][1], [RecoveredReference(queue, 4, 0), RecoveredReference(other, 0, 99)])
            self.assertEqual([(entry.record_id, entry.duplicate_id) for entry in recovered.duplicate_ids], [(record_id, b"dup")])

    def test_what_is_moved_of_a_page_counts_the_messages_that_it_gets_at_that_moment(self) -> None:
        """Room for what is moved may be in the next group only: then the open one has said of the page how far it goes."""
        rig, queue = started(journal_compact_min_files=0)
        store, journal = rig.store, rig.store._journal
        assert store.pager is not None
        folder = store.pager.folder("paged")
        paged = []

        def page() -> None:
            message = make_message(store, bytes(20))
            paged.append(message.message_id)
            batch = store.begin()
            batch.add_paged(folder, message, [queue], [queue], 100_000)
            store.commit(batch)

        page()
        kept = rig.add(queue, body=bytes(2000))
        rig.settle()
        segment = next(each for each in journal.messages.segments if kept in each.live)
        while segment is journal.messages.current:
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        maintenance = Maintenance(journal, store._index, store, rig.writer, rig.clock)
        compactor = Compactor(journal, store._index, store, maintenance, rig.clock, rig.settings, store.encoded_addresses)
        page()
        while journal.group.size + 2000 <= journal.group.limit:
            rig.add(queue, body=bytes(100))
        group = journal.group
        compactor._move_messages(segment)
        self.assertIsNot(journal.group, group)
        rig.settle()
        rig.disk.end_process()
        found = {message.message_id for message, _ in read_folder(rig.disk, rig.settings).messages}
        self.assertEqual(sorted({*paged, kept.message_id} - found), [])

    def test_an_acknowledgement_after_the_move_holds(self) -> None:
        rig, queue = started(journal_compact_min_files=2, journal_compact_percentage=50)
        message = rig.add(queue, body=b"kept")
        for _ in range(60):
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        rig.acknowledge(queue, message)
        self.assertEqual(ids(rig.restart()), [])
