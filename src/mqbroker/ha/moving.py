"""Moves the messages of one queue to another broker: in order, a bounded number at a time, each until the other one has it.

Messages go in runs: one is on its way while others are answered, and it leaves the queue when the target has answered for all of it.  When
the link goes, what was not answered returns to its place, and goes again with the same duplicate id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.links.outgoing import Outgoing
from mqbroker.ha.messages import Encode, send_over
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.indexed_references import IndexedReferences
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqclient.errors import AddressFullError, DuplicateIdRejectedError, MalformedPacketError, MQError, UnblockedError

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqclient.core.batches import Batch
    from mqclient.core.session.session import Session

IN_FLIGHT_MESSAGES_MAX = 2_000
"""Messages that a broker which leaves has sent to its target and that are not answered, where ``commit-interval`` says nothing or more:
fewer than the duplicate ids that the target remembers."""

IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of the messages that a broker which leaves has sent and that are not answered, without large bodies, which go one at a time."""

RUN_MESSAGES_MAX = 250
"""Messages that a broker which leaves sends together; they leave their queue together when all are answered."""

RUN_BYTES_MAX = 64 * 1024
"""Bytes of messages that a broker which leaves sends together; far below the credits for an address."""

RUNS_UNDER_WAY_MIN = 4
"""Runs into which the messages under way are cut at least, so that the target has some while others are answered."""

MESSAGES_PER_TURN = 500
"""Messages that are sent before others have their turn."""

PAGES_WAIT_SECONDS = 0.05
PAGES_PATIENCE = 200
"""How often messages in pages that cannot be read yet are looked for again."""

PIECES_PER_TURN = 64

log = Logger(namespace="mqbroker.ha")


class _Run:
    """Messages to one ``address`` that are sent together; ``size`` is the sum of their bytes, without large bodies."""

    __slots__ = ("address", "encoded", "messages", "references", "size")

    def __init__(self, address: str) -> None:
        self.address = address
        self.references: list[Reference] = []
        self.messages: list[bytes] = []
        self.size = 0
        self.encoded = 0
        """Bytes of the encoded messages as they are sent."""

    def add(self, reference: Reference, outgoing: Outgoing) -> None:
        self.references.append(reference)
        self.size += len(reference.message.buffer)
        if outgoing.read is None:
            self.messages.append(b"".join(outgoing.parts))
            self.encoded += outgoing.size


