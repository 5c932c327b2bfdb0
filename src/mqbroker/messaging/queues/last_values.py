"""Last-value queues: only the newest of the messages with one key waits (Artemis manual, "Last-Value Queues").

The key is the value of a property; messages without the property are treated as on other queues.  The newest is the one with the greatest
message id.  Ids ascend in the order in which messages become visible: messages of a transaction get new ids at the commit, and a scheduled
message gets one when its time has come.  So a start that finds an older message beside a newer one keeps the same message.

A message that is in delivery stays with its consumer.  When it comes back and there is a newer one (waiting or in delivery), the older one
is settled.  Messages in pages count once they are read.

A replaced message is settled at the end of the turn, after the newer one was stored and became visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqbroker.messaging.queues.queue import Queue, QueueOwner
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqclient.wire.message import KEY_LAST_VALUE

if TYPE_CHECKING:
    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.definitions import QueueDefinition


class LastValueQueue(Queue):
    """A queue with at most one waiting message for each key.

    ``on_replaced`` settles references that newer ones have replaced, which are in delivery without a consumer; ``on_due`` gives a new id to
    a reference that has left the schedule.
    """

    __slots__ = ("_key", "_late", "_newest", "_outdated", "_replaced")

    def __init__(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None, owner: QueueOwner) -> None:
        super().__init__(queue_id, definition, address, filter, owner)
        self._replaced = owner.replaced
        self._late = owner.late
        self._key = (definition.last_value_key or KEY_LAST_VALUE).encode("utf-16-le")
        self._newest: dict[object, Reference] = {}
        """By key: the newest reference that waits, is in delivery, or is to be delivered again later."""
        self._outdated: list[Reference] = []
        """Replaced and not settled yet."""

    @property
    def message_count(self) -> int:
        """Messages waiting (also in pages) and scheduled.  Messages in delivery may have been replaced and do not count."""
        return self.references.count + self.scheduled.count + self.paged

    @property
    def numbers_ascend(self) -> bool:
        return True

    # --- messages in

    def add_read(self, reference: Reference, later: bool = False) -> None:
        super().add_read(reference, later)
        if reference.listed:
            self._came(reference)

    def add_arrived(self, messages: Sequence[Message], durable: bool, size: int) -> None:
        self.arriving -= len(messages)
        for message in messages:
            self.add(Reference(message, self))

    def put_back(self, reference: Reference) -> None:
        super().put_back(reference)
        if reference.listed:
            self._came(reference)

    def put_back_later(self, reference: Reference, time_ms: int) -> None:
        super().put_back_later(reference, time_ms)
        if not _is_to_come(reference):
            self._came(reference)

    def leave_delivery(self, reference: Reference) -> None:
        super().leave_delivery(reference)
        key = self._key_of(reference.message)
        if key is not None and self._newest.get(key) is reference:
            del self._newest[key]

    def deliver_scheduled(self, reference: Reference) -> None:
        self.scheduled.remove(reference)
        if self._may_come(reference):
            super().deliver_scheduled(reference)
            self._came(reference)

    def _due(self, due: list[Reference]) -> None:
        coming = [reference for reference in due if self._may_come(reference)]
        super()._due(coming)
        for reference in coming:
            self._came(reference)

    def _may_come(self, reference: Reference) -> bool:
        """May a reference that has left the schedule wait now?  If not, it comes again with a new id, as the newest one."""
        if self._key_of(reference.message) is None or not _is_to_come(reference):
            return True
        self._late(reference)
        return False

    # --- replacing

    def deliver(self) -> None:
        self._settle_outdated()
        super().deliver()

    def _settle_outdated(self) -> None:
        if self._outdated:
            outdated, self._outdated = self._outdated, []
            self._replaced(outdated)

    def _came(self, reference: Reference) -> None:
        """A reference waits, now or later: whichever is older of it and the newest known one is replaced."""
        key = self._key_of(reference.message)
        if key is None:
            return
        newest = self._newest.get(key)
        if newest is reference:
            return
        if newest is not None and newest.message.message_id > reference.message.message_id:
            newest, reference = reference, newest
        self._newest[key] = reference
        if newest is not None and (newest.listed or newest in self.scheduled):
            self.take(newest)
            self._outdated.append(newest)
            self.turn.mark_queue(self)

    def _key_of(self, message: Message) -> object:
        """The key of a message; None for a message without one.

        Numbers and booleans count as their texts, as in Artemis.
        """
        if message.buffer.find(self._key, message.properties_offset) < 0:
            return None
        value = message.raw_property(self._key)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, (int, float)) else value


def _is_to_come(reference: Reference) -> bool:
    """Has its sender scheduled the message, which is then no value yet?  A redelivery is scheduled, too, but its message is an older
    value."""
    return not reference.delivery_count and scheduled_time_of(reference.message) > 0
