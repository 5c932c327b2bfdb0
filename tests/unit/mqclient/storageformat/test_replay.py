"""Reading records back, in any order that a journal can have."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mqclient.storageformat.replay import replay
from mqclient.storageformat.replay_plain import replay_plain
from mqclient.storageformat.surviving import (
    PlainPlaces,
)
from tests.unit.storage.files.test_plain import images_of, records


class ReplayTests(TestCase):
    @given(st.lists(st.lists(st.lists(records(), max_size=8), min_size=1, max_size=3), max_size=3))
    def test_any_records(self, frames: list[list[list[bytes]]]) -> None:
        """Also rows of records that no broker writes."""
        expected = {
            message_id: (stored.sequence, dict(stored.reference_table()), stored.record.branch_id)
            for message_id, stored in replay(images_of(frames)).messages.items()
        }
        places = PlainPlaces()
        state = replay_plain(images_of(frames), places, buffers=False)
        self.assertFalse(state.messages.keys() & places.messages.keys())
        found = {
            message_id: (stored.sequence, dict(stored.reference_table()), stored.record.branch_id)
            for message_id, stored in state.messages.items()
        }
        found.update((message_id, (sequence, {queue_id: (0, 0)}, 0)) for message_id, (sequence, queue_id) in places.messages.items())
        self.assertEqual(found, expected)
