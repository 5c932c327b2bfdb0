"""The resource ``broker``: the broker as a whole, its addresses, queues and clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.duplicates import remembered
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management import definitions, queue_requests, views
from mqbroker.server.management.address_control import roles_as_json
from mqbroker.server.management.bridge_control import BRIDGE_OPERATIONS, bridge_names
from mqbroker.server.management.broker_connections import BrokerConnections
from mqbroker.server.management.cluster_control import cluster_connection_names, place
from mqbroker.server.management.configured_attributes import CONFIGURED_ATTRIBUTES
from mqbroker.server.management.divert_control import DIVERT_OPERATIONS
from mqbroker.server.management.readers import READER_OPERATIONS
from mqbroker.server.management.registry import ManagementError, Operation, as_bool, as_text
from mqbroker.server.management.settings_control import SETTINGS_OPERATIONS
from mqbroker.server.management.transactions import TRANSACTION_OPERATIONS
from mqbroker.server.transport.naming import check_length
from mqclient.errors import AddressDoesNotExistError, QueueDoesNotExistError

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.server.security.users import UserAdministration
    from mqbroker.server.server import Server
    from mqbroker.server.transport.acceptor import Acceptor
    from mqclient.protocol.topology import TopologyMember


NO_SEQUENCE = -1
"""The activation sequence of a broker whose policy counts no activations, as Artemis tells it."""
NO_REPLICA = -1
"""The bytes that a replica has not answered, without one."""

DUPLICATE_IDS_AT_ONCE = 1_000
"""Duplicate ids from another broker that are stored as one batch."""


class BrokerControl(BrokerConnections):
    """The whole broker.

    ``disk_usage`` is the used part of the data disk, 0.0 to 1.0.  ``users`` is None where management cannot change the users.
    """

    def __init__(
        self,
        server: Server,
        version: str,
        disk_usage: Callable[[], float],
        acceptors: Callable[[], Iterable[Acceptor]],
        users: UserAdministration | None,
    ) -> None:
        super().__init__(server)
        self.version = version
        self.disk_usage = disk_usage
        self.acceptors = acceptors
        self._users = users

    # --- addresses

    def create_address(self, name: Any, types: Any) -> str:
        messaging = self.server.messaging
        if not as_text(name):
            raise ManagementError("address can't be null or empty!")
        if as_text(name) in messaging.core.addresses:
            raise ManagementError(f"AMQ229204: Address already exists: {name}")
        return definitions.describe_address(messaging.definitions.create_address(as_text(name), definitions.parse_routing_types(types)))

    def update_address(self, name: Any, types: Any) -> str:
        """Replace the routing types; None leaves them."""
        address = self._address(name)
        if types is not None:
            wanted = definitions.parse_routing_types(types)
            if not wanted:
                raise ManagementError("expected one or more routing types, separated by commas: ANYCAST, MULTICAST")
            self.server.messaging.definitions.update_address(address, wanted)
        return definitions.describe_address(address)

    def delete_address(self, name: Any, force: Any = False) -> None:
        self.server.messaging.definitions.delete_address(as_text(name), as_bool(force))

    def address_rows(self) -> list[views.Row]:
        core = self.server.messaging.core
        return [views.address_row(address, len(core.known_duplicate_ids(name) or ())) for name, address in core.addresses.items()]

    def address_info(self, name: Any) -> str:
        return definitions.describe_address(self._address(name))

    def list_addresses(self, separator: Any) -> str:
        return as_text(separator).join(sorted(self.server.messaging.core.addresses, key=lambda name: (name.lower(), name)))

    def list_bindings(self, name: Any) -> str:
        address = self.server.messaging.core.addresses.get(as_text(name))
        return ",".join(map(definitions.describe_binding, () if address is None else address.queues))

    def _address(self, name: Any) -> Any:
        address = self.server.messaging.core.addresses.get(as_text(name))
        if address is None:
            raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {name}")
        return address

    # --- for other brokers

    def send_queue_info(self, queue_name: Any, address: Any) -> Steps[None]:
        """Send the description of each queue and consumer as a message to one queue, whose filter selects the messages."""
        queue = self.server.messaging.core.queues.get(as_text(queue_name))
        if queue is None:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {as_text(queue_name)[:100]} does not exist")
        return self.server.notifications.queue_info.send_to(queue)

    def update_duplicate_ids(self, address: Any, ids: Any) -> Steps[None] | None:
        """Remember duplicate ids of an address that keeps them.  Each id is a text, or a list of byte values."""
        name = as_text(address)
        check_length(name)
        if not isinstance(ids, list):
            raise ManagementError("the duplicate ids are not a list")
        core = self.server.messaging.core
        return None if core.duplicate_ids(name) is None else _remember(core, name, [_duplicate_id(value) for value in ids])

    def scale_down(self, connector: Any) -> None:
        """Stop this broker after its messages have moved to the broker at ``connector``, or, without one, to a broker that it finds."""
        try:
            self.server.others.scale_down_to(as_text(connector) if connector else None)
        except ValueError as error:
            raise ManagementError(str(error)) from error

    # --- users

    def users(self) -> UserAdministration:
        if self._users is None:
            raise ManagementError("this broker's users are not kept where management can change them")
        return self._users

    # --- figures

    def queue_rows(self) -> list[views.Row]:
        messaging = self.server.messaging
        return [views.queue_row(queue, messaging.pauses.is_kept(queue)) for queue in messaging.core.queues.values()]

    def queue_names(self, type_name: Any = None) -> list[str]:
        """The names of all queues, or of the queues with one routing type."""
        wanted = definitions.routing_type(type_name) if type_name else None
        queues = self.server.messaging.core.queues
        return sorted(name for name, queue in queues.items() if wanted is None or queue.definition.routing_type == wanted)

    def acceptor_names(self) -> list[str]:
        return [acceptor.name for acceptor in self.acceptors()]

    def replica_behind(self) -> int:
        copies = self.server.others.copies
        return NO_REPLICA if copies is None or copies.behind is None else copies.behind

    def memory_percentage(self) -> int:
        memory = self.server.messaging.core.global_memory
        return int(100 * memory.size / memory.max_bytes) if memory.max_bytes > 0 else 0

    def topology(self) -> str:
        """A JSON array of the members with ``host:port`` of primary and backup."""
        if self.server.cluster is not None:
            default = next(iter(self.server.cluster.connections.values()))
            return json.dumps([_member(member) for member in default.topology])
        entry: dict[str, Any] = {"nodeID": self.server.node_id}
        for acceptor in self.acceptors():
            if acceptor.addresses:
                address = acceptor.addresses[0]
                entry["primary"] = entry["live"] = f"{address.host}:{address.port}"
                break
        return json.dumps([entry])

    def uptime(self) -> str:
        seconds = (self.server.clock.wall_ms() - self.server.started_ms) / 1000
        minutes, rest = divmod(seconds, 60)
        hours, minutes = divmod(int(minutes), 60)
        days, hours = divmod(hours, 24)
        parts = [
            f"{days} days" if days else "",
            f"{hours} hours" if hours else "",
            f"{minutes} minutes" if minutes else "",
            f"{rest:.3f} seconds",
        ]
        return " ".join(part for part in parts if part)

    def total(self, count: Callable[[Queue], int]) -> int:
        return sum(count(queue) for queue in self.server.messaging.core.queues.values())


def _member(member: TopologyMember) -> dict[str, str]:
    entry = {"nodeID": member.node_id}
    for role, connector in (("primary", member.primary), ("live", member.primary), ("backup", member.backup)):
        if connector is not None:
            entry[role] = place(connector)
    return entry


def _duplicate_id(value: Any) -> bytes:
    if isinstance(value, str):
        return remembered(value.encode("utf-8", "surrogatepass"))
    try:
        return remembered(bytes(number & 0xFF for number in value))
    except TypeError as error:
        raise ManagementError(f"{value!r:.100} is not a duplicate id: expected a text or a list of bytes") from error


def _remember(core: MessagingCore, name: str, ids: list[bytes]) -> Steps[None]:
    for start in range(0, len(ids), DUPLICATE_IDS_AT_ONCE):
        cache = core.duplicate_ids(name)  # another one than before, where the address was deleted and made anew
        if cache is None:
            return
        some = ids[start : start + DUPLICATE_IDS_AT_ONCE]
        batch = core.store.begin()
        for duplicate_id in some:
            cache.add(duplicate_id, batch)
        core.store.commit(batch)
        yield len(some)


def _paged(rows: Callable[[BrokerControl], Iterable[views.Row]]) -> Operation:
    return Operation(lambda control, options, number, size: views.page(rows(control), options, number, size), 3)


BrokerControl.ATTRIBUTES = {
    **CONFIGURED_ATTRIBUTES,
    "Version": lambda control: control.version,
    "Active": lambda control: control.server.started,
    "Started": lambda control: control.server.started,
    "NodeID": lambda control: control.server.node_id,
    "CurrentTimeMillis": lambda control: control.server.clock.wall_ms(),
    "Uptime": BrokerControl.uptime,
    "UptimeMillis": lambda control: control.server.clock.wall_ms() - control.server.started_ms,
    "ConnectionCount": lambda control: len(control.server.connections),
    "TotalConnectionCount": lambda control: control.server.total_connections,
    "SessionCount": lambda control: len(control.server.sessions.by_name),
    "TotalSessionCount": lambda control: control.server.sessions.total,
    "TotalMessageCount": lambda control: control.total(lambda queue: queue.message_count),
    "TotalMessagesAdded": lambda control: control.total(lambda queue: queue.messages_added),
    "TotalMessagesAcknowledged": lambda control: control.total(lambda queue: queue.messages_acknowledged),
    "TotalConsumerCount": lambda control: control.total(lambda queue: queue.consumer_count),
    "AddressCount": lambda control: len(control.server.messaging.core.addresses),
    "AddressNames": lambda control: sorted(control.server.messaging.core.addresses),
    "QueueCount": lambda control: len(control.server.messaging.core.queues),
    "QueueNames": lambda control: sorted(control.server.messaging.core.queues),
    "AddressMemoryUsage": lambda control: control.server.messaging.core.global_memory.size,
    "AddressMemoryUsagePercentage": BrokerControl.memory_percentage,
    "GlobalMaxSize": lambda control: control.server.messaging.core.global_memory.max_bytes,
    "DiskStoreUsage": lambda control: control.disk_usage(),
    "Clustered": lambda control: control.server.cluster is not None,
    # Only an active broker takes requests, in every configured role.
    "Backup": lambda control: False,
    "ReplicaSync": lambda control: (copies := control.server.others.copies) is not None and copies.in_sync,
    "ReplicaBehind": BrokerControl.replica_behind,
    "ActivationSequence": lambda control: NO_SEQUENCE if (copies := control.server.others.copies) is None else copies.sequence,
    "BackupHost": lambda control: None if (colocated := control.server.others.colocated) is None else colocated.host,
    "HostedBackups": lambda control: views.hosted_backups(control.server.others.colocated),
    "DivertNames": lambda control: control.server.messaging.diverts.names(),
    "BridgeNames": lambda control: bridge_names(control.server),
    "ClusterConnectionNames": lambda control: cluster_connection_names(control.server),
    "BroadcastGroupNames": lambda control: list(control.server.others.broadcast_groups),
    "Acceptors": lambda control: [[name] for name in control.acceptor_names()],
    "AcceptorsAsJSON": lambda control: json.dumps([{"name": name} for name in control.acceptor_names()]),
    "AuthenticationCacheSize": lambda control: control.server.security.authentication_cache_size,
    "AuthorizationCacheSize": lambda control: control.server.security.authorization_cache_size,
    "AuthenticationSuccessCount": lambda control: control.server.security.authentication_successes,
    "AuthenticationFailureCount": lambda control: control.server.security.authentication_failures,
    "AuthorizationSuccessCount": lambda control: control.server.security.authorization_successes,
    "AuthorizationFailureCount": lambda control: control.server.security.authorization_failures,
    "WildcardRoutingEnabled": lambda control: control.server.configuration.wildcards.routing_enabled,
}

BrokerControl.OPERATIONS = {
    **TRANSACTION_OPERATIONS,
    **DIVERT_OPERATIONS,
    **BRIDGE_OPERATIONS,
    **READER_OPERATIONS,
    **SETTINGS_OPERATIONS,
    "createAddress": Operation(BrokerControl.create_address, 2),
    "updateAddress": Operation(BrokerControl.update_address, 2),
    "deleteAddress": Operation(BrokerControl.delete_address, 1, 2),
    "getAddressInfo": Operation(BrokerControl.address_info, 1),
    "listAddresses": Operation(
        lambda control, *parameters: (
            control.list_addresses(*parameters) if len(parameters) == 1 else views.page(control.address_rows(), *parameters)
        ),
        1,
        3,
    ),
    "listBindingsForAddress": Operation(BrokerControl.list_bindings, 1),
    "createQueue": Operation(
        lambda control, *parameters: queue_requests.create_queue(control.server.messaging, *parameters),
        1,
        queue_requests.CREATE_PARAMETERS,
    ),
    "updateQueue": Operation(lambda control, *parameters: queue_requests.update_queue(control.server.messaging, *parameters), 1, 4),
    "destroyQueue": Operation(lambda control, *parameters: queue_requests.destroy_queue(control.server.messaging, *parameters), 1, 3),
    "listQueues": _paged(BrokerControl.queue_rows),
    "listConnections": _paged(lambda control: map(views.connection_row, control.server.connections.values())),
    "listSessions": Operation(
        lambda control, *parameters: (
            [session.name for session in control.sessions_of(parameters[0])]
            if len(parameters) == 1
            else views.page(map(views.session_row, control.server.all_sessions()), *parameters)
        ),
        1,
        3,
    ),
    "listConsumers": _paged(lambda control: map(views.consumer_row, control.consumers())),
    "listProducers": _paged(lambda control: control.producer_rows()),
    "listConnectionIDs": Operation(lambda control: list(control.server.connections)),
    "listRemoteAddresses": Operation(
        lambda control, host=None: [
            connection.remote
            for connection in control.server.connections.values()
            if host is None or connection.remote.startswith(as_text(host))
        ],
        0,
        1,
    ),
    "listConnectionsAsJSON": Operation(BrokerControl.connections_json),
    "listSessionsAsJSON": Operation(lambda control, connection_id: control.sessions_json(control.sessions_of(connection_id)), 1),
    "listAllSessionsAsJSON": Operation(lambda control: control.sessions_json(control.server.all_sessions())),
    "listConsumersAsJSON": Operation(
        lambda control, connection_id: control.consumers_json(views.consumers_of(control.sessions_of(connection_id))), 1
    ),
    "listAllConsumersAsJSON": Operation(lambda control: control.consumers_json(control.consumers())),
    "listProducersInfoAsJSON": Operation(BrokerControl.producers_json),
    "listNetworkTopology": Operation(BrokerControl.topology),
    "closeConnectionWithID": Operation(BrokerControl.close_connection, 1),
    "closeConnectionsForAddress": Operation(
        lambda control, address: control.close_connections(lambda connection: connection.remote.rpartition(":")[0] == as_text(address)), 1
    ),
    "closeConnectionsForUser": Operation(
        lambda control, user: control.close_connections(
            lambda connection: any(session.subject.name == as_text(user) for session in connection.sessions.values())
        ),
        1,
    ),
    "closeConsumerConnectionsForAddress": Operation(lambda control, address: control.close_consumer_connections(as_text(address)), 1),
    "closeSessionWithID": Operation(BrokerControl.close_session, 2, 3),
    "closeConsumerWithID": Operation(BrokerControl.close_consumer, 2),
    "clearAuthenticationCache": Operation(lambda control: control.server.security.forget_logins()),
    "clearAuthorizationCache": Operation(lambda control: control.server.security.forget_permissions()),
    "getQueueNames": Operation(BrokerControl.queue_names, 0, 1),
    "getRolesAsJSON": Operation(lambda control, match: roles_as_json(control.server.security.repository.lookup(as_text(match))), 1),
    "addUser": Operation(
        lambda control, name, password, roles, plaintext=False: control.users().add(
            as_text(name), as_text(password), as_text(roles), as_bool(plaintext)
        ),
        3,
        4,
    ),
    "removeUser": Operation(lambda control, name: control.users().remove(as_text(name)), 1),
    "resetUser": Operation(
        lambda control, name, password, roles=None, plaintext=False: control.users().reset(
            as_text(name), as_text(password), None if roles is None else as_text(roles), as_bool(plaintext)
        ),
        2,
        4,
    ),
    "scaleDown": Operation(BrokerControl.scale_down, 1),
    "forceFailover": Operation(lambda control: control.server.others.fail_over()),
    "sendQueueInfoToQueue": Operation(BrokerControl.send_queue_info, 2),
    "updateDuplicateIdCache": Operation(BrokerControl.update_duplicate_ids, 2),
    "listUser": Operation(lambda control, name=None: json.dumps(control.users().list(as_text(name))), 0, 1),
}
