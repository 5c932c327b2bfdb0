"""Pieces of pages that are read in another thread."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.storage.sql.rows import PIECE_ROWS
from tests.unit.storage.sql.paged import PagedTestCase, body_of


class RowsTests(PagedTestCase, TestCase):
    late = True

    def test_a_piece_comes_later_and_the_next_one_is_asked_for_meanwhile(self) -> None:
        self.page(2 * PIECE_ROWS)
        with self.assertRaises(NotYet) as caught:
            self.reader.read()
        told: list[bool] = []
        caught.exception.when_there(lambda: told.append(True))
        self.assertEqual(told, [])
        self.rig.settle()
        self.assertEqual(told, [True])
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], self.bodies[:PIECE_ROWS])
        self.assertEqual(self.rig.reading.waiting, 1)
        self.rig.settle()
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], self.bodies[PIECE_ROWS:])
        self.assertIsNone(self.reader.read())

    def test_nobody_is_called_after_the_store_was_left(self) -> None:
        self.page(1)
        with self.assertRaises(NotYet) as caught:
            self.reader.read()
        told: list[bool] = []
        caught.exception.when_there(lambda: told.append(True))
        self.rig.store.abort()
        self.rig.settle()
        self.assertEqual(told, [])
