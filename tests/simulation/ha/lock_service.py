"""A lock service on the network of a run, and its managers: answers are lost, requests come late, and sessions end early or late.

The service has one machine, which the brokers reach as they reach each other.  A manager blocks as those of production do, in the thread of
its broker: meanwhile everything else goes on, also the loop of the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mqbroker.ha.locks.contract import UnavailableError
from tests.simulation.world import Process, SimulationError, World
from tests.support.disk import SimulatedCrash

HOST = "locks"
"""The machine of the service."""
SESSION_SECONDS = 1.2
"""Of silence; then the service ends a session, and its manager gives it up."""
BEAT_SECONDS = SESSION_SECONDS / 4
REQUEST_SECONDS = 0.6
"""How long a manager waits for an answer."""
LATEST = 3.0
"""Seconds by which the service may be late with the end of a session."""
LOST, LATE = 0.03, 0.03
"""Parts of the requests whose answers are lost, and of those that take so long that nobody waits for their answers any more."""


class Session:
    """One connection of a manager, as the service sees it."""

    def __init__(self, host: str, late: float) -> None:
        self.host = host
        self.late = late
        self.open = False
        self.heard = 0.0
        self.reached_at = 0.0
        """Requests of one session take effect in their order: when the last one does."""
        self.under_way: list[Callable[[], object]] = []
        """The requests that have not arrived yet, each as what lets it arrive."""


class LockService:
    """``held(sender, receiver)``: for how many more seconds nothing that one host sends reaches the other."""

    def __init__(self, world: World, held: Callable[[str, str], float]) -> None:
        self.world = world
        self.numbers: dict[str, int] = {}
        self.lost_answers = 0
        """So many of the next requests take effect, and nobody hears of it."""
        self.aims: list[Callable[[str, int], bool]] = []
        """Told of each change of a number, with the host that asked for it, until one of these calls returns true."""
        self._held = held
        self._rng = world.generator("lock service")
        self._holders: dict[str, Session] = {}
        self._sessions: list[Session] = []
        self._down_until = 0.0
        self._healed = False

    # --- faults

    def go_down(self, seconds: float) -> None:
        """Nothing that is asked meanwhile takes effect; sessions and numbers stay."""
        self._down_until = max(self._down_until, self.world.now + seconds)

    def end_sessions(self, host: str) -> None:
        """The sessions of this host are over, although it was heard of; it learns that with its next request."""
        for session in dict.fromkeys(each for each in self._holders.values() if each.host == host):
            self.world.note(f"the lock service ends the session of {host}")
            self.end(session)

    def heal(self) -> None:
        """From now on every request is answered in time; those that are late arrive at once."""
        self._healed = True
        self.lost_answers = 0
        self.aims.clear()
        self._down_until = 0.0
        for session in self._sessions:
            session.reached_at = 0.0
            for arrive in session.under_way[:]:
                arrive()

    # --- what requests do

    def ask(self, session: Session, request: Callable[[Session], Any], answered: Callable[[Any], object]) -> None:
        """Send ``request``, which takes effect when it arrives, at once and altogether; ``answered`` may hear of it later, or never.

        It hears an UnavailableError when the session is over.
        """
        now, rng = self.world.now, self._rng
        late = rng.uniform(0, LATEST) if rng.random() < LATE and not self._healed else 0.0
        arrival = now + self._latency() + self._held(session.host, HOST) + late
        session.reached_at = arrival = max(arrival, session.reached_at)

        def arrive() -> None:
            if arrive in session.under_way:
                session.under_way.remove(arrive)
                self._arrive(session, request, answered)

        session.under_way.append(arrive)
        self.world.schedule(arrival - now, arrive)

    def _arrive(self, session: Session, request: Callable[[Session], Any], answered: Callable[[Any], object]) -> None:
        if self.world.now < self._down_until:
            return
        session.heard = self.world.now
        answer = request(session) if session.open or request == self.open else UnavailableError("the session is over")
        if self.lost_answers:
            self.lost_answers -= 1
        elif self._healed or self._rng.random() >= LOST:
            self.world.schedule(self._latency() + self._held(HOST, session.host), answered, answer)

    def _latency(self) -> float:
        return self._rng.expovariate(2000) + 0.0002

    def session(self, host: str) -> Session:
        """A session that is to be opened."""
        session = Session(host, self._rng.uniform(0, LATEST) if self._rng.random() < 0.2 else 0.0)
        self._sessions.append(session)
        return session

    def open(self, session: Session) -> bool:
        session.open = True
        self._look(session)
        return True

    def _look(self, session: Session) -> None:
        """End a session that was not heard of for too long; while it is down the service ends none."""
        due = max(session.heard + SESSION_SECONDS + session.late, self._down_until + SESSION_SECONDS)
        if not session.open:
            return
        if due > self.world.now:
            self.world.schedule(due - self.world.now, self._look, session)
        else:
            self.world.note(f"the session of {session.host} at the lock service is over")
            self.end(session)

    def end(self, session: Session) -> bool:
        session.open = False
        self._holders = {name: holder for name, holder in self._holders.items() if holder is not session}
        return True

    def lock(self, name: str, session: Session) -> bool:
        return self._holders.setdefault(name, session) is session

    def holds(self, name: str, session: Session) -> bool:
        return self._holders.get(name) is session

    def unlock(self, name: str, session: Session) -> bool:
        if self.holds(name, session):
            del self._holders[name]
        return True

    def change(self, name: str, old: int, new: int, session: Session) -> bool:
        fits = self.holds(name, session) and self.numbers.get(name, 0) == old
        if fits:
            self.numbers[name] = new
            self.world.note(f"the lock service has {new} for {old}, by {session.host}")
            self.aims = [each for each in self.aims if not each(session.host, new)]
        return fits


class SimulatedLockManager:
    """See :class:`mqbroker.ha.locks.contract.LockManager`; of one process on the machine ``host``."""

    def __init__(self, service: LockService, process: Process, host: str) -> None:
        self.was_lost = False
        """Has a session ended that its owner did not end?"""
        self._service = service
        self._process = process
        self._host = host
        self._session: Session | None = None
        self._answered_at = 0.0
        """When the last request was sent that was answered."""
        self._lost: Callable[[str], object] = lambda reason: None

    # --- the contract

    def start(self, lost: Callable[[str], object]) -> Sequence[str]:
        session = self._service.session(self._host)
        self._lost = lost
        sent = self._process.world.now
        self._ask(session, self._service.open)
        self._session, self._answered_at = session, sent
        self._beat(session)
        return ()

    def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(UnavailableError):
                self._ask(session, self._service.end)

    def try_lock(self, name: str) -> bool:
        return bool(self._ask_service(partial(self._service.lock, name)))

    def has_lock(self, name: str) -> bool:
        return bool(self._ask_service(partial(self._service.holds, name)))

    def unlock(self, name: str) -> None:
        self._ask_service(partial(self._service.unlock, name))

    def number(self, name: str) -> int:
        return int(self._ask_service(lambda session: self._service.numbers.get(name, 0)))

    def change_number(self, name: str, old: int, new: int) -> bool:
        return bool(self._ask_service(partial(self._service.change, name, old, new)))

    # --- inside

    def _ask_service(self, request: Callable[[Session], Any]) -> Any:
        if self._session is None:
            raise UnavailableError("the manager is not connected")
        return self._ask(self._session, request)

    def _ask(self, session: Session, request: Callable[[Session], Any]) -> Any:
        answers: list[Any] = []
        self._service.ask(session, request, answers.append)
        self._wait(REQUEST_SECONDS, lambda: bool(answers))
        if not answers:
            raise UnavailableError("the lock service gives no answer")
        if isinstance(answers[0], UnavailableError):
            raise answers[0]
        return answers[0]

    def _wait(self, seconds: float, until: Callable[[], bool]) -> None:
        """The thread of the manager waits; it stands still with its process, and ends with it."""
        world, process = self._process.world, self._process
        try:
            world.run(seconds, lambda: until() or not process.alive)
            while process.alive and process.paused and not world.violations:
                world.run(process.paused_until - world.now)
        except SimulationError as error:
            # The thread would take it for an error of the manager.
            world.violation(str(error))
        if not process.alive:
            raise SimulatedCrash

    def _beat(self, session: Session) -> None:
        if session is not self._session:
            return
        sent = self._process.world.now
        if sent - self._answered_at > SESSION_SECONDS:
            self._give_up(f"no answer for {SESSION_SECONDS} s")
            return

        def answered(answer: object) -> None:
            if session is self._session and self._process.alive:
                if isinstance(answer, UnavailableError):
                    # A process that stands still hears of it when it goes on.
                    self._process.call_later(0, self._is_over, session)
                else:
                    self._answered_at = sent

        self._service.ask(session, lambda _: True, answered)
        self._process.call_later(BEAT_SECONDS, self._beat, session)

    def _is_over(self, session: Session) -> None:
        if session is self._session:
            self._give_up("the session is over")

    def _give_up(self, reason: str) -> None:
        self._session = None
        self.was_lost = True
        self._lost(reason)
