"""Making and removing addresses and queues, also those that appear by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.config.model.internal_names import store_and_forward_prefix
from mqbroker.messaging.administration.removal import Removal
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqbroker.messaging.ports import StoreBatch
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, ROUTING_TYPE_NAMES, QueueDefinition, resolve
from mqbroker.messaging.queues.last_values import LastValueQueue
from mqbroker.messaging.queues.non_destructive import NonDestructiveQueue
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.ring import Ring
from mqclient.errors import (
    AddressDoesNotExistError,
    DeleteAddressError,
    IllegalStateError,
    InvalidTransientQueueUseError,
    QueueDoesNotExistError,
    QueueExistsError,
    UnexpectedRoutingTypeError,
)


class Administration:
    """Addresses and queues as clients, configuration and management make and remove them.

    Nothing here checks permissions.  Definitions become durable with the store's next batch: callers that answer wait for
    ``store.ticket()``.
    """

    def __init__(self, core: MessagingCore, removal: Removal) -> None:
        self._core = core
        self._removal = removal

    # --- addresses

    def create_address(
        self,
        name: str,
        routing_types: Iterable[int],
        *,
        auto_created: bool = False,
        temporary: bool = False,
        internal: bool = False,
        durable: bool = True,
    ) -> Address:
        """Make an address, or give an existing one these routing types, if there are any."""
        core = self._core
        types = frozenset(routing_types)
        address = core.addresses.get(name)
        if address is not None:
            if types:
                self.update_address(address, types)
            return address
        settings = core.settings_of(name, temporary)
        types = types or frozenset((settings.default_address_routing_type,))
        address = Address(
            core.store.next_id(),
            name,
            types,
            settings,
            core.new_memory(name, settings),
            auto_created=auto_created,
            temporary=temporary,
            internal=internal,
        )
        address.unbound_since_ms = core.clock.wall_ms()
        core.addresses[name] = address
        core.routing.changed()
        if durable and not temporary and not internal:
            self._commit(lambda batch: batch.put_address(address.record()))
        for observer in core.observers:
            observer.address_added(address)
        return address

    def update_address(self, address: Address, routing_types: frozenset[int]) -> None:
        """Replace the routing types.  Raises IllegalStateError when a dropped one still has queues."""
        for queue in address.queues:
            if queue.definition.routing_type not in routing_types:
                kind = ROUTING_TYPE_NAMES[queue.definition.routing_type]
                raise IllegalStateError(
                    f"AMQ229209: Can't remove routing type {kind}, queues exists for address: {address.name}. "
                    "Please delete queues before removing this routing type."
                )
        if routing_types != address.routing_types:
            address.routing_types = routing_types
            self._core.routing.changed()
            if not address.temporary and not address.internal:
                self._commit(lambda batch: batch.put_address(address.record()))

    def delete_address(self, name: str, force: bool = False) -> None:
        """Remove an address; with ``force`` its queues, their consumers and messages too."""
        core = self._core
        address = core.addresses.get(name)
        if address is None:
            raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {name}")
        if address.queues and not force:
            raise DeleteAddressError(f"AMQ229205: Address {name} has bindings")
        for queue in list(address.queues):
            self.delete_queue(queue, remove_consumers=True, keep_address=True)
        del core.addresses[name]
        core.routing.changed()
        if not address.temporary and not address.internal:
            self._commit(lambda batch: batch.delete_address(address.address_id))
        core.forget_duplicate_ids(name)
        address.memory.end()
        for observer in core.observers:
            observer.address_removed(address)

    # --- queues

    def create_queue(
        self,
        configuration: QueueConfiguration,
        *,
        ignore_if_exists: bool = False,
        auto_create_address: bool | None = None,
    ) -> Queue:
        """Make a queue.

        ``auto_create_address``: whether its address, or the routing type of the address, is made with it; None: where the address settings
        allow that.  Raises QueueExistsError, AddressDoesNotExistError, UnexpectedRoutingTypeError, InvalidFilterExpressionError.
        """
        core = self._core
        existing = core.queues.get(configuration.name)
        if existing is not None:
            if ignore_if_exists:
                return existing
            raise QueueExistsError(f"AMQ229019: Queue {configuration.name} already exists on address {existing.definition.address}")
        address_name = configuration.address or configuration.name
        temporary = bool(configuration.temporary)
        definition = resolve(configuration, core.settings_of(address_name, temporary))
        filter = parse_filter(definition.filter_string)
        address = self._address_for(definition, auto_create_address)
        queue = self._bind(core.store.next_id(), definition, address, filter)
        if definition.durable:
            self._commit(lambda batch: batch.put_queue(definition.record(queue.queue_id)))
        return queue

    def create_shared_queue(self, configuration: QueueConfiguration) -> Queue:
        """Make the queue of a shared subscription, or take the one that is there if it is the same."""
        existing = self._core.queues.get(configuration.name)
        if existing is None:
            return self.create_queue(configuration)
        definition = existing.definition
        if definition.address != (configuration.address or configuration.name):
            raise InvalidTransientQueueUseError(
                f"AMQ229082: queue {definition.name} exists on address {definition.address}, not on {configuration.address}"
            )
        if (definition.filter_string or "") != (configuration.filter_string or "").strip():
            raise InvalidTransientQueueUseError(
                f"AMQ229083: queue {definition.name} exists with filter {definition.filter_string!r}, not {configuration.filter_string!r}"
            )
        return existing

    def create_store_and_forward(self, name: str) -> Queue:
        """The queue where messages for another broker wait, which is on an address of its own name; an existing one is taken.

        It keeps no message groups, has no limit of redeliveries, and stays until it is deleted.
        """
        core = self._core
        existing = core.queues.get(name)
        if existing is not None:
            return existing
        queue = self._bind(core.store.next_id(), _store_and_forward(name), self._internal_address(name), None)
        self._commit(lambda batch: batch.put_queue(queue.definition.record(queue.queue_id)))
        return queue

    def delete_store_and_forward(self, queue: Queue) -> None:
        """Remove such a queue with its messages, its consumers and its address."""
        self.delete_queue(queue, remove_consumers=True, keep_address=True)
        if not queue.address.queues:
            self.delete_address(queue.address.name)

    def _internal_address(self, name: str) -> Address:
        return self._core.addresses.get(name) or self.create_address(name, (MULTICAST,), internal=True)

    def update_queue(self, queue: Queue, **changes: bool | int | str | None) -> None:
        """Change attributes of a queue in place.  Raises IllegalStateError for a ring-size where there are readers."""
        size = changes.get("ring_size")
        if queue.has_readers and isinstance(size, int) and size >= 0:
            raise IllegalStateError(f"AMQ229904: queue {queue.name} has readers, whose messages a ring would remove")
        before = queue.definition.filter_string
        if changes.get("filter_string") is not None or "filter_string" in changes:
            text = changes["filter_string"]
            queue.filter = parse_filter(text if isinstance(text, str) else None)
        queue.definition = replace(queue.definition, **changes)  # type: ignore[arg-type]
        self._core.routing.changed()
        self._size_ring(queue)
        if queue.definition.exclusive:
            queue.keep_groups()
        if queue.groups is not None and not changes.keys().isdisjoint(("exclusive", "group_buckets")):
            queue.groups.reset()
        queue.check_dispatch()
        if queue.definition.durable and not queue.definition.internal:
            self._commit(lambda batch: batch.put_queue(queue.definition.record(queue.queue_id)))
        if queue.definition.filter_string != before:
            for observer in self._core.observers:
                observer.queue_filter_changed(queue)

    def delete_queue(self, queue: Queue, *, remove_consumers: bool = False, keep_address: bool = False) -> None:
        """Remove a queue with its messages.

        Raises IllegalStateError while it has consumers that are not to be removed, and for one that the broker needs itself.
        """
        core = self._core
        if core.queues.get(queue.name) is not queue:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {queue.name} does not exist")
        if queue.needed_for is not None:
            raise IllegalStateError(f"AMQ229025: Cannot delete queue {queue.name}: {queue.needed_for}")
        if queue.consumer_count and not remove_consumers:
            raise IllegalStateError(
                f"AMQ229025: Cannot delete queue {queue.name} on binding {queue.name} - it has consumers = {queue.consumer_count}"
            )
        queue.deleted = True
        del core.queues[queue.name]
        core.ordered_queues.pop(queue, None)
        address = queue.address
        address.queues.remove(queue)
        core.routing.unbind(queue)
        if queue.definition.durable:
            self._commit(lambda batch: batch.delete_queue(queue.queue_id))
        for consumer in list(queue.consumers()):
            queue.remove_consumer(consumer)
            consumer.queue_deleted()
        core.queue_deleted(queue)
        self._removal.drop_all(queue)
        for observer in core.observers:
            observer.queue_removed(queue)
        core.forget_duplicate_ids(f"{address.name}::{queue.name}")
        self._after_unbind(address, keep_address)

    # --- things that appear by themselves

    def auto_create_for_send(
        self, address_name: str, routing_type: int | None, queue_name: str | None, may: Callable[[str, str, str | None], None]
    ) -> None:
        """Make what a message needs that was sent to ``address_name`` (and, fully qualified, to ``queue_name``).

        ``may(permission, address, queue)`` raises when the sender lacks a permission.  Raises AddressDoesNotExistError where
        nothing may be created.
        """
        core = self._core
        if routing_type is None and queue_name is None:
            return
        kind = routing_type
        if kind is None:
            kind = core.settings_of(address_name).default_queue_routing_type
        address = core.addresses.get(address_name)
        settings = core.settings_of(address_name)
        missing = AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {address_name}")
        if address is None:
            if not settings.auto_create_addresses:
                raise missing
            may("createAddress", address_name, None)
            address = self.create_address(address_name, (kind,), auto_created=True)
        elif kind not in address.routing_types:
            if not settings.auto_create_addresses:
                raise missing
            may("createAddress", address_name, None)
            self.update_address(address, address.routing_types | {kind})
        if queue_name is None and kind == MULTICAST:
            return
        name = queue_name or address_name
        queue = core.queues.get(name)
        if queue is not None:
            if queue_name is None and queue.definition.routing_type != kind:
                raise missing
            return
        if queue_name is None and any(other.definition.routing_type == ANYCAST for other in address.queues):
            return
        if not settings.auto_create_queues:
            raise missing
        may("createDurableQueue", address_name, name)
        self.create_queue(QueueConfiguration(name=name, address=address_name, routing_type=kind, durable=True, auto_created=True))

    # --- inside

    def restore_queue(self, queue_id: int, definition: QueueDefinition) -> Queue:
        """A durable queue as the store has kept it."""
        if definition.name.startswith(store_and_forward_prefix(self._core.options.internal_naming_prefix)):
            name = definition.name
            return self._bind(queue_id, _store_and_forward(name), self._internal_address(name), None)
        address = self._core.addresses.get(definition.address)
        if address is None:
            address = self.create_address(definition.address, (definition.routing_type,), auto_created=True)
        return self._bind(queue_id, definition, address, parse_filter(definition.filter_string))

    def _make(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None) -> Queue:
        """A queue of the kind that the definition says."""
        kind = NonDestructiveQueue if definition.non_destructive else LastValueQueue if definition.last_value else Queue
        return kind(queue_id, definition, address, filter, self._core)

    def _size_ring(self, queue: Queue) -> None:
        """Let as many messages wait as the definition says."""
        size = queue.definition.ring_size
        if queue.ring is not None:
            queue.ring.size = size
            self._core.turn.mark_queue(queue.ring)
            if size < 0:
                queue.ring = None
        elif size >= 0:
            queue.ring = Ring(queue, size, self._core.replaced)
            self._core.turn.mark_queue(queue.ring)
        if queue.numbers_ascend and not queue.has_readers:
            self._core.ordered_queues[queue] = None
        else:
            self._core.ordered_queues.pop(queue, None)

    def _bind(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None) -> Queue:
        core = self._core
        queue = self._make(queue_id, definition, address, filter)
        self._size_ring(queue)
        core.queues[definition.name] = queue
        address.queues.append(queue)
        address.bound_once = True
        core.routing.bind(queue)
        for observer in core.observers:
            observer.queue_added(queue)
        core.consumer_changed(queue, False)
        return queue

    def _address_for(self, definition: QueueDefinition, auto_create: bool | None) -> Address:
        core = self._core
        name = definition.address
        address = core.addresses.get(name)
        settings = core.settings_of(name, definition.temporary)
        may_create = (settings.auto_create_addresses if auto_create is None else auto_create) or definition.temporary
        if address is None:
            if not may_create:
                raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {name}")
            return self.create_address(
                name,
                (definition.routing_type,),
                auto_created=not definition.configuration_managed,
                temporary=definition.temporary,
                internal=definition.internal,
            )
        if definition.routing_type not in address.routing_types:
            if not may_create:
                kind = ROUTING_TYPE_NAMES[definition.routing_type]
                supported = ",".join(ROUTING_TYPE_NAMES[each] for each in sorted(address.routing_types))
                raise UnexpectedRoutingTypeError(
                    f"AMQ229207: Can not create queue with routing type: {kind}, "
                    f"Supported routing types for address: {name} are [{supported}]"
                )
            self.update_address(address, address.routing_types | {definition.routing_type})
        return address

    def _after_unbind(self, address: Address, keep_address: bool) -> None:
        core = self._core
        if address.queues:
            return
        address.unbound_since_ms = core.clock.wall_ms()
        core.forget_duplicate_ids(address.name)
        if keep_address or core.addresses.get(address.name) is not address:
            return
        settings = address.settings
        at_once = address.auto_created and settings.auto_delete_addresses and not settings.auto_delete_addresses_delay
        if address.temporary or at_once:
            self.delete_address(address.name)

    def _commit(self, fill: Callable[[StoreBatch], None]) -> None:
        store = self._core.store
        batch = store.begin()
        fill(batch)
        store.commit(batch)


def _store_and_forward(name: str) -> QueueDefinition:
    return QueueDefinition(name, name, MULTICAST, internal=True, group_buckets=0)
