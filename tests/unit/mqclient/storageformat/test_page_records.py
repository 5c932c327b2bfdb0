"""Records about pages: each comes back as it was, and one that is cut off is refused."""

from __future__ import annotations

import struct
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.storageformat import page_records as pages
from mqclient.storageformat.frames import RecordDecoder, StorageFormatError

RECORDS: tuple[tuple[Any, Any], ...] = (
    (pages.encode_page(7, 500, 3, "a\udc80", ((10, 3), (11, 2))), pages.PageRecord(7, 500, 3, "a\udc80", ((10, 3), (11, 2)))),
    (pages.encode_page_acknowledge(10, 7, 1, 2, 2), pages.PageAcknowledgeRecord(10, 7, 1, 2, 2)),
    (pages.encode_page_queue(10, 7, 2, b"\x03", ((4, 1, -1),)), pages.PageQueueRecord(10, 7, 2, b"\x03", ((4, 1, -1),))),
    (pages.encode_page_count(10, 7, 4, 9), pages.PageCountRecord(10, 7, 4, 9)),
    (pages.encode_page_schedule(10, 7, 4, 2**40), pages.PageScheduleRecord(10, 7, 4, 2**40)),
    (pages.encode_page_body(7, 4, 900, 2**33, (10, 11)), pages.PageBodyRecord(7, 4, 900, 2**33, (10, 11))),
    (pages.encode_page_gone(7), pages.PageGoneRecord(7)),
    (pages.encode_page_position(4), pages.PagePosition(4)),
    (pages.encode_page_compressed(100, b"packed"), pages.PageCompressed(100, b"packed")),
)


def decoded(data: bytes) -> Any:
    return pages.decode_page_record(data[0], RecordDecoder(memoryview(data)[1:]))


class PageRecordTests(SynchronousTestCase):
    def test_each_comes_back_as_it_was(self) -> None:
        for data, record in RECORDS:
            self.assertEqual(decoded(data), record)

    def test_their_types_are_different(self) -> None:
        self.assertEqual(len({data[0] for data, _ in RECORDS}), len(RECORDS))

    def test_one_that_is_cut_off_is_refused_wherever_it_ends(self) -> None:
        for data, _ in RECORDS:
            for end in range(1, len(data)):
                with self.assertRaises((StorageFormatError, struct.error)):
                    decoded(data[:end])

    def test_records_of_other_kinds_are_left_to_others(self) -> None:
        self.assertIsNone(decoded(b"\x01" + bytes(100)))
