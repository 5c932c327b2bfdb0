"""Copies of one node, and voters, in the world of :mod:`tests.support.copies_world`: what the rules of the proof are walked through with.

The copies, their records, searches and the voters are those of production.  Replication is the least that the rules can be seen with:
entries are numbers, the log of a copy is a durable set of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from mqbroker.ha.proof.copy_keeper import Copying, CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, OtherCopy, open_record
from mqbroker.ha.proof.meeting import Activity, Standing
from mqbroker.ha.proof.ports import Choice, Purpose, SilentError, UnreachableError
from mqbroker.ha.proof.rules import ProofRules
from mqbroker.ha.proof.seeking import Seeker
from mqbroker.ha.proof.seeking_machine import holding, passive
from mqbroker.ha.proof.voter import Voter
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.support.settings_store import Settings, SettingsStore

if TYPE_CHECKING:
    from tests.support.copies_world import World

NODE = "node"
FOLDER = "/data/journal"


def asked_of_ours(choose: Choice) -> tuple[str, bytes]:
    """The handler's name and the question for a broker of this kind."""
    chosen = choose(False)
    assert chosen is not None
    return chosen


class _Call:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Process:
    """Something that runs, dies and stands still; as a clock it is the one of this life."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.running = False
        self.paused_until = 0.0

    def monotonic(self) -> float:
        return self.world.clock.monotonic()

    def wall_ms(self) -> int:
        return self.world.clock.wall_ms()

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Call:
        call, life = _Call(), self.life

        def due() -> None:
            if call.cancelled or life != self.life or not self.running:
                return
            if self.paused_until > self.monotonic():
                self.world.clock.call_later(self.paused_until - self.monotonic(), due)
            else:
                function(*args)

        self.world.clock.call_later(seconds, due)
        return call

    def start(self) -> None:
        raise NotImplementedError

    def begin_life(self) -> None:
        self.life += 1
        self.running = True

    def crash(self) -> None:
        self.life += 1
        self.running = False
        self.paused_until = 0.0


class VoterProcess(Process):
    """A broker of another node."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.durable: Settings = {}
        self.store: SettingsStore
        self.voter: Voter

    def start(self) -> None:
        self.begin_life()
        self.store = SettingsStore(self.durable)
        store: Any = self.store
        self.voter = Voter(store, self.name, dict(self.durable))

    def answer(self, vote: bytes) -> Deferred[bytes]:
        answer = self.voter.answer(vote)
        self.call_later(self.world.delay(), self.store.sync)
        return answer


class Session:
    """A replica at its active broker: messages in order, until one is lost or one side ends it."""

    def __init__(self, active: CopyProcess, replica: CopyProcess) -> None:
        self.active = active
        self.replica = replica
        self.lives = (active.life, replica.life)
        self.counts = False
        """Does the active broker wait for this replica?"""
        self.in_sync = False
        """Has the replica said that it is complete?"""
        self.waits: set[int] = set()
        """Entries that wait for the replica."""
        self.begun = False
        self.early: set[int] = set()
        """Entries that came before the replica had made room for the copy."""
        self.broken = False
        self.ended: set[str] = set()
        """The sides that have ended it."""
        active.world.sessions.append(self)
        self._last = {active.name: 0.0, replica.name: 0.0}

    def tell(self, sender: CopyProcess, function: Callable[..., object], *args: Any) -> None:
        """Let the other side call ``function``, after what was told before."""
        receiver = self.replica if sender is self.active else self.active
        world = sender.world
        if sender.name in self.ended or self.broken:
            return
        if not receiver.running or not world.linked(sender, receiver) or self.lives != (self.active.life, self.replica.life):
            self.lost()
            return
        at = max(self._last[receiver.name], world.clock.seconds + world.delay())
        self._last[receiver.name] = at

        def arrive() -> None:
            if receiver.name not in self.ended and not self.broken:
                function(*args)

        receiver.call_later(at - world.clock.seconds, arrive)

    def lost(self) -> None:
        """Both sides find out, each in its time."""
        if not self.broken:
            self.broken = True
            for side in (self.active, self.replica):
                side.call_later(side.world.rng.random() * 3, side.session_lost, self)


