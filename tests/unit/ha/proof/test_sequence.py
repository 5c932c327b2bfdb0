"""Who gives the next sequence: which answers of voters and of a lock manager settle a search."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import fail
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.claims import Claim, Verdict
from mqbroker.ha.proof.copy_keeper import CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, open_record
from mqbroker.ha.proof.poll import Outcome
from mqbroker.ha.proof.ports import Purpose
from mqbroker.ha.proof.rules import ProofRules
from mqbroker.ha.proof.sequence import Decision, LockSource, Search, VoterSource
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter

FOLDER = "/data/journal"
GIVEN, REFUSED, OPEN = Decision.GIVEN, Decision.REFUSED, Decision.OPEN


class SourceTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        disk = SimulatedDisk(random.Random(1))
        disk.make_directory(FOLDER)
        self.writer = SimulatedDiskWriter()
        record = CopyRecord("own", CopyState.COMPLETE, 3)
        self.keeper = CopyKeeper(disk, FOLDER, open_record(disk, FOLDER, lambda: record), self.writer.submit, self.fail)
        self.decided: list[tuple[Decision, str]] = []

    def decide(self, decision: Decision, text: str) -> None:
        self.decided.append((decision, text))

    def search(self, purpose: Purpose = Purpose.TAKE_OVER, *, absent: bool = False, serving: bool = False) -> Search:
        return Search(purpose, serving, absent, "nobody answers")

    def decisions(self) -> list[Decision]:
        found, self.decided = [decision for decision, _ in self.decided], []
        return found


class Votes:
    """A poll whose end a test brings."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.done: Callable[[Outcome], object]
        self.stops = 0

    def ask(self, sequence: int, voters: Sequence[str], needed: int, active: bool, done: Callable[[Outcome], object]) -> None:
        self.asked.append((sequence, tuple(voters), needed, active))
        self.done = done

    def stop(self) -> None:
        self.stops += 1


class VoterTests(SourceTestCase):
    def source(self, *voters: str, primary: bool = True, quorum_size: int = -1) -> VoterSource:
        self.votes = Votes()
        poll: Any = self.votes
        return VoterSource(poll, self.keeper, ProofRules(primary, quorum_size=quorum_size), lambda: voters)

    def test_the_voters_settle_it(self) -> None:
        source = self.source("a", "b", "c")
        for value, past, decision in (("own", 0, GIVEN), ("other", 0, REFUSED), ("", 7, REFUSED), ("", 0, OPEN)):
            source.ask(self.search(serving=True), self.decide)
            self.assertEqual(self.votes.asked.pop(), (4, ("a", "b", "c"), 2, True))
            self.votes.done(Outcome(value, past, "so it was"))
            self.assertIn("so it was", self.decided[0][1])
            self.assertEqual(self.decisions(), [decision])

    def test_what_the_voters_said_has_the_codes_of_artemis(self) -> None:
        source = self.source("a")
        for search, value, text in (
            (self.search(Purpose.TAKE_OVER), "own", "AMQ221071: so it was"),
            (self.search(Purpose.GO_ON, serving=True), "own", "so it was"),
            (self.search(Purpose.GO_ON, serving=True), "other", "AMQ224098: so it was"),
            (self.search(Purpose.START), "other", "so it was"),
        ):
            source.ask(search, self.decide)
            self.votes.done(Outcome(value, 0, "so it was"))
            self.assertEqual(self.decided.pop()[1], text)

    def test_a_pair_alone_has_its_sequence_where_nobody_else_is(self) -> None:
        source = self.source()
        for purpose, absent, decision in (
            (Purpose.TAKE_OVER, True, GIVEN),
            (Purpose.GO_ON, True, GIVEN),
            (Purpose.GO_ON, False, OPEN),
            (Purpose.START, True, OPEN),
        ):
            source.ask(self.search(purpose, absent=absent), self.decide)
            self.assertEqual(self.decisions(), [decision])
        self.assertEqual(self.votes.asked, [])

    def test_a_backup_asks_nobody_at_its_start(self) -> None:
        self.source("a", primary=False).ask(self.search(Purpose.START), self.decide)
        self.assertEqual((self.decisions(), self.votes.asked), ([OPEN], []))

    def test_a_copy_that_has_given_itself_up_asks_nobody(self) -> None:
        source = self.source("a")
        self.keeper.give_up(False)
        self.writer.run()
        source.ask(self.search(absent=True), self.decide)
        self.assertEqual((self.decisions(), self.votes.asked), ([OPEN], []))

    def test_a_stop_ends_the_poll_and_a_commit_asks_nobody(self) -> None:
        source = self.source("a")
        committed: list[bool] = []
        source.commit(4, committed.append)
        source.stop()
        source.release()
        self.assertEqual((committed, self.votes.stops, self.votes.asked), ([True], 1, []))


