"""The steps of a claim: what the number and the lock say, and what crashes and lost answers leave behind."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.claims import Claims, Standing, Verdict, standing
from mqbroker.ha.locks.contract import UnavailableError
from tests.support.locks import LockService, MemoryLockManager


class StandingTests(SynchronousTestCase):
    def test_how_data_stand_to_a_number(self) -> None:
        for number, sequence, expected in (
            (0, 0, Standing.NEWEST),
            (5, 5, Standing.NEWEST),
            (-5, 5, Standing.NEWEST),
            (-6, 5, Standing.CLAIMED),
            (-1, 0, Standing.CLAIMED),
            (6, 5, Standing.STALE),
            (-7, 5, Standing.STALE),
            (4, 5, Standing.STALE),
            (-4, 5, Standing.STALE),
            (0, 5, Standing.STALE),
        ):
            self.assertEqual(standing(number, sequence), expected, (number, sequence))


class ClaimTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.service = LockService()
        self.lost: list[str] = []

    def claims(self) -> tuple[Claims, MemoryLockManager]:
        manager = MemoryLockManager(self.service)
        return Claims(manager, self.lost.append), manager

    def test_locks_that_are_lost_while_the_manager_starts(self) -> None:
        claims, manager = self.claims()
        start = manager.start

        def start_and_lose(lost: Callable[[str], object]) -> Sequence[str]:
            warnings = start(lost)
            manager.lose()
            return warnings

        self.patch(manager, "start", start_and_lose)
        claims.start()
        self.assertEqual(self.lost, ["the session is over"])
        self.service.down = True
        claims.stop()
        self.assertRaises(UnavailableError, claims.start)
        self.service.down = False
        self.patch(manager, "start", start)
        claims.start()
        self.assertTrue(manager.session)

    def test_a_claim_is_committed_once_it_is_durable(self) -> None:
        claims, _ = self.claims()
        self.assertEqual(claims.claim("n", 1).verdict, Verdict.CLAIMED)
        self.assertEqual(self.service.numbers, {"n": -1})
        self.assertTrue(claims.commit("n", 1))
        self.assertEqual(self.service.numbers, {"n": 1})
        self.assertEqual(claims.claim("n", 2).verdict, Verdict.CLAIMED)

    def test_old_data_get_nothing_and_keep_no_lock(self) -> None:
        self.service.numbers["n"] = 7
        claims, _ = self.claims()
        claim = claims.claim("n", 6)
        self.assertEqual((claim.verdict, self.service.holders), (Verdict.STALE, {}))
        self.assertIn("sequence 7 of n, reached: the data of sequence 5 are old", claim.text)

    def test_data_that_became_old_while_the_lock_was_waited_for(self) -> None:
        claims, manager = self.claims()
        claims.start()
        taken = manager.try_lock

        def try_lock(name: str) -> bool:
            self.service.numbers["n"] = 1
            return taken(name)

        self.patch(manager, "try_lock", try_lock)
        self.assertEqual(claims.claim("n", 1).verdict, Verdict.STALE)
        self.assertEqual(self.service.holders, {})

    def test_a_service_that_has_lost_the_number_is_told_of(self) -> None:
        claims, _ = self.claims()
        claim = claims.claim("n", 6)
        self.assertEqual(claim.verdict, Verdict.STALE)
        self.assertIn("has lost its number", claim.text)

    def test_the_lock_alone_gives_nothing_and_nothing_goes_without_it(self) -> None:
        one, _ = self.claims()
        other, _ = self.claims()
        one.claim("n", 1)
        self.service.numbers["n"] = 0
        self.assertEqual(other.claim("n", 1).verdict, Verdict.BUSY)
        one.release("n")
        self.assertEqual(other.claim("n", 1).verdict, Verdict.CLAIMED)

    def test_a_claim_that_was_left_open_is_skipped_and_the_next_one_is_claimed(self) -> None:
        self.service.numbers["n"] = -4
        claims, _ = self.claims()
        self.assertEqual(claims.claim("n", 4).verdict, Verdict.SKIP)
        self.assertEqual(claims.claim("n", 5).verdict, Verdict.CLAIMED)
        self.assertEqual(self.service.numbers["n"], -5)

    def test_who_made_the_claim_commits_nothing_once_another_one_has_the_lock(self) -> None:
        one, first = self.claims()
        other, _ = self.claims()
        self.service.numbers["n"] = 3
        one.claim("n", 4)
        self.service.end(first)
        self.assertEqual(other.claim("n", 4).verdict, Verdict.SKIP)
        one.stop()
        one.start()
        self.assertFalse(one.commit("n", 4))
        self.assertEqual(self.service.numbers["n"], -4)

    def test_a_commit_whose_answer_was_lost_is_repeated(self) -> None:
        claims, manager = self.claims()
        claims.claim("n", 1)
        manager.lost_answers = 1
        self.assertRaises(UnavailableError, claims.commit, "n", 1)
        self.assertTrue(claims.commit("n", 1))

    def test_a_lock_that_is_lost_before_the_claim(self) -> None:
        claims, manager = self.claims()
        self.patch(manager, "change_number", lambda name, old, new: False)
        self.assertEqual(claims.claim("n", 1).verdict, Verdict.BUSY)

    def test_the_manager_is_started_once_and_its_warnings_are_handed_on(self) -> None:
        claims, manager = self.claims()
        manager.warnings.append("few servers")
        self.assertEqual(list(claims.start()), ["few servers"])
        self.assertEqual(list(claims.start()), [])
        claims.claim("n", 1)
        self.assertEqual(manager.starts, 1)

    def test_the_loss_of_a_former_connection_says_nothing(self) -> None:
        claims, manager = self.claims()
        claims.start()
        former = manager._lost
        claims.stop()
        former("late")
        claims.start()
        former("later")
        self.assertEqual(self.lost, [])
        manager.lose()
        self.assertEqual(len(self.lost), 1)

    def test_the_loss_of_a_connection_that_is_just_made_is_told(self) -> None:
        claims, manager = self.claims()
        start = manager.start

        def start_and_lose(lost: Callable[[str], object]) -> Sequence[str]:
            warnings = start(lost)
            manager.lose()
            return warnings

        manager.start = start_and_lose  # type: ignore[method-assign]
        claims.start()
        self.assertEqual(self.lost, ["the session is over"])

    def test_a_start_that_failed_is_made_again(self) -> None:
        claims, manager = self.claims()
        self.service.down = True
        with self.assertRaises(UnavailableError):
            claims.start()
        self.service.down = False
        claims.start()
        self.assertEqual((manager.starts, manager.session), (1, True))

    def test_without_a_connection_there_is_nothing_to_release(self) -> None:
        claims, manager = self.claims()
        claims.release("n")
        claims.stop()
        self.assertEqual(manager.starts, 0)


class Copy:
    """A copy with its durable sequence, the messages that it has, and the process that may crash at each step."""

    def __init__(self, service: LockService) -> None:
        self.service = service
        self.sequence = 0
        self.has = 0
        """How many of the messages that were ever written; both copies begin with the same."""
        self.manager = MemoryLockManager(service)
        self.restart()

    def restart(self) -> None:
        self.service.end(self.manager)
        self.manager = MemoryLockManager(self.service)
        self.claims = Claims(self.manager, lambda reason: None)
        self.claimed = 0
        self.alone = False


class WalkTests(SynchronousTestCase):
    """Random walks of three copies that are equal at first: what one has acknowledged alone is never missing in a later one."""

    def test_no_acknowledged_message_is_missing_in_who_goes_on(self) -> None:
        activations = 0
        for seed in range(300):
            rng = random.Random(seed)
            service = LockService()
            copies = [Copy(service) for _ in range(3)]
            acknowledged = 0
            for _ in range(200):
                copy = rng.choice(copies)
                deed = rng.randrange(8)
                copy.manager.lost_answers = rng.random() < 0.1
                try:
                    if deed == 0:
                        copy.restart()
                    elif deed == 1:
                        service.end(copy.manager)
                    elif deed == 2:
                        copy.claims.stop()
                        copy.claims.start()
                    elif copy.alone:
                        acknowledged += 1
                        copy.has = acknowledged
                        other = rng.choice(copies)
                        if other is not copy:
                            # A replica in sync: from now on nothing is acknowledged that it does not have.
                            other.restart()
                            other.sequence, other.has, copy.alone = copy.sequence, copy.has, False
                    elif copy.claimed and deed < 5:
                        copy.sequence = copy.claimed
                    elif copy.claimed and copy.sequence == copy.claimed:
                        sequence, committed = copy.claimed, copy.claims.commit("n", copy.claimed)
                        copy.claimed = 0
                        if committed:
                            activations += 1
                            self.assertEqual(copy.has, acknowledged, (seed, sequence))
                            copy.alone = True
                    elif not copy.claimed:
                        claim = copy.claims.claim("n", copy.sequence + 1)
                        if claim.verdict is Verdict.SKIP:
                            copy.sequence += 1
                        elif claim.verdict is Verdict.CLAIMED:
                            copy.claimed = copy.sequence + 1
                except UnavailableError:
                    pass
        self.assertGreater(activations, 300)
