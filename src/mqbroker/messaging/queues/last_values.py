"""Last-value queues: of the messages with one key the newest alone waits (Artemis manual, "Last-Value Queues").

The key is the value of a property; messages without it are as on every other queue.  The newest is the one with the greatest message id.
Ids ascend in the order in which messages become visible: transactions number theirs anew at their commit, and so does a scheduled message
when its time has come.  So a start that finds an older message beside the newer one ends with the same ones.

A message that is in delivery stays with its consumer.  When it comes back and a newer one is there (waiting or in delivery itself), it is
done with.  Messages in pages count once they are read.

What is replaced is settled at the end of the turn, after the newer one was stored and became visible.
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
    """A queue of which each key has one message.

    ``on_replaced`` settles references in delivery with nobody that newer ones have replaced; ``on_due`` gives a scheduled one, which has
    left the schedule, a new id.
    """

    __slots__ = ("_key", "_late", "_newest", "_outdated", "_replaced")

    def __init__(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None, owner: QueueOwner) -> None:
        super().__init__(queue_id, definition, address, filter, owner)
        self._replaced = owner.replaced
        self._late = owner.late
        self._key = (definition.last_value_key or KEY_LAST_VALUE).encode("utf-16-le")
        self._newest: dict[object, Reference] = {}
        """By key: what waits, is in delivery, or is to be delivered again later."""
        self._outdated: list[Reference] = []
        """Replaced and not settled yet."""

    @property
    def message_count(self) -> int:
        """Messages waiting (also in pages) and scheduled; those in delivery may have been replaced and do not count."""
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
        """Does a reference that has left the schedule wait now?  If not, it comes once more as the newest one."""
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
        """What messages that replace each other have in common; None for one that takes no part.

        Numbers and booleans are what they are as a text, as in Artemis.
        """
        if message.buffer.find(self._key, message.properties_offset) < 0:
            return None
        value = message.raw_property(self._key)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, (int, float)) else value


def _is_to_come(reference: Reference) -> bool:
    """Has its sender scheduled it, so that it is no value yet?  One that was delivered in vain is older than it was."""
    return not reference.delivery_count and scheduled_time_of(reference.message) > 0
