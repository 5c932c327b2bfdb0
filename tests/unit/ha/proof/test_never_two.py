"""Random walks of copies and voters through crashes, cuts and late messages: never two copies that may acknowledge alone, and no loss."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof import voter
from mqbroker.ha.proof.copy_keeper import CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, write_record
from mqbroker.ha.proof.meeting import Standing
from mqbroker.ha.proof.paxos import Held, Question, Verdict
from mqbroker.ha.proof.ports import UnreachableError
from mqbroker.ha.proof.seeking import Seeker
from tests.support import copies
from tests.support.copies import FOLDER
from tests.support.copies_world import TwoError, World

WALKS = 20
"""Of each kind."""
PLANTED_WALKS = 400
"""Within which a planted fault is found, at the latest."""


def walk(seed: int, voters: int, cuts: bool = True, steps: int = 300, heal: bool = True, copies: int = 3) -> World:
    """Raises TwoError, with what has happened."""
    rng = random.Random(seed)
    world = World(rng, voters, copies, cuts)
    try:
        for _ in range(rng.randrange(20, steps)):
            world.step()
        if heal:
            world.heal(60)
    except TwoError as error:
        raise TwoError(f"seed {seed}: {error}\n" + "\n".join(world.told[-40:])) from None
    return world


def one_after_the_other(seed: int, kinds: str) -> None:
    """A pair alone to which one thing at a time happens, each after both were well again.

    ``kinds`` to choose from: s = one stands still, k = one is killed and comes back, o = an orderly stop, l = the connection is lost.
    """
    rng = random.Random(seed)
    world = World(rng, 0, 2, cuts=False)
    world.loads = True
    try:
        for _ in range(8):
            world.heal(15)
            for copy in world.copies:
                copy.produce()
            world.run(rng.random() * 0.1)
            happen(rng.choice(kinds), world, rng)
            for _ in range(100):
                for copy in world.copies:
                    if copy.running and copy.paused_until <= world.clock.seconds:
                        copy.produce()
                world.run(rng.random() * 0.4)
        world.heal(40)
        if not any(copy.session is not None and copy.session.counts for copy in world.copies):
            raise TwoError("no replica in the end")
    except TwoError as error:
        raise TwoError(f"seed {seed}: {error}\n" + "\n".join(world.told[-40:])) from None


def happen(kind: str, world: World, rng: random.Random) -> None:
    copy = rng.choice(world.copies)
    if kind == "s":
        world.stand_still(copy, rng.random() * rng.choice((1, 5, 15)))
    elif kind == "k":
        world.stop_or_start(copy)
        world.clock.call_later(rng.random() * rng.choice((0.2, 3, 10)), world.stop_or_start, copy)
    elif kind == "o":
        copy.hand_over()
    elif copy.session is not None:
        copy.session.lost()


class NeverTwoTests(SynchronousTestCase):
    def walks(self, voters: int, cuts: bool = True, copies: int = 3) -> Counter[str]:
        seen: Counter[str] = Counter()
        for seed in range(WALKS):
            world = walk(seed, voters, cuts, copies=copies)
            seen["acknowledged"] += len(world.acknowledged)
            seen["taken over"] += sum(copy.granted_times for copy in world.copies[1:])
            active = [copy for copy in world.copies if copy.granted_times and copy.seeker.state == "proven"]
            self.assertEqual(len(active), 1, "\n".join([f"seed {seed}", *world.told[-40:]]))
            session = active[0].session
            self.assertTrue(session is not None and session.counts, "\n".join([f"seed {seed}: no replica", *world.told[-40:]]))
            self.assertLessEqual(world.acknowledged, active[0].log)
        return seen

    def test_with_voters(self) -> None:
        for voters in (1, 2, 4):
            seen = self.walks(voters)
            self.assertGreater(min(seen.values()), 10, f"{voters} voters: {seen}")

    def test_alone_without_cuts(self) -> None:
        for count in (2, 3):
            seen = self.walks(0, cuts=False, copies=count)
            self.assertGreater(min(seen.values()), 10, seen)

    def test_a_pair_with_a_voter(self) -> None:
        seen = self.walks(1, copies=2)
        self.assertGreater(min(seen.values()), 10, seen)

    def test_a_pair_alone_to_which_one_thing_at_a_time_happens(self) -> None:
        for seed in range(WALKS):
            one_after_the_other(seed, "s")
            one_after_the_other(seed, "skol")

    def test_two_copies_that_gave_themselves_up_to_each_other(self) -> None:
        """Both have everything: one of them goes on, and the other one copies from it."""
        for seed in range(10):
            world = World(random.Random(seed), voters=1, copies=2, cuts=False)
            world.run(10)
            records = [copy.keeper.record for copy in world.copies]
            self.assertEqual([record.shared for record in records], [True, True])
            for copy in world.copies:
                copy.crash()
                write_record(copy.disk, FOLDER, copy.keeper.record.gave_up())
            world.heal(30)
            last = max(world.copies, key=lambda copy: copy.keeper.record.copy_id)
            self.assertEqual([copy.seeker.state == "proven" for copy in world.copies], [copy is last for copy in world.copies])
            self.assertEqual([copy.keeper.record.complete for copy in world.copies], [True, True])


class PlantedTests(SynchronousTestCase):
    """Each rule that is left out is found."""

    def assert_found(self, voters: int = 1) -> None:
        for seed in range(PLANTED_WALKS):
            try:
                walk(seed, voters, heal=False)
            except TwoError:
                return
        self.fail(f"not found within {PLANTED_WALKS} walks")

    def assert_standstill_found(self) -> None:
        for seed in range(PLANTED_WALKS):
            try:
                one_after_the_other(seed, "s")
            except TwoError:
                return
        self.fail(f"not found within {PLANTED_WALKS} walks")

    def test_silence_that_is_taken_for_absence(self) -> None:
        self.patch(copies, "SilentError", UnreachableError)
        self.assert_standstill_found()

    def test_a_copy_that_does_not_listen_while_it_reads_its_journal(self) -> None:
        granted = copies.CopyProcess.granted

        def close(copy: Any, sequence: int, text: str) -> None:
            granted(copy, sequence, text)
            copy.listens = copy.paused_until <= copy.monotonic()
            copy.call_later(0, setattr, copy, "listens", True)

        self.patch(copies.CopyProcess, "granted", close)
        self.assert_standstill_found()

    def test_a_voter_that_grants_twice(self) -> None:
        def grant(held: Held, question: Question) -> tuple[Held, Verdict]:
            return Held(question.sequence, question.ballot), Verdict.GIVEN

        self.patch(voter, "consider", grant)
        self.assert_found()

    def test_giving_up_that_is_not_durable(self) -> None:
        def forget(keeper: Any, diverged: bool = False) -> Deferred[CopyRecord]:
            keeper._copying = None
            keeper._next = keeper.record = keeper._next.gave_up()
            return succeed(keeper._next)

        self.patch(CopyKeeper, "give_up", forget)
        self.assert_found()

    def test_a_copy_that_is_noted_too_late(self) -> None:
        def note(seeker: Any, other: Any) -> Deferred[CopyRecord]:
            seeker._clock.call_later(1.0, lambda: seeker._keeper.note(other).addErrback(lambda _: None))
            return succeed(seeker._keeper.record)

        self.patch(Seeker, "note", note)
        self.assert_found()

    def test_the_word_of_anyone(self) -> None:
        self.patch(Standing, "gives_word_to", lambda standing, other: bool(other.search) and not standing.complete)
        self.patch(Standing, "yields_to", lambda standing, other: other.activity > standing.activity)
        self.assert_found()

    def test_the_word_of_a_copy_that_was_active_later(self) -> None:
        self.patch(Standing, "gives_word_to", lambda standing, other: standing.copy_id == other.noted != "" and not standing.complete)
        self.patch(Standing, "yields_to", lambda standing, other: other.activity > standing.activity)
        self.assert_found()

    def test_a_list_of_voters_that_changes_by_more_than_one(self) -> None:
        def change(world: Any, log: frozenset[int]) -> int:
            world._entry += 1
            if world.rng.random() < 0.4:
                names = [voter.name for voter in world.voters]
                world._lists[world._entry] = tuple(world.rng.sample(names, world.rng.randrange(1, min(3, len(names) + 1))))
            return int(world._entry)

        self.patch(World, "next_entry", change)
        self.assert_found(4)

    def test_a_sequence_that_is_raised_in_memory_only(self) -> None:
        def forget(keeper: Any, sequence: int, took_over: bool) -> Deferred[CopyRecord]:
            keeper._next = keeper.record = keeper._next.raised(sequence, took_over)
            return succeed(keeper._next)

        self.patch(CopyKeeper, "raise_to", forget)
        self.assert_found()

    def test_an_incomplete_copy_that_becomes_active(self) -> None:
        self.patch(CopyRecord, "complete", True)
        self.assert_found()
