"""Message groups and exclusive queues: each group of messages has one consumer at a time (Artemis manual, "Message Grouping").

A queue has one of these only once a message with a group id has come to it, or when it is exclusive; to other queues it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.queues.references import Cursor
from mqclient.wire.message import KEY_GROUP_ID, KEY_GROUP_SEQUENCE

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.queues.consumer import QueueConsumer
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.queues.references import Reference

GROUPS_MAX = 100_000
"""Groups of one queue whose consumers are remembered by their ids.  Further ones share :data:`SHARED_BUCKETS`."""

GROUP_ID_LENGTH_MAX = 256
"""Characters of the id of a group whose consumer is remembered by it; groups with longer ones share :data:`SHARED_BUCKETS`, too."""

SHARED_BUCKETS = 1024
"""Groups of one of these have the same consumer: the order within each group is kept, at the price of a less even share."""

GROUP_ID_KEY = KEY_GROUP_ID.encode("utf-16-le")
_SEQUENCE_KEY = KEY_GROUP_SEQUENCE.encode("utf-16-le")

CLOSING_SEQUENCE = -1
"""The group sequence of the message that ends its group."""

_EVERYTHING = -1
"""The group of all messages of an exclusive queue."""

_FIRST_SHARED = -2
"""Shared buckets have this number and lower ones."""


def has_group(message: Message) -> bool:
    """Might the message belong to a group?  Cheap, and without a doubt when it says no."""
    return message.buffer.find(GROUP_ID_KEY, message.properties_offset) >= 0


def bucket_of(group_id: str, buckets: int) -> int:
    """The bucket of a group, as Artemis counts it: by the Java hash of the UTF-16LE bytes of the id."""
    value = 0
    for byte in group_id.encode("utf-16-le", "surrogatepass"):
        value = (31 * value + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % buckets


class _Choice:
    """The choice of :class:`MessageGroups` for a message.  ``consumer`` is None when no ready consumer would take it."""

    __slots__ = ("consumer", "slot", "stops")

    def __init__(self) -> None:
        self.slot: str | int | None = None
        self.consumer: QueueConsumer | None = None
        self.stops = False
        """The message's consumer is busy: no later message may overtake it."""


