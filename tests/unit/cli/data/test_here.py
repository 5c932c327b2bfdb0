"""The disk writer and the clock of one command: all that is due happens in order, when it is asked for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.here import Here


class HereTests(SynchronousTestCase):
    def test_everything_is_done_in_order_and_at_once(self) -> None:
        here = Here()
        done: list[object] = []
        here.submit([lambda: done.append("written")], done.append)
        here.call_later(5.0, done.append, "later")
        here.call_later(5.0, done.append, "never").cancel()
        self.assertEqual((done, here.monotonic(), here.wall_ms()), ([], 0.0, 0))
        here.run()
        self.assertEqual(done, ["written", None, "later"])
