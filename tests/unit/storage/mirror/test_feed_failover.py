"""Random work on a store with a replica, and power failures of one machine or both: what somebody was told of is on the replica's disk.

The faults planted here say that these tests can fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from unittest import TestCase

from mqbroker.storage.errors import StorageError
from mqbroker.storage.mirror.changes import Change, Sync
from mqbroker.storage.mirror.feed import ReplicaFeed
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from tests.unit.storage.mirror.pair import Pair, crashes

SEEDS = 60
LIVES = 4


class Life:
    """One seed: several times a pair is made, works, and falls apart."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.rng = pair.rng
        self.failovers = 0

    def run(self) -> int:
        for _ in range(LIVES):
            self.once()
        return self.failovers

    def once(self) -> None:
        pair, rng = self.pair, self.rng
        self.work(rng.randrange(40))
        pair.pair()
        kind = rng.choice(("active", "both", "replica first", "killed"))
        machine = pair.active if rng.random() < 0.5 or kind == "active" else pair.replica
        self.work(rng.randrange(150))
        crash = rng.random() < 0.8
        if crash:
            machine.disk.crash_after = rng.randrange(300)
            machine.disk.crash_in = rng.choice(("", "sync", "write"))
        stopped = crashes(lambda: self.work(100 + rng.randrange(200)))
        for disk in (pair.active.disk, pair.replica.disk):
            disk.crash_after, disk.crash_in = None, ""
        assert not pair.failures and not pair.lost, (pair.failures, pair.lost)
        if stopped and machine is pair.replica and rng.random() < 0.5:
            # Nobody knows yet: the active one works on, and hears no answers.
            pair.answers.clear()
            pair.replica.crash()
            pair.folder = None
            self.work_alone(rng.randrange(60))
            stopped = False
        self.end(kind, stopped and machine is pair.replica)

    def end(self, kind: str, replica_is_down: bool) -> None:
        """The active machine is gone for good, or as long as it takes."""
        pair, rng = self.pair, self.rng
        if not replica_is_down and pair.folder is not None and kind in ("active", "killed"):
            while pair.pipe and rng.random() < 0.7:
                pair.deliver()
            closed: list[bool] = []
            pair.folder.close(lambda: closed.append(True))
            pair.replica.writer.run()
            assert closed
            pair.replica.end_process()
        elif pair.folder is not None or replica_is_down:
            pair.replica.crash()
        if kind == "killed":
            pair.active.end_process()
        else:
            pair.active.crash()
        if pair.in_sync:
            self.failovers += 1
            pair.fail_over()
        else:
            pair.go_on()

    def work(self, steps: int) -> None:
        for _ in range(steps):
            if self.rng.random() < 0.25:
                self.pair.do_something()
            for _ in range(self.rng.choice((0, 1, 3, 8))):
                self.pair.move()

    def work_alone(self, steps: int) -> None:
        """The replica is gone: what it is sent does not arrive."""
        for _ in range(steps):
            if self.rng.random() < 0.25:
                self.pair.do_something()
            self.pair.move()


class FailoverTests(TestCase):
    def test_what_was_told_is_on_the_replica(self) -> None:
        failovers = sum(Life(Pair(seed)).run() for seed in range(SEEDS))
        self.assertGreater(failovers, SEEDS)

    def test_an_answer_before_its_sync_is_found(self) -> None:
        class Early(ReplicaFolder):
            def _submit(self, changes: Sequence[Change]) -> None:
                self._answer(self._decoder.number)
                super()._submit(changes)

            def _made(self, number: int, consumed: int, error: Exception | None) -> None:
                self._done = consumed

        self.assert_found("is lost|is back|durable", folder_class=Early)

    def test_an_acknowledgement_before_the_replica_is_found(self) -> None:
        class Early(ReplicaFeed):
            def _own_held(self, ticket: int) -> None:
                super()._own_held(ticket)
                assert self._condition is not None
                self._condition.hold(ticket)

        self.assert_found("is lost|is back", feed_class=Early)

    def test_two_writes_under_one_sync_are_found(self) -> None:
        class Joining(ReplicaFolder):
            held: ClassVar[list[Change]] = []

            def _submit(self, changes: Sequence[Change]) -> None:
                """Two together; the sync of a file that follows later is enough."""
                held, self.held = [*self.held, *changes], []  # type: ignore[misc]
                if sum(isinstance(change, Sync) for change in held) < 2:
                    self.held = held  # type: ignore[misc]
                    return
                last = {change.handle: change for change in held if isinstance(change, Sync)}
                super()._submit([change for change in held if not isinstance(change, Sync) or last[change.handle] is change])

        self.assert_found("damaged at offset", folder_class=Joining)

    def assert_found(self, text: str, **planted: type) -> None:
        planted_pair = type("PlantedPair", (Pair,), planted)
        for seed in range(400):
            try:
                Life(planted_pair(seed)).run()
            except (AssertionError, StorageError) as found:
                self.assertRegex(str(found), text)
                return
        self.fail("the planted fault was not found")