class QueueMove:
    """Moves all messages of ``queue``; nothing else may take messages from the queue meanwhile.

    At most ``window`` messages are under way, and are acknowledged here in transactions of no more than that.
    """

    def __init__(self, messaging: Messaging, queue: Queue, encode: Encode, session: Session, window: int) -> None:
        self.queue = queue
        self.moved = 0
        self.kept = 0
        """Messages that the target has refused, or that cannot be sent: they stay."""
        self.flush_due = False
        self._core = messaging.core
        self._settlement = messaging.settlement
        self._encode = encode
        self._session = session
        self._window = window
        self._run_messages = max(1, min(RUN_MESSAGES_MAX, window // RUNS_UNDER_WAY_MIN))
        credits = session.settings.producer_window_size
        self._run_bytes = RUN_BYTES_MAX if credits < 0 else min(RUN_BYTES_MAX, credits // RUNS_UNDER_WAY_MIN)
        self._runs: dict[_Run, None] = {}
        """The runs under way, together ``_under_way`` messages of ``_bytes`` bytes; the last run may still be growing."""
        self._growing: _Run | None = None
        self._under_way = 0
        self._bytes = 0
        self._aside: tuple[Reference, Outgoing] | None = None
        """The next message to be sent, as soon as there is room."""
        self._settled: list[Reference] = []
        self._kept: list[Reference] = []
        self._scheduled: Iterator[Reference] = iter(())
        self._stalled = False
        self._full = False
        self._failure: MQError | None = None
        self._patience = PAGES_PATIENCE
        self._timer: Cancellable | None = None
        self._done: Deferred[None] = Deferred()
        self._ended = False

    def run(self) -> Deferred[None]:
        """Completes when there is nothing more to be sent; fails with the MQError that has ended the link."""
        if isinstance(self.queue.references, IndexedReferences):
            # From now on the messages keep the ids by which the target and the ranges of readers know them, also those that become due.
            self.queue.references.renews = False
        self._session.open_encoded_sends().on_room = self._room
        self._core.turn.run(self._pump)
        return self._done

    def stop(self, error: MQError) -> None:
        """Send nothing more; messages that are not answered by the end of this turn stay."""
        if self._failure is None and not self._ended:
            self._failure = error
            self._settle_soon()

    # --- sending

    @property
    def _may_send(self) -> bool:
        held = self._stalled or self._full or self._failure is not None
        return not held and self._under_way < self._window and self._bytes < IN_FLIGHT_BYTES_MAX

    def _pump(self) -> None:
        self._timer = None
        if self._ended:
            return
        for _ in range(MESSAGES_PER_TURN):
            if not self._may_send:
                break
            found, self._aside = self._aside, None
            if found is None:
                reference = self._next()
                if reference is None:
                    break
                outgoing = self._outgoing(reference)
                if outgoing is None:
                    self._kept.append(reference)
                    continue
                found = reference, outgoing
            self._send(*found)
        else:
            self._again(0)
        self._send_run()
        self._check_end()

    def _next(self) -> Reference | None:
        queue = self.queue
        pieces = 0
        while not queue.references.count and queue.paged and pieces < PIECES_PER_TURN:
            if queue.pages is None or not queue.pages.read_piece():
                break
            pieces += 1
        reference = queue.references.head()
        if reference is None and queue.scheduled.count:
            reference = self._next_scheduled()
        if reference is not None:
            queue.take(reference)
            self._patience = PAGES_PATIENCE
        return reference

    def _next_scheduled(self) -> Reference | None:
        scheduled = self.queue.scheduled
        reference = next((each for each in self._scheduled if each in scheduled), None)
        if reference is None:
            # Sorted once for all that are there, and not for each message.
            self._scheduled = iter(list(scheduled))
            reference = next(self._scheduled, None)
        return reference

    def _outgoing(self, reference: Reference) -> Outgoing | None:
        try:
            return self._encode(reference)
        except MalformedPacketError as error:
            log.warn(
                "message {id} of queue {queue} cannot be moved: {error}",
                id=reference.message.message_id,
                queue=self.queue.name,
                error=error,
            )
            return None

    def _send(self, reference: Reference, outgoing: Outgoing) -> None:
        """Put a message into the run that is growing, or begin another run; a large message is a run of its own."""
        run = self._growing
        if run is not None and (outgoing.read is not None or outgoing.address != run.address):
            self._send_run()
            run = None
            if not self._may_send:
                self._aside = reference, outgoing
                return
        if run is None:
            run = _Run(outgoing.address)
            self._runs[run] = None
        self._under_way += 1
        self._bytes += len(reference.message.buffer)
        run.add(reference, outgoing)
        if outgoing.read is not None:
            self._stalled = not send_over(self._session, outgoing, partial(self._large_answered, run))
            return
        self._growing = run
        if len(run.messages) >= self._run_messages or run.encoded >= self._run_bytes:
            self._send_run()

    def _send_run(self) -> None:
        run, self._growing = self._growing, None
        if run is not None:
            self._stalled = not self._session.send_batch(run.address, run.messages, partial(self._answered, run))

    # --- answers

    def _answered(self, run: _Run, batch: Batch) -> None:
        if self._ended:
            return
        references = run.references
        if batch.error is not None:
            unanswered = set(batch.unanswered)
            refused = {index: batch.refused.get(index) for index in range(len(references)) if index not in unanswered}
            self._take_answers(run, [references[index] for index in refused], refused.values())
            self._stays(run, [references[index] for index in sorted(unanswered)])
            self.stop(batch.error)
        elif batch.refused:
            self._take_answers(run, references, map(batch.refused.get, range(len(references))))
        else:
            self._leave(run)
            self._settled += references
        self._settle_soon()

    def _large_answered(self, run: _Run, error: MQError | None) -> None:
        if self._ended:
            return
        if isinstance(error, UnblockedError):
            self.stop(error)
            return
        self._take_answers(run, run.references, (error,))
        self._settle_soon()

    def _take_answers(self, run: _Run, references: list[Reference], errors: Iterable[MQError | None]) -> None:
        self._leave(run)
        for reference, error in zip(references, errors, strict=True):
            if error is None or isinstance(error, DuplicateIdRejectedError):
                self._settled.append(reference)
                continue
            if not self._kept:
                log.warn("the target refuses a message of queue {queue}: {error}", queue=self.queue.name, error=error)
            self._kept.append(reference)
            self._full = self._full or isinstance(error, AddressFullError)

    def _leave(self, run: _Run) -> None:
        """The run is under way no more."""
        del self._runs[run]
        self._under_way -= len(run.references)
        self._bytes -= run.size

    def _stays(self, run: _Run, references: list[Reference]) -> None:
        """The messages ``references`` of the run get no answer any more."""
        rest = _Run(run.address)
        rest.references = references
        self._runs[rest] = None

    def _settle_soon(self) -> None:
        if not self.flush_due:
            self._core.turn.mark_output(self)

    def flush(self) -> None:
        """At the end of a turn: the messages answered in it leave the queue."""
        if self._ended:
            return
        if self._failure is not None:
            self._end(self._failure)
            return
        self._settle()
        self._pump()

    def _settle(self) -> None:
        settled, self._settled = self._settled, []
        self.moved += len(settled)
        for start in range(0, len(settled), self._window):
            self._settlement.acknowledge(settled[start : start + self._window])

    def _room(self) -> None:
        self._stalled = False
        self._core.turn.run(self._pump)

    def _again(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._core.clock.call_later(seconds, self._core.turn.run, self._pump)

    # --- the end

    def _check_end(self) -> None:
        if self._runs or self._settled or self._timer is not None or self._failure is not None:
            return
        queue = self.queue
        if not self._full:
            if self._aside is not None or self._stalled or queue.references.count or queue.scheduled.count:
                return
            if queue.pages is not None and queue.pages.when_there(self._pump):
                return
            if queue.paged and self._patience > 0:
                self._patience -= 1
                self._again(PAGES_WAIT_SECONDS)
                return
        self._end(None)

    def _end(self, error: MQError | None) -> None:
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._session.open_encoded_sends().on_room = lambda: None
        self._settle()
        self.kept = len(self._kept)
        stay = [reference for run in self._runs for reference in run.references]
        if self._aside is not None:
            stay.append(self._aside[0])
            self._aside = None
        for reference in (*stay, *self._kept):
            if reference.scheduled:
                self.queue.put_back_later(reference, reference.scheduled)
            else:
                self.queue.put_back(reference)
        self._runs.clear()
        self._kept.clear()
        if error is None:
            self._done.callback(None)
        else:
            self._done.errback(error)
