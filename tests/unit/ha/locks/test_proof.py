"""The lock manager as the loop sees it: late answers, repeated commits, the release before a stop, and the loss of the locks."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.claims import Claim, Verdict
from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.ha.locks.proof import AGAIN_SECONDS, RELEASE_SECONDS, LockProof
from tests.support.clock import FakeClock
from tests.support.locks import LockService, LockWorker, MemoryLockManager


class ProofTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.service = LockService()
        self.manager = MemoryLockManager(self.service)
        self.worker = LockWorker()
        self.proof = LockProof(self.manager, self.worker, lambda function: function(), self.clock)
        self.told: list[Any] = []

    def claim(self, sequence: int = 1) -> Any:
        self.proof.claim("n", sequence, self.told.append)
        self.worker.run()
        return self.told.pop()

    def logged(self, function: Any) -> list[str]:
        with capturedLogs() as events:
            function()
        return [formatEvent(event) for event in events]

    def test_a_claim_and_its_commit(self) -> None:
        found = self.claim()
        assert isinstance(found, Claim)
        self.assertIs(found.verdict, Verdict.CLAIMED)
        self.proof.commit(1, self.told.append)
        self.worker.run()
        self.assertEqual((self.told, self.service.numbers), ([True], {"n": 1}))

    def test_no_answer_is_told_with_its_reason(self) -> None:
        self.service.down = True
        self.assertIn("the service is down", self.claim())

    def test_nobody_hears_of_an_answer_after_a_stop(self) -> None:
        self.proof.claim("n", 1, self.told.append)
        self.proof.stop()
        self.worker.run()
        self.assertEqual(self.told, [])
        self.proof.commit(1, self.told.append)
        self.proof.stop()
        self.worker.run()
        self.assertEqual(self.told, [])

    def test_a_commit_is_repeated_until_there_is_an_answer(self) -> None:
        self.claim()
        self.service.down = True
        self.proof.commit(1, self.told.append)
        self.assertIn("sequence 1 is not committed yet", self.logged(self.worker.run)[0])
        self.assertEqual(self.told, [])
        self.service.down = False
        self.clock.advance(AGAIN_SECONDS)
        self.worker.run()
        self.assertEqual((self.told, self.clock.pending), ([True], 0))

    def test_a_commit_ends_when_its_connection_is_lost_and_another_one_could_not_be_made_at_once(self) -> None:
        self.proof.open(lambda reason: None)
        self.claim()
        self.service.down = True
        self.manager.lose()
        self.proof.commit(1, self.told.append)
        self.worker.run()
        self.assertEqual(self.told, [])
        self.service.down = False
        self.clock.advance(AGAIN_SECONDS)
        self.worker.run()
        self.assertEqual((self.told, self.clock.pending), ([False], 0))

    def test_a_stop_ends_the_repetition(self) -> None:
        self.claim()
        self.service.down = True
        self.proof.commit(1, self.told.append)
        self.worker.run()
        self.proof.stop()
        self.assertEqual(self.clock.pending, 0)

    def test_a_commit_without_the_lock_fails(self) -> None:
        self.claim()
        self.service.holders.clear()
        self.proof.commit(1, self.told.append)
        self.worker.run()
        self.assertEqual(self.told, [False])

    def test_the_lock_is_released_before_an_orderly_stop_goes_on(self) -> None:
        self.claim()
        self.proof.release(lambda: self.told.append("released"))
        self.assertEqual(self.told, [])
        self.worker.run()
        self.assertEqual((self.told, self.service.holders, self.clock.pending), (["released"], {}, 0))

    def test_a_lock_that_cannot_be_released_ends_with_its_connection(self) -> None:
        self.claim()
        self.service.down = True
        self.proof.release(lambda: self.told.append("released"))
        self.worker.run()
        self.assertEqual((self.told, self.service.holders), (["released"], {}))

    def test_a_claim_after_a_lock_that_could_not_be_released_keeps_its_connection(self) -> None:
        self.claim()
        unlock = self.manager.unlock

        def unlock_fails(name: str) -> None:
            self.manager.unlock = unlock  # type: ignore[method-assign]
            raise UnavailableError("no answer")

        self.manager.unlock = unlock_fails  # type: ignore[method-assign]
        self.proof.release()
        self.proof.claim("n", 2, self.told.append)
        self.worker.run()
        self.assertIs(self.told.pop().verdict, Verdict.CLAIMED)
        self.proof.commit(2, self.told.append)
        self.worker.run()
        self.assertEqual((self.told, self.service.numbers), ([True], {"n": 2}))

    def test_a_release_that_hangs_is_not_waited_for_without_end(self) -> None:
        self.claim()
        self.proof.release(lambda: self.told.append("released"))
        self.clock.advance(RELEASE_SECONDS)
        self.assertEqual(self.told, ["released"])
        self.worker.run()
        self.assertEqual(self.told, ["released"])

    def test_who_has_claimed_nothing_waits_for_nothing(self) -> None:
        self.proof.release(lambda: self.told.append("released"))
        self.assertEqual((self.told, self.worker.waiting), (["released"], 0))

    def test_warnings_and_a_manager_that_is_not_there_are_told_at_the_start(self) -> None:
        self.manager.warnings.append("two servers only")

        def opened() -> None:
            self.proof.open(self.told.append)
            self.worker.run()

        self.assertEqual(self.logged(opened), ["lock manager: two servers only"])
        self.proof.close()
        self.worker.run()
        self.service.down = True
        self.assertIn("the lock manager does not answer: UnavailableError('the service is down')", self.logged(opened)[0])

    def test_the_loss_of_the_locks_is_told_and_the_manager_starts_anew(self) -> None:
        self.proof.open(self.told.append)
        self.claim()
        self.manager.lose()
        self.worker.run()
        self.assertEqual((self.told, self.manager.starts, self.service.holders), (["the session is over"], 2, {}))

    def test_the_end_releases_everything_and_ends_the_thread(self) -> None:
        self.proof.open(self.told.append)
        self.claim()
        self.proof.close()
        self.worker.run()
        self.assertEqual((self.service.holders, self.manager.session, self.worker.stops), ({}, False, 1))

    def test_the_thread_goes_on_for_whoever_opens_again_at_once(self) -> None:
        self.proof.open(self.told.append)
        self.proof.close()
        self.proof.open(self.told.append)
        self.worker.run()
        self.assertEqual((self.manager.session, self.worker.stops), (True, 0))
