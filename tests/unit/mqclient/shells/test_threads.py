"""The thread that runs the listeners of a session."""

from __future__ import annotations

import sys

from twisted.trial.unittest import SynchronousTestCase

from mqclient.shells.threads import Dispatcher


class DispatcherTests(SynchronousTestCase):
    def test_no_failure_of_a_listener_ends_the_thread(self) -> None:
        """The session would get no messages any more, and nobody would hear of that."""
        dispatcher, called = Dispatcher(), list[int]()
        jobs = [(sys.exit, (1,)), (called.append, (2,)), None]
        for job in jobs:
            dispatcher._jobs.put(job)
        with self.assertLogs("mqclient.shells.threads") as logs:
            dispatcher._run()
        self.assertEqual((called, len(logs.records)), ([2], 1))
