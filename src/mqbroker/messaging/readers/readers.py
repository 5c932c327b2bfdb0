"""Readers: named, durable positions on queues (``protocol-spec/``, chapter "Readers") (decision 21).

Messages stay in their queue.  A reader *reserves* a range of message ids, which can be read again and again until it is *settled*; messages
that all readers of a queue have settled are removed.

*Stable bound.*  The bound of a range is an id drawn in advance; the range is handed out when all earlier work of the store has become
visible.  A message that becomes visible later with a smaller id (scheduled, or of a prepared branch) gets a new id, in one stored step, and
so lies behind every range.  Messages of transactions get new ids at the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from mqbroker.messaging.core import is_stored
from mqbroker.messaging.queues.reader import Reader
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.messaging.readers.places import KeptPlaces
from mqbroker.messaging.readers.ranges import Range, measure
from mqbroker.messaging.readers.reading import Block, QueueLog, no_steps
from mqclient.errors import IllegalStateError, InternalError, InvalidQueueConfigurationError, MaxConsumerLimitExceededError, MQError

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import Steps

READERS_OF_QUEUE_MAX = 16
"""Readers of one queue: its messages stay until all of them have settled."""

READERS_MAX = 1000
"""Readers of the broker."""

READER_NAME_LENGTH_MAX = 256
"""Characters of a reader's name."""

SETTLED_TOGETHER = 500
"""Messages that are removed as one stored step."""

LOG_IDLE_SECONDS = 60.0
"""How long a queue without readers stays indexed after the last read by id."""

SETTING = "reader"
"""The kind under which the store keeps readers."""

NEWEST = -2
"""The beginning of a new reader: behind the newest message."""

Failed: TypeAlias = Callable[[MQError], object]
"""Told why a request that was begun cannot be carried out."""


class ReaderLog(QueueLog):
    """A queue with its readers by name; without any it is merely looked at."""

    def __init__(self, core: MessagingCore, queue: Queue, places: KeptPlaces) -> None:
        super().__init__(core, queue, places)
        self.readers: dict[str, Reader] = {}
        self.measured = 0
        """Ranges that are being measured; the log stays until then."""
        self.removing = False

    @property
    def settled(self) -> int:
        """The position that all readers have settled."""
        return min((reader.removable for reader in self.readers.values()), default=0)

    def lag(self, reader: Reader) -> int:
        """Messages that the reader has not settled; in pages that it shares with slower readers, about."""
        queue = self.queue
        return max(0, queue.references.count - self.index.count_until(reader.settled)) + queue.paged