class MessageGroups:
    """The groups of one queue, each with its consumer.

    Without buckets a group is remembered from its first message until it is closed or reset, or its consumer leaves.  Beyond
    :data:`GROUPS_MAX` groups, new ones share buckets, until no group is remembered any more.

    Delivery looks only once at a message that no consumer takes: ``_passed`` stands behind the messages at the head that match no
    consumer's filter.  Messages that only busy consumers would take are held: ``_ahead`` stands behind them, until one of these consumers
    (``_held_for``) is ready.
    """

    __slots__ = ("_ahead", "_far", "_held_for", "_owners", "_passed", "_queue", "_sharing", "settling", "unfinished")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._owners: dict[str | int, QueueConsumer] = {}
        self._sharing = False
        self._passed = Cursor(restarts=True)
        self._ahead: Cursor | None = None
        self._far: Cursor | None = None
        self._held_for: set[QueueConsumer] = set()
        self.settling = False
        """Delivery waits until nothing is in delivery any more (group-rebalance-pause-dispatch)."""
        self.unfinished = False
        """The budget of the turn ended before the last delivery did; it goes on in a later one."""

    @property
    def count(self) -> int:
        """Groups that have a consumer."""
        return 0 if self._queue.definition.exclusive else len(self._owners)

    def owners(self) -> dict[str | int, QueueConsumer]:
        """The consumer by group id, or by number of the bucket."""
        return dict(self._owners)

    def reset(self, group_id: str | None = None) -> None:
        """Forget the consumer of the group (None: of every group), and with a shared bucket of all groups in the bucket."""
        if group_id is None:
            self._owners.clear()
        else:
            slot = self._slot(group_id)
            if slot is not None:
                self._owners.pop(slot, None)
        self.look_again()
        self._queue.turn.mark_queue(self._queue)

    def consumer_added(self) -> None:
        definition = self._queue.definition
        if definition.group_rebalance and not definition.exclusive:
            self._owners.clear()
            self.settling = definition.group_rebalance_pause_dispatch and self._queue.delivering > 0
        self.look_again()

    def consumer_removed(self, consumer: QueueConsumer) -> None:
        """Free the groups of a consumer: the consumer of a group's next message gets the group."""
        for slot in [slot for slot, owner in self._owners.items() if owner is consumer]:
            del self._owners[slot]
        self.look_again()

    def look_again(self) -> None:
        """A passed message may have a consumer now: delivery begins at the head."""
        self._passed.close()
        self._forget_held()

    def _forget_held(self) -> None:
        for cursor in (self._ahead, self._far):
            if cursor is not None:
                cursor.close()
        self._ahead = self._far = None
        self._held_for = set()

    # --- delivery

    def deliver(self) -> None:
        """As :meth:`.queue.Queue.deliver`.

        A message whose consumer is busy stops the delivery: later messages do not overtake it.
        """
        queue = self._queue
        self.unfinished = False
        if self.settling:
            if queue.delivering:
                return
            self.settling = False
        begun = queue.turn.scan.left > 0
        waiting = self._held_for
        if any(consumer.ready for consumer in waiting):
            # The waiting consumers come first, from the head on; then delivery goes on at the old place.
            self._far, self._ahead, self._held_for = self._ahead, None, set()
        try:
            self.unfinished = self._deliver(waiting)
        finally:
            if self._far is not None:
                self._far.close()
                self._far = None
        if self.unfinished:
            queue.turn.go_on_later(queue, begun=begun)

    def _deliver(self, waiting: set[QueueConsumer]) -> bool:
        """Deliver until no consumer is ready or no message is left.  Returns whether the budget of the turn ended first.

        ``_far`` is the place up to which all consumers but those in ``waiting`` have looked.
        """
        queue = self._queue
        scan = queue.turn.scan
        choice = _Choice()
        while True:
            if self._far is not None and not any(consumer.ready for consumer in waiting):
                far, self._far = self._far, None
                self._forget_held()
                self._ahead, self._held_for = far, waiting
            if not any(consumer.ready for consumer in queue.consumers()):
                return False
            cursor = self._ahead or self._passed
            reference = queue.references.search(cursor, lambda reference: self._choose(reference.message, choice), scan)
            if reference is None:
                return scan.left <= 0
            if choice.consumer is not None:
                self._give(reference, choice.consumer, choice.slot)
                if scan.left <= 0:
                    return True
            elif choice.stops:
                cursor.place(reference.priority, reference.preceding)
                return False
            else:
                self._hold(reference)

    def _hold(self, reference: Reference) -> None:
        """Busy consumers would take ``reference``; other consumers go on behind it."""
        if self._ahead is None:
            self._ahead = self._passed.copy()
            self._passed.place(reference.priority, reference.preceding)
        message = reference.message
        self._held_for.update(each for each in self._queue.consumers() if not each.ready and _takes(each, message))

    def _give(self, reference: Reference, consumer: QueueConsumer, slot: str | int | None) -> None:
        queue = self._queue
        first_key = None if slot is None or slot in self._owners else queue.definition.group_first_key
        if not queue.hand_over(reference, consumer, first_key):
            queue.turn.scan.spend()
        elif slot is None:
            return
        elif _may_close(slot) and reference.message.raw_property(_SEQUENCE_KEY) == CLOSING_SEQUENCE:
            if self._owners.pop(slot, None) is not None and consumer.filter is not None:
                self.look_again()
        else:
            if slot not in self._owners and self._ahead is not None:
                # A message that is held may be of this group: it is the new owner's now.
                self._held_for.add(consumer)
            self._owners[slot] = consumer

    def _choose(self, message: Message, choice: _Choice) -> bool:
        """Would any consumer take the message?  ``choice`` then says more."""
        slot = choice.slot = self._slot_of(message)
        choice.stops = False
        owner = None if slot is None else self._owners.get(slot)
        if owner is None and slot == _EVERYTHING:
            owner = next((each for each in self._queue.consumers() if _takes(each, message)), None)
            if owner is None:
                return False
        elif owner is not None and not _takes(owner, message):
            return False
        if owner is not None:
            choice.consumer = owner if owner.ready else None
            choice.stops = not owner.ready
            return True
        choice.consumer = self._queue.next_consumer(message)
        return choice.consumer is not None or any(not each.ready and _takes(each, message) for each in self._queue.consumers())

    # --- the slot of a message

    def _slot_of(self, message: Message) -> str | int | None:
        if self._queue.definition.exclusive:
            return _EVERYTHING
        if not has_group(message):
            return None
        group_id = message.raw_property(GROUP_ID_KEY)
        return self._slot(group_id) if isinstance(group_id, str) else None

    def _slot(self, group_id: str) -> str | int | None:
        buckets = self._queue.definition.group_buckets
        if not buckets:
            return None
        if buckets > 0:
            return bucket_of(group_id, buckets)
        owners = self._owners
        if group_id in owners:
            return group_id
        # Sharing goes on until no group is left: a group that changed its consumer in between would lose its order.
        self._sharing = len(owners) >= GROUPS_MAX or (self._sharing and bool(owners))
        if self._sharing or len(group_id) > GROUP_ID_LENGTH_MAX:
            return _FIRST_SHARED - bucket_of(group_id, SHARED_BUCKETS)
        return group_id


def _takes(consumer: QueueConsumer, message: Message) -> bool:
    return consumer.filter is None or consumer.filter.matches(message)


def _may_close(slot: str | int) -> bool:
    """Does the last message of a group set its slot free?  Not that of a shared bucket, where other groups go on."""
    return isinstance(slot, str) or slot >= 0
