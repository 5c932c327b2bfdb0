"""The timeline of ``mqbroker demo failover``: how long each step from a failure to the next message took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mqbroker.cli.demo.pair import NOW_ACTIVE
from mqbroker.cli.demo.traffic import Ending

if TYPE_CHECKING:
    from mqbroker.cli.demo.pair import Member

NOTICED: Final = ("the active broker is lost", "AMQ222092")
"""Written by a replica that has lost the active broker, and by an active broker that has given its replica up."""
PROOF: Final = "this broker may be active at sequence "
LOOK_SECONDS: Final = 0.02


@dataclass(slots=True)
class Failure:
    """``what`` happened at ``at``; ``active`` was the active broker.  ``steps`` are the seconds of each step, by its text."""

    what: str
    at: float
    active: str
    steps: dict[str, float] = field(default_factory=dict)
    noticed: bool = False
    winner: str = ""
    """The broker that has the proof."""
    serves: bool = False
    reads: int | None = None
    """Messages that were read until the winner served clients."""
    over: bool = False


class Timeline:
    """All times are seconds of one clock.  Used by several threads."""

    def __init__(self) -> None:
        self._began = 0.0
        self._failures: list[Failure] = []
        self._lock = threading.Lock()

    def begin(self, now: float) -> None:
        """The time of failures is told from now on."""
        self._began = now

    def failed(self, active: str, now: float, happen: Callable[[], str]) -> str:
        """``happen()`` lets something happen, and tells what; nothing if it is empty, or raises CommandError.

        It may be noticed before this returns.
        """
        failure = Failure("", now, active)
        with self._lock:
            self._failures.append(failure)
        try:
            failure.what = happen()
        finally:
            if not failure.what:
                with self._lock:
                    self._failures.remove(failure)
        return failure.what

    def told(self, name: str, line: str, now: float) -> None:
        """A broker of the pair has written ``line``."""
        with self._lock:
            failure = self._open()
            if failure is None:
                return
            seconds = now - failure.at
            if not failure.noticed and any(text in line for text in NOTICED):
                failure.noticed = True
                failure.steps[f"noticed by {name}"] = seconds
            elif not failure.winner and PROOF in line:
                failure.winner = name
                sequence = line.partition(PROOF)[2].split(":")[0]
                failure.steps[f"proof of {name}, sequence {sequence}"] = seconds
                failure.serves = name == failure.active  # it has its queues loaded
            elif name == failure.winner and not failure.serves and NOW_ACTIVE in line:
                failure.steps["loaded"] = seconds
                failure.serves = True

    def read(self, count: int, now: float) -> None:
        """So many messages were read so far."""
        with self._lock:
            failure = self._open()
            if failure is None or not failure.serves:
                return
            if failure.reads is None:
                failure.reads = count
            elif count > failure.reads:
                failure.steps["first message"] = now - failure.at
                failure.over = True

    def lines(self) -> list[str]:
        """One for each failure."""
        with self._lock:
            return [self._line(failure) for failure in self._failures if failure.what]

    def _line(self, failure: Failure) -> str:
        steps = [f"{step} after {seconds:.2f} s" for step, seconds in failure.steps.items()]
        if not failure.over:
            steps.append("nothing more" if steps else "nobody has noticed")
        return f"{failure.at - self._began:.1f} s: {failure.what}: {', '.join(steps)}"

    def _open(self) -> Failure | None:
        """The last failure, while it is not over."""
        return None if not self._failures or self._failures[-1].over else self._failures[-1]


class Historian(Ending):
    """Reads what the members write, and looks how many messages were read, for the timeline."""

    def __init__(self, members: Sequence[Member], reads: Callable[[], int], timeline: Timeline) -> None:
        super().__init__("timeline")
        self._members = members
        self._reads = reads
        self._timeline = timeline
        self._seen = dict.fromkeys((member.name for member in members), 0)

    def run(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        for member in self._members:
            for line in self._new_lines(member):
                self._timeline.told(member.name, line, time.monotonic())
        self._timeline.read(self._reads(), time.monotonic())

    def _new_lines(self, member: Member) -> list[str]:
        seen = self._seen[member.name]
        if member.log.stat().st_size < seen:
            seen = 0  # it was started again
        with member.log.open("rb") as log:
            log.seek(seen)
            lines, end, _ = log.read().rpartition(b"\n")
        self._seen[member.name] = seen + len(lines) + len(end)
        return lines.decode("utf-8", "replace").splitlines()
