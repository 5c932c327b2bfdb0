"""One clock, a network that loses and delays, processes that die and stand still, and the rules that must hold for copies and voters."""

from __future__ import annotations

import random

from tests.support.clock import FakeClock
from tests.support.copies import CopyProcess, Process, Session, VoterProcess


class TwoError(Exception):
    """A rule is broken."""


class World:
    """``cuts``: messages may be lost or late, and processes may stand still."""

    def __init__(self, rng: random.Random, voters: int, copies: int = 3, cuts: bool = True) -> None:
        self.rng = rng
        self.clock = FakeClock()
        self.cuts = cuts
        self.loads = False
        self.copies = [CopyProcess(self, f"c{number}", number == 0) for number in range(copies)]
        self.voters = [VoterProcess(self, f"v{number}") for number in range(voters)]
        self._lists: dict[int, tuple[str, ...]] = {}
        """The entries that change the list of voters."""
        self.acknowledged: set[int] = set()
        self.told: list[str] = []
        self.sessions: list[Session] = []
        self.problem = ""
        """The first rule that was broken."""
        self._entry = 0
        self._cut: set[tuple[str, str]] = set()
        for each in (*self.copies, *self.voters):
            each.start()

    def copy(self, name: str) -> CopyProcess:
        return next(each for each in self.copies if each.name == name)

    def voter(self, name: str) -> VoterProcess:
        return next(each for each in self.voters if each.name == name)

    def trace(self, text: str) -> None:
        self.told.append(f"{self.clock.seconds:8.3f} {text}")

    # --- the network

    def linked(self, sender: Process, receiver: Process) -> bool:
        return (sender.name, receiver.name) not in self._cut

    def delay(self) -> float:
        return self.rng.random() * (3.0 if self.cuts and self.rng.random() < 0.03 else 0.05)

    def load_seconds(self) -> float:
        """So long a copy does nothing else when it becomes active, since it reads its journal."""
        return self.rng.random() * 5 if self.loads else 0.0

    # --- what must hold

    def next_entry(self, log: frozenset[int]) -> int:
        """A number for what is written to a copy with this log; sometimes that is a change of the list of voters."""
        self._entry += 1
        last = max((entry for entry in self._lists if entry in log), default=0)
        if len(self.voters) > 1 and self.rng.random() < 0.2 and (not last or last in self.acknowledged):
            members = self.voters_of(log)
            name = self.rng.choice(self.voters).name
            changed = tuple(each for each in members if each != name) if name in members else (*members, name)
            if changed:
                self._lists[self._entry] = changed
        return self._entry

    def voters_of(self, log: frozenset[int]) -> tuple[str, ...]:
        """The list of voters as a copy has it: that of the last change in its log."""
        last = max((entry for entry in self._lists if entry in log), default=0)
        return self._lists[last] if last else tuple(each.name for each in self.voters)

    def acknowledge(self, entries: set[int]) -> None:
        self.acknowledged |= entries
        self.check()

    def check(self) -> None:
        alone = [each for each in self.copies if each.running and each.seeker.alone]
        if len(alone) > 1:
            self._broken(f"{[each.name for each in alone]} may acknowledge alone")
        for each in alone:
            if not self.acknowledged <= each.log:
                self._broken(f"{each.name} may acknowledge alone, without {sorted(self.acknowledged - each.log)}")

    def _broken(self, problem: str) -> None:
        """Kept, since whoever is running now may catch what is raised."""
        if not self.problem:
            self.trace(problem)
            self.problem = problem

    # --- a walk

    def step(self) -> None:
        rng = self.rng
        copy = rng.choice(self.copies)
        chance = rng.random()
        if chance < 0.06:
            self.stop_or_start(copy)
        elif chance < 0.09 and self.voters:
            self.stop_or_start(rng.choice(self.voters))
        elif chance < 0.19 and self.cuts:
            self._change_links()
        elif chance < 0.21 and self.cuts and copy.running:
            copy.paused_until = self.clock.seconds + rng.random() * 8
            self.trace(f"{copy.name} stands still")
        elif chance < 0.23 and self.cuts and copy.running:
            copy.lose_replica()
        elif chance < 0.26 and copy.running:
            copy.hand_over()
        elif copy.running and copy.paused_until <= self.clock.seconds:
            copy.produce()
        self.run(rng.random() * rng.choice((0.01, 0.1, 0.5, 2.0)))

    def run(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()
        if self.problem:
            raise TwoError(self.problem)

    def stop_or_start(self, process: CopyProcess | VoterProcess) -> None:
        self.trace(f"{process.name} {'dies' if process.running else 'starts'}")
        if process.running:
            process.crash()
        else:
            process.start()

    def _change_links(self) -> None:
        names = [each.name for each in (*self.copies, *self.voters)]
        if self.rng.random() < 0.4:
            self._cut.clear()
            return
        left, right = self.rng.sample(names, 2)
        self._cut.add((left, right))
        if self.rng.random() < 0.7:
            self._cut.add((right, left))
        self.trace(f"cut: {sorted(self._cut)}")

    def stand_still(self, copy: CopyProcess, seconds: float) -> None:
        """Nothing else is wrong, and the connection of the pair may be lost by it."""
        self.trace(f"{copy.name} stands still for {seconds:.1f} s")
        copy.paused_until = self.clock.seconds + seconds
        if seconds > 1 and copy.session is not None:
            copy.session.lost()

    def heal(self, seconds: float) -> None:
        """Everything works from now on."""
        self._cut.clear()
        self.cuts = False
        for each in (*self.copies, *self.voters):
            each.paused_until = 0.0
            if not each.running:
                each.start()
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.run(0.5)
