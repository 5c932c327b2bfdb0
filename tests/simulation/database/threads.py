"""Simulated threads: what blocks in production waits here in the middle of a call, while the world goes on.

Each has a thread of the system, but one at a time runs, and the world stands while it does: whose turn it is follows from virtual time, so
that a seed gives the same run each time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from tests.simulation.world import Process, SimulationError, World
from tests.support.disk import SimulatedCrash

SWITCH_SECONDS = 60.0
"""Real seconds after which a thread that does not give its turn back is reported."""
LOOP_LOOKS_AFTER = 0.002
"""Seconds of virtual time after which a loop that waits for a thread looks again."""


class _Worker:
    """A thread of the system, which runs one function after the other."""

    def __init__(self) -> None:
        self.go = threading.Lock()
        """Locked: it sleeps, until somebody unlocks this."""
        self.go.acquire()
        self.function: Callable[[], object] | None = None
        threading.Thread(target=self._run, name="simulated", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            if self.function is None:
                return
            self.function()


class SimulatedThread:
    """Runs one function of a process beside its loop."""

    def __init__(self, threads: Threads, process: Process, worker: _Worker, function: Callable[[], object], is_loop: bool = False) -> None:
        self._threads = threads
        self.is_loop = is_loop
        """Does it run an event of the loop?"""
        self.process = process
        self._worker = worker
        self._function = function
        self._back = threading.Lock()
        self._back.acquire()
        self._error: BaseException | None = None
        self.ended = False
        self.killed = False
        worker.function = self._run

    def turn(self) -> None:
        """Let it run until it waits or ends; for the world."""
        if self.ended:
            return
        process, now = self.process, self._threads.world.now
        frozen = self._threads.frozen_until(process)
        if not self.killed and process.alive and frozen > now:
            self._threads.world.schedule(frozen - now, self.turn)
            return
        before, self._threads.current = self._threads.current, self
        self._worker.go.release()
        if not self._back.acquire(timeout=SWITCH_SECONDS):
            raise SimulationError(f"a thread of {process.name} does not give its turn back")
        self._threads.current = before
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self, seconds: float) -> None:
        """Let the world go on for so long; for the thread itself.  Raises SimulatedCrash when its process has ended meanwhile."""
        if not self.killed:
            if self.is_loop:
                self.process.begin_waiting()
            self._threads.world.schedule(seconds, self.turn)
            self._back.release()
            self._worker.go.acquire()
            if self.is_loop:
                self.process.end_waiting()
        if self.killed or not self.process.alive:
            self.killed = True
            raise SimulatedCrash

    def end(self) -> None:
        """Its process is gone: whatever it waits for ends here."""
        self.killed = True
        if self is not self._threads.current:
            self.turn()

    def _run(self) -> None:
        try:
            if not self.killed:
                self._function()
        except SimulatedCrash:
            pass
        except BaseException as error:
            if not self.killed:  # else it stumbles over what is gone with its process
                self._error = error
        self.ended = True
        self._threads.idle.append(self._worker)
        self._back.release()


class Threads:
    """All simulated threads of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.current: SimulatedThread | None = None
        """None: a loop runs, or the world."""
        self.idle: list[_Worker] = []
        self._all: list[SimulatedThread] = []
        self._frozen: dict[Process, float] = {}

    def start(self, process: Process, function: Callable[[], object], seconds: float = 0.0) -> SimulatedThread:
        """Run ``function`` beside the loop of ``process``, from ``seconds`` on."""
        self._all = [each for each in self._all if not each.ended]
        thread = SimulatedThread(self, process, self.idle.pop() if self.idle else _Worker(), function)
        self._all.append(thread)
        self.world.schedule(seconds, thread.turn)
        return thread

    def run_event(self, process: Process, function: Callable[[], object]) -> None:
        """An event of the loop of ``process``, now: where it waits, others go on, whose events may wait, too."""
        if self.current is not None and self.current.process is process:
            function()
            return
        thread = SimulatedThread(self, process, self.idle.pop() if self.idle else _Worker(), function, is_loop=True)
        self._all.append(thread)
        thread.turn()
        if thread.ended:
            self._all.remove(thread)

    def wait(self, process: Process, seconds: float) -> None:
        """Whoever runs just now, a thread of ``process`` or its loop, waits.  Raises SimulatedCrash when the process ends meanwhile."""
        if self.current is not None:
            self.current.wait(seconds)
            return
        if not process.alive:
            raise SimulatedCrash
        until = self.world.now + seconds
        while self.world.now < until:
            # Nobody may call into a loop that waits.
            process.pause(until - self.world.now)
            process.stand_still(until - self.world.now)
            if not process.alive or self.world.violations:
                raise SimulatedCrash
            until = max(until, self._frozen.get(process, 0.0))

    def freeze(self, process: Process, seconds: float) -> None:
        """The process stands still, its threads, too."""
        process.pause(seconds)
        self._frozen[process] = max(self._frozen.get(process, 0.0), self.world.now + seconds)

    def frozen_until(self, process: Process) -> float:
        return self._frozen.get(process, 0.0)

    def process_died(self, process: Process) -> None:
        for thread in [each for each in self._all if each.process is process]:
            thread.end()

    def end(self) -> None:
        """The run is over: no thread of the system is left."""
        for thread in self._all:
            thread.end()
        self._all.clear()
        for worker in self.idle:
            worker.function = None
            worker.go.release()
        self.idle.clear()


