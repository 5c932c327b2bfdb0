"""Batches of the store in a database."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.sql.batch import Kept
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


class BatchTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.rig.start()

    def test_nothing_happens_before_the_commit(self) -> None:
        message = make_message(self.rig.store)
        batch = self.rig.store.begin()
        batch.add_message(message, [1])
        self.assertIsNone(message.store_state)
        self.rig.store.commit(batch)
        state = message.store_state
        assert isinstance(state, Kept)
        self.assertEqual((state.place, state.single), (message.message_id, True))

    def test_a_message_without_a_queue_is_not_stored(self) -> None:
        batch = self.rig.store.begin()
        batch.add_message(make_message(self.rig.store), [])
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])

    def test_a_queue_takes_what_it_has_along(self) -> None:
        store = self.rig.store
        one, both = make_message(store), make_message(store)
        batch = store.begin()
        batch.add_message(one, [5])
        batch.add_message(both, [5, 6])
        batch.delete_queue(5)
        store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.rig.ask("SELECT queue, place FROM mqbroker_reference"), [(6, both.message_id)])
        self.assertEqual(self.rig.ask("SELECT place FROM mqbroker_message"), [(both.message_id,)])
