"""How far a range of messages goes, and where its parts end."""

from __future__ import annotations

from tests.unit.messaging.readers.test_readers import ReaderCase


class MeasureTests(ReaderCase):
    def test_nothing_new_is_an_empty_range(self) -> None:
        self.client.open()
        found = self.client.reserve(0)
        self.assertEqual((found.after, found.until, found.messages, found.ends, found.oldest), (0, 0, 0, (), 0))

    def test_a_range_has_at_most_so_many_messages_and_bytes_but_one(self) -> None:
        self.publish(*(b"x" * 100 for _ in range(10)))
        self.client.open()
        three = self.client.reserve(0, messages=3)
        self.assertEqual(three.messages, 3)
        size = three.bytes // 3
        self.assertEqual(self.client.reserve(0, size=4 * size + 5).messages, 4)
        one = self.client.reserve(three.until, size=1)
        self.assertEqual((one.messages, one.bytes), (1, size))
        self.assertEqual(self.client.reserve(0, until=three.until).until, three.until)

    def test_a_range_is_cut_into_parts_of_similar_size(self) -> None:
        self.publish(*(b"x" * 100 for _ in range(100)))
        self.client.open()
        found = self.client.reserve(0, parts=4)
        self.assertEqual(len(found.ends), 4)
        parts = [len(self.client.read(after, end)) for after, end in zip((0, *found.ends), found.ends, strict=False)]
        self.assertEqual(parts, [25, 25, 25, 25])
        self.assertEqual(len(self.client.reserve(0, messages=2, parts=10).ends), 2)
