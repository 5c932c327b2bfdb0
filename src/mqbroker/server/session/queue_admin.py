"""The requests of a session to create, delete and describe addresses and queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.session.old_names import shown_name, wants_old_names
from mqbroker.server.transport.naming import Naming, queue_part, split_qualified
from mqclient.errors import IllegalStateError, QueueDoesNotExistError, QueueExistsError
from mqclient.wire import packets as wire
from mqclient.wire.hot import VERSION_NEW_ADDRESSING

if TYPE_CHECKING:
    from mqbroker.server.session_state import SessionState


QueueDescription: TypeAlias = wire.QueueQueryResponse | wire.QueueQueryResponseV2 | wire.QueueQueryResponseV3

_ATTRIBUTES = (
    "exclusive",
    "last_value",
    "last_value_key",
    "non_destructive",
    "consumers_before_dispatch",
    "delay_before_dispatch",
    "group_rebalance",
    "group_buckets",
    "auto_delete",
    "auto_delete_delay",
    "auto_delete_message_count",
    "group_first_key",
    "ring_size",
    "enabled",
    "group_rebalance_pause_dispatch",
    "max_consumers",
    "purge_on_no_consumers",
)
"""Attributes that a request to create a queue and the answer to a query for a queue have in common."""


class SessionAdministration:
    __slots__ = ("_definitions", "_server", "_session")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._server = session.server
        self._definitions = session.server.messaging.definitions

    # --- definitions

    def _create_address(self, packet: wire.CreateAddress) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.address)
        name = split_qualified(name)[0]
        session.permissions.check("createAddress", name)
        types = [kind for kind in packet.routing_types if kind in (MULTICAST, ANYCAST)]
        self._definitions.create_address(name, types, auto_created=packet.auto_created)
        self._answer(packet)

    def _create_queue(self, packet: wire.CreateQueue | wire.CreateQueueV2) -> None:
        session = self._session
        configuration = self._configuration(packet.address, packet.queue_name, packet.filter_string)
        configuration.durable = packet.durable and not packet.temporary
        configuration.temporary = packet.temporary
        if isinstance(packet, wire.CreateQueueV2):
            configuration.auto_created = packet.auto_created
            _take_attributes(configuration, packet)
        elif configuration.routing_type is None:
            configuration.routing_type = ANYCAST if packet.address.startswith(("jms.queue.", "jms.tempqueue.")) else MULTICAST
        if packet.temporary:
            self._server.connection_limits.check_temporary_queues(session.connection)
            self._server.connection_limits.check_filters(session.connection, configuration.filter_string)
        self._server.departing.make_room(configuration.name)
        self._check_creation(configuration)
        of_client = packet.temporary and not session.connection.cluster_authorized
        queue = self._server.departing.take_back(configuration.name) if of_client else None
        if queue is None:
            try:
                queue = self._definitions.create_queue(configuration)
            except QueueExistsError:
                if of_client and not packet.requires_response:
                    self._come_back(configuration.name)
                raise
        if packet.temporary:
            session.connection.temporary_queues[queue] = None
        self._answer(packet)

    def _come_back(self, name: str) -> None:
        """A client makes its temporary queue again: it must not end with the connection of an earlier try, if that has failed unseen."""
        session = self._session
        queue = self._server.messaging.core.queues.get(name)
        if queue is None or queue in session.connection.temporary_queues or queue.definition.user != session.subject.name:
            return
        for connection in self._server.connections.values():
            if queue in connection.temporary_queues:
                del connection.temporary_queues[queue]
                session.connection.temporary_queues[queue] = None
                return

    def _create_shared_queue(self, packet: wire.CreateSharedQueue | wire.CreateSharedQueueV2) -> None:
        session = self._session
        configuration = self._configuration(packet.address, packet.queue_name, packet.filter_string)
        configuration.durable = packet.durable
        configuration.temporary = configuration.transient = not packet.durable
        if isinstance(packet, wire.CreateSharedQueueV2):
            _take_attributes(configuration, packet)
        else:
            configuration.routing_type = MULTICAST
        self._check_queue("create", configuration.durable, configuration.address or "", configuration.name)
        if configuration.name in self._server.messaging.core.queues:
            session.read_on(configuration.name)
        self._server.departing.make_room(configuration.name)
        if configuration.name not in self._server.messaging.core.queues:
            self._server.limits.check_queues(session.subject.name)
        self._definitions.create_shared_queue(configuration)
        self._answer(packet)

    def _answer(
        self, packet: wire.CreateAddress | wire.CreateQueue | wire.CreateQueueV2 | wire.CreateSharedQueue | wire.CreateSharedQueueV2
    ) -> None:
        if packet.requires_response:
            self._session.reply_null(-1, self._server.store.ticket())

    def _configuration(self, address: str, queue_name: str, filter_string: str | None) -> QueueConfiguration:
        """The common part of the four requests; names may be qualified or have prefixes."""
        session = self._session
        session.connection.filter_read(filter_string)
        bare_address, prefix_type = session.connection.naming.strip(address)
        bare_queue, queue_prefix_type = session.connection.naming.strip(queue_name)
        bare_address = split_qualified(bare_address)[0]
        qualifier, name = split_qualified(bare_queue)
        return QueueConfiguration(
            name=name or bare_queue,
            address=(qualifier if name else bare_address) or bare_queue,
            routing_type=prefix_type if prefix_type is not None else queue_prefix_type,
            filter_string=filter_string,
            user=session.subject.name,
        )

    def _check_queue(self, verb: str, durable: bool, address: str, name: str) -> None:
        self._session.permissions.check(f"{verb}DurableQueue" if durable else f"{verb}NonDurableQueue", address, name)

    def _check_creation(self, configuration: QueueConfiguration) -> None:
        address = configuration.address or configuration.name
        self._check_queue("create", configuration.durable, address, configuration.name)
        known = self._server.messaging.core.addresses.get(address)
        routing_type = configuration.routing_type
        if known is None or (routing_type is not None and routing_type not in known.routing_types):
            self._session.permissions.check("createAddress", address)
        self._server.limits.check_queues(self._session.subject.name)

    def _delete_queue(self, packet: wire.DeleteQueue) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.queue_name)
        queues = self._server.messaging.core.queues
        if queue_part(name) not in queues:
            session.read_on(queue_part(name))
        queue = queues.get(queue_part(name))
        if queue is None:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {packet.queue_name} does not exist")
        self._check_queue("delete", queue.definition.durable, queue.definition.address, queue.name)
        if queue.has_readers and queue not in session.connection.temporary_queues:
            raise IllegalStateError(f"AMQ229907: queue {queue.name} has readers, which have to be removed before it is deleted")
        self._definitions.delete_queue(queue)
        session.connection.temporary_queues.pop(queue, None)
        session.reply_null(-1, self._server.store.ticket())

    # --- queries

    def _query_queue(self, packet: wire.QueueQuery) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.queue_name)
        address, qualified = split_qualified(name)
        if address != self._server.management_address:
            session.read_on(queue_part(name))
        queue = self._server.messaging.core.queues.get(queue_part(name))
        if queue is not None:
            description = self.describe_queue(queue)
            if wants_old_names(session):
                # A durable subscriber compares this address with its topic: another address means that the subscription has changed.
                description.address = Naming.for_old_client(queue.definition.address, queue.definition.routing_type)
            session.reply(description)
        elif address == self._server.management_address:
            session.reply(self._describe_missing(address, qualified, exists=True, consumer_count=-1, message_count=-1))
        else:
            session.reply(self._describe_missing(address, qualified, exists=False))

    def _describe_missing(self, address: str, name: str | None, **values: Any) -> QueueDescription:
        """The answer for a queue that does not exist: its attributes by the settings of the address."""
        settings = self._server.messaging.core.settings_of(address)
        return self._response(
            durable=True,
            address=address,
            name=name or address,
            auto_create_queues=settings.auto_create_queues,
            purge_on_no_consumers=settings.default_purge_on_no_consumers,
            routing_type=settings.default_queue_routing_type,
            max_consumers=settings.default_max_consumers,
            default_consumer_window_size=settings.default_consumer_window_size,
            consumers_before_dispatch=settings.default_consumers_before_dispatch,
            delay_before_dispatch=settings.default_delay_before_dispatch,
            auto_delete=settings.auto_delete_queues,
            auto_delete_delay=settings.auto_delete_queues_delay,
            auto_delete_message_count=settings.auto_delete_queues_message_count,
            last_value_key=settings.default_last_value_key,
            group_first_key=settings.default_group_first_key,
            **values,
        )

    def describe_queue(self, queue: Queue) -> QueueDescription:
        """The answer to a query for an existing queue."""
        definition = queue.definition
        settings = queue.address.settings
        return self._response(
            exists=True,
            durable=definition.durable,
            temporary=definition.temporary,
            consumer_count=queue.consumer_count,
            message_count=queue.message_count,
            filter_string=definition.filter_string,
            address=definition.address,
            name=definition.name,
            auto_create_queues=settings.auto_create_queues,
            auto_created=definition.auto_created,
            routing_type=definition.routing_type,
            default_consumer_window_size=settings.default_consumer_window_size,
            configuration_managed=definition.configuration_managed,
            **{name: getattr(definition, name) for name in _ATTRIBUTES},
        )

    def _response(self, **values: Any) -> QueueDescription:
        version = self._session.version
        kind: Any = wire.QueueQueryResponseV3
        if version < VERSION_NEW_ADDRESSING:
            kind = wire.QueueQueryResponseV2 if version >= wire.QueueQueryResponseV2.SINCE else wire.QueueQueryResponse
        defaults: dict[str, Any] = {
            "temporary": False,
            "consumer_count": 0,
            "message_count": 0,
            "filter_string": None,
            "exclusive": False,
            "last_value": False,
            "non_destructive": False,
            "group_rebalance": False,
            "group_buckets": -1,
            "ring_size": -1,
            "group_rebalance_pause_dispatch": False,
            "configuration_managed": False,
        }
        result: QueueDescription = kind(**{**defaults, **values})
        return result

    def _query_binding(self, packet: wire.BindingQuery) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.address)
        name = split_qualified(name)[0]
        core = self._server.messaging.core
        settings = core.settings_of(name)
        address = core.addresses.get(name)
        management = name == self._server.management_address
        queues = [] if management else core.routing.covered(name)
        names = [shown_name(session, queue) for queue in queues]
        session.reply(
            self._binding_kind()(
                exists=address is not None or management or name == wire.READERS_ADDRESS,
                queue_names=tuple(names),
                auto_create_queues=settings.auto_create_queues,
                auto_create_addresses=settings.auto_create_addresses,
                default_purge_on_no_consumers=settings.default_purge_on_no_consumers,
                default_max_consumers=settings.default_max_consumers,
                default_exclusive=settings.default_exclusive_queue,
                default_last_value=settings.default_last_value_queue,
                default_last_value_key=settings.default_last_value_key,
                default_non_destructive=settings.default_non_destructive,
                default_consumers_before_dispatch=settings.default_consumers_before_dispatch,
                default_delay_before_dispatch=settings.default_delay_before_dispatch,
                supports_multicast=management or (address is not None and MULTICAST in address.routing_types),
                supports_anycast=management or (address is not None and ANYCAST in address.routing_types),
            )
        )

    def _binding_kind(self) -> Any:
        version = self._session.version
        for kind in (
            wire.BindingQueryResponseV5,
            wire.BindingQueryResponseV4,
            wire.BindingQueryResponseV3,
            wire.BindingQueryResponseV2,
        ):
            if version >= kind.SINCE:
                return kind
        return wire.BindingQueryResponse

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.CreateAddress.TYPE: _create_address,
        wire.CreateQueue.TYPE: _create_queue,
        wire.CreateQueueV2.TYPE: _create_queue,
        wire.CreateSharedQueue.TYPE: _create_shared_queue,
        wire.CreateSharedQueueV2.TYPE: _create_shared_queue,
        wire.DeleteQueue.TYPE: _delete_queue,
        wire.QueueQuery.TYPE: _query_queue,
        wire.BindingQuery.TYPE: _query_binding,
    }


def _take_attributes(configuration: QueueConfiguration, packet: wire.CreateQueueV2 | wire.CreateSharedQueueV2) -> None:
    if packet.routing_type in (MULTICAST, ANYCAST):
        configuration.routing_type = packet.routing_type
    for name in _ATTRIBUTES:
        setattr(configuration, name, getattr(packet, name))
