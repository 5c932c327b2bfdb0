"""Tasks of the shell of plain sockets."""

from __future__ import annotations

import gc
from contextvars import ContextVar
from typing import Any

from mqclient.core.runtime import sleep
from mqclient.shells.sockets_tasks import Cancelled
from tests.unit.mqclient.shells.test_sockets_links import RuntimeTestCase


class TaskTests(RuntimeTestCase):
    def test_results_and_errors_pass_through(self) -> None:
        async def inner(value: int) -> int:
            if value < 0:
                raise ValueError(value)
            return value * 2

        async def outer() -> list[int]:
            tasks = [self.runtime.spawn(inner(number)) for number in (1, 2)]
            return [await task for task in reversed(tasks)]

        self.assertEqual(self.run_(outer()), [4, 2])
        self.assertRaises(ValueError, self.run_, inner(-1))
        self.assertEqual(self.runtime.failures, [])

    def test_a_future_goes_on_in_the_next_turn_and_only_its_first_outcome_counts(self) -> None:
        future = self.runtime.create_future()
        seen: list[int] = []

        async def wait() -> None:
            seen.append(await future)

        task = self.runtime.spawn(wait())
        self.runtime.pump(0)
        self.runtime.resolve(future, 1)
        self.runtime.resolve(future, 2)
        self.runtime.reject(future, ValueError())
        self.assertTrue(self.runtime.is_done(future))
        self.assertEqual(seen, [])
        self.run_(task)
        self.assertEqual(seen, [1])

    def test_cancelling_reaches_what_is_waited_for(self) -> None:
        future = self.runtime.create_future()
        ends: list[str] = []

        async def inner() -> None:
            try:
                await future
            finally:
                ends.append("inner")

        async def outer() -> None:
            try:
                await self.runtime.spawn(inner())
            finally:
                ends.append("outer")

        task = self.runtime.spawn(outer())
        self.runtime.pump(0)
        task.cancel()
        self.runtime.pump(0)
        self.assertEqual((ends, self.runtime.is_done(future)), (["inner", "outer"], True))
        self.assertRaises(Cancelled, task.result)
        self.assertEqual(self.loop.tasks, set())
        self.assertEqual(self.runtime.failures, [])

    def test_cancelling_before_the_first_step(self) -> None:
        async def never() -> None:
            raise AssertionError("it ran")

        task = self.runtime.spawn(never())
        task.cancel()
        self.assertRaises(Cancelled, self.run_, task)

    def test_a_coroutine_may_go_on_after_it_was_cancelled(self) -> None:
        async def stubborn() -> str:
            try:
                await self.runtime.create_future()
            except Cancelled:
                await sleep(self.runtime, 0)
            return "done"

        task = self.runtime.spawn(stubborn())
        self.runtime.pump(0)
        task.cancel()
        self.assertEqual(self.run_(task), "done")

    def test_a_failure_that_nobody_looks_at_is_reported(self) -> None:
        async def fail() -> None:
            raise ValueError("unseen")

        self.runtime.spawn(fail())
        self.runtime.pump(0)
        gc.collect()  # the traceback keeps the task
        [(_, error)] = self.runtime.failures
        self.assertEqual(str(error), "unseen")

    def test_what_another_framework_waits_for_is_refused(self) -> None:
        class Foreign:
            def __await__(self) -> Any:
                yield "something else"

        async def wait() -> None:
            await Foreign()

        self.assertRaises(TypeError, self.run_, wait())

    def test_each_task_has_its_own_context(self) -> None:
        variable: ContextVar[int] = ContextVar("variable", default=0)

        async def change(value: int) -> int:
            variable.set(value)
            await sleep(self.runtime, 0)
            return variable.get()

        async def both() -> list[int]:
            tasks = [self.runtime.spawn(change(number)) for number in (1, 2)]
            return [await task for task in tasks]

        self.assertEqual((self.run_(both()), variable.get()), ([1, 2], 0))

    def test_an_interrupt_ends_the_call(self) -> None:
        async def interrupted() -> None:
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.run_, interrupted())
        self.assertEqual(self.run_(self.runtime.spawn(sleep(self.runtime, 0))), None)

    def test_one_that_is_about_to_go_on_is_cancelled_where_it_waits_next(self) -> None:
        """The call would go on for ever without its caller, and take the messages that come."""
        first, second = self.runtime.create_future(), self.runtime.create_future()
        seen: list[int] = []

        async def two() -> None:
            seen.append(await first)
            await second

        task = self.runtime.spawn(two())
        self.runtime.pump(0)
        self.runtime.resolve(first, 1)
        task.cancel()
        self.runtime.pump(0)
        self.assertEqual((seen, task.done(), self.runtime.is_done(second)), ([1], True, True))
        self.assertRaises(Cancelled, task.result)

    def test_a_result_of_the_last_moment_counts(self) -> None:
        future = self.runtime.create_future()

        async def wait() -> Any:
            return await future

        task = self.runtime.spawn(wait())
        self.runtime.pump(0)
        self.runtime.resolve(future, 1)
        task.cancel()
        self.assertEqual(self.run_(task), 1)
