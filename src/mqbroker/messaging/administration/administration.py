"""Making and removing addresses and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.config.model.internal_names import store_and_forward_prefix
from mqbroker.messaging.administration.auto_creation import auto_create_for_send
from mqbroker.messaging.administration.removal import Removal
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqbroker.messaging.ports import StoreBatch
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import MULTICAST, ROUTING_TYPE_NAMES, QueueDefinition, resolve
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
    """Makes and removes addresses and queues.  Requests go through :class:`Definitions` first; no method here waits.

    No method checks permissions.  Definitions become durable with the store's next batch: callers wait for ``store.ticket()`` before they
    answer.
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
        types = types or frozenset((core.settings_of(name, temporary).default_address_routing_type,))
        settings = core.settings_by_use(name, temporary, types if auto_created and not temporary else ())
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
        if address.memory.settings is not settings:
            address.memory.apply(settings)
        address.unbound_since_ms = core.clock.wall_ms()
        core.addresses[name] = address
        core.keep_duplicate_ids(name)
        core.routing.changed()
        if durable and not temporary and not internal:
            self._commit(lambda batch: batch.put_address(address.record()))
        for observer in core.observers:
            observer.address_added(address)
        return address

    @staticmethod
    def check_address_update(address: Address, routing_types: frozenset[int]) -> None:
        """Raises IllegalStateError when a routing type that is dropped still has queues."""
        for queue in address.queues:
            if queue.definition.routing_type not in routing_types:
                kind = ROUTING_TYPE_NAMES[queue.definition.routing_type]
                raise IllegalStateError(
                    f"AMQ229209: Can't remove routing type {kind}, queues exists for address: {address.name}. "
                    "Please delete queues before removing this routing type."
                )

    def update_address(self, address: Address, routing_types: frozenset[int]) -> None:
        """Replace the routing types.  Raises as :meth:`check_address_update`."""
        self.check_address_update(address, routing_types)
        if routing_types != address.routing_types:
            address.routing_types = routing_types
            self._core.refresh_settings(address)
            self._core.routing.changed()
            if not address.temporary and not address.internal:
                self._commit(lambda batch: batch.put_address(address.record()))

    def claim_address(self, address: Address, routing_types: frozenset[int]) -> None:
        """Let an administrator define an address that was created automatically.  Raises as :meth:`check_address_update`."""
        self.update_address(address, routing_types)
        self._set_automatic(address, False)

    def leave_address(self, address: Address) -> None:
        """No administrator defines an address any more: it goes as one that was created automatically, when its last queue has gone."""
        self._set_automatic(address, True)

    def _set_automatic(self, address: Address, automatic: bool) -> None:
        if address.auto_created != automatic:
            address.auto_created = automatic
            self._core.refresh_settings(address)
            self._commit(lambda batch: batch.put_address(address.record()))

    def check_address_deletion(self, name: str, force: bool) -> Address:
        """The address to be deleted.  Raises AddressDoesNotExistError, and DeleteAddressError for one with queues unless ``force``."""
        address = self._core.addresses.get(name)
        if address is None:
            raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {name}")
        if address.queues and not force:
            raise DeleteAddressError(f"AMQ229205: Address {name} has bindings")
        return address

    def delete_address(self, name: str, force: bool = False) -> None:
        """Remove an address; with ``force`` its queues, their consumers and messages too.  Raises as :meth:`check_address_deletion`."""
        core = self._core
        address = self.check_address_deletion(name, force)
        for queue in list(address.queues):
            self.delete_queue(queue, remove_consumers=True, keep_address=True)
        del core.addresses[name]
        core.routing.changed()
        if not address.temporary and not address.internal:
            self._commit(lambda batch: batch.delete_address(address.address_id))
        core.release_duplicate_ids(name)
        address.memory.end()
        for observer in core.observers:
            observer.address_removed(address)

    # --- queues

    def new_queue(self, configuration: QueueConfiguration, auto_create_address: bool | None) -> QueueDefinition:
        """The definition of the queue that :meth:`create_queue` would make.  Raises the same errors."""
        core = self._core
        existing = core.queues.get(configuration.name)
        if existing is not None:
            raise QueueExistsError(f"AMQ229019: Queue {configuration.name} already exists on address {existing.definition.address}")
        definition = self.wanted_queue(configuration)
        settings = core.settings_of(definition.address, definition.temporary)
        parse_filter(definition.filter_string)
        if not ((settings.auto_create_addresses if auto_create_address is None else auto_create_address) or definition.temporary):
            self._check_address(definition)
        return definition

    def wanted_queue(self, configuration: QueueConfiguration) -> QueueDefinition:
        """The definition that is asked for, whether it can be made or not."""
        core = self._core
        definition = resolve(configuration, core.settings_of(configuration.address or configuration.name, bool(configuration.temporary)))
        if core.options.automatic_settings and configuration.auto_created and definition.name == definition.address:
            return self._limited(definition)
        return definition

    def _limited(self, definition: QueueDefinition) -> QueueDefinition:
        """A queue that comes into being with its address has the limit of such queues; a client's -1 says only that it knows of none."""
        if definition.temporary or definition.max_consumers >= 0:
            return definition
        limit = self._core.settings_by_use(definition.address, False, (definition.routing_type,)).default_max_consumers
        return replace(definition, max_consumers=limit)

    def create_queue(self, configuration: QueueConfiguration, *, auto_create_address: bool | None = None) -> Queue:
        """Make a queue.

        ``auto_create_address``: whether its address, or the routing type of the address, is made with it; None: where the address settings
        allow that.  Raises QueueExistsError, AddressDoesNotExistError, UnexpectedRoutingTypeError, InvalidFilterExpressionError.
        """
        return self.define_queue(self.new_queue(configuration, auto_create_address))

    def define_queue(self, definition: QueueDefinition) -> Queue:
        """Make a queue, which is not there yet, by its whole definition; its address is made with it.

        Raises InvalidFilterExpressionError.
        """
        filter = parse_filter(definition.filter_string)
        return self._bind(self._core.store.next_id(), definition, self._address_for(definition), filter, new=True)

    def shared_queue(self, configuration: QueueConfiguration) -> Queue | None:
        """The queue of a shared subscription, if it is there.  Raises InvalidTransientQueueUseError for one that is different."""
        existing = self._core.queues.get(configuration.name)
        if existing is None:
            return None
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
        """The queue where messages for another broker wait, on an address with the same name; made if it does not exist.

        The queue keeps no message groups, has no limit of redeliveries, and stays until it is deleted.
        """
        core = self._core
        existing = core.queues.get(name)
        if existing is not None:
            return existing
        return self._bind(core.store.next_id(), _store_and_forward(name), self._internal_address(name), None, new=True)

    def delete_store_and_forward(self, queue: Queue) -> None:
        """Remove such a queue with its messages, its consumers and its address."""
        self.delete_queue(queue, remove_consumers=True, keep_address=True)
        if not queue.address.queues:
            self.delete_address(queue.address.name)

    def _internal_address(self, name: str) -> Address:
        return self._core.addresses.get(name) or self.create_address(name, (MULTICAST,), internal=True)

    @staticmethod
    def updated_queue(queue: Queue, changes: Mapping[str, bool | int | str | None]) -> QueueDefinition:
        """The definition with ``changes``.  Raises IllegalStateError for a ring-size where readers are, InvalidFilterExpressionError."""
        size = changes.get("ring_size")
        if queue.has_readers and isinstance(size, int) and size >= 0:
            raise IllegalStateError(f"AMQ229904: queue {queue.name} has readers, whose messages a ring would remove")
        text = changes.get("filter_string")
        parse_filter(text if isinstance(text, str) else None)
        return replace(queue.definition, **changes)  # type: ignore[arg-type]

    def update_queue(self, queue: Queue, **changes: bool | int | str | None) -> None:
        """Change attributes of a queue in place.  Raises as :meth:`updated_queue`."""
        before = queue.definition
        queue.definition = self.updated_queue(queue, changes)
        queue.filter = parse_filter(queue.definition.filter_string)
        self._core.routing.changed()
        self._size_ring(queue)
        if queue.definition.exclusive or not before.group_buckets:
            # Groups that were switched off may have messages here.
            queue.keep_groups()
        if queue.groups is not None and not changes.keys().isdisjoint(("exclusive", "group_buckets")):
            queue.groups.reset()
        queue.check_dispatch()
        if queue.definition.durable and not queue.definition.internal:
            self._commit(lambda batch: batch.put_queue(queue.definition.record(queue.queue_id)))
        if queue.definition.filter_string != before.filter_string:
            for observer in self._core.observers:
                observer.queue_filter_changed(queue)

    def check_queue_deletion(self, queue: Queue, remove_consumers: bool) -> None:
        """Raises IllegalStateError while it has consumers that are not to be removed, and for one that the broker needs itself."""
        if self._core.queues.get(queue.name) is not queue:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {queue.name} does not exist")
        if queue.needed_for is not None:
            raise IllegalStateError(f"AMQ229025: Cannot delete queue {queue.name}: {queue.needed_for}")
        if queue.consumer_count and not remove_consumers:
            raise IllegalStateError(
                f"AMQ229025: Cannot delete queue {queue.name} on binding {queue.name} - it has consumers = {queue.consumer_count}"
            )

    def delete_queue(self, queue: Queue, *, remove_consumers: bool = False, keep_address: bool = False) -> None:
        """Remove a queue with its messages.  Raises as :meth:`check_queue_deletion`."""
        self.check_queue_deletion(queue, remove_consumers)
        core = self._core
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
        if queue.name == address.name:
            core.refresh_settings(address)
        self._after_unbind(address, keep_address)

    def auto_create_for_send(
        self, address_name: str, routing_type: int | None, queue_name: str | None, may: Callable[[str, str, str | None], None]
    ) -> None:
        """As :func:`auto_create_for_send`, for messages of the broker itself, which cannot wait."""
        auto_create_for_send(self._core, self, address_name, routing_type, queue_name, may)

    # --- inside

    def restore_queue(self, queue_id: int, definition: QueueDefinition) -> Queue:
        """A durable queue as the store has kept it."""
        if self._is_store_and_forward(definition):
            name = definition.name
            return self._bind(queue_id, _store_and_forward(name), self._internal_address(name), None)
        address = self._core.addresses.get(definition.address)
        if address is None:
            address = self.create_address(definition.address, (definition.routing_type,), auto_created=True)
        return self._bind(queue_id, definition, address, parse_filter(definition.filter_string))

    def inherit_queue(self, definition: QueueDefinition) -> Queue:
        """Make a queue that another broker had, and this one has not.  Raises InvalidFilterExpressionError."""
        return self.create_store_and_forward(definition.name) if self._is_store_and_forward(definition) else self.define_queue(definition)

    def _is_store_and_forward(self, definition: QueueDefinition) -> bool:
        return definition.name.startswith(store_and_forward_prefix(self._core.options.internal_naming_prefix))

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

    def _bind(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None, *, new: bool = False) -> Queue:
        """Put a queue onto its address; a ``new`` one is handed to the store, if it is durable."""
        core = self._core
        queue = self._make(queue_id, definition, address, filter)
        self._size_ring(queue)
        core.queues[definition.name] = queue
        address.queues.append(queue)
        address.bound_once = True
        if definition.name == address.name:
            core.refresh_settings(address)
        core.routing.bind(queue)
        if new and definition.durable:
            # Before the observers hear of it: whom they tell may have to wait until the queue is on the disk.
            self._commit(lambda batch: batch.put_queue(definition.record(queue_id)))
        for observer in core.observers:
            observer.queue_added(queue)
        core.consumer_changed(queue, False)
        return queue

    def _check_address(self, definition: QueueDefinition) -> None:
        """Raises AddressDoesNotExistError, UnexpectedRoutingTypeError where the address of a queue is not as the queue needs it."""
        name = definition.address
        address = self._core.addresses.get(name)
        if address is None:
            raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {name}")
        if definition.routing_type not in address.routing_types:
            kind = ROUTING_TYPE_NAMES[definition.routing_type]
            supported = ",".join(ROUTING_TYPE_NAMES[each] for each in sorted(address.routing_types))
            raise UnexpectedRoutingTypeError(
                f"AMQ229207: Can not create queue with routing type: {kind}, Supported routing types for address: {name} are [{supported}]"
            )

    def _address_for(self, definition: QueueDefinition) -> Address:
        address = self._core.addresses.get(definition.address)
        if address is None:
            return self.create_address(
                definition.address,
                (definition.routing_type,),
                auto_created=not definition.configuration_managed,
                temporary=definition.temporary,
                internal=definition.internal,
            )
        self.update_address(address, address.routing_types | {definition.routing_type})
        return address

    def _after_unbind(self, address: Address, keep_address: bool) -> None:
        core = self._core
        if address.queues:
            return
        address.unbound_since_ms = core.clock.wall_ms()
        core.release_duplicate_ids(address.name)
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
