"""The accounts of pages."""

from __future__ import annotations

from unittest import TestCase

from tests.unit.storage.sql.paged import PagedTestCase, body_of


class FolderTests(PagedTestCase, TestCase):
    def test_counts_from_arrival_to_settlement(self) -> None:
        self.page(3)
        self.assertEqual(self.heard.arrivals, [(self.queue_id, 1)] * 3)
        self.assertEqual(
            (self.folder.messages, self.folder.remaining(self.queue_id), list(self.folder.queue_ids())), (3, 3, [self.queue_id])
        )
        messages = [entry.message for entry in self.reader.read() or ()]
        self.assertEqual((self.folder.messages, self.folder.remaining(self.queue_id)), (3, 0))
        batch = self.rig.store.begin()
        for message in messages:
            batch.acknowledge(self.queue_id, message)
        self.assertEqual(self.heard.ends, 0)
        self.rig.store.commit(batch)
        self.assertEqual((self.heard.ends, self.folder.messages, self.folder.page_count), (1, 0, 0))

    def test_pages_are_counted_by_their_size(self) -> None:
        self.page(1, page_size=150)
        self.assertEqual(self.folder.page_count, 1)
        self.page(9, page_size=150)
        size = sum(len(row[0]) for row in self.rig.ask("SELECT buffer FROM mqbroker_message"))  # type: ignore[arg-type]
        self.assertEqual(self.folder.page_count, -(-size // 150))

    def test_transient_messages_do_not_outlive_the_broker(self) -> None:
        self.page(2, durable=False)
        self.page(1)
        self.assertEqual((self.folder.remaining(self.queue_id), self.folder.remaining(self.queue_id, durable=True)), (3, 1))
        self.restart()
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], [self.bodies[2]])
        self.rig.settle()
        self.assertEqual(self.rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])

    def test_nothing_is_kept_for_a_queue_that_is_gone(self) -> None:
        self.page(3)
        self.folder.forget(self.queue_id)
        self.rig.settle()
        self.assertEqual((self.rig.ask("SELECT COUNT(*) FROM mqbroker_message"), self.heard.ends), ([(0,)], 1))

    def test_what_comes_after_the_end_is_read_by_a_new_reader_and_nothing_else(self) -> None:
        self.page(2)
        batch = self.rig.store.begin()
        for entry in self.reader.read() or ():
            batch.acknowledge(self.queue_id, entry.message)
        self.rig.store.commit(batch)
        self.begin()
        # The rows of the first two may still be there, as their transaction has not run.
        self.page(1)
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], self.bodies[2:])
