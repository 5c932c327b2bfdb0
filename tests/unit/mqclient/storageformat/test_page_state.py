"""What the records of the journal add up to about pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.storageformat.page_records import (
    PageAcknowledgeRecord,
    PageBodyRecord,
    PageCountRecord,
    PageGoneRecord,
    PageQueueRecord,
    PageRecord,
    PageScheduleRecord,
)
from mqclient.storageformat.page_state import NOT_RECORDED, StoredPages, has_bit, set_bits

PAGE, QUEUE, OTHER = 1, 10, 11


class BitTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), max_size=5))
    def test_ranges_of_bits_are_set_and_no_others(self, ranges: list[tuple[int, int]]) -> None:
        bits = bytearray()
        expected = set()
        for first, indexes in ranges:
            set_bits(bits, first, indexes)
            expected |= set(range(first, first + indexes))
        self.assertEqual({index for index in range(150) if has_bit(bits, index)}, expected)


class PageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pages = StoredPages()
        self.pages.apply(1, PageRecord(PAGE, 500, 5, "a", ((QUEUE, 5), (OTHER, 5))))

    def kept(self) -> list[int]:
        self.pages.drop_unrouted({QUEUE, OTHER}.__contains__)
        return sorted(self.pages.by_number)

    def test_a_page_is_needed_until_every_queue_has_acknowledged_all_of_it(self) -> None:
        self.pages.apply(2, PageAcknowledgeRecord(QUEUE, PAGE, 0, 5, 5))
        self.pages.apply(2, PageAcknowledgeRecord(OTHER, PAGE, 0, 4, 4))
        self.assertEqual(self.kept(), [PAGE])
        self.pages.apply(3, PageAcknowledgeRecord(OTHER, PAGE, 4, 1, 1))
        self.assertEqual((self.kept(), self.pages.unneeded), ([], [PAGE]))

    def test_a_page_that_is_gone_is_forgotten(self) -> None:
        self.pages.apply(2, PageGoneRecord(PAGE))
        self.assertFalse(self.pages)

    def test_queues_that_are_gone_need_nothing(self) -> None:
        self.pages.apply(2, PageAcknowledgeRecord(QUEUE, PAGE, 0, 5, 5))
        self.pages.drop_unrouted({QUEUE}.__contains__)
        self.assertEqual(self.pages.unneeded, [PAGE])

    def test_records_of_a_page_whose_own_record_never_came_keep_nothing(self) -> None:
        self.pages.apply(2, PageCountRecord(QUEUE, 7, 0, 3))
        self.assertEqual(self.kept(), [PAGE])

    def test_counts_and_schedules_of_a_message_do_not_overwrite_each_other(self) -> None:
        queue = self.pages.by_number[PAGE].queue(QUEUE)
        self.pages.apply(2, PageCountRecord(QUEUE, PAGE, 3, 2))
        self.assertEqual(queue.details[3], (2, NOT_RECORDED))
        self.pages.apply(2, PageScheduleRecord(QUEUE, PAGE, 3, 99))
        self.pages.apply(2, PageCountRecord(QUEUE, PAGE, 3, 4))
        self.assertEqual(queue.details[3], (4, 99))

    def test_a_record_of_all_that_is_known_of_a_queue_takes_the_place_of_what_came_before(self) -> None:
        self.pages.apply(2, PageAcknowledgeRecord(QUEUE, PAGE, 0, 1, 1))
        self.pages.apply(3, PageQueueRecord(QUEUE, PAGE, 2, b"\x06", ((4, 1, 50),)))
        queue = self.pages.by_number[PAGE].queue(QUEUE)
        self.assertEqual((queue.acknowledged, bytes(queue.bits), queue.details, queue.sequence), (2, b"\x06", {4: (1, 50)}, 3))

    def test_a_large_body_is_needed_until_each_of_its_queues_has_acknowledged_it(self) -> None:
        self.pages.apply(2, PageBodyRecord(PAGE, 2, 900, 1000, (QUEUE, OTHER)))
        self.assertEqual(self.pages.bodies(), {900})
        self.pages.apply(3, PageAcknowledgeRecord(QUEUE, PAGE, 2, 1, 1))
        self.pages.apply(3, PageAcknowledgeRecord(OTHER, PAGE, 0, 2, 2))
        self.assertEqual(self.pages.bodies(), {900})
        self.pages.apply(4, PageQueueRecord(OTHER, PAGE, 3, b"\x07", ()))
        self.assertEqual(self.pages.bodies(), set())
