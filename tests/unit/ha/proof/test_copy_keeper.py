"""Changes of the record while a broker runs: each is durable before anybody hears of it, and they keep their order."""

from __future__ import annotations

import random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_keeper import CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, CopyStateError, OtherCopy, open_record, read_record
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter

FOLDER = "/data/journal"
A = OtherCopy("a", "tcp://a:61616")


class KeeperTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory(FOLDER)
        self.failures: list[str] = []
        self.writer = SimulatedDiskWriter()
        self.keeper = self.keep(CopyRecord("own", CopyState.COMPLETE, 1))

    def keep(self, record: CopyRecord) -> CopyKeeper:
        self.disk.replace({})
        return CopyKeeper(self.disk, FOLDER, open_record(self.disk, FOLDER, lambda: record), self.writer.submit, self.failures.append)

    def durable(self) -> CopyRecord | None:
        return read_record(self.disk, FOLDER)

    def test_a_change_is_told_when_it_is_durable(self) -> None:
        noted = self.keeper.note(A)
        self.assertNoResult(noted)
        self.assertEqual((self.keeper.record.shared, self.keeper.latest.shared), (False, True))
        self.writer.run()
        self.assertEqual(self.successResultOf(noted), self.durable())
        self.assertTrue(self.keeper.record.shared)

    def test_changes_build_on_each_other(self) -> None:
        results = [self.keeper.note(A), self.keeper.raise_to(2, True), self.keeper.note(OtherCopy("b", "b"))]
        refused = self.keeper.note(A)
        self.failureResultOf(refused, CopyStateError)
        self.writer.run()
        self.assertEqual([self.successResultOf(each).sequence for each in results], [1, 2, 2])

    def test_what_changes_nothing_is_told_when_the_changes_before_it_are_durable(self) -> None:
        first, second = self.keeper.give_up(), self.keeper.give_up()
        settled = self.keeper.settled()
        for each in (first, second, settled):
            self.assertNoResult(each)
        self.writer.run()
        for result in (first, second, settled, self.keeper.give_up(), self.keeper.settled()):
            self.successResultOf(result)  # type: ignore[arg-type]

    def copying(self) -> Any:
        begun = self.keeper.begin_copy(A)
        self.writer.run()
        return self.successResultOf(begun)

    def test_a_copy_becomes_complete_and_is_in_sync(self) -> None:
        copying = self.copying()
        self.assertFalse(self.keeper.in_sync)
        completed = copying.complete(4, A)
        self.assertEqual((self.keeper.in_sync, self.keeper.record.complete, self.keeper.latest.complete), (True, False, True))
        self.writer.run()
        self.assertEqual(self.successResultOf(completed), CopyRecord("own", CopyState.COMPLETE, 4, A))
        self.assertTrue(self.keeper.in_sync)
        self.keeper.fell_behind()
        self.assertFalse(self.keeper.in_sync)

    def test_that_the_former_data_are_put_away_is_durable(self) -> None:
        self.keeper.give_up(diverged=True)
        self.copying()
        self.assertTrue(self.keeper.record.diverged)
        self.keeper.put_away()
        self.writer.run()
        self.assertFalse(self.keeper.record.diverged)

    def test_a_copying_is_outdated_by_the_next_one_and_by_giving_up(self) -> None:
        first = self.copying()
        second = self.copying()
        self.failureResultOf(first.complete(4, A), CopyStateError)
        self.keeper.give_up()
        self.failureResultOf(second.complete(4, A), CopyStateError)
        self.writer.run()
        record = self.durable()
        assert record is not None
        self.assertIs(record.state, CopyState.INCOMPLETE)

    def test_a_copy_that_is_given_up_while_it_becomes_complete_is_not_in_sync(self) -> None:
        completed = self.copying().complete(4, A)
        self.keeper.give_up()
        self.writer.run()
        self.successResultOf(completed)
        self.assertEqual((self.keeper.in_sync, self.keeper.record.state), (False, CopyState.GIVEN_UP))

    def test_after_a_failed_write_nothing_is_told_any_more(self) -> None:
        self.disk.fail("sync", OSError(5, "input/output error"))
        results: list[Deferred[Any]] = [self.keeper.note(A), self.keeper.raise_to(2, False)]
        self.writer.run()
        results += [self.keeper.give_up(), self.keeper.settled()]
        self.writer.run()
        for each in results:
            self.assertNoResult(each)
        self.assertEqual(len(self.failures), 1)
        self.assertIn("input/output error", self.failures[0])

    def test_a_copy_that_cannot_begin_leaves_the_data_what_they_are(self) -> None:
        self.disk.fail("sync", OSError(28, "no space left on device"))
        begun = self.keeper.begin_copy(A)
        self.writer.run()
        self.failureResultOf(begun, OSError)
        self.assertEqual((self.keeper.latest.complete, self.keeper.in_sync, self.failures), (True, False, []))
        self.copying()
        self.assertEqual(self.durable(), self.keeper.record)
        self.assertIs(self.keeper.record.state, CopyState.INCOMPLETE)

    def test_a_copy_that_cannot_begin_is_an_end_if_somebody_builds_on_it_or_is_about_to_hear_of_it(self) -> None:
        for request in ("give_up", "settled"):
            self.keeper = self.keep(CopyRecord("own", CopyState.COMPLETE, 1))
            self.failures.clear()
            self.disk.fail("sync", OSError(28, "no space left on device"))
            begun, then = self.keeper.begin_copy(A), getattr(self.keeper, request)()
            self.writer.run()
            self.assertNoResult(begun)
            self.assertNoResult(then)
            self.assertEqual(len(self.failures), 1)