class Readers:
    """All readers of the broker.  Requests raise MQError; requests that take time call back.

    ``tell`` takes lines for the log.
    """

    def __init__(self, core: MessagingCore, tell: Callable[[str], object]) -> None:
        self._core = core
        self._tell = tell
        core.queue_deleted.subscribe(self._queue_deleted)
        self._logs: dict[Queue, ReaderLog] = {}
        """Logs of all queues that are read by message id."""
        self._idle: dict[Queue, ReaderLog] = {}
        """Logs without readers."""
        self._places = KeptPlaces()
        self._timer: Cancellable | None = None
        self._forgotten: list[str] = []
        """Readers of queues that are gone, as the store has them."""

    # --- which there are

    def all(self) -> Iterator[tuple[Queue, Reader]]:
        """Every reader with its queue."""
        for queue in list(self._core.reader_queues):
            if queue.log is not None:
                for reader in list(queue.log.readers.values()):
                    yield queue, reader

    def find(self, queue: Queue, name: str, epoch: int | None = None) -> Reader:
        """The reader, if it is of this epoch."""
        reader = None if queue.log is None else queue.log.readers.get(name)
        if reader is None:
            raise IllegalStateError(f"AMQ229901: queue {queue.name} has no reader {name}")
        if epoch is not None and reader.epoch != epoch:
            self._core.report("AMQ222901", f"reader {name} of queue {queue.name} is refused: epoch {epoch}, it is at {reader.epoch}")
            raise IllegalStateError(
                f"AMQ229902: reader {name} of queue {queue.name} was opened by another one: epoch {reader.epoch}, yours is {epoch}"
            )
        return reader

    def restore(self, settings: Mapping[tuple[str, str], str], queues: Mapping[int, Queue]) -> None:
        """Take over the stored readers; called after the messages have been restored."""
        forgotten: list[str] = []
        for (kind, key), text in settings.items():
            if kind != SETTING:
                continue
            queue_id, _, name = key.partition("/")
            queue = queues.get(int(queue_id))
            if queue is None:
                forgotten.append(key)
                continue
            value = json.loads(text)
            log = self._pin(queue)
            log.readers[name] = Reader(name, value["epoch"], value["settled"], value["reserved"], value["begin"])
        for queue in self._core.reader_queues:
            self._logs[queue].index.bound = self._core.store.next_id()
        self._forgotten = forgotten

    def start(self) -> None:
        """Go on with removals that a crash has interrupted."""
        forgotten, self._forgotten = self._forgotten, []
        if forgotten:
            batch = self._core.store.begin()
            for key in forgotten:
                batch.delete_setting(SETTING, key)
            self._core.store.commit(batch)
        for queue in list(self._core.reader_queues):
            log = self._logs.get(queue)
            if log is not None:
                self._remove_settled(log, _nothing, _nothing)
                log.index.floor = max(log.index.floor, log.settled)

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- opening and removing

    def open(
        self,
        queue: Queue,
        name: str,
        start: int,
        done: Callable[[Reader, int, int], object],
        failed: Failed,
    ) -> None:
        """Take a reader over, or make it.  ``done`` is called with the reader, the newest id that can be handed out, and the ticket to wait
        for."""
        log = queue.log
        known = None if log is None else log.readers.get(name)
        if known is None:
            self._check_new(queue, name)
        log = self._pin(queue)
        gone = max(log.settled, log.index.floor)
        # While a reader is being made no message is removed.
        reader = log.readers[name] = known or Reader(name)
        reader.epoch += 1
        epoch = reader.epoch

        def stable() -> None:
            # Steps run one after the other: a session that takes over a reader still being made waits until it is made.
            steps = self._without_schedules(log) if known is None else no_steps()
            self._core.steps.start(steps, lambda result, failure: opened(failure))

        def opened(failure: Exception | None) -> None:
            if failure is not None:
                self._fail(failure, failed)
                return
            if log.readers.get(name) is not reader:
                failed(IllegalStateError(f"AMQ229901: queue {queue.name} or its reader {name} was removed meanwhile"))
                return
            newest = self._newest(log)
            if known is None and start:
                # A new reader that begins with the oldest message begins behind the messages that other readers have settled: they are not
                # lost to it.
                begin = log.index.bound if start == NEWEST else gone if start < 0 else min(start, log.index.bound)
                reader.begin = reader.settled = reader.reserved = begin
            ticket = self._keep(log, reader)
            self._tell(f"AMQ221901: reader {name} of queue {queue.name} is open: epoch {reader.epoch}, settled up to {reader.settled}")
            done(Reader(name, epoch, reader.settled, reader.reserved), max(newest, reader.settled), ticket)

        self._when_stable(log, stable)

    def _without_schedules(self, log: ReaderLog) -> Steps[None]:
        """Delete the stored schedules of messages that were due before the first reader, so that they keep their ids after a restart."""
        core, queue = self._core, log.queue
        position, bound = 0, log.index.bound
        while not queue.deleted and (references := log.index.between(position, bound, SETTLED_TOGETHER)):
            position = references[-1].message.message_id
            due = [each for each in references if is_stored(each) and scheduled_time_of(each.message)]
            if due:
                batch = core.store.begin()
                for reference in due:
                    batch.schedule(queue.queue_id, reference.message, 0)
                core.store.commit(batch)
            yield len(references)

    def _check_new(self, queue: Queue, name: str) -> None:
        definition = queue.definition
        why = ""
        if not name or len(name) > READER_NAME_LENGTH_MAX:
            raise InvalidQueueConfigurationError(f"AMQ229903: the name of a reader has 1 to {READER_NAME_LENGTH_MAX} characters")
        if definition.internal:
            why = "it belongs to the broker itself"
        elif definition.purge_on_no_consumers:
            why = "it has purge-on-no-consumers"
        elif definition.last_value:
            why = "it is a last-value queue, which removes messages by itself"
        elif definition.non_destructive:
            why = "it is a non-destructive queue"
        elif definition.ring_size >= 0:
            why = "it is a ring queue, which removes messages by itself"
        elif queue.consumer_count:
            why = f"it has {queue.consumer_count} consumers: a queue has either readers or consumers"
        elif queue.delivering:
            why = f"{queue.delivering} of its messages are in delivery"
        if why:
            raise IllegalStateError(f"AMQ229904: queue {queue.name} cannot have reader {name}: {why}")
        if queue.log is not None and len(queue.log.readers) >= READERS_OF_QUEUE_MAX:
            raise MaxConsumerLimitExceededError(f"AMQ229905: queue {queue.name} has {READERS_OF_QUEUE_MAX} readers already")
        if sum(1 for _ in self.all()) >= READERS_MAX:
            raise MaxConsumerLimitExceededError(f"AMQ229905: this broker has {READERS_MAX} readers already")

    def remove(self, queue: Queue, name: str) -> int:
        """Forget a reader; messages that it has not settled stay.  Returns the ticket after which the removal is durable."""
        self.find(queue, name)
        log = self._logs[queue]
        reader = log.readers.pop(name)
        ticket = self._core.store.ticket()
        if queue.durable:
            batch = self._core.store.begin()
            batch.delete_setting(SETTING, _key(queue, name))
            ticket = self._core.store.commit(batch)
        self._tell(f"AMQ221902: reader {name} of queue {queue.name} is removed, settled up to {reader.settled}")
        if log.readers:
            self._remove_settled(log, _nothing, _nothing)
        else:
            self._unpin(log)
        return ticket

    def _queue_deleted(self, queue: Queue) -> None:
        log = self._logs.pop(queue, None)
        if log is None:
            return
        names = list(log.readers)
        if names and queue.durable:
            batch = self._core.store.begin()
            for name in names:
                batch.delete_setting(SETTING, _key(queue, name))
            self._core.store.commit(batch)
        for name in names:
            self._tell(f"AMQ221902: reader {name} of queue {queue.name} is removed with its queue")
        log.readers.clear()
        self._core.reader_queues.pop(queue, None)
        self._idle.pop(queue, None)
        queue.log = None
        log.close()

    # --- ranges

    def reserve(
        self,
        queue: Queue,
        name: str | None,
        epoch: int,
        after: int,
        until: int,
        limits: tuple[int, int, int],
        done: Callable[[Range, int], object],
        failed: Failed,
    ) -> None:
        """Find the range behind ``after``, for a reader or (None) without one.  ``limits`` are messages, bytes (-1 = none) and parts.

        ``done`` is called with the range and the ticket to wait for.
        """
        if name is not None:
            self.find(queue, name, epoch)
        log = self._log(queue)
        log.measured += 1

        def stable() -> None:
            if not log.readers:
                # Messages taken before this range is found are not missing in it.
                log.index.floor = 0
            reached = min(until, log.index.bound) if until >= 0 else log.index.bound
            self._core.steps.start(measure(log, after, reached, limits), measured)

        def measured(found: Range, failure: Exception | None) -> None:
            log.measured -= 1
            log.used = self._core.clock.monotonic()
            if failure is not None:
                self._fail(failure, failed)
                return
            try:
                if queue.deleted:
                    raise IllegalStateError(f"queue {queue.name} was deleted meanwhile")
                reader = None if name is None else self.find(queue, name, epoch)
            except MQError as error:
                failed(error)
                return
            ticket = 0
            if reader is not None:
                if found.messages and found.until > reader.reserved:
                    reader.reserved = found.until
                    self._keep(log, reader)
                ticket = self._core.store.ticket()
            done(found, ticket)

        self._when_stable(log, stable)

    def oldest(self, queue: Queue) -> int:
        """The smallest id that can still be read, 0 when there is none; in pages, the smallest that may be there.  Raises NotYet."""
        log = self._log(queue)
        if log.index.first_id:
            return log.index.first_id
        if not queue.paged or queue.deleted:
            return 0
        rows, position, _ = log.first_rows()
        return rows.keys[0] if rows.keys else position + 1

    def read(self, queue: Queue, after: int, until: int, max_bytes: int, filter: Filter | None) -> Block:
        """See :meth:`QueueLog.read`."""
        return self._log(queue).read(after, until, max_bytes, filter)

    def find_body(self, queue: Queue, message_id: int, done: Callable[[LargeBody | None], object], failed: Failed) -> None:
        """``done`` gets the body of a large message of the queue, None when there is none."""
        log = self._log(queue)
        if log.index.building:
            log.when_built(lambda: self.find_body(queue, message_id, done, failed))
            return
        known = log.known_body(message_id)
        if known is not None or queue.pages is None:
            done(known)
            return

        def search() -> Steps[LargeBody | None]:
            for body in log.search_body(message_id):
                if body is not None:
                    return body
                yield 1000
            return None

        def found(body: LargeBody | None, failure: Exception | None) -> None:
            if failure is not None:
                self._fail(failure, failed)
                return
            done(body)

        self._core.steps.start(search(), found)

    # --- settling

    def settle(self, queue: Queue, name: str, epoch: int, until: int, done: Callable[[int], object], failed: Failed) -> None:
        """The reader is done with everything up to ``until``; ``done`` gets the ticket after which all of that is durable."""
        reader = self.find(queue, name, epoch)
        log = self._logs[queue]
        if until > reader.reserved:
            raise IllegalStateError(
                f"AMQ229906: reader {name} of queue {queue.name} has nothing beyond {reader.reserved} to settle: {until} is"
            )
        if until > reader.settled:
            reader.settled = until
            self._keep(log, reader)
        self._remove_settled(log, done, failed)

    def _remove_settled(self, log: ReaderLog, done: Callable[[int], object], failed: Failed) -> None:
        def removed(result: None, failure: Exception | None) -> None:
            if failure is not None:
                self._fail(failure, failed)
                return
            done(self._core.store.ticket())

        settled = log.settled
        idle = not log.removing and not log.index.building
        if settled <= log.index.floor and idle and not log.index.count_until(settled):
            done(self._core.store.ticket())
            return
        self._core.steps.start(self._removal(log), removed)

    def _removal(self, log: ReaderLog) -> Steps[None]:
        """Remove the messages that all readers have settled, the smallest ids first, so that after a crash only a settled beginning is
        missing."""
        core, queue = self._core, log.queue
        settled = log.settled
        if not log.readers:
            return
        log.removing = True
        while not queue.deleted and (references := log.index.between(0, settled, SETTLED_TOGETHER)):
            batch = core.store.begin()
            stored = False
            for reference in references:
                queue.take(reference)
                if is_stored(reference):
                    batch.acknowledge(queue.queue_id, reference.message)
                    stored = True
                queue.leave_delivery(reference)
                core.let_go(reference)
            queue.messages_acknowledged += len(references)
            if stored:
                core.store.commit(batch)
            yield len(references)
        if queue.pages is not None:
            for messages in queue.pages.settle_until(settled):
                yield max(messages, SETTLED_TOGETHER)
        log.removing = False
        log.index.floor = max(log.index.floor, settled)
        log.forget_until(settled)

    def _fail(self, failure: Exception, failed: Failed) -> None:
        """Work for a request has failed: answer the request."""
        self._tell(f"a request of a reader could not be carried out: {failure!r}")
        failed(failure if isinstance(failure, MQError) else InternalError(f"the request could not be carried out: {failure!r}"))

    # --- logs

    def _log(self, queue: Queue) -> ReaderLog:
        """The log of a queue; made here, if need be, for reads without a reader."""
        log = self._logs.get(queue)
        if log is None:
            log = queue.log = self._logs[queue] = self._idle[queue] = ReaderLog(self._core, queue, self._places)
            log.index.bound = self._core.store.next_id()
            self._watch()
        log.used = self._core.clock.monotonic()
        return log

    def _pin(self, queue: Queue) -> ReaderLog:
        log = self._log(queue)
        if queue in self._idle:
            del self._idle[queue]
            # Messages taken before were promised to no reader.
            log.index.floor = 0
            self._core.reader_queues[queue] = None
            log.index.renews = True
            self._core.consumer_changed(queue, False)
        return log

    def _unpin(self, log: ReaderLog) -> None:
        queue = log.queue
        log.index.renews = False
        self._core.reader_queues.pop(queue, None)
        self._idle[queue] = log
        self._watch()
        self._core.consumer_changed(queue, False)
        self._core.turn.mark_queue(queue)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._core.clock.call_later(LOG_IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        oldest = self._core.clock.monotonic() - LOG_IDLE_SECONDS
        for queue, log in list(self._idle.items()):
            if log.used <= oldest and not log.measured:
                del self._idle[queue], self._logs[queue]
                queue.log = None
                log.close()
        if self._idle:
            self._watch()

    def _when_stable(self, log: ReaderLog, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` when everything that was given to the store before can be seen; the bound is an id drawn now."""
        store = self._core.store
        barrier = store.next_id()

        def stable() -> None:
            log.index.bound = max(log.index.bound, barrier)
            log.when_built(lambda: function(*args))

        store.when_synced(store.ticket(), stable)

    def _newest(self, log: ReaderLog) -> int:
        return log.index.bound if log.queue.paged else max(log.newest, log.settled)

    def _keep(self, log: ReaderLog, reader: Reader) -> int:
        """Store where a reader stands; returns the ticket."""
        store, queue = self._core.store, log.queue
        if not queue.durable:
            return store.ticket()
        batch = store.begin()
        value = {
            "queue": queue.name,
            "epoch": reader.epoch,
            "settled": reader.settled,
            "reserved": reader.reserved,
            "begin": reader.begin,
        }
        batch.put_setting(SETTING, _key(queue, reader.name), json.dumps(value))
        return store.commit(batch)


def queues_with_readers(settings: Mapping[tuple[str, str], str]) -> set[int]:
    """The ids of queues for which the store has kept readers."""
    return {int(key.partition("/")[0]) for kind, key in settings if kind == SETTING}


def _key(queue: Queue, name: str) -> str:
    return f"{queue.queue_id}/{name}"


def _nothing(told: object) -> None: ...
