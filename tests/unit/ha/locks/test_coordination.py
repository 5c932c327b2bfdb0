"""The names that Artemis 2.44.0 makes of a ``coordination-id``."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.coordination import coordinated_name, coordinated_node_id


class CoordinationTests(SynchronousTestCase):
    def test_ids_of_artemis(self) -> None:
        for text, name, node_id in (
            ("peer-journal-001", "peer.journal.001", "fedfefef-ef9f-1001-8000-000000000000"),
            ("abc", "abc+", "abbf0000-0000-1000-8000-000000000000"),
            ("abcd", "abcd", "abcd0000-0000-1000-8000-000000000000"),
            ("AbCd", "AbCd", "abcd0000-0000-1000-8000-000000000000"),
            ("a", "a+", "9f000000-0000-1000-8000-000000000000"),
            ("a b", "a b+", "9faf0000-0000-1000-8000-000000000000"),
            ("---", "...+", "efef0000-0000-1000-8000-000000000000"),
            ("0123456789abcdef", "0123456789abcdef", "01234567-89ab-1def-8000-000000000000"),
            ("0123456789abcdefg", "0123456789abcdef", "01234567-89ab-1def-8000-000000000000"),
            ("0e4c5a4e-5d0f-11ef-8a5c-0242ac120002", "0e4c5a4e.5d0f.11", "0e4c5a4e-f5d0-1f11-8000-000000000000"),
        ):
            self.assertEqual((coordinated_name(text), coordinated_node_id(text)), (name, node_id))
