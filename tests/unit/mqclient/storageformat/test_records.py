"""Records: each comes back as it was, and bytes that are none are refused."""

from __future__ import annotations

import struct
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mqclient.storageformat import page_records as pages
from mqclient.storageformat import records
from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.replay import State

numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**32 - 1)
texts = st.text(st.characters(exclude_categories=()), max_size=20)
json_objects = st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(max_size=8), max_size=4)
whats = st.sampled_from((records.ADDRESS_BINDING, records.QUEUE_BINDING, records.SETTING_BINDING))


@st.composite
def messages(draw: st.DrawFn) -> records.MessageRecord:
    message_id = draw(numbers)
    before, after = draw(st.binary(max_size=30)), draw(st.binary(max_size=30))
    body_id = draw(st.none() | numbers)
    return records.MessageRecord(
        message_id,
        len(before),
        tuple(draw(st.lists(numbers, max_size=4))),
        before + struct.pack(">q", message_id) + after,
        draw(st.none() | texts),
        body_id,
        0 if body_id is None else draw(st.integers(0, 2**63 - 1)),
        draw(st.booleans()),
        draw(st.just(0) | numbers.filter(bool)),
    )


every_record: st.SearchStrategy[records.Record] = st.one_of(
    messages(),
    st.builds(records.AcknowledgeRecord, numbers, numbers),
    st.builds(records.DeliveryCountRecord, numbers, numbers, counts),
    st.builds(records.ScheduleRecord, numbers, numbers, numbers),
    st.builds(records.DuplicateIdRecord, numbers, texts, st.binary(max_size=40)),
    st.builds(
        lambda number, name, size, data: records.DuplicateIdsRecord(number, name, size, size * data),
        numbers,
        texts,
        st.integers(1, 30),
        st.binary(max_size=4),
    ),
    st.builds(records.DuplicateGoneRecord, numbers),
    st.builds(records.Trim, numbers),
    st.builds(records.Mark, numbers),
    st.builds(
        records.BranchRecord,
        numbers,
        st.integers(0, 2),
        numbers,
        st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=64),
        st.binary(max_size=64),
        st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple),
        st.lists(numbers, max_size=4).map(tuple),
    ),
    st.builds(records.BranchEndsRecord, numbers, st.booleans()),
    st.builds(records.BindingRecord, whats, json_objects),
    st.builds(records.BindingGoneRecord, whats, json_objects),
    st.builds(records.IdLimit, numbers),
    st.builds(pages.PageRecord, numbers, counts, counts, texts, st.lists(st.tuples(numbers, counts), max_size=3).map(tuple)),
    st.builds(pages.PageAcknowledgeRecord, numbers, numbers, counts, counts, counts),
    st.builds(
        pages.PageQueueRecord,
        numbers,
        numbers,
        counts,
        st.binary(max_size=9),
        st.lists(st.tuples(counts, counts, numbers), max_size=3).map(tuple),
    ),
    st.builds(pages.PageCountRecord, numbers, numbers, counts, counts),
    st.builds(pages.PageScheduleRecord, numbers, numbers, counts, numbers),
    st.builds(pages.PageBodyRecord, numbers, counts, numbers, numbers, st.lists(numbers, max_size=3).map(tuple)),
    st.builds(pages.PageGoneRecord, numbers),
    st.builds(pages.PagePosition, counts),
    st.builds(pages.PageCompressed, counts, st.binary(max_size=30)),
)


