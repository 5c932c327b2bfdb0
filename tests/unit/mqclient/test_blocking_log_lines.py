"""The log lines of programs that block."""

from __future__ import annotations

import threading

from twisted.trial.unittest import SynchronousTestCase

from mqclient.blocking import _LoggingRuntime
from mqclient.shells.threads import Dispatcher
from tests.support.network import World


class BlockingShellTests(SynchronousTestCase):
    def test_it_logs_with_logging(self) -> None:
        runtime = _LoggingRuntime(World().clock)
        with self.assertLogs("mqclient.blocking", "WARNING") as logs:
            runtime.log_warning("so it is")
            runtime.log_failure("it failed", ValueError("why"))
        self.assertEqual([record.getMessage() for record in logs.records], ["so it is", "it failed"])
        self.assertIn("ValueError: why", logs.output[1])

    def test_and_so_do_the_threads_of_listeners(self) -> None:
        dispatcher, done = Dispatcher(), threading.Event()
        with self.assertLogs("mqclient.shells.threads", "ERROR") as logs:
            dispatcher.submit(int, "no number")
            dispatcher.submit(done.set)
            self.assertTrue(done.wait(30))
        dispatcher.close(30_000)
        self.assertIn("a listener failed", logs.output[0])
        self.assertIn("no number", logs.output[0])
