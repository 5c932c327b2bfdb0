"""The resource ``address.NAME``."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.address import Address
from mqbroker.messaging.context import OperationContext
from mqbroker.messaging.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.message import Message
from mqbroker.messaging.steps import Steps
from mqbroker.server.management.registry import ManagementError, Operation, Resource, as_bool, as_int
from mqbroker.server.management.views import limit_percent
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import TYPE_BYTES, TYPE_TEXT, CoreMessage
from mqclient.wire.properties import STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.server.server import Server

PERMISSIONS = (
    "send",
    "consume",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "manage",
    "browse",
    "createAddress",
    "deleteAddress",
    "view",
    "edit",
)
"""Permissions in the order in which the manual's role objects list them."""


def roles_as_json(permissions: dict[str, frozenset[str]]) -> str:
    """A JSON array of roles with a flag per permission."""
    names = sorted({role for roles in permissions.values() for role in roles})
    return json.dumps([{"name": name, **{kind: name in permissions.get(kind, ()) for kind in PERMISSIONS}} for name in names])


class AddressControl(Resource):
    """One address."""

    def __init__(self, server: Server, address: Address) -> None:
        self.server = server
        self.address = address

    def roles(self) -> dict[str, frozenset[str]]:
        return self.server.security.permissions_of(self.address.name)

    def send_message(self, headers: Any, type: Any, body: Any, durable: Any, user: Any, password: Any, create_id: Any = False) -> str:
        """Send a message to the address; returns its id."""
        server = self.server
        kind = as_int(type)
        if kind == TYPE_TEXT:
            content = encode_text(None if body is None else str(body))
        else:
            try:
                content = base64.b64decode(str(body or ""), validate=True)
            except (binascii.Error, ValueError) as error:
                raise ManagementError(f"the body is not base64: {error}") from error
        properties: dict[str, TypedValue] = {str(key): (STRING, str(value)) for key, value in (headers or {}).items()}
        message = CoreMessage(
            message_id=server.store.next_id(),
            address=self.address.name,
            type=kind if kind else TYPE_BYTES,
            durable=as_bool(durable),
            timestamp=server.clock.wall_ms(),
            properties=properties,
            body=content,
        )
        server.messaging.sending.send(Message.of(message), self.address.name, None, None, OperationContext(server.store))
        return str(message.message_id)

    def set_paused(self, paused: bool) -> None:
        self.address.paused = paused
        if not paused:
            for queue in self.address.queues:
                self.server.turn.mark_queue(queue)

    def block(self) -> bool:
        self.address.memory.blocked = True
        return True

    def purge(self) -> Steps[int]:
        count = 0
        for queue in list(self.address.queues):
            count += yield from self.server.messaging.removal.purge_steps(queue)
        return count

    def clear_duplicate_ids(self) -> bool:
        self.server.messaging.core.forget_duplicate_ids(self.address.name)
        return True

    def duplicate_ids(self) -> int:
        cache = self.server.messaging.core.known_duplicate_ids(self.address.name)
        return 0 if cache is None else len(cache)


def _pause(control: AddressControl, persist: Any = False) -> None:
    if as_bool(persist):
        raise ManagementError("a pause that survives a restart is not supported by this broker; call pause() without it")
    control.set_paused(True)


def _address(getter: Callable[[Address], Any]) -> Callable[[AddressControl], Any]:
    return lambda control: getter(control.address)


def _queue_names(address: Address) -> list[str]:
    return [queue.name for queue in address.queues]


AddressControl.ATTRIBUTES = {
    "Id": _address(lambda address: address.address_id),
    "Address": _address(lambda address: address.name),
    "RoutingTypes": _address(lambda address: [ROUTING_TYPE_NAMES[kind] for kind in sorted(address.routing_types)]),
    "RoutingTypesAsJSON": _address(lambda address: json.dumps([ROUTING_TYPE_NAMES[kind] for kind in sorted(address.routing_types)])),
    "Roles": lambda control: json.loads(roles_as_json(control.roles())),
    "RolesAsJSON": lambda control: roles_as_json(control.roles()),
    "AddressSize": _address(lambda address: address.memory.size),
    "AddressLimitPercent": _address(limit_percent),
    "QueueNames": _address(_queue_names),
    "AllQueueNames": _address(_queue_names),
    "RemoteQueueNames": lambda control: [],
    "BindingNames": _address(_queue_names),
    "QueueCount": _address(lambda address: len(address.queues)),
    "MessageCount": _address(lambda address: sum(queue.message_count for queue in address.queues)),
    "NumberOfMessages": _address(lambda address: sum(queue.message_count for queue in address.queues)),
    "RoutedMessageCount": _address(lambda address: address.routed_messages),
    "UnRoutedMessageCount": _address(lambda address: address.unrouted_messages),
    "NumberOfPages": _address(lambda address: address.memory.page_count),
    "Paging": _address(lambda address: address.memory.paging is not None),
    "NumberOfBytesPerPage": _address(lambda address: address.settings.page_size_bytes),
    "MaxPageReadBytes": _address(lambda address: address.settings.max_read_page_bytes),
    "MaxPageReadMessages": _address(lambda address: address.settings.max_read_page_messages),
    "PrefetchPageBytes": _address(lambda address: address.settings.prefetch_page_bytes),
    "PrefetchPageMessages": _address(lambda address: address.settings.prefetch_page_messages),
    "Paused": _address(lambda address: address.paused),
    "RetroactiveResource": lambda control: False,
    "CurrentDuplicateIdCacheSize": AddressControl.duplicate_ids,
    "AutoCreated": _address(lambda address: address.auto_created),
    "Internal": _address(lambda address: address.internal),
    "Temporary": _address(lambda address: address.temporary),
}

AddressControl.OPERATIONS = {
    "sendMessage": Operation(AddressControl.send_message, 6, 7),
    "pause": Operation(_pause, 0, 1),
    "resume": Operation(lambda control: control.set_paused(False)),
    "block": Operation(AddressControl.block),
    "unblock": Operation(lambda control: control.address.memory.unblock()),
    "purge": Operation(AddressControl.purge),
    "schedulePageCleanup": Operation(lambda control: None),
    "clearDuplicateIdCache": Operation(AddressControl.clear_duplicate_ids),
    "getRolesAsJSON": Operation(lambda control: roles_as_json(control.roles())),
}
