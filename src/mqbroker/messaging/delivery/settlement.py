"""Settlement: the end of a message that was given to a consumer, or that no consumer took in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.core import MessagingCore, is_stored
from mqbroker.messaging.delivery.sending import Sending
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.copies import make_copy
from mqbroker.messaging.message.expiration import expiration_at_routing
from mqbroker.messaging.ports import PagePlace, StoreBatch
from mqbroker.messaging.queues.non_destructive import NonDestructiveQueue
from mqbroker.messaging.queues.references import Loan, Reference
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import DuplicateIdRejectedError, MalformedPacketError, MQError
from mqclient.wire.message import KEY_ORIGINAL_ADDRESS
from mqclient.wire.primitives import Xid

_LONGEST_DELAY = 2.0**62
"""Milliseconds: a redelivery delay grows with each delivery, without an end, and the time after it has to be a number of 64 bits."""


class Creation(Protocol):
    """Makes the addresses and queues that dead and expired messages go to."""

    def create_address(self, name: str, routing_types: Iterable[int], *, auto_created: bool) -> object:
        """Make an address, or give an existing one these routing types."""

    def create_queue(self, configuration: QueueConfiguration) -> object:
        """Make a queue."""


class Settlement:
    """Acknowledges, returns, expires and dead-letters references.  ``creation`` makes the addresses and queues for dead and expired
    messages."""

    def __init__(self, core: MessagingCore, sending: Sending, creation: Creation) -> None:
        self._core = core
        self._sending = sending
        self._creation = creation
        self._context = OperationContext(core.store)
        core.expired.subscribe(self.expire)

    # --- acknowledgement

    def acknowledge(self, references: Sequence[Reference]) -> int:
        """References in delivery are done with.  Returns the ticket after which that may be confirmed."""
        core = self._core
        let_go = core.let_go
        if core.elsewhere is not None:
            references = core.elsewhere.acknowledge(references)
        if references and references[0].__class__ is Loan:
            self._return(references)
            return 0
        batch: StoreBatch | None = None
        for reference in references:
            queue = reference.queue
            message = reference.message
            stored = (message.durable and queue.definition.durable) or message.store_state.__class__ is PagePlace
            if stored and not queue.deleted:
                if batch is None:
                    batch = core.store.begin()
                batch.acknowledge(queue.queue_id, message)
            queue.leave_delivery(reference)
            queue.messages_acknowledged += 1
            let_go(reference)
        if batch is None:
            return 0
        return core.commit(batch)

    def _return(self, loans: Sequence[Reference]) -> None:
        """A consumer of a non-destructive queue needs these no longer."""
        for loan in loans:
            loan.queue.leave_delivery(loan)
            loan.queue.messages_acknowledged += 1
            self._core.let_go(loan)

    def record_delivery(self, reference: Reference) -> None:
        """Write the delivery count before the message goes out (``persist-delivery-count-before-delivery``)."""
        if is_stored(reference):
            batch = self._core.store.begin()
            batch.delivery_count(reference.queue.queue_id, reference.message, reference.delivery_count)
            self._core.store.commit(batch)

    # --- transactions

    def commit(self, transaction: Transaction, context: OperationContext) -> int:
        """Store all work of the transaction in one batch; it becomes visible in the order of ``context``.  Returns the ticket.

        Raises the error that made the transaction rollback-only, after rolling it back.
        """
        core = self._core
        if transaction.prepared is None:
            self._refuse_failed(transaction)
        ticket = transaction.store(core)
        for reference in transaction.acknowledged:
            reference.queue.leave_delivery(reference)
            reference.queue.messages_acknowledged += 1
            core.let_go(reference)
        arrived: list[Reference] = []
        for message, references in transaction.sends:
            if references:
                arrived.extend(references)
            elif message.large is not None:
                message.large.release()
        if arrived:
            context.run(ticket, self._sending.deliver, arrived)
        if core.elsewhere is not None:
            context.run(ticket, core.elsewhere.committed, transaction)
        return ticket

    def prepare(self, transaction: Transaction, xid: Xid, time_ms: int) -> int:
        """Store all work of the transaction in one batch, which stays invisible until a commit or rollback.  Returns the ticket.

        Raises the error that made the transaction rollback-only, after rolling it back.
        """
        self._refuse_failed(transaction)
        return transaction.prepare(self._core, xid, time_ms)

    def _refuse_failed(self, transaction: Transaction) -> None:
        if transaction.duplicate_ids:
            transaction.renew_caches(self._core)
        if any(cache.knows_any(duplicate_ids) for cache, duplicate_ids in transaction.duplicate_ids.items()):
            transaction.mark_rollback_only(
                DuplicateIdRejectedError("AMQ222059: Duplicate message detected - a message of this transaction was sent before")
            )
        if transaction.failure is not None:
            self.rollback(transaction)
            raise transaction.failure

    def rollback(self, transaction: Transaction) -> int:
        """Undo the sends, and give the acknowledged messages back for redelivery.

        Returns the ticket after which that is durable, 0 when the transaction was not prepared.
        """
        core = self._core
        ticket = transaction.take_back(core)
        if core.elsewhere is not None:
            core.elsewhere.rolled_back(transaction)
        self._undo_sends(transaction)
        # The messages that another broker has brought stay, as the transaction was never prepared.
        brought = {reference for _, references in transaction.brought for reference in references}
        for reference in brought:
            reference.queue.leave_delivery(reference)
            core.let_go(reference)
        self.redeliver([reference for reference in transaction.acknowledged if reference not in brought])
        return ticket

    def give_away(self, transaction: Transaction) -> int:
        """Another broker has taken over a prepared transaction: forget its sent and acknowledged messages.  Returns the ticket."""
        core = self._core
        ticket = transaction.give_away(core)
        self._undo_sends(transaction)
        for reference in transaction.acknowledged:
            reference.queue.leave_delivery(reference)
            core.let_go(reference)
        return ticket

    def _undo_sends(self, transaction: Transaction) -> None:
        for message, references in transaction.sends:
            for reference in references:
                reference.queue.arriving -= 1
                self._core.let_go(reference)
            if not references and message.large is not None:
                message.large.release()

    # --- return

    def cancel(self, references: Sequence[Reference]) -> None:
        """References that were prefetched but not consumed go back: this delivery does not count, and no delay applies."""
        if self._core.elsewhere is not None:
            references = self._core.elsewhere.give_back(references, counted=False)
        for reference in references:
            if reference.delivery_count:
                reference.delivery_count -= 1
        self._give_back(references, delayed=False)

    def redeliver(self, references: Sequence[Reference]) -> None:
        """References that were consumed in vain go back: to be redelivered, at once or later, or to the dead letter address."""
        if self._core.elsewhere is not None:
            references = self._core.elsewhere.give_back(references, counted=True)
        self._give_back(references, delayed=True)

    def _give_back(self, references: Sequence[Reference], *, delayed: bool) -> None:
        core = self._core
        batch: StoreBatch | None = None
        dead: list[Reference] = []
        delayed_references: list[tuple[Reference, int]] = []
        now = core.clock.wall_ms()
        for reference in reversed(references):
            queue = reference.queue
            if queue.deleted:
                queue.leave_delivery(reference)
                core.let_go(reference)
                continue
            settings = queue.address.settings
            count = reference.delivery_count
            if 0 < settings.max_delivery_attempts <= count and not queue.definition.internal:
                dead.append(reference)
                continue
            if delayed and count and is_stored(reference):
                limit = core.options.max_redelivery_records
                if limit < 0 or reference.recorded_counts < limit:
                    reference.recorded_counts += 1
                    batch = batch or core.store.begin()
                    batch.delivery_count(queue.queue_id, reference.message, count)
            elif core.options.persist_delivery_count_before_delivery and not delayed and is_stored(reference):
                # The stored delivery count includes this delivery, which does not count.
                batch = batch or core.store.begin()
                batch.delivery_count(queue.queue_id, reference.message, count)
            delay = redelivery_delay(settings, count, core.random()) if delayed else 0
            if delay > 0:
                due = now + delay
                if is_stored(reference):
                    batch = batch or core.store.begin()
                    batch.schedule(queue.queue_id, reference.message, due)
                delayed_references.append((reference, due))
            else:
                queue.put_back(reference)
        for reference, due in reversed(delayed_references):
            reference.queue.put_back_later(reference, due)
        if batch is not None:
            core.store.commit(batch)
        for reference in reversed(dead):
            self.kill(reference)

    # --- dead letters and expiry

    def kill(self, reference: Reference) -> None:
        """A reference in delivery has been tried too often: to the dead letter address."""
        taken = _taken(reference)
        if taken is None:
            return
        reference = taken
        queue = reference.queue
        settings = queue.address.settings
        queue.messages_killed += 1
        message_id = reference.message.message_id
        target = settings.dead_letter_address
        if not target:
            self._core.report(
                "AMQ222150",
                f"message {message_id} on queue {queue.name} has been tried {reference.delivery_count} times "
                "and there is no dead letter address: dropped",
            )
        else:
            self._core.report(
                "AMQ222149", f"message {message_id} on queue {queue.name} has been tried {reference.delivery_count} times; sent to {target}"
            )
        self._move_away(reference, target, settings.auto_create_dead_letter_resources, "DLA", None)

    def expire(self, reference: Reference) -> None:
        """A reference in delivery (or just taken out of its queue) has expired: to the expiry address."""
        if self._core.elsewhere is not None and self._core.elsewhere.expire(reference):
            return
        taken = _taken(reference)
        if taken is None:
            return
        reference = taken
        queue = reference.queue
        settings = queue.address.settings
        if reference.message.address != queue.definition.address:
            settings = self._core.settings_of(reference.message.address)
        queue.messages_expired += 1
        target = settings.expiry_address
        if target == queue.definition.address:
            target = None
        self._move_away(reference, target, settings.auto_create_expiry_resources, "expiry", self._core.clock.wall_ms())

    def move(self, reference: Reference, address: str, queue_name: str | None) -> bool:
        """Move a waiting or scheduled reference to another address, or to one queue there (management).

        False when no queue there takes the message, which then stays.
        """
        reference.queue.take(reference)
        if self._transfer(reference, address, queue_name, None, must_arrive=True):
            return True
        if reference.scheduled:
            reference.queue.put_back_later(reference, reference.scheduled)
        else:
            reference.queue.put_back(reference)
        return False

    def _move_away(self, reference: Reference, target: str | None, auto_create: bool, kind: str, expired_at: int | None) -> None:
        core = self._core
        queue = reference.queue
        if target and auto_create:
            try:
                self._create_resources(reference, target, kind)
            except MQError as error:
                core.report("AMQ222165", f"no {kind} resources were made for queue {queue.name}: {error}")
        if target and not core.routing.reaches(target):
            code = "AMQ222148" if kind == "DLA" else "AMQ222146"
            core.report(
                code, f"message {reference.message.message_id} on queue {queue.name}: {kind} address {target} has no bindings: dropped"
            )
            target = None
        self._transfer(reference, target, None, expired_at)

    def _transfer(
        self, reference: Reference, target: str | None, queue_name: str | None, expired_at: int | None, must_arrive: bool = False
    ) -> bool:
        """Replace a reference in delivery by a copy on ``target`` (or by nothing), as one stored step."""
        core = self._core
        queue, message = reference.queue, reference.message
        batch = core.store.begin()
        stored = False
        arrived: list[Reference] = []
        if target:
            try:
                copy = make_copy(
                    message,
                    core.store.next_id(),
                    target,
                    original_address=message.address,
                    original_queue=queue.name,
                    actual_expiry=expired_at,
                ).message()
            except MalformedPacketError as error:
                if must_arrive:
                    return False
                core.report("AMQ222148", f"message {message.message_id} on queue {queue.name} cannot be copied: {error}: dropped")
                return self._transfer(reference, None, None, expired_at)
            expiration = expiration_at_routing(0, core.settings_of(target), core.clock.wall_ms())
            if expiration:
                copy.set_expiration(expiration)
            sends = self._sending.distribution.route_copy(copy, target, queue_name)
            if not sends and must_arrive:
                return False
            for each, references in sends:
                kept, waiting = core.paging.store(batch, each, references)
                stored = stored or kept
                arrived.extend(waiting)
        if is_stored(reference) and not queue.deleted:
            batch.acknowledge(queue.queue_id, message)
            stored = True
        ticket = core.store.commit(batch) if stored else 0
        queue.leave_delivery(reference)
        core.let_go(reference)
        if arrived:
            self._context.run(ticket, self._sending.deliver, arrived)
        return True

    def _create_resources(self, reference: Reference, target: str, kind: str) -> None:
        core = self._core
        original = reference.message.address.partition("::")[0]
        if original == target:
            return
        settings = core.settings_of(original)
        if kind == "DLA":
            name = f"{settings.dead_letter_queue_prefix}{original}{settings.dead_letter_queue_suffix}"
        else:
            name = f"{settings.expiry_queue_prefix}{original}{settings.expiry_queue_suffix}"
        if name in core.queues:
            return
        routing_type = core.settings_of(target).default_address_routing_type
        known = core.addresses.get(target)
        types = {routing_type} if known is None else known.routing_types | {routing_type}
        # The broker's own need: clients may be forbidden to create addresses.
        self._creation.create_address(target, types, auto_created=known is None)
        quoted = original.replace("'", "''")
        self._creation.create_queue(
            QueueConfiguration(
                name=name,
                address=target,
                routing_type=routing_type,
                filter_string=f"{KEY_ORIGINAL_ADDRESS}='{quoted}'",
                durable=True,
                auto_created=True,
            )
        )


def _taken(reference: Reference) -> Reference | None:
    """The reference itself, or for a loan the lent reference; None when that has left its queue already."""
    queue = reference.queue
    if isinstance(reference, Loan) and isinstance(queue, NonDestructiveQueue):
        return queue.take_lent(reference)
    return reference


def redelivery_delay(settings: AddressSettings, count: int, random: float) -> int:
    """Milliseconds until a message that was delivered ``count`` times may be delivered again.

    ``random`` in [0, 1) spreads the delay by the collision avoidance factor.
    """
    base = settings.redelivery_delay
    if base <= 0 or count <= 0:
        return 0
    try:
        delay = min(base * settings.redelivery_delay_multiplier ** (count - 1), _LONGEST_DELAY)
    except OverflowError:
        delay = _LONGEST_DELAY
    factor = settings.redelivery_collision_avoidance_factor
    if factor > 0:
        delay += (2 * random - 1) * factor * delay
    limit = settings.max_redelivery_delay
    return int(min(delay, base * 10 if limit is None or limit < 0 else limit, _LONGEST_DELAY))