class ThreadWriter:
    """See :class:`mqbroker.storage.disk.diskwriter.DiskWriter`: steps may wait in the middle.  ``delay()`` seconds go by before each."""

    def __init__(self, threads: Threads, in_turn: Callable[..., object], process: Process, delay: Callable[[], float]) -> None:
        self._threads = threads
        self._in_turn = in_turn
        self._process = process
        self._delay = delay
        self._batches: deque[tuple[Sequence[Step], Done]] = deque()
        self._runs = False
        self._closed = False
        self._heard = 0.0
        """When the loop hears of the last batch that was done."""

    @property
    def idle(self) -> bool:
        return not self._batches

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self._batches.append((steps, done))
        if not self._runs:
            self._runs = True
            self._threads.start(self._process, self._run, self._delay())

    def close(self) -> bool:
        """Wait, as the loop does, until all is done; nobody hears of it."""
        self._closed = True
        while self._runs:
            self._threads.wait(self._process, LOOP_LOOKS_AFTER)
        return True

    def _run(self) -> None:
        world = self._threads.world
        while self._batches:
            steps, done = self._batches[0]
            error = run_steps([step for each in steps for step in (self._pass_time, each)])
            self._batches.popleft()
            self._heard = max(self._heard, world.now + self._delay())
            world.schedule(self._heard - world.now, self._report, done, error, process=self._process)
        self._runs = False

    def _pass_time(self) -> None:
        self._threads.wait(self._process, self._delay())

    def _report(self, done: Done, error: Exception | None) -> None:
        if not self._closed:
            self._in_turn(done, error)


class ThreadBeat:
    """See :class:`mqbroker.ha.shared_store.lease.Beat`: steps may wait in the middle.  What comes at the end does so when a step is due."""

    def __init__(self, threads: Threads, process: Process) -> None:
        self._threads = threads
        self._process = process
        self._present: object = None
        self._thread: SimulatedThread | None = None

    def start(self, seconds: float, step: Callable[[], object], end: Callable[[], object]) -> None:
        self._present = present = object()
        former = self._thread
        self._thread = self._threads.start(self._process, lambda: self._run(former, present, seconds, step, end), seconds)

    def stop(self) -> None:
        self._present = None

    def _run(
        self, former: SimulatedThread | None, present: object, seconds: float, step: Callable[[], object], end: Callable[[], object]
    ) -> None:
        while former is not None and not former.ended:
            self._threads.wait(self._process, LOOP_LOOKS_AFTER)
        while present is self._present:
            step()
            if present is self._present:
                self._threads.wait(self._process, seconds)
        end()


class ThreadLock:
    """A lock between threads of one process."""

    def __init__(self, threads: Threads, process: Process) -> None:
        self._threads = threads
        self._process = process
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._threads.wait(self._process, LOOP_LOOKS_AFTER)
        self._held = True

    def __exit__(self, *exception: object) -> None:
        self._held = False