class Locks:
    """A lock manager whose answers a test brings."""

    def __init__(self) -> None:
        self.claims: list[tuple[str, int]] = []
        self.done: Callable[[Claim | str], object]
        self.calls: list[Any] = []

    def claim(self, name: str, sequence: int, done: Callable[[Claim | str], object]) -> None:
        self.claims.append((name, sequence))
        self.done = done

    def commit(self, sequence: int, done: Callable[[bool], object]) -> None:
        self.calls.append(sequence)
        done(False)

    def stop(self) -> None:
        self.calls.append("stop")

    def release(self) -> None:
        self.calls.append("release")


class LockTests(SourceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.locks = Locks()
        self.broken: list[Failure] = []
        locks: Any = self.locks
        self.source = LockSource(locks, "node", self.keeper, self.broken.append)

    def test_the_lock_manager_settles_it(self) -> None:
        for verdict, decision in ((Verdict.CLAIMED, GIVEN), (Verdict.STALE, REFUSED), (Verdict.BUSY, OPEN)):
            self.source.ask(self.search(), self.decide)
            self.locks.done(Claim(verdict, "so it was"))
            self.assertEqual(self.decided.pop(), (decision, "so it was"))
        self.source.ask(self.search(), self.decide)
        self.locks.done("it does not answer")
        self.assertEqual(self.decided, [(OPEN, "it does not answer")])
        self.assertEqual(set(self.locks.claims), {("node", 4)})

    def test_a_sequence_that_is_left_open_is_skipped(self) -> None:
        self.source.ask(self.search(), self.decide)
        self.locks.done(Claim(Verdict.SKIP, ""))
        self.assertEqual(self.locks.claims, [("node", 4)])
        self.writer.run()
        self.assertEqual((self.locks.claims, self.decided), ([("node", 4), ("node", 5)], []))

    def test_nothing_comes_after_a_stop(self) -> None:
        self.source.ask(self.search(), self.decide)
        self.source.stop()
        self.locks.done(Claim(Verdict.CLAIMED, ""))
        self.source.ask(self.search(), self.decide)
        self.locks.done(Claim(Verdict.SKIP, ""))
        self.source.stop()
        self.writer.run()
        self.assertEqual((self.decided, self.locks.claims, self.locks.calls), ([], [("node", 4)] * 2, ["stop"] * 2))

    def test_a_record_that_cannot_be_changed_is_told(self) -> None:
        self.patch(self.keeper, "skip", lambda: fail(OSError("the disk is gone")))
        self.source.ask(self.search(), self.decide)
        self.locks.done(Claim(Verdict.SKIP, ""))
        self.assertEqual((len(self.broken), self.decided), (1, []))

    def test_a_commit_and_a_release_go_to_it(self) -> None:
        committed: list[bool] = []
        self.source.commit(4, committed.append)
        self.source.release()
        self.assertEqual((committed, self.locks.calls), ([False], [4, "release"]))
