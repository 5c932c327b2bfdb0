"""The replica of an active broker: the changes that it is sent, its answers, and the moment at which it is given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.ha.proof.copy_record import COPY_ID_SIZE_MAX, CopyRecord, OtherCopy
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.packets import (
    FAIL_OVER,
    STOP_CALLED,
    VERSION,
    Answered,
    Complete,
    Completed,
    Hello,
    Ready,
    Said,
    ScheduledFailover,
    Welcome,
    changes_frames,
    packet_frame,
    read_packet,
)
from mqbroker.ha.replication.questions import Questions
from mqbroker.ha.replication.replica_machine import (
    ReplicaData,
    catching_up,
    completing,
    copying,
    greeting,
    in_sync,
    make_replica,
    noting,
    over,
)
from mqclient.errors import MalformedPacketError

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.storage.mirror.feed import Progress, ReplicaFeed
    from mqbroker.storage.tickets import Condition
    from mqclient.wire.primitives import TransportConfiguration

LOOKS = 10
"""Looks at a replica within the time after which it counts as silent; see :func:`look_seconds`."""

log = Logger(namespace="mqbroker.ha")

Buffers = Sequence[bytes | bytearray | memoryview]


def look_seconds(silence_seconds: float) -> float:
    """Between two looks at a replica that counts as silent after so long: 0.1 to 1 s."""
    return min(max(silence_seconds / LOOKS, 0.1), 1.0)


class ReplicaOwner(Protocol):
    """The active broker."""

    @property
    def sequence(self) -> int:
        """The sequence of the present activation."""

    def has_place(self, replica: Replica) -> bool:
        """May the replica copy now?  Otherwise :meth:`Replica.welcome` is called when it may."""

    def welcome(self) -> Welcome:
        """The word of the active broker about itself."""

    def make_feed(self, send: Callable[[Buffers], object], copied: Callable[[], object], lost: Callable[[str], object]) -> ReplicaFeed: ...

    def note(self, other: OtherCopy) -> Deferred[CopyRecord]:
        """Note durably which the other copy is."""

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        """The answer to a question of the proof.  Raises MalformedPacketError."""

    def in_sync(self, replica: Replica) -> None:
        """The replica may take over from now on."""

    def left(self, replica: Replica, proof_needed: bool) -> None:
        """The replica has gone; with ``proof_needed`` it may be complete, and durable work waits until :meth:`Replica.forget`."""


class Replica:
    """One replica, from its registration to its end: the core of its machine, and the link on its connection.

    ``silence_seconds`` is how long it may leave something without an answer, ``sync_seconds`` how long it may take from a complete copy to
    being in sync.
    """

    def __init__(
        self,
        owner: ReplicaOwner,
        connection: ServerConnection,
        connector: TransportConfiguration,
        wants_failback: bool,
        clock: Clock,
        silence_seconds: float,
        sync_seconds: float,
    ) -> None:
        self.connector = connector
        self.wants_failback = wants_failback
        self.reason = ""
        """Why it has ended."""
        self._owner = owner
        self._connection = connection
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._sync_seconds = sync_seconds
        self._machine = make_replica(ReplicaData(self))
        self.state = greeting.name
        """The state of the machine, for the work of the states, too."""
        self._hello: Hello | None = None
        self._feed: ReplicaFeed | None = None
        self._condition: Condition | None = None
        self._sent = 0
        """Bytes of the stream of changes."""
        self._mark: int | None = None
        """Bytes of the stream that the replica must have answered to have caught up."""
        self._last_answer = clock.monotonic()
        self._looking: Cancellable | None = None
        self._deadline: Cancellable | None = None
        self._questions = Questions(self._say, owner.answer)
        self._drained: Callable[[], object] | None = None
        self._gone: Callable[[], object] | None = None
        connection.use_for(self)
        self._look_later()

    # --- state

    @property
    def is_in_sync(self) -> bool:
        return self.state == in_sync.name

    @property
    def progress(self) -> Progress | None:
        """How far the copy has come; None before it begins."""
        return None if self._feed is None else self._feed.progress

    @property
    def behind(self) -> int:
        """Bytes that were sent and are not answered."""
        return 0 if self._feed is None else self._feed.behind

    # --- the link

    def received(self, packet_type: int, body: memoryview) -> None:
        """Raises MalformedPacketError, which ends the connection."""
        packet = read_packet(packet_type, body)
        self._last_answer = self._clock.monotonic()
        if isinstance(packet, Answered):
            self._answered(packet.number)
        elif isinstance(packet, Hello):
            self._greeted(packet)
        elif isinstance(packet, Ready) and self._hello is not None and self._owner.has_place(self):
            self._expect("Ready", greeting.name)
            self._machine.greeted()
        elif isinstance(packet, Completed):
            if self.state != over.name:
                self._expect("Completed", completing.name)
                self._machine.completed()
        elif not self._questions.received(packet):
            raise MalformedPacketError(type(packet).__name__, "type", "a replica does not send it")

    def ended(self, reason: str) -> None:
        self._end(reason or "it has closed the connection")
        self._questions.end(f"the replica has gone: {self.reason}")
        self._tell_drained()
        if self._gone is not None:
            self._gone()

    def _expect(self, packet: str, state: str) -> None:
        if self.state != state:
            raise MalformedPacketError(packet, "type", f"the replica sends it while it is {self.state}")

    def _greeted(self, packet: Hello) -> None:
        if self._hello is not None:
            raise MalformedPacketError("Hello", "type", "the replica sends it twice")
        if packet.version != VERSION:
            raise MalformedPacketError("Hello", "version", f"{packet.version} is not {VERSION}")
        welcome = self._owner.welcome()
        if packet.node_id not in ("", welcome.node_id):
            raise MalformedPacketError("Hello", "node_id", f"{packet.node_id[:100]!r} is not {welcome.node_id}")
        if not 0 < len(packet.copy_id) <= COPY_ID_SIZE_MAX or packet.copy_id == welcome.copy_id:
            raise MalformedPacketError("Hello", "copy_id", "it has to be that of another copy")
        self._hello = packet
        if self._owner.has_place(self):
            self.welcome()

    def welcome(self) -> None:
        """A place for the replica is free: tell the replica so once it has said who it is."""
        if self._hello is not None:
            self._last_answer = self._clock.monotonic()
            self._say(self._owner.welcome())

    def _answered(self, number: int) -> None:
        if self._feed is None or self.state == over.name:
            return
        try:
            self._feed.answered(number)
        except ValueError as error:
            raise MalformedPacketError("Answered", "number", str(error)) from error
        if self._mark is not None and self._sent - self._feed.behind >= self._mark:
            self._mark = None
            self._machine.caught_up()
        if not self._feed.behind:
            self._tell_drained()

    def _say(self, packet: Said) -> None:
        self._connection.send_frame(packet_frame(packet))
        self._connection.flush()

    # --- the work of the states

    def begin_copy(self) -> None:
        self.state = copying.name
        log.info("AMQ221025: a replica at {place} begins to copy", place=self._connection.remote)
        self._feed = self._owner.make_feed(self._send, self._machine.copied, self._end)
        self._feed.start()

    def _send(self, buffers: Buffers) -> None:
        frames = changes_frames(buffers)
        self._sent += sum(map(len, buffers))
        self._connection.send_parts(frames, sum(map(len, frames)))
        self._connection.flush()

    def demand(self) -> None:
        self.state = catching_up.name
        feed = self._feed
        assert feed is not None
        self._deadline = self._clock.call_later(self._sync_seconds, self._too_late)
        self._condition = feed.demand()
        self._mark = self._sent

    def note(self) -> None:
        self.state = noting.name
        hello = self._hello
        assert hello is not None
        noted = self._owner.note(OtherCopy(hello.copy_id, connector_text(self.connector)))
        noted.addCallback(lambda _: self._machine.noted()).addErrback(lambda failure: self._end(failure.getErrorMessage()))

    def complete(self) -> None:
        self.state = completing.name
        self._say(Complete(self._owner.sequence))

    def show(self) -> None:
        self.state = in_sync.name
        self._stop_deadline()
        log.info("AMQ221024: the replica at {place} is in sync", place=self._connection.remote)
        self._owner.in_sync(self)

    def leave(self) -> None:
        self._stop_feed()
        self.forget()
        self._owner.left(self, proof_needed=False)

    def lose(self) -> None:
        self._stop_feed()
        self._owner.left(self, proof_needed=True)

    def _stop_feed(self) -> None:
        was, self.state = self.state, over.name
        log.warn(
            "AMQ222092: the replica at {place} is given up while it is {state}: {reason}",
            place=self._connection.remote,
            state=was,
            reason=self.reason,
        )
        self._stop_deadline()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._feed is not None:
            self._feed.stop()

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- the end

    def _end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._machine.ended()

    def end(self, reason: str) -> None:
        """Give the replica up; the connection stays until :meth:`forget`, for the questions of the proof."""
        self._end(reason)

    def forget(self) -> None:
        """Nothing depends on the replica any more: durable work waits no longer, and the connection ends."""
        if self._condition is not None:
            self._condition.withdraw()
            self._condition = None
        self.cut()

    def cut(self) -> None:
        """End the connection; what waits for the replica waits on."""
        if not self._connection.closed:
            self._clock.call_later(0, self._connection.fail, f"the replica is given up: {self.reason}")

    def _too_late(self) -> None:
        self._deadline = None
        self._end(f"it was not in sync within initial-replication-sync-timeout, {self._sync_seconds:g} s")

    def _look_later(self) -> None:
        self._looking = self._clock.call_later(look_seconds(self._silence_seconds), self._look_due)

    def _look_due(self) -> None:
        # A process that stood still has the replica's answers in its socket: they are read first.
        self._looking = self._clock.call_later(0, self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        if not self._owes_an_answer:
            self._last_answer = now
        if now - self._last_answer >= self._silence_seconds:
            self._looking = None
            self._end(f"AMQ222207: it has answered nothing for {self._silence_seconds:g} s")
        else:
            self._look_later()

    @property
    def _owes_an_answer(self) -> bool:
        if self.state == greeting.name:
            # A replica that has said who it is waits for its place.
            return self._hello is None or self._owner.has_place(self)
        return self.state == completing.name or self.behind > 0

    # --- the proof

    def ask(self, handler: str, data: bytes) -> Deferred[bytes] | None:
        """Ask the replica; None when its connection is over, and the result fails with UnreachableError when it ends."""
        return None if self._questions.over else self._questions.ask(handler, data)

    # --- an orderly stop

    def stop_called(self) -> None:
        """Tell the replica that the active broker stops."""
        self._say(ScheduledFailover(STOP_CALLED))

    def when_drained(self, function: Callable[[], object]) -> None:
        """Call ``function`` once the replica has everything, or is gone."""
        if self._feed is None or not self._feed.behind or self.state == over.name:
            function()
        else:
            self._drained = function

    def _tell_drained(self) -> None:
        if self._drained is not None:
            drained, self._drained = self._drained, None
            drained()

    def fail_over(self, gone: Callable[[], object]) -> None:
        """Let the replica take over; ``gone`` is called when it has left."""
        self._gone = gone
        self._say(ScheduledFailover(FAIL_OVER))
