"""The loop of the shell of plain sockets."""

from __future__ import annotations

import socket
from typing import Any

from mqclient.core.runtime import sleep
from tests.unit.mqclient.shells.test_sockets_links import RuntimeTestCase


class LoopTests(RuntimeTestCase):
    def test_timers_in_their_order_and_not_when_cancelled(self) -> None:
        called: list[str] = []
        self.runtime.call_later(0.002, called.append, "second")
        self.runtime.call_later(0.001, called.append, "first")
        self.runtime.call_later(0.0015, called.append, "never").cancel()
        self.run_(sleep(self.runtime, 0.003))
        self.assertEqual(called, ["first", "second"])

    def test_cancelled_timers_do_not_gather(self) -> None:
        kept = self.runtime.call_later(60, lambda: None)
        for _ in range(5000):
            self.runtime.call_later(30, lambda: None).cancel()
        self.assertLess(len(self.loop._timers), 300)
        kept.cancel()

    def test_a_defect_does_not_stop_others(self) -> None:
        called: list[int] = []
        self.runtime.call_soon(lambda: 1 // 0)
        self.runtime.call_soon(called.append, 1)
        self.runtime.call_later(0, lambda: 1 // 0)
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual((called, [type(error) for _, error in self.runtime.failures]), ([1], [ZeroDivisionError] * 2))

    def test_calls_of_other_threads_wake_the_loop(self) -> None:
        self.loop.accept_threads()
        future = self.runtime.create_future()

        async def wait() -> Any:
            self.loop.call_soon(self.loop.call_from_thread, self.runtime.resolve, future, 5)
            return await future

        self.assertEqual(self.run_(wait(), None), 5)

    def test_timers_wait_after_an_absence(self) -> None:
        """What has arrived meanwhile is dealt with before a limit on waiting for it counts."""
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        seen: list[str] = []
        self.runtime.call_later(0, seen.append, "late")
        self.loop.watch(near, 1, lambda events: (seen.append("data"), near.recv(10)))
        self.runtime._left -= 100
        self.loop.call_soon(far.send, b"x")
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual(seen, ["data"])
        self.loop.hold_timers(0)
        self.runtime.pump(0)
        self.assertEqual(seen, ["data", "late"])
