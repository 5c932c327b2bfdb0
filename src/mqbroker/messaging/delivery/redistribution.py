"""Redistribution: messages without a consumer here go to a broker with one (Artemis manual, "Message redistribution").

``redistribution-delay`` ms after a consumer here has gone, or one elsewhere has come, a :class:`_Redistributor` joins the queue.  It takes
a message only if no consumer here would take it, and a connected remote queue has a consumer that would; later messages follow without
delay.  Messages of a group stay together, here.

*Never back and forth.*  A moved message names the brokers that have moved it.  It goes back to one of them only for a consumer that has
appeared there since, or after waiting in vain for :data:`PATIENCE_SECONDS`, twice as long with each move.  So two brokers with outdated
knowledge do not send a message round and round, and a message whose consumer has moved the other way is not stranded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqbroker.messaging.core import is_stored
from mqbroker.messaging.delivery.arriving import MOVED_BY
from mqbroker.messaging.delivery.distribution import forward
from mqbroker.messaging.queues.definitions import ANYCAST
from mqbroker.messaging.queues.groups import GROUP_ID_KEY, has_group
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.routing.remote import Attention, RemoteBinding, attention_of
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_ROUTE_TO

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.delivery.sending import Sending
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.messaging.queues.queue import Queue

MOVED_MAX: Final = 500
"""Messages that one queue gives to other brokers in one turn, as one stored step."""

PATIENCE_SECONDS: Final = 10.0
"""How long a moved message waits before it may go back to a broker that has moved it."""

PATIENCE_SECONDS_MAX: Final = 320.0
"""Seconds that a moved message waits before it is tried once more on a broker that has moved it."""

NODES_KEPT_MAX: Final = 8
"""The last brokers that have moved a redistributed message; the message names only these."""

REPORT_SECONDS: Final = 10.0
"""A queue's moves are told at most this often."""

_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")


class Redistribution:
    """All queues that give messages away, or are about to."""

    def __init__(self, core: MessagingCore, sending: Sending) -> None:
        self.core = core
        self.sending = sending
        self.context = OperationContext(core.store)
        self._redistributors: dict[int, _Redistributor] = {}
        """By queue id."""
        core.consumers_changed.subscribe(self._consumer_changed)
        core.queue_deleted.subscribe(self._end)
        core.settings_changed.subscribe(self._settings_changed)
        core.routing.connected.subscribe(self.consumer_appeared)

    # --- reasons to begin or to end

    def consumer_appeared(self, binding: RemoteBinding) -> None:
        """A consumer of a remote queue has come, or the link to it is there again."""
        binding.appeared = self.core.store.next_id()
        for queue in self._stand_ins(binding):
            if serves(binding, queue):
                self.consider(queue)

    def _stand_ins(self, binding: RemoteBinding) -> Iterable[Queue]:
        """Local queues that may have messages for the remote queue; a shortlist, since a topic may have thousands of queues."""
        core = self.core
        if binding.routing_name != binding.address:
            queue = core.queues.get(binding.routing_name)
            return () if queue is None else (queue,)
        address = core.addresses.get(binding.address)
        return () if address is None else address.queues

    def _consumer_changed(self, queue: Queue, came: bool) -> None:
        if came:
            self._end(queue)
        self.consider(queue, anew=True)

    def _settings_changed(self) -> None:
        for address in {binding.address for binding in self.core.routing.remote_bindings()}:
            known = self.core.addresses.get(address)
            for queue in () if known is None else known.queues:
                self.consider(queue, anew=True)

    def consider(self, queue: Queue, *, anew: bool = False) -> None:
        """Begin, or with ``anew`` begin the delay again, if there is a reason; else end."""
        delay = queue.address.settings.redistribution_delay
        if not self.wanted(queue):
            self._end(queue)
            return
        redistributor = self._redistributors.get(queue.queue_id)
        if redistributor is None:
            redistributor = self._redistributors[queue.queue_id] = _Redistributor(self, queue)
        redistributor.start(delay / 1000, anew)

    def wanted(self, queue: Queue) -> bool:
        """May messages of the queue go elsewhere, and is there a place for any?"""
        definition, core = queue.definition, self.core
        if (
            queue.deleted
            or definition.internal
            or definition.non_destructive
            or queue.has_readers
            or queue.address.settings.redistribution_delay < 0
        ):
            return False
        if definition.address.startswith((core.options.management_address, core.options.management_notification_address)):
            return False
        if not core.routing.balancing(definition.address).redistributes or attention_of(queue) is Attention.EVERY_MESSAGE:
            return False
        return any(binding.consumer_count for binding in self.targets(queue))

    def targets(self, queue: Queue) -> list[RemoteBinding]:
        """The remote queues that stand for ``queue``; queues of the same name first."""
        found = [each for each in self.core.routing.remote_group(*_group_of(queue)) if each.load_balancing.redistributes]
        return sorted(found, key=lambda binding: binding.queue_name != queue.name)

    def stop(self) -> None:
        """End every timer."""
        for redistributor in list(self._redistributors.values()):
            self._end(redistributor.queue)

    def _end(self, queue: Queue) -> None:
        redistributor = self._redistributors.pop(queue.queue_id, None)
        if redistributor is not None:
            redistributor.stop()


