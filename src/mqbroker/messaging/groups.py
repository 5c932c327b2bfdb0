"""Message groups and exclusive queues: each group of messages has one consumer at a time (Artemis manual, "Message Grouping").

A queue has one of these only once a message with a group id has come to it, or when it is exclusive; to other queues it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.wire.message import KEY_GROUP_ID, KEY_GROUP_SEQUENCE

if TYPE_CHECKING:
    from mqbroker.messaging.consumer import QueueConsumer
    from mqbroker.messaging.message import Message
    from mqbroker.messaging.queue import Queue

GROUP_ID_KEY = KEY_GROUP_ID.encode("utf-16-le")
_SEQUENCE_KEY = KEY_GROUP_SEQUENCE.encode("utf-16-le")

CLOSING_SEQUENCE = -1
"""The group sequence of the message that ends its group."""

_EVERYTHING = -1
"""The group of all messages of an exclusive queue."""


def has_group(message: Message) -> bool:
    """Might the message belong to a group?  Cheap, and without a doubt when it says no."""
    return message.buffer.find(GROUP_ID_KEY, message.properties_offset) >= 0


def bucket_of(group_id: str, buckets: int) -> int:
    """The bucket of a group, as Artemis counts it: by the Java hash of the UTF-16LE bytes of the id."""
    value = 0
    for byte in group_id.encode("utf-16-le", "surrogatepass"):
        value = (31 * value + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % buckets


class MessageGroups:
    """Who has which group of one queue.

    Without buckets a group is remembered from its first message until it is closed, reset, or its consumer leaves.
    """

    __slots__ = ("_owners", "_queue", "settling")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._owners: dict[str | int, QueueConsumer] = {}
        self.settling = False
        """Delivery waits until nothing is in delivery any more (group-rebalance-pause-dispatch)."""

    @property
    def count(self) -> int:
        """Groups that have a consumer."""
        return 0 if self._queue.definition.exclusive else len(self._owners)

    def owners(self) -> dict[str | int, QueueConsumer]:
        """The consumer by group id, or by number of the bucket."""
        return dict(self._owners)

    def reset(self, group_id: str | None = None) -> None:
        """Forget who has the group (None: every group)."""
        if group_id is None:
            self._owners.clear()
        else:
            slot = self._slot(group_id)
            if slot is not None:
                self._owners.pop(slot, None)
        self._queue.turn.mark_queue(self._queue)

    def consumer_added(self) -> None:
        definition = self._queue.definition
        if definition.group_rebalance and not definition.exclusive:
            self._owners.clear()
            self.settling = definition.group_rebalance_pause_dispatch and self._queue.delivering > 0

    def consumer_removed(self, consumer: QueueConsumer) -> None:
        """Its groups go to whoever gets their next message."""
        for slot in [slot for slot, owner in self._owners.items() if owner is consumer]:
            del self._owners[slot]

    def deliver(self) -> None:
        """As :meth:`.queue.Queue.deliver`.

        A message whose consumer is busy stops the delivery there: what stands behind it does not overtake.
        """
        queue = self._queue
        if self.settling:
            if queue.delivering:
                return
            self.settling = False
        for reference in queue.references:
            message = reference.message
            slot = self._slot_of(message)
            consumer = None if slot is None else self._owners.get(slot)
            if consumer is None:
                consumer = self._first(message) if slot == _EVERYTHING else queue.next_consumer(message)
                if consumer is None:
                    if not any(other.ready for other in queue.consumers()):
                        return
                    continue
            elif consumer.filter is not None and not consumer.filter.matches(message):
                continue
            if not consumer.ready:
                return
            if queue.hand_over(reference, consumer) and slot is not None:
                if slot != _EVERYTHING and message.raw_property(_SEQUENCE_KEY) == CLOSING_SEQUENCE:
                    self._owners.pop(slot, None)
                else:
                    self._owners[slot] = consumer

    def _first(self, message: Message) -> QueueConsumer | None:
        """The consumer of an exclusive queue: the first of the highest priority, busy or not."""
        return next((each for each in self._queue.consumers() if each.filter is None or each.filter.matches(message)), None)

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
        return group_id if buckets < 0 else bucket_of(group_id, buckets)
