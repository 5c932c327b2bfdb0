"""The record of a copy: what may become of it, its bytes, and that a crash leaves the old or the new one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import (
    RECORD_FILE,
    SEQUENCE_MAX,
    CopyRecord,
    CopyState,
    CopyStateError,
    OtherCopy,
    open_record,
    read_record,
    write_record,
)
from mqbroker.storage.errors import StorageError
from tests.support.disk import SimulatedCrash, SimulatedDisk

FOLDER = "/data/journal"
A, B = OtherCopy("a", "tcp://a:61616"), OtherCopy("b", "tcp://b:61616")

others = st.builds(OtherCopy, st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=200))
records = st.builds(
    CopyRecord,
    st.text(min_size=1, max_size=64),
    st.sampled_from(CopyState),
    st.integers(0, SEQUENCE_MAX),
    st.none() | others,
    st.booleans(),
    st.booleans(),
)


def record(state: CopyState = CopyState.COMPLETE, sequence: int = 3, other: OtherCopy | None = None) -> CopyRecord:
    return CopyRecord("own", state, sequence, other)


class ChangeTests(SynchronousTestCase):
    def test_the_data_of_a_new_primary_are_its_own_and_those_of_a_backup_are_nothing(self) -> None:
        entropy = random.Random(1).randbytes
        primary, backup = CopyRecord.first(entropy, True), CopyRecord.first(entropy, False)
        self.assertEqual((primary.complete, primary.shared, primary.usable), (True, False, True))
        self.assertEqual((backup.complete, backup.shared, backup.usable), (False, False, False))
        self.assertNotEqual(primary.copy_id, backup.copy_id)

    def test_one_other_copy_is_noted_for_each_sequence(self) -> None:
        noted = record().noted(A)
        self.assertTrue(noted.shared)
        self.assertEqual(noted.noted(OtherCopy("a", "tcp://moved:61616")).sequence, 3)
        self.assertRaisesRegex(CopyStateError, "a may be complete at sequence 3: b cannot", noted.noted, B)
        self.assertEqual(noted.raised(4, False).noted(B).other, B)

    def test_a_sequence_is_raised_by_complete_data_only_and_frees_of_the_other_copy(self) -> None:
        self.assertFalse(record(other=A).raised(4, True).shared)
        self.assertRaisesRegex(CopyStateError, "3 is not above 3", record().raised, 3, False)
        for state in (CopyState.INCOMPLETE, CopyState.GIVEN_UP):
            self.assertRaisesRegex(CopyStateError, state.value, record(state).raised, 4, False)

    def test_a_sequence_that_nobody_has_used_is_skipped_by_complete_data_only(self) -> None:
        self.assertEqual(record(other=A).skipped(), record(sequence=4, other=A))
        self.assertRaisesRegex(CopyStateError, "cannot skip a sequence", record(CopyState.GIVEN_UP).skipped)

    def test_a_copy_that_gave_itself_up_needs_a_full_copy(self) -> None:
        given_up = record(other=A).gave_up()
        self.assertEqual((given_up.complete, given_up.shared, given_up.sequence), (False, False, 3))
        self.assertRaises(CopyStateError, given_up.noted, B)
        self.assertRaises(CopyStateError, given_up.completed, 4, A)
        self.assertEqual(given_up.begun(A).completed(4, A), CopyRecord("own", CopyState.COMPLETE, 4, A))

    def test_data_that_no_other_copy_has_are_remembered_until_they_are_put_away(self) -> None:
        diverged = record(other=A).gave_up(diverged=True)
        begun = diverged.begun(B)
        self.assertEqual((begun.diverged, begun.other, diverged.put_away()), (True, B, diverged))
        self.assertFalse(begun.put_away().diverged or begun.completed(4, B).diverged)

    def test_an_incomplete_copy_that_is_given_up_stays_incomplete(self) -> None:
        self.assertEqual(record(CopyState.INCOMPLETE).gave_up(), record(CopyState.INCOMPLETE))

    def test_a_copy_does_not_become_complete_at_an_earlier_sequence(self) -> None:
        self.assertRaisesRegex(CopyStateError, "complete at sequence 3: it cannot become so at 2", record().begun(A).completed, 2, A)
        self.assertRaises(CopyStateError, record(sequence=0).begun(A).completed, 0, A)

    def test_of_two_that_gave_themselves_up_to_each_other_one_may_take_it_back(self) -> None:
        given_up = [CopyRecord(own, CopyState.COMPLETE, 3, other).gave_up() for own, other in (("a", B), ("b", A))]
        self.assertEqual([each.retractable for each in given_up], [False, True])
        self.assertTrue(given_up[1].raised(4, False).complete)
        self.assertFalse(CopyRecord("b", CopyState.COMPLETE, 3, A).gave_up(diverged=True).usable)

    def test_ids_connectors_and_sequences_have_limits(self) -> None:
        for make in (
            lambda: OtherCopy("", "c"),
            lambda: OtherCopy("x" * 65, "c"),
            lambda: OtherCopy("x", "c" * 4097),
            lambda: record(sequence=-1),
            lambda: record(sequence=SEQUENCE_MAX + 1),
        ):
            self.assertRaises(ValueError, make)


class FileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory(FOLDER)
        self.disk.sync_directory("/data")

    @given(records)
    def test_what_is_written_is_read(self, kept: CopyRecord) -> None:
        self.assertEqual(CopyRecord.decode(kept.encode()), kept)

    def test_a_record_that_is_made_is_durable_at_once(self) -> None:
        made = open_record(self.disk, FOLDER, record)
        self.disk.crash()
        self.assertEqual(read_record(self.disk, FOLDER), made)
        self.assertEqual(open_record(self.disk, FOLDER, lambda: self.fail("there is one")), made)

    def test_a_crash_leaves_the_old_record_or_the_new_one(self) -> None:
        for seed in range(40):
            for operations in range(6):
                disk = SimulatedDisk(random.Random(seed))
                disk.make_directory(FOLDER)
                disk.sync_directory("/data")
                old, new = record(sequence=1), record(sequence=2, other=A)
                write_record(disk, FOLDER, old)
                disk.crash_after = operations
                try:
                    write_record(disk, FOLDER, new)
                except SimulatedCrash:
                    disk.crash()
                    self.assertIn(read_record(disk, FOLDER), (old, new))
                else:
                    disk.crash()
                    self.assertEqual(read_record(disk, FOLDER), new)
                disk.forget_failures()
                write_record(disk, FOLDER, new)
                self.assertEqual(read_record(disk, FOLDER), new)

    def test_a_damaged_record_is_refused_by_name(self) -> None:
        write_record(self.disk, FOLDER, record())
        path = f"{FOLDER}/{RECORD_FILE}"
        self.disk.flip_bit(path, 20)
        error = self.assertRaises(StorageError, read_record, self.disk, FOLDER)
        self.assertIn(path, str(error))
        self.assertIn("its checksum is wrong", str(error))

    def test_what_does_not_fit_is_named(self) -> None:
        import json
        import zlib

        def encode(value: object) -> bytes:
            line = json.dumps(value).encode()
            return b"%s\n%08x\n" % (line, zlib.crc32(line))

        good = json.loads(record(other=A).encode().split(b"\n")[0])
        for change, message in (
            ({"version": 2}, "its version is 2"),
            ({"sequence": "1"}, "its field 'sequence' is '1'"),
            ({"sequence": True}, "its field 'sequence' is True"),
            ({"sequence": -1}, "not between"),
            ({"state": "fine"}, "fine"),
            ({"other": {"copy": "x"}}, "its field 'connector' is missing"),
            ({"copy": ""}, "the id of a copy has 0 characters"),
        ):
            self.assertRaisesRegex(ValueError, message, CopyRecord.decode, encode(good | change))
        self.assertRaisesRegex(ValueError, "version", CopyRecord.decode, encode([]))
        self.assertRaises(ValueError, CopyRecord.decode, b"")
