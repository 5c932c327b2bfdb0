"""Changes as bytes: whatever is encoded comes out again, and nothing else does."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.mirror import changes
from mqbroker.storage.mirror.changes import (
    Begin,
    BrokenStreamError,
    Change,
    ChangeDecoder,
    Close,
    MakeDirectory,
    Open,
    Sync,
    SyncDirectory,
    Write,
    encode_change,
)
from tests.unit.storage.mirror.support import encoded, streams

OPENED = encoded(Begin(), Open(1, "journal/a"))


class ChangeTests(SynchronousTestCase):
    @given(streams(), st.data())
    def test_what_goes_in_comes_out_in_any_pieces(self, stream: list[Change], data: st.DataObject) -> None:
        raw = encoded(*stream)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
        decoder = ChangeDecoder()
        out = []
        for low, high in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            out += decoder.feed(raw[low:high])
        self.assertEqual(out, stream)
        self.assertEqual(decoder.number, len(stream))

    @given(streams(), st.integers(0), st.integers(1, 255))
    def test_a_damaged_stream_never_raises_anything_else(self, stream: list[Change], at: int, flip: int) -> None:
        raw = bytearray(encoded(*stream))
        raw[at % len(raw)] ^= flip
        try:
            list(ChangeDecoder().feed(bytes(raw)))
        except BrokenStreamError:
            pass

    def test_data_are_passed_on_as_they_are(self) -> None:
        data = bytearray(b"frame")
        self.assertIs(encode_change(Write(1, 0, data))[1], data)

    def test_a_stream_begins_with_a_copy_and_has_one(self) -> None:
        self.assert_broken(encoded(MakeDirectory("journal")), "begins with")
        self.assert_broken(encoded(Begin(), Begin()), "begins with")
        self.assert_broken(encoded(Begin(2)), "version is 2")

    def test_handles_are_those_of_open_files(self) -> None:
        self.assert_broken(OPENED + encoded(Sync(2)), "no file 2 is open")
        self.assert_broken(OPENED + encoded(Write(2, 0, b"x")), "no file 2 is open")
        self.assert_broken(OPENED + encoded(Close(1), Close(1)), "no file 1 is open")
        self.assert_broken(OPENED + encoded(Open(1, "journal/b")), "open already")
        self.patch(changes, "HANDLES_MAX", 2)
        self.assert_broken(OPENED + encoded(Open(2, "journal/b"), Open(3, "journal/c")), "more than 2 files")

    def test_a_path_outside_is_refused(self) -> None:
        for path in ("/etc/passwd", "journal/../../x", "tmp/x", "journal/server.lock"):
            self.assert_broken(encoded(Begin(), MakeDirectory(path)), path)
        self.assert_broken(encoded(Begin()) + b"\x02\x00\x01\xff", "utf-8")

    def test_limits_hold_before_memory_is_spent(self) -> None:
        self.assert_broken(OPENED + struct.pack(">BQQI", 7, 1, 0, changes.WRITE_MAX + 1), "1048577 bytes")
        self.assert_broken(OPENED + struct.pack(">BQQI", 7, 1, changes.FILE_SIZE_MAX, 1), "a file would have")
        self.assert_broken(OPENED + struct.pack(">BQQ", 6, 1, changes.FILE_SIZE_MAX + 1), "a file would have")
        self.assert_broken(encoded(Begin()) + struct.pack(">BH", 2, changes.PATH_MAX + 1), "a path has 601 bytes")
        self.assert_broken(encoded(Begin()) + b"\xff", "no kind of change 255")

    def test_the_number_of_the_broken_change_is_told(self) -> None:
        self.assert_broken(OPENED + b"\xff", "at change 3")

    def test_the_example_of_the_specification_is_one(self) -> None:
        chapter = Path(__file__).resolve().parents[4] / "protocol-spec" / "19-replication.md"
        lines = chapter.read_text(encoding="utf-8").partition("### Example")[2].splitlines()
        raw = bytes.fromhex("".join(re.split(r"\s{3,}", line)[0] for line in lines if re.match(r"[0-9a-f]{2} ", line)))
        journal = [MakeDirectory("journal"), Open(1, "journal/a"), Write(1, 0, b"hello"), Sync(1), Close(1), SyncDirectory("journal")]
        self.assertEqual(list(ChangeDecoder().feed(raw)), [Begin(), *journal])

    def assert_broken(self, raw: bytes, text: str) -> None:
        decoder = ChangeDecoder()
        error = self.assertRaises(BrokenStreamError, lambda: list(decoder.feed(raw)))
        self.assertIn(text, str(error))
