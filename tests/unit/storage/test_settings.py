"""What a file store is told: values that make no sense are refused in the words of broker.xml."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.frames import SEGMENT_SIZE_MAX


class StoreSettingsTests(SynchronousTestCase):
    def made(self, **options: Any) -> StoreSettings:
        return StoreSettings("/journal", "/bindings", "/large", **options)

    def refusal(self, **options: Any) -> str:
        return str(self.assertRaises(ValueError, self.made, **options))

    def test_segments_are_neither_too_small_nor_too_large(self) -> None:
        for size in (1024, SEGMENT_SIZE_MAX):
            self.assertEqual(self.made(journal_file_size=size).journal_file_size, size)
        self.assertEqual(
            self.refusal(journal_file_size=1023), f"journal-file-size is 1023; from 1024 to {SEGMENT_SIZE_MAX} bytes are allowed"
        )
        self.assertIn("bindings-file-size is", self.refusal(bindings_file_size=SEGMENT_SIZE_MAX + 1))

    def test_a_percentage_is_from_0_to_100(self) -> None:
        for percentage in (0, 100):
            self.assertEqual(self.made(journal_compact_percentage=percentage).journal_compact_percentage, percentage)
        for percentage in (-1, 101):
            self.assertIn("expected 0 to 100", self.refusal(journal_compact_percentage=percentage))

    def test_fewer_than_no_files_are_refused(self) -> None:
        self.assertIn("expected 0 or more", self.refusal(journal_compact_min_files=-1))

    def test_the_lock_is_in_the_journal_unless_it_has_a_folder(self) -> None:
        self.assertEqual(self.made().node_directory, "/journal")
        self.assertEqual(self.made(lock_directory="/lock").node_directory, "/lock")
