"""What an inherited session still has."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from mqbroker.storage.sql.source import END, Origin, Source


class OriginTests(TestCase):
    def setUp(self) -> None:
        self.told: list[Origin] = []
        self.origin = Origin(7, self.told.append)
        self.origin.queues = {1: 11, 2: 12}

    def source(self, unread: int) -> Source:
        folder: Any = None
        source = Source(folder, 7, 11, 0, END, self.origin, unread)
        self.origin.sources.add(source)
        return source

    def test_it_is_empty_when_the_last_message_of_the_last_source_is_settled(self) -> None:
        one, two = self.source(2), self.source(1)
        for source, empty in ((one, 0), (two, 0), (one, 1)):
            source.settled(1)
            self.assertEqual(len(self.told), empty)

    def test_messages_in_memory_and_branches_keep_it(self) -> None:
        self.origin.kept = {(1, 100), (2, 100), (1, 101), (1, 102)}
        self.origin.branches = {5: [101], 6: [102]}
        self.origin.acknowledged(1, 100)
        self.origin.queue_gone(2)
        self.origin.branch_ended(5, False)
        self.origin.branch_ended(6, True)
        self.assertEqual((self.told, self.origin.kept, self.origin.queues), ([], {(1, 102)}, {1: 11}))
        self.origin.acknowledged(1, 102)
        self.assertEqual(self.told, [self.origin])

    def test_all_of_an_inherited_session_can_be_read(self) -> None:
        self.assertEqual(self.source(1).readable, END)
