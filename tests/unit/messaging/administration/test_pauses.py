"""Pauses that outlast a restart, and those that do not."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.messaging.support import Bench, Collector


class PauseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")
        self.pauses = self.bench.messaging.pauses

    def kept(self) -> dict[tuple[str, str], str]:
        """What the store would give back after a restart."""
        found: dict[tuple[str, str], str] = {}
        for kind, *values in (entry for batch in self.bench.store.log for entry in batch):
            if kind == "setting":
                found[values[0], values[1]] = values[2]
            elif kind == "delete setting":
                del found[values[0], values[1]]
        return found

    def test_a_plain_pause_is_not_kept(self) -> None:
        self.pauses.pause(self.queue, persist=False)
        self.assertTrue(self.queue.paused)
        self.assertFalse(self.pauses.is_kept(self.queue))
        self.assertEqual(self.kept(), {})

    def test_a_kept_pause_of_queue_and_address_holds_until_resumed(self) -> None:
        for target in (self.queue, self.queue.address):
            self.pauses.pause(target, persist=True)
            self.assertTrue(self.pauses.is_kept(target))
            target.paused = False  # as after a restart
            self.pauses.restore(self.kept())
            self.assertTrue(target.paused)
            taker = Collector(self.bench, self.queue)
            self.bench.send(b"1")
            self.assertEqual(taker.bodies, [])
            self.pauses.resume(target)
            self.bench.turn()
            self.assertEqual(taker.bodies, [b"1"])
            taker.leave()
            self.assertFalse(self.pauses.is_kept(target))
            self.assertEqual(self.kept(), {})

    def test_a_later_queue_of_the_same_name_is_another_one(self) -> None:
        self.pauses.pause(self.queue, persist=True)
        self.bench.messaging.administration.delete_queue(self.queue)
        later = self.bench.queue("q")
        self.pauses.restore({**self.kept(), ("paused-address", "gone"): "7", ("divert", "q"): "{}"})
        self.assertFalse(later.paused)
        self.assertFalse(self.pauses.is_kept(later))
        forgotten = [entry[1:] for entry in self.bench.store.entries("delete setting")]
        self.assertEqual(forgotten, [("paused-queue", "q"), ("paused-address", "gone")])
