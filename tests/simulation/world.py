"""Virtual time: one queue of events, and processes that each see it through clocks of their own.

Nothing here or above it knows the real time.  Everything random comes from generators that are seeded with the seed of the run, so that a
seed gives the same run each time, on every machine.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.support.disk import SimulatedCrash

WALL_START_MS = 1_700_000_000_000
WAKING = 1e-6
"""Seconds."""


class SimulationError(Exception):
    """The run cannot go on: a sentence says what production code did."""


class Event:
    """A call that is due at ``time``; ``process`` must live then, None: it happens anyway."""

    __slots__ = ("args", "cancelled", "fired", "function", "process", "time")

    def __init__(self, time: float, function: Callable[..., object], args: tuple[Any, ...], process: Process | None) -> None:
        self.time = time
        self.function = function
        self.args = args
        self.process = process
        self.cancelled = False
        self.fired = False

    def cancel(self) -> None:
        """Take it back; does nothing when it is over."""
        self.cancelled = True


class Process:
    """One life of one process: a broker between two crashes, or a client.

    Its clocks run at the speed of the world, from beginnings of their own.  It is what production code gets as ``Clock``.
    """

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.world = world
        world.processes.append(self)
        self.name = name
        self.rng = rng
        self.alive = True
        self.run: Callable[[Callable[[], object]], object] | None = None
        """Runs an event, where that is not simply done: its events may wait in the middle."""
        self.life = 1
        """How often whoever it is a process of has been started so far."""
        self.stopping = False
        """Asked to end in order: it looks after nothing any more."""
        self.paused_until = 0.0
        self._held: list[tuple[int, Event]] | None = None
        """While it stands still in the middle of an event: the events that are due, with their numbers."""
        self.wall_offset_ms = rng.randrange(-2000, 2000)
        self._monotonic_offset = rng.uniform(0, 1000)

    def monotonic(self) -> float:
        return self.world.now + self._monotonic_offset

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self.world.now * 1000) + self.wall_offset_ms

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Event:
        return self.world.schedule(seconds, function, *args, process=self)

    def pause(self, seconds: float) -> None:
        """Nothing of it runs for a while; the world, and its clocks, go on."""
        self.paused_until = max(self.paused_until, self.world.now + seconds)

    def stand_still(self, seconds: float, parts: Sequence[Process] = ()) -> None:
        """In the middle of an event, while others go on: what is due meanwhile comes when that event is over, also in its other ``parts``.

        The others may take longer than ``seconds``, when they stand still in the middle of theirs.
        """
        still = (self, *parts)
        for each in still:
            each.begin_waiting()
        self.world.run(seconds)
        for each in still:
            each.end_waiting()

    def begin_waiting(self) -> None:
        """What is due from now on is held, for the process is in the middle of an event."""
        self._held = []

    def end_waiting(self) -> None:
        """The event goes on."""
        held, self._held = self._held or [], None
        # What stood still in the middle of an event ends that first.
        self.pause(WAKING)
        for number, event in held:
            self.world.put_back(number, event, self.paused_until)

    def holds(self, number: int, event: Event) -> bool:
        """An event is due; does it have to wait?"""
        if self._held is not None:
            self._held.append((number, event))
        elif self.paused_until > self.world.now:
            self.world.put_back(number, event, self.paused_until)
        else:
            return False
        return True

    def puts_off(self, function: Callable[..., object], *args: Any) -> bool:
        """Does news from outside have to wait?  Then ``function`` is called when the process goes on, or has ended."""
        return self.stands_still and self.holds(self.world.next_number(), Event(self.world.now, function, args, None))

    @property
    def in_the_middle(self) -> bool:
        """Does it stand still in the middle of an event?"""
        return self._held is not None

    @property
    def paused(self) -> bool:
        return self.paused_until > self.world.now

    @property
    def stands_still(self) -> bool:
        return self._held is not None or self.paused_until > self.world.now

    def end(self) -> None:
        """Nothing of it runs from now on."""
        self.alive = False


class World:
    """The queue of events, the log of the run, and what was found wrong.

    ``generator(name)`` gives a generator for one purpose: drawing more for one leaves the others as they are.
    """

    def __init__(self, seed: int, events_max: int = 200_000) -> None:
        self.seed = seed
        self.now = 0.0
        self.events = 0
        self.log: list[str] = []
        self.violations: list[str] = []
        self.processes: list[Process] = []
        self._events_max = events_max
        self._watchers: list[tuple[int, int, Callable[[], int]]] = []
        """A heap of what is called after which event."""
        self._queue: list[tuple[float, int, Event]] = []
        self._number = 0

    def watch(self, watcher: Callable[[], int]) -> None:
        """Have it called after the next event; it returns after how many further ones it is to be called again, at least one."""
        heapq.heappush(self._watchers, (self.events + 1, len(self._watchers), watcher))

    def generator(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def note(self, text: str) -> None:
        """One line of the event log."""
        self.log.append(f"{self.now:11.6f} {text}")

    def violation(self, text: str) -> None:
        """Something that must never be has been seen."""
        self.note(f"VIOLATION {text}")
        self.violations.append(text)

    def end(self) -> None:
        """Nothing runs any more, and nobody is held: what is left may be taken apart."""
        for process in self.processes:
            process.end()
        self.processes.clear()
        self._queue.clear()
        self._watchers.clear()

    def schedule(self, seconds: float, function: Callable[..., object], *args: Any, process: Process | None = None) -> Event:
        time = self.now + seconds if seconds > 0.0 else self.now
        event = Event(time, function, args, process)
        heapq.heappush(self._queue, (time, self.next_number(), event))
        return event

    def next_number(self) -> int:
        """Events of the same time come in the order of their numbers."""
        self._number += 1
        return self._number

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let at most so much time pass; true as soon as ``until`` is.  A run that has gone wrong stands still."""
        end, queue = self.now + seconds, self._queue
        while not until():
            if self.violations:
                return False
            if not queue or queue[0][0] > end:
                # Who stands still in the middle of an event may have let more time pass.
                self.now = max(self.now, end)
                return until()
            self.now, number, event = heapq.heappop(queue)
            if event.cancelled:
                continue
            process = event.process
            if process is None or (process.alive and not process.holds(number, event)):
                self._run(event)
        return True

    def put_back(self, number: int, event: Event, time: float) -> None:
        """An event that a process holds up comes when that is over."""
        heapq.heappush(self._queue, (max(time, self.now), number, event))

    def _run(self, event: Event) -> None:
        self.events += 1
        if self.events > self._events_max:
            raise SimulationError(f"the run does not come to an end: {self.events} events")
        event.fired = True
        try:
            process = event.process
            if process is None or process.run is None:
                event.function(*event.args)
            else:
                process.run(partial(event.function, *event.args))
        except SimulatedCrash:
            # Whoever lost its disk was told by the disk before this was raised.
            pass
        except SimulationError:
            raise
        except Exception as error:
            raise SimulationError(f"an exception reached the event loop of {_name(event)}: {error!r}") from error
        while self._watchers and self._watchers[0][0] <= self.events:
            _, number, watcher = self._watchers[0]
            heapq.heapreplace(self._watchers, (self.events + watcher(), number, watcher))


def _name(event: Event) -> str:
    return event.process.name if event.process is not None else "the world"
