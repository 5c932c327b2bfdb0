"""The backup file: what comes back, and what is refused."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.record.backup import BackupError, backup_of, record_of
from mqbroker.imq.record.changes import wish_of
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.messaging.administration.registrar import Change
from mqclient.errors import MQError
from tests.unit.imq.record.strategies import changes


def record_with(wanted: list[Change]) -> ChangeRecord:
    record = ChangeRecord.begin("g", "b1:7676", 3, ("f",))
    for change in wanted:
        try:
            record.append(wish_of(change), "b2:7676", 4, record.last)
        except MQError:
            continue
    return record


class BackupTests(SynchronousTestCase):
    @given(st.lists(changes(), max_size=6))
    @settings(deadline=None)
    def test_a_record_comes_back(self, wanted: list[Change]) -> None:
        record = record_with(wanted)
        found = record_of(backup_of(record))
        self.assertEqual((found.changes, found.generation, found.former), (record.changes, "g", ("f",)))

    @given(st.lists(changes(), max_size=4), st.data())
    @settings(deadline=None)
    def test_a_damaged_file_is_refused(self, wanted: list[Change], data: st.DataObject) -> None:
        whole = backup_of(record_with(wanted))
        cut = data.draw(st.integers(0, len(whole) - 1))
        self.assertRaises(BackupError, record_of, whole[:cut])
        at = data.draw(st.integers(0, whole.rindex(b"\n", 0, len(whole) - 1)))
        flipped = bytearray(whole)
        flipped[at] ^= data.draw(st.integers(1, 255))
        self.assertRaises(BackupError, record_of, bytes(flipped))

    def test_the_text_says_what_is_wrong(self) -> None:
        lines = backup_of(record_with([])).decode().splitlines()
        first, closing = json.loads(lines[0]), json.loads(lines[-1])
        for changed, said in (
            ([lines[0].replace("mqbroker", "another"), *lines[1:]], "signature"),
            ([json.dumps({**first, "version": 500}), *lines[1:]], "version 500"),
            ([lines[0], lines[-1]], "0 changes, and should have 1"),
            ([*lines[:-1], json.dumps({**closing, "crc32": 1})], "checksum"),
            (lines[:-1], "end is missing"),
            (["", ""], "no backup"),
        ):
            error = self.assertRaises(BackupError, record_of, "".join(f"{line}\n" for line in changed).encode())
            self.assertIn(said, str(error))

    def test_a_record_that_is_none(self) -> None:
        """Its checksum is right: somebody has written it so."""
        import zlib

        content = backup_of(record_with([])).split(b"\n")[0] + b"\n"
        closing = json.dumps({"end": 0, "crc32": zlib.crc32(content)}).encode() + b"\n"
        error = self.assertRaises(BackupError, record_of, content + closing)
        self.assertIn("the record is empty", str(error))
