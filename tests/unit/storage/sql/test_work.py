"""What one transaction does."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.sql import schema, work
from mqbroker.storage.sql.work import Work
from tests.unit.storage.sql.support import SqlRig

SESSION = 1


class WorkTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.connection = self.rig.database.connect()
        self.addCleanup(self.connection.close)
        schema.prepare(self.rig.database, self.connection)

    def message(self, place: int, queue_id: int) -> Work:
        found = Work()
        found.add(work.ADD_MESSAGE, (SESSION, place, None, "a", None, 0, b"", 1, 0, None, None))
        found.add(work.ADD_REFERENCE, (SESSION, queue_id, place, "a", 0, 1))
        return found

    def test_a_later_batch_may_remove_what_an_earlier_one_adds(self) -> None:
        gathered = Work()
        self.assertTrue(gathered.empty)
        gone = Work()
        gone.add(work.REMOVE_REFERENCE, (SESSION, 5, 1))
        gone.add(work.REMOVE_UNREFERENCED, (SESSION, 1))
        for each in (self.message(1, 5), self.message(2, 5), gone):
            gathered.join(each)
        self.assertFalse(gathered.empty)
        gathered.run(self.connection)
        self.assertEqual(self.rig.ask("SELECT place FROM mqbroker_message"), [(2,)])

    def test_a_message_stays_as_long_as_a_queue_has_it(self) -> None:
        both = self.message(1, 5)
        both.add(work.ADD_REFERENCE, (SESSION, 6, 1, "a", 0, 1))
        both.run(self.connection)
        for queue_id, left in ((5, 1), (6, 0)):
            one = Work()
            one.add(work.REMOVE_REFERENCE, (SESSION, queue_id, 1))
            one.add(work.REMOVE_UNREFERENCED, (SESSION, 1))
            one.run(self.connection)
            self.assertEqual(len(self.rig.ask("SELECT 1 FROM mqbroker_message")), left)

    def test_changes_hold_for_what_was_added_with_them(self) -> None:
        found = self.message(1, 5)
        found.add(work.SET_DELIVERIES, (3, SESSION, 5, 1))
        found.add(work.SET_DUE, (77, SESSION, 5, 1))
        found.run(self.connection)
        self.assertEqual(self.rig.ask("SELECT deliveries, due FROM mqbroker_reference"), [(3, 77)])
