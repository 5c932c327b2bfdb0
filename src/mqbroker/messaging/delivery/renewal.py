"""Giving a message of a queue a new id, so that it counts as the newest (decision 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.core import is_stored
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.queues.scheduled import SCHEDULED_KEY, scheduled_time_of
from mqbroker.messaging.turns.context import OperationContext

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.delivery.sending import Sending


class Renewal:
    """Stores messages again that became visible later than their ids say."""

    def __init__(self, core: MessagingCore, sending: Sending) -> None:
        self._core = core
        self._sending = sending
        self._context = OperationContext(core.store)
        core.late.subscribe(self._renew)

    def _renew(self, reference: Reference) -> None:
        """A reference that its queue neither lists nor delivers goes on with a new id and without a schedule, as one stored step."""
        core, queue = self._core, reference.queue
        old = reference.message
        copy = old.duplicate(core.store.next_id())
        if scheduled_time_of(copy):
            copy.strip_properties((SCHEDULED_KEY,))
        fresh = Reference(copy, queue, 0, reference.delivery_count)
        account = old.account
        core.hold(fresh, queue.address.memory if account is None else account)
        queue.arriving += 1
        batch = core.store.begin()
        stored = is_stored(reference)
        if stored:
            batch.acknowledge(queue.queue_id, old)
        kept, waiting = core.paging.store(batch, copy, [fresh])
        if kept and fresh.delivery_count and waiting:
            batch.delivery_count(queue.queue_id, copy, fresh.delivery_count)
        ticket = core.store.commit(batch) if stored or kept else 0
        # Its queue has counted the old one already.
        queue.messages_added -= 1
        queue.delivering += 1
        queue.leave_delivery(reference)
        core.let_go(reference)
        if waiting:
            self._context.run(ticket, self._sending.deliver, waiting)