def encode(record: records.Record) -> bytes:
    match record:
        case records.MessageRecord(_, headers, queue_ids, buffer, address, body_id, size, moved, branch_id):
            body = None if body_id is None else (body_id, size)
            return records.encode_message_head(headers, len(buffer), queue_ids, address, body, moved, branch_id) + buffer
        case records.AcknowledgeRecord(queue_id, message_id):
            return records.ACKNOWLEDGED.pack(records.ACKNOWLEDGE, queue_id, message_id)
        case records.DeliveryCountRecord(queue_id, message_id, count):
            return records.encode_delivery_count(queue_id, message_id, count)
        case records.ScheduleRecord(queue_id, message_id, time_ms):
            return records.encode_schedule(queue_id, message_id, time_ms)
        case records.DuplicateIdRecord(record_id, cache, duplicate_id):
            return records.encode_duplicate_id(record_id, cache, duplicate_id)
        case records.DuplicateIdsRecord():
            return records.encode_duplicates(record)
        case records.DuplicateGoneRecord(record_id):
            return records.encode_duplicate_gone(record_id)
        case records.Trim(sequence):
            return records.encode_trim(sequence)
        case records.Mark(number):
            return records.encode_mark(number)
        case records.BranchRecord():
            return records.encode_branch(record)
        case records.BranchEndsRecord(branch_id, committed):
            return records.encode_branch_ends(branch_id, committed)
        case records.BindingRecord(what, value):
            return records.encode_binding(what, value)
        case records.BindingGoneRecord(what, value):
            return records.encode_binding_gone(what, value)
        case records.IdLimit(limit):
            return records.encode_id_limit(limit)
        case _:
            return encode_of_pages(record)


def encode_of_pages(record: pages.PageJournalRecord | pages.PageFileRecord) -> bytes:
    match record:
        case pages.PageRecord(page, end, messages, address, queues):
            return pages.encode_page(page, end, messages, address, queues)
        case pages.PageAcknowledgeRecord(queue_id, page, first, indexes, messages):
            return pages.encode_page_acknowledge(queue_id, page, first, indexes, messages)
        case pages.PageQueueRecord(queue_id, page, acknowledged, bits, details):
            return pages.encode_page_queue(queue_id, page, acknowledged, bits, details)
        case pages.PageCountRecord(queue_id, page, index, count):
            return pages.encode_page_count(queue_id, page, index, count)
        case pages.PageScheduleRecord(queue_id, page, index, time_ms):
            return pages.encode_page_schedule(queue_id, page, index, time_ms)
        case pages.PageBodyRecord(page, index, body_id, body_size, queue_ids):
            return pages.encode_page_body(page, index, body_id, body_size, queue_ids)
        case pages.PageGoneRecord(page):
            return pages.encode_page_gone(page)
        case pages.PagePosition(index):
            return pages.encode_page_position(index)
        case pages.PageCompressed(size, data):
            return pages.encode_page_compressed(size, data)


class RecordTests(TestCase):
    @given(st.lists(every_record, max_size=6))
    def test_round_trip(self, written: list[records.Record]) -> None:
        content = b"".join(map(encode, written))
        self.assertEqual(list(records.decode_records(memoryview(content))), written)

    def test_the_short_form_of_a_message_is_the_same_record(self) -> None:
        """The form written on the message path equals the general one."""
        buffer = b"xxxx" + struct.pack(">q", 77) + b"rest"
        short = records.SINGLE_REFERENCE.pack(records.MESSAGE, 0, 4, len(buffer), 1, 5)
        self.assertEqual(short, records.encode_message_head(4, len(buffer), [5]))

    @given(every_record, st.data())
    def test_a_cut_record_is_refused(self, record: records.Record, data: st.DataObject) -> None:
        whole = encode(record)
        cut = data.draw(st.integers(1, len(whole) - 1))
        self.assertRaises(StorageFormatError, list, records.decode_records(memoryview(whole[:cut])))

    @given(st.binary(min_size=1, max_size=60))
    def test_noise_is_read_or_refused(self, noise: bytes) -> None:
        try:
            list(records.decode_records(memoryview(noise)))
        except StorageFormatError:
            pass

    def test_an_unknown_type_is_named(self) -> None:
        with self.assertRaisesRegex(StorageFormatError, "238"):
            list(records.decode_records(memoryview(b"\xee")))

    def test_a_binding_is_kept_as_it_was_written(self) -> None:
        """Also where another version has written its members in another order."""
        text = b'{"id": 7, "a": 1}'
        written = struct.pack(">BBI", records.BINDING, records.QUEUE_BINDING, len(text)) + text
        (record,) = records.decode_records(memoryview(written))
        state = State()
        state.apply(1, record)
        (stored,) = state.bindings.values()
        self.assertEqual((stored.encoded, stored.value), (written, {"id": 7, "a": 1}))
