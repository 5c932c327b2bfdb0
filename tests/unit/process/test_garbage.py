"""A start collects no garbage."""

from __future__ import annotations

import gc

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.garbage import collection_paused


class PausedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.addCleanup(gc.enable if gc.isenabled() else gc.disable)
        gc.enable()

    def test_nothing_is_collected_inside_and_collection_goes_on_afterwards(self) -> None:
        with collection_paused():
            self.assertFalse(gc.isenabled())
        self.assertTrue(gc.isenabled())

    def test_a_failure_inside_lets_collection_go_on(self) -> None:
        with self.assertRaises(ValueError), collection_paused():
            raise ValueError
        self.assertTrue(gc.isenabled())

    def test_collection_that_was_off_before_stays_off(self) -> None:
        gc.disable()
        with collection_paused():
            pass
        self.assertFalse(gc.isenabled())
