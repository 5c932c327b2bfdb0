"""A queue: its waiting messages, its messages in delivery, and the consumers that share them.

This module is longer than others: all state used for each message and each delivery is in one object.  Groups, pages, schedules and
redistribution are objects of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.groups import MessageGroups
from mqbroker.messaging.queues.references import Cursor, Reference, ReferenceList
from mqbroker.messaging.queues.scheduled import ScheduledReferences

if TYPE_CHECKING:
    from mqbroker.messaging.event import Event
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.consumer import QueueConsumer, Source
    from mqbroker.messaging.queues.definitions import QueueDefinition
    from mqbroker.messaging.queues.queue_pages import QueuePages
    from mqbroker.messaging.queues.reader import QueueReaders
    from mqbroker.messaging.queues.ring import Ring
    from mqbroker.messaging.turns.turn import Deliverable, Turn


DOUBTED_MAX = 20_000
"""Messages of one queue of which is remembered that another broker may have them: twice as many as one link has under way.  Those that
other consumers have taken meanwhile are among them."""


class _ConsumerGroup:
    """Consumers of one priority, served in turn."""

    __slots__ = ("consumers", "position", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.consumers: list[QueueConsumer] = []
        self.position = 0


class QueueOwner(Protocol):
    """The messaging core, as its queues see it."""

    turn: Turn
    clock: Clock
    expired: Event[Reference]
    """Hears of a reference that was found expired when its turn came; it has left the list."""
    replaced: Event[Sequence[Reference]]
    late: Event[Reference]

    def consumer_changed(self, queue: Queue, came: bool) -> None:
        """A consumer of ``queue`` has come or gone."""

    def hold(self, reference: Reference, account: AddressMemory) -> None:
        """A reference came into memory."""

    def let_go(self, reference: Reference) -> None:
        """A reference is done with."""


class Queue:
    """A queue bound to one address.

    Counters (``messages_added`` and so on) count since the start of the broker.
    """

    __slots__ = (
        "_consumer_changed",
        "_dispatch_timer",
        "_durable_bytes",
        "_durable_messages",
        "_expired",
        "_groups",
        "_transient_bytes",
        "address",
        "arriving",
        "clock",
        "consumer_count",
        "consumers_seen",
        "created_ms",
        "definition",
        "deleted",
        "delivering",
        "dispatch_allowed",
        "elsewhere",
        "filter",
        "groups",
        "idle_since_ms",
        "in_doubt",
        "log",
        "marked",
        "messages_acknowledged",
        "messages_added",
        "messages_expired",
        "messages_killed",
        "messages_redistributed",
        "messages_replaced",
        "name",
        "needed_for",
        "paged",
        "pages",
        "paused",
        "queue_id",
        "redistributor",
        "references",
        "ring",
        "scheduled",
        "sweep_mark",
        "turn",
        "unfinished",
    )

    def __init__(
        self,
        queue_id: int,
        definition: QueueDefinition,
        address: Address,
        filter: Filter | None,
        owner: QueueOwner,
    ) -> None:
        self.queue_id = queue_id
        self.definition = definition
        self.name = definition.name
        self.address = address
        self.filter = filter
        self.turn = owner.turn
        self.clock = clock = owner.clock
        self._expired = owner.expired
        self._consumer_changed = owner.consumer_changed
        self.references = ReferenceList()
        self.scheduled = ScheduledReferences(clock, self._due)
        self.unfinished = False
        """The budget of the turn ended at expired messages; delivery goes on in a later one."""
        self.delivering = 0
        self._durable_messages = 0
        """The durable ones of ``message_count``."""
        self._durable_bytes = 0
        self._transient_bytes = 0
        self.arriving = 0
        """References of open transactions and of messages that wait for the disk."""
        self.paged = 0
        """Messages in pages that were not read yet."""
        self.pages: QueuePages | None = None
        self.log: QueueReaders | None = None
        """Set while the queue is read by message id."""
        self.in_doubt: frozenset[int] = frozenset()
        """Ids of waiting messages that another broker may have, since it could not say so before its link ended."""
        self.paused = False
        self.deleted = False
        self.marked = False
        self.messages_added = 0
        self.messages_acknowledged = 0
        self.messages_expired = 0
        self.messages_killed = 0
        self.messages_redistributed = 0
        """Messages that have gone to other brokers, where their consumers are."""
        self.needed_for: str | None = None
        """Why it cannot be deleted now; None when it can."""
        self.messages_replaced = 0
        """Messages replaced by newer ones (:mod:`mqbroker.messaging.queues.last_values`, :mod:`mqbroker.messaging.queues.ring`)."""
        self.ring: Ring | None = None
        """Set while only so many messages may wait."""
        self.elsewhere: Source | None = None
        """Gives consumers messages that other brokers keep, in turn with those of this queue."""
        self.redistributor: Deliverable | None = None
        """Takes messages that no consumer takes, after each delivery."""
        self.consumer_count = 0
        self.consumers_seen = False
        self.created_ms = clock.wall_ms()
        self.idle_since_ms = self.created_ms
        self.sweep_mark = False
        self._groups: list[_ConsumerGroup] = []
        self.groups: MessageGroups | None = MessageGroups(self) if definition.exclusive else None
        """The message groups and their consumers; None while there are no groups."""
        self._dispatch_timer: Cancellable | None = None
        self.dispatch_allowed = True
        self._arm_dispatch()

    # --- the messages of the queue

    @property
    def durable(self) -> bool:
        return self.definition.durable

    @property
    def message_count(self) -> int:
        """Messages waiting (also in pages), scheduled and in delivery, as management shows them."""
        return self.references.count + self.scheduled.count + self.delivering + self.paged

    @property
    def total_count(self) -> int:
        """All messages that the queue really has."""
        return self.references.count + self.scheduled.count + self.delivering + self.paged

    @property
    def durable_message_count(self) -> int:
        """The part of ``message_count`` that survives a restart."""
        if not self.definition.durable:
            return 0
        return self._durable_messages + (0 if self.pages is None else self.pages.durable_count)

    @property
    def durable_size(self) -> int:
        """Encoded bytes of the messages in memory that survive a restart, with their large bodies."""
        return self._durable_bytes if self.definition.durable else 0

    @property
    def persistent_size(self) -> int:
        """Encoded bytes of all messages in memory, with their large bodies."""
        return self._durable_bytes + self._transient_bytes

    def consumers(self) -> Iterator[QueueConsumer]:
        """The consumers, highest priority first; browsers are not among them."""
        for group in self._groups:
            yield from group.consumers

    def has_matching_consumer(self, message: Message) -> bool:
        """Is there a consumer that would take ``message``?"""
        return any(consumer.filter is None or consumer.filter.matches(message) for consumer in self.consumers())

    @property
    def has_readers(self) -> bool:
        """Are there readers?  Only readers may take messages then."""
        return self.log is not None and bool(self.log.readers)

    @property
    def numbers_ascend(self) -> bool:
        """Do messages have to become visible in the order of their ids?"""
        return self.has_readers or self.ring is not None

    @property
    def expires(self) -> bool:
        """Messages of a queue on its own expiry address never expire."""
        return self.address.settings.expiry_address != self.definition.address

    def has_expired(self, message: Message) -> bool:
        """Has the message expired?  A message in doubt never does here: the broker that may have it would expire it, too."""
        expiration = message.expiration
        return 0 < expiration <= self.clock.wall_ms() and self.expires and message.message_id not in self.in_doubt

    def doubt(self, message_ids: Iterable[int]) -> None:
        doubted = self.in_doubt | frozenset(message_ids)
        self.in_doubt = frozenset(sorted(doubted)[-DOUBTED_MAX:]) if len(doubted) > DOUBTED_MAX else doubted

    def doubt_no_more(self, message_id: int) -> None:
        self.in_doubt -= {message_id}

    # --- messages in

    def add(self, reference: Reference, later: bool = False) -> None:
        """A message has come (and is stored, if it has to be).  ``later``: a scheduled one is due after this turn at the earliest."""
        self.messages_added += 1
        if not self.deleted:
            self.add_read(reference, later)

    def add_read(self, reference: Reference, later: bool = False) -> None:
        """As :meth:`add`, for a message that was counted when it went to a page."""
        message = reference.message
        if message.durable:
            self._durable_messages += 1
            self._durable_bytes += message.stored_size
        else:
            self._transient_bytes += message.stored_size
        if reference.scheduled:
            # With readers it gets another id when it is due: one that has come too late for this one was not handed out.
            if later or self.has_readers or reference.scheduled > self.clock.wall_ms():
                self.scheduled.add(reference)
                return
            reference.scheduled = 0
        self.references.append(reference)
        if not self.marked:
            self.turn.mark_queue(self)

    def add_arrived(self, messages: Sequence[Message], durable: bool, size: int) -> None:
        """Messages have come that count as arriving, of ``size`` encoded bytes together, and all of them durable or none.

        None of them is scheduled or large, and the queue is not deleted.
        """
        count = len(messages)
        self.arriving -= count
        self.messages_added += count
        if durable:
            self._durable_messages += count
            self._durable_bytes += size
        else:
            self._transient_bytes += size
        self.references.append_messages(messages, self)
        if not self.marked:
            self.turn.mark_queue(self)

    def put_back(self, reference: Reference) -> None:
        """A reference that was in delivery waits again in its original place, unless the ring is full."""
        if self.ring is not None and not self.ring.takes_back(reference):
            return
        self.delivering -= 1
        reference.consumer = None
        self.references.insert(reference)
        if not self.marked:
            self.turn.mark_queue(self)

    def put_back_later(self, reference: Reference, time_ms: int) -> None:
        """A reference that was in delivery is due again at ``time_ms``."""
        self.delivering -= 1
        reference.consumer = None
        reference.scheduled = time_ms
        self.scheduled.add(reference)
        if not self.delivering and self.groups is not None:
            self.turn.mark_queue(self)
        if self.pages is not None:
            self.pages.room_again()

    def leave_delivery(self, reference: Reference) -> None:
        """A reference in delivery is done with."""
        self.delivering -= 1
        message = reference.message
        size = len(message.buffer) if message.large is None else message.stored_size
        if message.durable:
            self._durable_messages -= 1
            self._durable_bytes -= size
        else:
            self._transient_bytes -= size
        reference.consumer = None
        if not self.delivering and self.groups is not None:
            self.turn.mark_queue(self)

    def take(self, reference: Reference) -> None:
        """Take a waiting or scheduled reference out, to be treated as one in delivery."""
        if reference.listed:
            self.references.remove(reference)
        else:
            self.scheduled.remove(reference)
        self.delivering += 1

    def deliver_scheduled(self, reference: Reference) -> None:
        """Put a scheduled reference at the end, before its time."""
        self.scheduled.remove(reference)
        reference.scheduled = 0
        self.references.append(reference)
        self.turn.mark_queue(self)

    def _due(self, due: list[Reference]) -> None:
        # Where there are readers, each message goes to the end, with another id.
        for reference in due if self.has_readers else reversed(due):
            reference.scheduled = 0
            self.references.prepend(reference)
        self.turn.mark_queue(self)

    def stop(self) -> None:
        """End every timer."""
        self.scheduled.stop()
        if self._dispatch_timer is not None:
            self._dispatch_timer.cancel()
            self._dispatch_timer = None

    # --- consumers

    def look_elsewhere(self, source: Source | None) -> None:
        """Consumers get messages of other brokers from ``source``; None: they do no longer."""
        self.elsewhere = source
        self.turn.mark_queue(self)

    def add_consumer(self, consumer: QueueConsumer) -> None:
        if consumer.filter is not None:
            consumer.cursor = Cursor(restarts=True)
        for index, group in enumerate(self._groups):
            if group.priority == consumer.priority:
                group.consumers.append(consumer)
                break
            if group.priority < consumer.priority:
                self._groups.insert(index, _ConsumerGroup(consumer.priority))
                self._groups[index].consumers.append(consumer)
                break
        else:
            self._groups.append(_ConsumerGroup(consumer.priority))
            self._groups[-1].consumers.append(consumer)
        self.consumer_count += 1
        self.consumers_seen = True
        if self.groups is not None:
            self.groups.consumer_added()
        self.check_dispatch()
        self.turn.mark_queue(self)
        self._consumer_changed(self, True)

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        for group in self._groups:
            if consumer in group.consumers:
                group.consumers.remove(consumer)
                group.position = 0
                if not group.consumers:
                    self._groups.remove(group)
                self.consumer_count -= 1
                break
        if self.groups is not None:
            self.groups.consumer_removed(consumer)
        if consumer.cursor is not None:
            consumer.cursor.close()
            consumer.cursor = None
        if not self.consumer_count:
            self.idle_since_ms = self.clock.wall_ms()
            self._arm_dispatch()
        if not self.deleted:
            self._consumer_changed(self, False)

    def _arm_dispatch(self) -> None:
        """Dispatch waits for consumers-before-dispatch consumers, or delay-before-dispatch ms after the first."""
        if self._dispatch_timer is not None:
            self._dispatch_timer.cancel()
            self._dispatch_timer = None
        self.dispatch_allowed = self.definition.consumers_before_dispatch <= 0

    def check_dispatch(self) -> None:
        """Is it time to begin?  Called when a consumer came and when the definition changed."""
        if not self.consumer_count:
            self._arm_dispatch()
            return
        if self.dispatch_allowed:
            return
        if self.consumer_count >= self.definition.consumers_before_dispatch:
            self._allow_dispatch()
        elif self._dispatch_timer is None and self.definition.delay_before_dispatch >= 0:
            self._dispatch_timer = self.clock.call_later(self.definition.delay_before_dispatch / 1000, self._allow_dispatch)

    def _allow_dispatch(self) -> None:
        if self._dispatch_timer is not None:
            self._dispatch_timer.cancel()
            self._dispatch_timer = None
        self.dispatch_allowed = True
        self.turn.mark_queue(self)

    # --- delivery

    def deliver(self) -> None:
        """Hand messages to ready consumers: highest consumer priority first, round robin among equals."""
        self.unfinished = False
        if self.ring is not None:
            self.turn.mark_queue(self.ring)
        if self.elsewhere is not None:
            self.elsewhere.deliver()
        if self.paused or self.address.paused:
            return
        if self.redistributor is not None:
            self.turn.mark_queue(self.redistributor)
        if self.pages is not None:
            self.pages.refill()
        if not self.references.count or not self.dispatch_allowed:
            return
        if self.groups is not None:
            self.groups.deliver()
            return
        references = self.references
        scan = self.turn.scan
        begun = scan.left > 0
        pending = False
        for group in self._groups:
            consumers = group.consumers
            position = group.position
            idle = 0
            following = -1
            while idle < len(consumers) and references.count:
                if position >= len(consumers):
                    position = 0
                consumer = consumers[position]
                position += 1
                if not consumer.ready:
                    idle += 1
                    continue
                if consumer.filter is None:
                    reference = references.take_head()
                else:
                    reference = self._next_match(consumer)
                    if reference is not None:
                        references.remove(reference)
                if reference is None:
                    idle += 1
                    if scan.left <= 0:
                        pending = True
                        if following < 0:
                            following = position
                    continue
                self.delivering += 1
                idle = 0
                if reference.message.expiration and self.has_expired(reference.message):
                    self._expired(reference)
                    scan.spend()
                    if scan.left <= 0:
                        pending = self.unfinished = True
                        break
                    continue
                reference.delivery_count += 1
                reference.consumer = consumer
                consumer.handle(reference)
            # A turn without enough budget does not begin again with the same consumer.
            group.position = position if following < 0 else following
            if self.unfinished:
                break  # consumers of lower priority do not get later messages
        if pending:
            self.turn.go_on_later(self, begun=begun)

    def hand_over(self, reference: Reference, consumer: QueueConsumer, first_key: str | None = None) -> bool:
        """Give a waiting reference to this consumer; False when it turned out to be expired.

        ``first_key`` is the property by which the consumer is told that this is the first message of a group.
        """
        self.references.remove(reference)
        self.delivering += 1
        if self.has_expired(reference.message):
            self._expired(reference)
            return False
        reference.delivery_count += 1
        reference.consumer = consumer
        if first_key:
            consumer.handle_first(reference, first_key)
        else:
            consumer.handle(reference)
        return True

    def next_consumer(self, message: Message) -> QueueConsumer | None:
        """The next ready consumer in turn that would take ``message``."""
        for group in self._groups:
            consumers = group.consumers
            for step in range(len(consumers)):
                index = (group.position + step) % len(consumers)
                consumer = consumers[index]
                if consumer.ready and (consumer.filter is None or consumer.filter.matches(message)):
                    group.position = index + 1
                    return consumer
        return None

    def keep_groups(self) -> None:
        """A message with a group id has come, or the definition has changed: from now on groups stay together where they are to."""
        if self.groups is None and (self.definition.exclusive or self.definition.group_buckets):
            self.groups = MessageGroups(self)

    def _next_match(self, consumer: QueueConsumer) -> Reference | None:
        cursor, filter = consumer.cursor, consumer.filter
        assert cursor is not None and filter is not None
        matches = filter.matches
        scan = self.turn.scan
        found = self.references.search(cursor, lambda reference: matches(reference.message), scan)
        cursor.unfinished = found is None and scan.left <= 0
        return found
