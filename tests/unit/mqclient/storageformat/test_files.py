"""Names of the files of a store: what is no such name is not taken for one."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.storageformat.files import folder_name, join, page_name, page_number, page_path, segment_name, segment_sequence
from mqclient.storageformat.frames import KIND_BINDINGS, KIND_MESSAGES


class NameTests(SynchronousTestCase):
    def test_numbers_come_back_from_the_names_of_segments_and_pages(self) -> None:
        for number in (0, 1, 99_999_999, 123_456_789_012):
            self.assertEqual(segment_sequence(KIND_MESSAGES, segment_name(KIND_MESSAGES, number)), number)
            self.assertEqual(page_number(page_name(number)), number)

    def test_names_are_in_the_order_of_their_numbers(self) -> None:
        names = [segment_name(KIND_MESSAGES, number) for number in (9, 10, 100)]
        self.assertEqual(names, sorted(names))

    def test_each_journal_knows_only_its_own_segments(self) -> None:
        self.assertIsNone(segment_sequence(KIND_BINDINGS, segment_name(KIND_MESSAGES, 1)))

    def test_other_names_are_no_segments_and_no_pages(self) -> None:
        for name in ("mqbroker-data-1.mqj", "mqbroker-data-00000001.mqj.tmp", "mqbroker-data-+0000001.mqj", "mqbroker-data-.mqj", "x", ""):
            self.assertIsNone(segment_sequence(KIND_MESSAGES, name), name)
        for name in ("1.page", "000000001.page.tmp", "00000000x.page", ".page"):
            self.assertIsNone(page_number(name), name)

    def test_folders_of_pages_can_be_recognised_and_are_never_shared(self) -> None:
        names = {folder_name(address) for address in ("a/b", "a_b", "A_b", "x" * 500, "x" * 501, "..", "ü", "")}
        self.assertEqual(len(names), 8)
        self.assertTrue(folder_name("orders.new").startswith("orders.new-"))
        for name in names:
            self.assertRegex(name, r"\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,96}\Z")

    def test_paths_are_joined_with_one_slash(self) -> None:
        self.assertEqual((join("/a/", "b"), join("/a", "b")), ("/a/b", "/a/b"))
        self.assertEqual(page_path("/p", "a", 7), f"/p/{folder_name('a')}/000000007.page")
