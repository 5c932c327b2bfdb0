"""A local transaction of one session: sends and acknowledgements that become visible together."""

from __future__ import annotations

from mqbroker.messaging.core import MessagingCore, is_stored
from mqbroker.messaging.duplicates import DuplicateIdCache
from mqbroker.messaging.message import Message
from mqbroker.messaging.references import Reference
from mqclient.errors import DuplicateIdRejectedError, MQError


class Transaction:
    """What has been done since the last commit or rollback.

    ``failure`` is set when the transaction can only be rolled back; a commit then raises it.
    """

    __slots__ = ("acknowledged", "duplicate_ids", "failure", "sends")

    def __init__(self) -> None:
        self.sends: list[tuple[Message, list[Reference]]] = []
        self.acknowledged: list[Reference] = []
        self.duplicate_ids: list[tuple[DuplicateIdCache, bytes]] = []
        self.failure: MQError | None = None

    @property
    def empty(self) -> bool:
        return not (self.sends or self.acknowledged or self.duplicate_ids or self.failure)

    def add_send(self, message: Message, references: list[Reference]) -> None:
        self.sends.append((message, references))

    def mark_rollback_only(self, failure: MQError) -> None:
        """The first failure is the one that the commit reports."""
        if self.failure is None:
            self.failure = failure

    def reject_duplicate(self, message: Message) -> None:
        self.mark_rollback_only(
            DuplicateIdRejectedError(f"AMQ222059: Duplicate message detected - message {message.message_id} will not be routed")
        )

    def store(self, core: MessagingCore) -> int:
        """Hand everything to the store as one batch; returns its ticket, 0 when there was nothing to store."""
        batch = core.store.begin()
        stored = False
        for message, references in self.sends:
            if not message.durable:
                continue
            durable = [reference for reference in references if reference.queue.definition.durable and not reference.queue.deleted]
            if durable:
                batch.add_message(message, [reference.queue.queue_id for reference in durable])
                for reference in durable:
                    if reference.scheduled:
                        batch.schedule(reference.queue.queue_id, message, reference.scheduled)
                stored = True
        for reference in self.acknowledged:
            if is_stored(reference) and not reference.queue.deleted:
                batch.acknowledge(reference.queue.queue_id, reference.message)
                stored = True
        for cache, duplicate_id in self.duplicate_ids:
            cache.add(duplicate_id, batch)
            stored = True
        return core.store.commit(batch) if stored else 0