class CopyProcess(Process):
    """A broker with a copy of the node."""

    def __init__(self, world: World, name: str, primary: bool) -> None:
        super().__init__(world, name)
        self.primary = primary
        self.disk = SimulatedDisk(random.Random(world.rng.random()))
        self.disk.make_directory(FOLDER)
        self.disk.sync_directory("/data")
        self.log: frozenset[int] = frozenset()
        self.seeker: Seeker
        self.keeper: CopyKeeper
        self.listens = False
        self.session: Session | None = None
        self.unanswered: set[int] = set()
        """Entries that wait for the proof."""
        self.granted_times = 0
        self.is_loaded = False
        """Has it read its journal?"""

    # --- life

    def start(self) -> None:
        world = self.world
        self.begin_life()
        self.listens = self.is_loaded = False
        self.session = None
        self.unanswered = set()
        record = open_record(self.disk, FOLDER, lambda: CopyRecord.first(world.rng.randbytes, self.primary))
        writer = SimulatedDiskWriter(self, lambda: world.rng.random() * 0.02)
        self.keeper = CopyKeeper(self.disk, FOLDER, record, writer.submit, self.failed)
        rules = ProofRules(self.primary)
        self.seeker = Seeker(self.keeper, NODE, rules, lambda: world.voters_of(self.log), _Ways(self), self, self, world.rng.randbytes)
        if self.seeker.may_seek:
            self.seeker.seek(Purpose.START)
        self.call_later(world.rng.random(), self._look)

    def crash(self) -> None:
        super().crash()
        self.disk.crash()
        for session in self.world.sessions:
            if self in (session.active, session.replica):
                session.lost()

    # --- the owner of a search

    def begin_seeking(self) -> Deferred[None]:
        self.listens = True
        self.leave_session()
        ready: Deferred[None] = Deferred()
        self.call_later(self.world.delay(), ready.callback, None)
        return ready

    def look_around(self) -> None:
        place = self.world.rng.choice([each for each in self.world.copies if each is not self]).name
        self.seeker.meet(place)

    def end_clients(self) -> None:
        self.is_loaded = False
        self.unanswered = set()
        self.leave_session()

    def granted(self, sequence: int, text: str) -> None:
        self.world.trace(f"{self.name} active at {sequence}: {text}")
        self.granted_times += 1
        self.listens = True
        self.leave_session()
        if not self.is_loaded:
            self.is_loaded = True
            self.paused_until = max(self.paused_until, self.monotonic() + self.world.load_seconds())
        waiting, self.unanswered = self.unanswered, set()
        self.world.acknowledge(waiting)

    def refused(self, reason: str, other: Standing | None) -> None:
        self.world.trace(f"{self.name} refused: {reason}")
        self.listens = False

    def stop_copying(self) -> None:
        self.leave_session()

    def failed(self, reason: str) -> None:
        self.crash()

    # --- the replica

    def _look(self) -> None:
        """A passive copy looks for the one that is active."""
        world = self.world
        self.call_later(0.3 + world.rng.random() * world.rng.choice((1, 1, 5)), self._look)
        if self.seeker.state != passive.name or self.session is not None:
            return
        place = world.rng.choice([each for each in world.copies if each is not self]).name
        other = self.keeper.record.other
        if other is not None and world.rng.random() < 0.5:
            place = other.connector
        self.seeker.visit(place).addCallbacks(lambda standing: self._met(place, standing), lambda _: self._alone())

    def _alone(self) -> None:
        if self.seeker.state == passive.name and self.session is None and self.seeker.may_seek:
            self.seeker.seek(Purpose.START)

    def _met(self, place: str, other: Standing) -> None:
        if self.seeker.state != passive.name or self.session is not None:
            return
        if other.activity is Activity.ACTIVE:
            active = self.world.copy(place)
            self.session = session = Session(active, self)
            session.tell(self, active.register, session)
        elif other.activity is Activity.SEEKING:
            self._alone()

    def copy(self, session: Session, log: frozenset[int]) -> None:
        def begun(copying: Copying) -> None:
            if session is self.session:
                self.log = log | session.early
                session.begun = True
                session.tell(self, session.active.copied, session, copying)

        other = OtherCopy(session.active.keeper.record.copy_id, session.active.name)
        self.seeker.begin_copy(other).addCallbacks(begun, lambda _: self.leave_session())

    def write(self, session: Session, entry: int) -> None:
        if session.begun:
            self.log |= {entry}
        else:
            session.early.add(entry)
        session.tell(self, session.active.answered, session, entry)

    def complete(self, session: Session, copying: Copying, sequence: int, other: OtherCopy) -> None:
        def completed(_: CopyRecord) -> None:
            self.world.trace(f"{self.name} in sync")
            session.tell(self, session.active.synced, session)

        copying.complete(sequence, other).addCallbacks(completed, lambda _: self.leave_session())

    # --- the active broker

    def register(self, session: Session) -> None:
        if self.session is not None or not self.seeker.alone:
            session.lost()
            return
        self.session = session
        session.tell(self, session.replica.copy, session, self.log)
        self.world.trace(f"{session.replica.name} copies from {self.name}")

    def copied(self, session: Session, copying: Copying) -> None:
        """The replica has the log of the time when the session began, and gets what is written since."""
        if session is not self.session or not self.seeker.alone:
            return
        replica = session.replica
        session.counts = True
        sequence, own = self.keeper.latest.sequence, OtherCopy(self.keeper.record.copy_id, self.name)

        def noted(_: CopyRecord) -> None:
            if session is self.session:
                session.tell(self, replica.complete, session, copying, sequence, own)

        other = OtherCopy(replica.keeper.record.copy_id, replica.name)
        self.seeker.note(other).addCallbacks(noted, lambda _: self.lose_replica())

    def synced(self, session: Session) -> None:
        session.in_sync = True

    def produce(self) -> None:
        """A producer sends one entry."""
        world = self.world
        if self.seeker.standing.activity is not Activity.ACTIVE or not self.granted_times:
            return
        entry = world.next_entry(self.log)
        self.log |= {entry}
        session = self.session
        if session is not None:
            if session.counts:
                session.waits.add(entry)
            session.tell(self, session.replica.write, session, entry)
        if session is None or not session.counts:
            if self.seeker.alone:
                world.acknowledge({entry})
            else:
                self.unanswered.add(entry)

    def answered(self, session: Session, entry: int) -> None:
        if session is self.session and entry in session.waits:
            session.waits.discard(entry)
            self.world.acknowledge({entry})

    def lose_replica(self) -> None:
        session = self.session
        if session is not None:
            self.leave_session()
            if session.active is self and session.counts:
                self.unanswered |= session.waits
                self.seeker.seek(Purpose.GO_ON)

    def hand_over(self) -> None:
        """Stop in order: the replica takes over."""
        session = self.session
        if session is not None and session.in_sync and not session.waits and self.seeker.state == holding.name:
            self.world.trace(f"{self.name} hands over to {session.replica.name}")
            self.seeker.cease()
            session.tell(self, session.replica.take_over, session)

    def take_over(self, session: Session) -> None:
        if self.keeper.in_sync:
            self.seeker.seek(Purpose.TAKE_OVER)

    # --- both

    def session_lost(self, session: Session) -> None:
        if session is not self.session:
            return
        if session.active is self:
            self.lose_replica()
            return
        self.leave_session()
        if self.keeper.in_sync:
            self.seeker.seek(Purpose.TAKE_OVER)

    def leave_session(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.ended.add(self.name)
            session.lost()


class _Ways:
    """The network as one process sees it."""

    def __init__(self, process: CopyProcess) -> None:
        self._process = process

    def ask_copy(self, connector: str, handler: str, question: bytes) -> Deferred[bytes]:
        copy = self._process.world.copy(connector)
        if copy is self._process:
            return fail(UnreachableError("that is this broker"))
        return self._ask(copy, lambda: copy.running and copy.listens, lambda: copy.seeker.answer(question))

    def ask_voter(self, node_id: str, choose: Choice) -> Deferred[bytes]:
        _, question = asked_of_ours(choose)
        voter = self._process.world.voter(node_id)
        return self._ask(voter, lambda: voter.running, lambda: voter.answer(question))

    def _ask(self, other: Process, listens: Callable[[], bool], ask: Callable[[], Deferred[bytes]]) -> Deferred[bytes]:
        process = self._process
        world = process.world
        life = process.life
        taken = False

        def give_up(answer: Deferred[bytes]) -> None:
            answer.errback(SilentError("somebody takes connections") if taken else UnreachableError("nobody answers"))

        answered: Deferred[bytes] = Deferred(give_up)
        refused = Failure(UnreachableError("nobody listens"))

        def arrive() -> None:
            # Otherwise the connection is lost before the question is read: nothing comes back.
            if listens():
                ask().addCallback(reply)

        def reply(answer: bytes) -> None:
            back(answered.callback, answer)

        def back(function: Callable[..., object], *args: Any) -> None:
            if world.linked(other, process) and life == process.life:
                process.call_later(world.delay(), lambda: None if answered.called else function(*args))

        if world.linked(process, other):
            # The system takes connections for a process that listens, also while that stands still.
            taken = listens()
            if taken:
                other.call_later(world.delay(), arrive)
            else:
                back(answered.errback, refused)
        return answered
