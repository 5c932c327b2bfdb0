"""Messages in columns: parts, choices and merged places keep what belongs to a row with it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.readers.rows import NO_ROWS, Rows, merged
from tests.support.held_store import FakeBody


def rows(*keys: int, counts: dict[int, int] | None = None, bodies: dict[int, Any] | None = None) -> Rows:
    return Rows([*keys], [*keys], [b"%d" % key for key in keys], counts or {}, bodies or {})


def columns(found: Rows) -> tuple[list[int], list[bytes], dict[int, int], dict[int, Any]]:
    return found.keys, found.buffers, found.counts, found.bodies


class RowsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.body: Any = FakeBody(1)
        self.body.append(b"x" * 100)
        self.rows = rows(10, 20, 30, 40, counts={1: 7, 3: 9}, bodies={2: self.body})

    def test_a_part_has_the_counts_and_bodies_of_its_rows(self) -> None:
        self.assertEqual(columns(self.rows.part(1, 3)), ([20, 30], [b"20", b"30"], {0: 7}, {1: self.body}))

    def test_chosen_rows_keep_their_counts_and_bodies(self) -> None:
        self.assertEqual(columns(self.rows.chosen([0, 2, 3])), ([10, 30, 40], [b"10", b"30", b"40"], {2: 9}, {1: self.body}))

    def test_rows_behind_others_are_counted_on(self) -> None:
        whole = rows(1, 2, counts={0: 5}).and_then(self.rows)
        self.assertEqual((whole.keys, whole.counts, whole.bodies), ([1, 2, 10, 20, 30, 40], {0: 5, 3: 7, 5: 9}, {4: self.body}))

    def test_nothing_added_changes_nothing(self) -> None:
        self.assertIs(NO_ROWS.and_then(self.rows), self.rows)
        self.assertIs(self.rows.and_then(NO_ROWS), self.rows)

    def test_a_size_is_that_of_the_encoded_message_with_its_large_body(self) -> None:
        self.assertEqual(self.rows.sizes(), [2, 2, 102, 2])

    def test_places_are_merged_by_their_keys_and_rows_keep_what_is_theirs(self) -> None:
        other = rows(25, 35, counts={0: 3})
        whole = merged([self.rows, NO_ROWS, other])
        self.assertEqual((whole.keys, whole.counts, whole.bodies), ([10, 20, 25, 30, 35, 40], {1: 7, 2: 3, 5: 9}, {3: self.body}))

    def test_places_one_behind_the_other_are_only_put_together(self) -> None:
        self.assertEqual(merged([rows(5, 6), rows(1, 2)]).keys, [1, 2, 5, 6])

    def test_no_places_are_no_rows(self) -> None:
        self.assertIs(merged([NO_ROWS, NO_ROWS]), NO_ROWS)
