"""The places that are kept for readers."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.readers import places
from mqbroker.messaging.readers.places import KeptPlaces, Place
from tests.unit.messaging.paging_support import ALWAYS
from tests.unit.messaging.readers.stored import filled


class PlacesTests(TestCase):
    def place(self, position: int) -> Place:
        place = Place(position)
        place.sources["q"] = mock.Mock()
        return place

    def test_those_used_longest_ago_go_first(self) -> None:
        kept = KeptPlaces()
        with mock.patch.object(places, "PLACES_KEPT_MAX", 3), mock.patch.object(places, "PLACES_IN_ALL_MAX", 5):
            for owner in ("a", "b"):
                for position in range(1, 5):
                    kept.keep(owner, self.place(position))
            self.assertEqual(len(kept), 5)
            self.assertEqual([bool(kept.take("a", position).sources) for position in (1, 2, 3, 4)], [False, False, True, True])
            self.assertEqual(len(kept), 3)
            kept.forget("b", 3)
            self.assertEqual(len(kept), 2)
            kept.forget("b")
            kept.forget("b")
            self.assertEqual(len(kept), 0)

    def test_what_reads_at_random_keeps_no_more(self) -> None:
        """A hostile client that begins to read at ever new places."""
        with mock.patch.object(places, "PLACES_KEPT_MAX", 4):
            broker = filled(300, {"#": ALWAYS})
            last = broker.rig.store.next_id()
            for after in range(0, last, 3):
                broker.messaging.readers.read(broker.q, after, last, 1, None)
            log = broker.q.log
            assert log is not None
            self.assertLessEqual(len(log._places), 4)
