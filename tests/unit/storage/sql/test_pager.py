"""Messages on their way to the pages."""

from __future__ import annotations

from unittest import TestCase

from tests.unit.storage.sql.paged import PagedTestCase
from tests.unit.storage.support import make_message


class PagerTests(PagedTestCase, TestCase):
    def test_backlog_until_the_messages_are_durable(self) -> None:
        pager = self.rig.store.pager
        assert pager is not None
        drained: list[int] = []
        pager.drained.subscribe(lambda: drained.append(pager.backlog))
        message = make_message(self.rig.store)
        batch = self.rig.store.begin()
        batch.add_paged(self.folder, message, (self.queue_id,), (self.queue_id,), 1000)
        self.assertEqual(pager.backlog, 0)
        self.rig.store.commit(batch)
        self.assertEqual((pager.backlog, self.heard.arrivals), (len(message.buffer), []))
        self.rig.settle()
        self.assertEqual((drained, self.heard.arrivals), ([0], [(self.queue_id, 1)]))

    def test_messages_are_readable_when_every_condition_holds(self) -> None:
        condition = self.rig.store.demand("a second place")
        self.page(1)
        self.assertEqual((self.heard.arrivals, self.reader.read()), ([], None))
        condition.hold(self.rig.store.ticket())
        self.assertEqual(self.heard.arrivals, [(self.queue_id, 1)])
        self.assertEqual(len(self.reader.read() or ()), 1)

    def test_folders_are_those_with_messages(self) -> None:
        pager = self.rig.store.pager
        assert pager is not None
        self.assertEqual(pager.folders(), [])
        self.page(1)
        self.assertEqual(pager.folders(), [self.folder])
        self.assertIs(pager.folder("a"), self.folder)
