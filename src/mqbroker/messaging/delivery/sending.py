"""Sending: a message is checked, routed, stored, and then put on its queues."""

from __future__ import annotations

from collections.abc import Sequence

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.core import BRIDGE_CACHE, MessagingCore
from mqbroker.messaging.delivery.arriving import Arrival
from mqbroker.messaging.delivery.distribution import AutoCreation, Distribution, May, Send, everything
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.copies import make_copy
from mqbroker.messaging.message.expiration import expiration_at_routing
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.routing.duplicates import DuplicateIdCache, remembered
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import AddressFullError, IllegalStateError
from mqclient.wire.message import KEY_DUPLICATE_ID

_DUPLICATE_KEY = KEY_DUPLICATE_ID.encode("utf-16-le")


def duplicate_id_of(message: Message) -> bytes | None:
    """The duplicate id as it is compared: of a string its UTF-16LE bytes, of a very long one a digest."""
    if message.buffer.find(_DUPLICATE_KEY, message.properties_offset) < 0:
        return None
    value = message.raw_property(_DUPLICATE_KEY)
    if isinstance(value, str):
        return remembered(value.encode("utf-16-le", "surrogatepass"))
    return remembered(value) if isinstance(value, bytes) else None


class Sending:
    """Routes and stores messages."""

    def __init__(self, core: MessagingCore, creation: AutoCreation) -> None:
        self._core = core
        self.distribution = Distribution(core, creation)

    def send(
        self,
        message: Message,
        address_name: str,
        queue_name: str | None,
        routing_type: int | None,
        context: OperationContext,
        transaction: Transaction | None = None,
        arrival: Arrival | None = None,
        may: May = everything,
        may_wait: bool = False,
    ) -> int:
        """Send ``message`` to an address, with ``queue_name`` to that queue of the address, or with ``arrival`` to the bindings in it.

        Returns the ticket after which the sender gets its answer; the message reaches its queues then, in the order of ``context``.  In a
        transaction nothing is visible before its commit.  A message that no queue takes, or with a known duplicate id, is dropped.  ``may``
        is called where a divert needs a missing address.  Raises AddressFullError where the policy of the full address is FAIL,
        IllegalStateError for a batch with more duplicate ids than are kept, and with ``may_wait`` Undecided: the caller makes the message
        anew and sends it again once its group is decided.
        """
        core = self._core
        address = core.addresses.get(address_name)
        duplicate = self._duplicate(message, address_name, queue_name, arrival)
        if duplicate is not None:
            cache, duplicate_id = duplicate
            if duplicate_id in cache:
                return self._known_duplicate(message, address_name, transaction, arrival)
            if transaction is None:
                _check_batch(cache, duplicate_id)
        full = address is None or address.memory.full or address.memory.paging is not None
        if full and address is not None and not self._may_store(address, message):
            return core.store.ticket() if transaction is None else 0
        others: list[Send] = []
        references = self._route(message, address, address_name, queue_name, routing_type, others, arrival, may, may_wait)
        grouping = core.routing.grouping
        if grouping is not None and grouping.ticket > core.store.synced and has_group(message):
            context.run(grouping.ticket, _nothing)
        if transaction is not None:
            transaction.add_send(message, references)
            transaction.sends.extend(others)
            if duplicate is not None:
                transaction.add_duplicate_ids(duplicate[0], duplicate[1:])
            if arrival is not None and arrival.acknowledged:
                self._route_acknowledged(message, arrival, transaction)
            return 0
        if others:
            return self._store_all(message, references, others, duplicate, context)
        if not references and duplicate is None:
            self._drop_unrouted(message)
            return 0
        account = message.account
        if full and account is not None and core.paging.wanted(account):
            return self._page(message, references, duplicate, context)
        durable = [reference.queue.queue_id for reference in references if reference.queue.definition.durable] if message.durable else ()
        ticket = 0
        if durable or duplicate is not None:
            batch = core.store.begin()
            if durable:
                batch.add_message(message, durable)
                for reference in references:
                    if reference.scheduled and reference.queue.definition.durable:
                        batch.schedule(reference.queue.queue_id, message, reference.scheduled)
            if duplicate is not None:
                duplicate[0].add(duplicate[1], batch)
            ticket = core.commit(batch)
        if references:
            context.run(ticket, self.deliver, references)
        else:
            self._drop_unrouted(message)
        return ticket

    def was_sent(self, message: Message, address_name: str) -> bool:
        """Is the duplicate id of ``message`` one that was sent to this address?"""
        cache, duplicate_id = self._core.known_duplicate_ids(address_name), duplicate_id_of(message)
        return cache is not None and duplicate_id is not None and duplicate_id in cache

    def send_copy(self, copy: Message, address_name: str, queue_name: str, context: OperationContext) -> bool:
        """Send a copy that management wants on one queue of an address, whether its duplicate id is known or not.

        False when the queue does not take it.  Raises AddressFullError as :meth:`send`.
        """
        core = self._core
        address = core.addresses.get(address_name)
        full = address is not None and (address.memory.full or address.memory.paging is not None)
        try:
            if full and address is not None and not self._may_store(address, copy):
                return False
        except AddressFullError:
            self._drop_unrouted(copy)
            raise
        expiration = expiration_at_routing(copy.expiration, core.settings_of(address_name), core.clock.wall_ms())
        if expiration != copy.expiration:
            copy.set_expiration(expiration)
        sends = self.distribution.route_copy(copy, address_name, queue_name)
        batch = core.store.begin()
        stored = False
        arrived: list[Reference] = []
        for each, references in sends:
            kept, waiting = core.paging.store(batch, each, references)
            stored = stored or kept
            arrived.extend(waiting)
        ticket = core.commit(batch) if stored else 0
        context.run(ticket, self.deliver, arrived)
        return bool(sends)

    def _duplicate(
        self, message: Message, address_name: str, queue_name: str | None, arrival: Arrival | None
    ) -> tuple[DuplicateIdCache, bytes] | None:
        """The duplicate id of a message with the cache that has to know it; None when nothing is remembered of the message."""
        if arrival is not None and arrival.bridge_id is not None:
            name, duplicate_id = f"{BRIDGE_CACHE}{address_name}", arrival.bridge_id
        else:
            found = duplicate_id_of(message)
            if found is None:
                return None
            name, duplicate_id = address_name if queue_name is None else f"{address_name}::{queue_name}", found
        cache = self._core.duplicate_ids(name)
        return None if cache is None else (cache, duplicate_id)

    def _page(
        self, message: Message, references: list[Reference], duplicate: tuple[DuplicateIdCache, bytes] | None, context: OperationContext
    ) -> int:
        """The address pages: the queues read the message from there."""
        core = self._core
        batch = core.store.begin()
        core.paging.page(batch, message, references)
        if duplicate is not None:
            duplicate[0].add(duplicate[1], batch)
        ticket = core.store.commit(batch)
        # Later requests of this session are answered after the message can be read.
        context.run(ticket, _nothing)
        return ticket if message.durable and core.options.journal_sync_non_transactional else 0

    def deliver(self, references: Sequence[Reference]) -> None:
        """Put stored references on their queues.  A long queue makes them anew when it needs them."""
        for reference in references:
            queue = reference.queue
            if queue.deleted:
                queue.arriving -= 1
                self._core.let_go(reference)
            elif not queue.references.is_long or reference.scheduled or reference.delivery_count:
                queue.arriving -= 1
                queue.add(reference)
            else:
                message = reference.message
                queue.add_arrived((message,), message.durable, message.stored_size)

    def _store_all(
        self,
        message: Message,
        references: list[Reference],
        others: list[Send],
        duplicate: tuple[DuplicateIdCache, bytes] | None,
        context: OperationContext,
    ) -> int:
        """Store a message and its copies in one batch."""
        core = self._core
        if references:
            others.insert(0, (message, references))
        else:
            self._drop_unrouted(message)
        batch = core.store.begin()
        stored = duplicate is not None
        arrived: list[Reference] = []
        for each, its_references in others:
            kept, waiting = core.paging.store(batch, each, its_references)
            stored = stored or kept
            arrived.extend(waiting)
        if duplicate is not None:
            duplicate[0].add(duplicate[1], batch)
        ticket = core.commit(batch) if stored else 0
        context.run(ticket, self.deliver, arrived)
        return ticket

    def _route_acknowledged(self, message: Message, arrival: Arrival, transaction: Transaction) -> None:
        """Take over the acknowledgements of a branch on another broker: the same branch here holds the references, and settles them."""
        core = self._core
        copy = message.duplicate(core.store.next_id())
        account = core.addresses.get(message.address.partition("::")[0]) or arrival.acknowledged[0].address
        references = self.distribution.references_for(copy, arrival.acknowledged, account)
        for reference in references:
            reference.queue.arriving -= 1
            reference.queue.add(reference)
            reference.queue.take(reference)
        transaction.brought.append((copy, references))
        transaction.acknowledged.extend(references)

    def _route(
        self,
        message: Message,
        address: Address | None,
        address_name: str,
        queue_name: str | None,
        routing_type: int | None,
        others: list[Send],
        arrival: Arrival | None,
        may: May,
        may_wait: bool,
    ) -> list[Reference]:
        core = self._core
        settings = core.settings_of(address_name) if address is None else address.settings
        if settings.no_expiry or settings.expiry_delay >= 0 or settings.min_expiry_delay >= 0 or settings.max_expiry_delay >= 0:
            expiration = expiration_at_routing(message.expiration, settings, core.clock.wall_ms())
            if expiration != message.expiration:
                message.set_expiration(expiration)
        route = core.routing.route(address_name, routing_type, queue_name)
        if arrival is not None:
            bindings = arrival.choose(core, message, route, may_wait)
        elif core.routing.grouping is not None and has_group(message):
            bindings = core.routing.grouping.select(route, message, may_wait)
        else:
            fixed = route.fixed
            if fixed:
                account = address or fixed[0].address
                account.routed_messages += 1
                return self.distribution.references_for(message, fixed, account)
            bindings = route.select(message)
        if bindings:
            references = self.distribution.distribute(message, bindings, address, others, may)
            if address is not None:
                address.routed_messages += 1
            return references
        if address is not None:
            address.unrouted_messages += 1
        if not settings.send_to_dla_on_no_route or (arrival is not None and arrival.acknowledged):
            return []
        return self._to_dead_letter_address(message, address_name, settings, others)

    def _to_dead_letter_address(
        self, message: Message, address_name: str, settings: AddressSettings, others: list[Send]
    ) -> list[Reference]:
        core = self._core
        target = settings.dead_letter_address
        if not target:
            core.report("AMQ222056", f"message {message.message_id} to {address_name} has no route and no dead letter address: dropped")
            return []
        if not core.routing.reaches(target) or target == address_name:
            return []
        make_copy(message, message.message_id, target, original_address=address_name, original_queue=None).replace_in(message)
        bindings = core.routing.select(core.routing.route(target, None), message)
        return self.distribution.distribute(message, bindings, core.addresses.get(target), others)

    def _may_store(self, address: Address, message: Message) -> bool:
        """Does the policy of a full address let the message be stored?  False: drop it.  Raises AddressFullError with policy FAIL."""
        memory = address.memory
        policy = memory.policy
        pages = ""
        if policy == "PAGE" and memory.paging is not None and memory.paging.full:
            policy, pages = memory.settings.page_full_policy or policy, "; its pages are also full"
        if policy == "FAIL":
            raise AddressFullError(f'AMQ229102: Address "{address.name}" is full. Message encode size = {message.encode_size}B{pages}')
        if policy == "DROP":
            self._core.report("AMQ222039", f"address {address.name} is full and its policy is DROP: messages are dropped{pages}")
            self._drop_unrouted(message)
            return False
        return True

    def _known_duplicate(self, message: Message, address_name: str, transaction: Transaction | None, arrival: Arrival | None) -> int:
        self._core.report(
            "AMQ222059", f"Duplicate message detected - message will not be routed. Message {message.message_id} to {address_name}"
        )
        self._drop_unrouted(message)
        if transaction is not None:
            if arrival is None or arrival.bridge_id is None:
                transaction.reject_duplicate(message)
            return 0
        # The first message with this id may still be on its way to the disk: the sender hears of success after it.
        return self._core.store.ticket()

    @staticmethod
    def _drop_unrouted(message: Message) -> None:
        if message.large is not None and not message.references:
            message.large.release()


def _check_batch(cache: DuplicateIdCache, duplicate_id: bytes) -> None:
    if cache.loses_its_batch(duplicate_id):
        raise IllegalStateError(
            f"AMQ229909: the address {cache.name} keeps {cache.size} duplicate ids (id-cache-size), and the batch of this message "
            "has more: make batches smaller, or the cache greater"
        )


def _nothing() -> None:
    pass
