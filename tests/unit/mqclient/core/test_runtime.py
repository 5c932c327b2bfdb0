"""What the core is built of in every shell: waiting with a limit, turns, ids."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.runtime import Mutex, Waiters, format_uuid, new_user_id, new_uuid, sleep, wait_at_most
from tests.support.network import World


class RuntimeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.runtime: Any = self.world.runtime
        self.clock: Any = self.world.clock


class WaitTests(RuntimeCase):
    def wait(self, seconds: float | None) -> tuple[Any, Any]:
        future = self.runtime.create_future()
        return future, self.runtime.spawn(wait_at_most(self.runtime, future, seconds, TimeoutError("late")))

    def test_a_result_in_time_ends_the_wait_and_its_timer(self) -> None:
        future, waiting = self.wait(5.0)
        self.runtime.resolve(future, "value")
        self.assertEqual(self.successResultOf(waiting), "value")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_after_the_limit_the_error_is_raised(self) -> None:
        _, waiting = self.wait(5.0)
        self.clock.advance(5.0)
        self.failureResultOf(waiting, TimeoutError)

    def test_without_a_limit_there_is_no_timer(self) -> None:
        future, waiting = self.wait(None)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.runtime.resolve(future, 1)
        self.assertEqual(self.successResultOf(waiting), 1)

    def test_a_cancelled_sleep_leaves_no_timer(self) -> None:
        sleeping = self.runtime.spawn(sleep(self.runtime, 9.0))
        sleeping.cancel()
        self.failureResultOf(sleeping, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_sleep_ends_at_its_time(self) -> None:
        sleeping = self.runtime.spawn(sleep(self.runtime, 9.0))
        self.clock.advance(8.9)
        self.assertNoResult(sleeping)
        self.clock.advance(0.1)
        self.assertIsNone(self.successResultOf(sleeping))


class WaitersTests(RuntimeCase):
    def setUp(self) -> None:
        super().setUp()
        self.waiters = Waiters(self.runtime)

    def test_all_that_wait_go_on_with_the_value(self) -> None:
        waiting = [self.runtime.spawn(self.waiters.wait()), self.waiters.add()]
        self.assertEqual(len(self.waiters.waiting), 2)
        self.waiters.wake("value")
        self.assertEqual([self.successResultOf(each) for each in waiting], ["value", "value"])
        self.assertEqual(self.waiters.waiting, {})

    def test_one_that_waits_again_when_it_goes_on_waits_for_the_next_time(self) -> None:
        rounds = []

        async def wait() -> None:
            while len(rounds) < 2:
                await self.waiters.wait()
                rounds.append(len(rounds))

        waiting = self.runtime.spawn(wait())
        self.waiters.wake()
        self.assertEqual((rounds, len(self.waiters.waiting)), ([0], 1))
        self.waiters.wake()
        self.assertIsNone(self.successResultOf(waiting))

    def test_one_that_is_late_or_cancelled_is_forgotten(self) -> None:
        late, given, cancelled = (
            self.runtime.spawn(self.waiters.wait(5.0)),
            self.runtime.spawn(self.waiters.wait(5.0, ValueError("late"))),
            self.runtime.spawn(self.waiters.wait()),
        )
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.clock.advance(5.0)
        self.failureResultOf(late, TimeoutError)
        self.failureResultOf(given, ValueError)
        self.assertEqual(self.waiters.waiting, {})


class MutexTests(RuntimeCase):
    def setUp(self) -> None:
        super().setUp()
        self.mutex = Mutex(self.runtime)
        self.inside: list[str] = []

    def enter(self, name: str, until: Any = None) -> Any:
        async def work() -> None:
            async with self.mutex:
                self.inside.append(name)
                if until is not None:
                    await until

        return self.runtime.spawn(work())

    def test_callers_come_in_one_by_one_in_the_order_of_their_arrival(self) -> None:
        first, second = self.runtime.create_future(), self.runtime.create_future()
        calls = [self.enter("a", first), self.enter("b", second), self.enter("c")]
        self.assertEqual((self.inside, self.mutex.held), (["a"], True))
        self.runtime.resolve(first, None)
        self.assertEqual(self.inside, ["a", "b"])
        self.runtime.resolve(second, None)
        self.assertEqual((self.inside, self.mutex.held), (["a", "b", "c"], False))
        for call in calls:
            self.successResultOf(call)

    def test_one_that_gives_up_waiting_does_not_hold_up_the_next(self) -> None:
        first = self.runtime.create_future()
        self.enter("a", first)
        waiting = self.enter("b")
        self.enter("c")
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.runtime.resolve(first, None)
        self.assertEqual((self.inside, self.mutex.held), (["a", "c"], False))

    def test_a_failure_inside_lets_the_next_in(self) -> None:
        async def fail() -> None:
            async with self.mutex:
                raise ValueError

        self.failureResultOf(self.runtime.spawn(fail()), ValueError)
        self.enter("b")
        self.assertEqual(self.inside, ["b"])

    def test_a_thousand_waiters_do_not_exhaust_the_stack(self) -> None:
        first = self.runtime.create_future()
        self.enter("first", first)
        calls = [self.enter(str(number)) for number in range(2000)]
        self.runtime.resolve(first, None)
        self.assertEqual(len(self.inside), 2001)
        for call in calls:
            self.successResultOf(call)


class IdTests(RuntimeCase):
    def test_ids_look_like_version_1_as_java_expects_them(self) -> None:
        raw = new_user_id(self.runtime)
        self.assertEqual((len(raw), raw[6] >> 4, raw[8] >> 6), (16, 1, 2))
        self.assertRegex(new_uuid(self.runtime), r"\A[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

    def test_sixteen_bytes_become_the_text_of_a_uuid(self) -> None:
        self.assertEqual(format_uuid(bytes(range(16))), "00010203-0405-0607-0809-0a0b0c0d0e0f")