def serves(binding: RemoteBinding, queue: Queue) -> bool:
    """Are messages of ``queue`` also meant for the remote queue?"""
    return binding.load_balancing.redistributes and (binding.address, binding.routing_name) == _group_of(queue)


def _group_of(queue: Queue) -> tuple[str, str]:
    """Address and routing name."""
    definition = queue.definition
    return definition.address, definition.address if definition.routing_type == ANYCAST else queue.name


class _Redistributor:
    """Gives away messages of one queue, a bounded number in one turn."""

    def __init__(self, redistribution: Redistribution, queue: Queue) -> None:
        self._redistribution = redistribution
        self._core = redistribution.core
        self.queue = queue
        self.marked = False
        self._cursor = Cursor(restarts=True)
        self._position = 0
        self._targets: list[RemoteBinding] = []
        self._chosen: RemoteBinding | None = None
        self._timer: Cancellable | None = None
        self._patience: Cancellable | None = None
        self._pardoned = 0
        """Messages up to this id have waited long enough."""
        self._node = UUID(self._core.store.node_id).bytes
        self._moved: dict[RemoteBinding, int] = {}
        self._reported = float("-inf")
        self._report_timer: Cancellable | None = None

    def start(self, delay: float, anew: bool) -> None:
        """Join the queue after ``delay`` seconds, with ``anew`` counted from now on; one that has joined looks through it again."""
        if self.queue.redistributor is self:
            self._look_again()
            return
        if self._timer is not None:
            if not anew:
                return  # consumers that come and go elsewhere would put it off for ever
            self._timer.cancel()
            self._timer = None
        if delay > 0:
            self._timer = self._core.clock.call_later(delay, self._core.turn.run, self._join)
        else:
            self._join()

    def stop(self) -> None:
        """Leave the queue."""
        if self.queue.redistributor is self:
            self.queue.redistributor = None
        self._cursor.close()
        for timer in (self._timer, self._patience, self._report_timer):
            if timer is not None:
                timer.cancel()
        self._report()

    def _join(self) -> None:
        self._timer = None
        if self._redistribution.wanted(self.queue):
            self.queue.redistributor = self
            self._look_again()

    def _look_again(self) -> None:
        self._cursor.close()
        # The queue marks this redistributor after reading from its pages.
        self.queue.turn.mark_queue(self.queue)

    # --- one turn

    def deliver(self) -> None:
        """Give messages away, as many as possible."""
        queue, core = self.queue, self._core
        if queue.redistributor is not self or queue.deleted or queue.paused or queue.address.paused:
            return
        self._targets = [each for each in self._redistribution.targets(queue) if each.connected and each.consumer_count]
        if not self._targets or not queue.references.count:
            return
        scan = queue.turn.scan
        begun = scan.left > 0
        batch = core.store.begin()
        stored = False
        arrived: list[Reference] = []
        moved = 0
        while moved < MOVED_MAX and (reference := queue.references.search(self._cursor, self._accept, scan)) is not None:
            binding = self._chosen
            assert binding is not None
            try:
                copy = self._copy(reference.message, binding)
            except MalformedPacketError:
                continue  # the cursor has passed it
            moved += 1
            self._position += 1
            self._moved[binding] = self._moved.get(binding, 0) + 1
            account = core.addresses.get(reference.message.address.partition("::")[0], queue.address)
            references = self._redistribution.sending.distribution.references_for(copy, forward(copy, (binding,)), account)
            kept, waiting = core.paging.store(batch, copy, references)
            arrived.extend(waiting)
            queue.take(reference)
            if is_stored(reference):
                batch.acknowledge(queue.queue_id, reference.message)
                kept = True
            stored = stored or kept
            queue.leave_delivery(reference)
            queue.messages_redistributed += 1
            core.let_go(reference)
        if moved:
            ticket = core.store.commit(batch) if stored else 0
            self._redistribution.context.run(ticket, self._redistribution.sending.deliver, arrived)
            self._report_soon()
        if moved == MOVED_MAX or scan.left <= 0:
            queue.turn.go_on_later(self, begun=begun)

    def _accept(self, reference: Reference) -> bool:
        """Is there a place for this message elsewhere, and none here?"""
        message = reference.message
        if has_group(message) and isinstance(message.raw_property(GROUP_ID_KEY), str):
            return False
        if self.queue.consumer_count and self.queue.has_matching_consumer(message):
            return False
        self._chosen = self._choose(message)
        return self._chosen is not None

    def _choose(self, message: Message) -> RemoteBinding | None:
        """The next remote queue in turn with a consumer for the message.

        A remote queue of the same name comes first; a message to a fully qualified name goes to no other.
        """
        targets, name = self._targets, self.queue.name
        qualified = "::" in message.address
        moved_by = _moved_by(message)
        second: RemoteBinding | None = None
        for step in range(len(targets)):
            binding = targets[(self._position + step) % len(targets)]
            if not binding.high_priority(message) or not binding.matches(message):
                continue
            if binding.queue_name != name and (qualified or second is not None):
                continue
            if moved_by and self._must_wait(binding, message, moved_by):
                continue
            if binding.queue_name == name:
                return binding
            second = binding
        return second

    def _must_wait(self, binding: RemoteBinding, message: Message, moved_by: list[bytes]) -> bool:
        """Would the message go back without a new reason?"""
        if not _names(moved_by, binding.node_id) or message.message_id < binding.appeared or message.message_id <= self._pardoned:
            return False
        if self._patience is None:
            seconds = min(PATIENCE_SECONDS * 2 ** (len(moved_by) - 1), PATIENCE_SECONDS_MAX)
            self._patience = self._core.clock.call_later(seconds, self._core.turn.run, self._pardon, self._core.store.next_id())
        return True

    def _pardon(self, message_id: int) -> None:
        self._patience = None
        self._pardoned = message_id
        self._look_again()

    def _copy(self, message: Message, binding: RemoteBinding) -> Message:
        """A copy of the message for ``binding``, without the properties of earlier ways.  Raises MalformedPacketError."""
        moved_by = [*_moved_by(message), self._node][-NODES_KEPT_MAX:]
        copy = message.duplicate(self._core.store.next_id())
        try:
            if message.buffer.find(_ROUTE_TO, message.properties_offset) >= 0 or len(moved_by) > 1:
                copy.strip_properties((_ROUTE_TO, MOVED_BY))
        except MalformedPacketError:
            if copy.large is not None:
                copy.large.release()
            raise
        copy.append_bytes_property(MOVED_BY, b"".join(moved_by))
        return copy

    # --- the log

    def _report_soon(self) -> None:
        now = self._core.clock.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._report()
        elif self._report_timer is None:
            self._report_timer = self._core.clock.call_later(self._reported + REPORT_SECONDS - now, self._report)

    def _report(self) -> None:
        self._report_timer = None
        self._reported = self._core.clock.monotonic()
        moved, self._moved = self._moved, {}
        for binding, count in moved.items():
            for observer in self._core.observers:
                observer.messages_redistributed(self.queue, binding, count)


def _names(moved_by: list[bytes], node_id: str) -> bool:
    return any(str(UUID(bytes=node)) == node_id.lower() for node in moved_by)


def _moved_by(message: Message) -> list[bytes]:
    if message.buffer.find(MOVED_BY, message.properties_offset) < 0:
        return []
    value = message.raw_property(MOVED_BY)
    return [value[at : at + 16] for at in range(0, len(value) - 15, 16)] if isinstance(value, bytes) else []
