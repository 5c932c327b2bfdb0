"""The resource ``address.NAME``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.readers import check_free
from mqbroker.server.management.registry import Operation, Resource, as_bool
from mqbroker.server.management.sent_messages import send_message

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


def roles_as_json(permissions: Mapping[str, frozenset[str]]) -> str:
    """A JSON array of roles with a flag per permission."""
    return json.dumps([dict(zip(("name", *PERMISSIONS), role, strict=True)) for role in roles_as_lists(permissions)])


def roles_as_lists(permissions: Mapping[str, frozenset[str]]) -> list[list[Any]]:
    """A list for each role: its name, then True or False for each of :data:`PERMISSIONS`."""
    names = sorted({role for roles in permissions.values() for role in roles})
    return [[name, *(name in permissions.get(kind, ()) for kind in PERMISSIONS)] for name in names]


class AddressControl(Resource):
    """One address."""

    def __init__(self, server: Server, address: Address) -> None:
        self.server = server
        self.address = address

    def roles(self) -> dict[str, frozenset[str]]:
        return self.server.security.repository.lookup(self.address.name)

    def send_message(self, *parameters: Any) -> str:
        """Send a message to the address; returns its id."""
        return send_message(self.server, self.address.name, None, *parameters)

    def pause(self, persist: Any = False) -> None:
        self.server.messaging.pauses.pause(self.address, as_bool(persist))

    def resume(self) -> None:
        self.server.messaging.pauses.resume(self.address)

    def block(self) -> bool:
        self.address.memory.blocked = True
        return True

    def purge(self) -> Steps[int]:
        for queue in self.address.queues:
            check_free(queue)
        return self._purge(list(self.address.queues))

    def _purge(self, queues: list[Queue]) -> Steps[int]:
        count = 0
        for queue in queues:
            count += yield from self.server.messaging.removal.purge_steps(queue)
        return count

    def clear_duplicate_ids(self) -> bool:
        self.server.messaging.core.forget_duplicate_ids(self.address.name)
        return True

    def duplicate_ids(self) -> int:
        cache = self.server.messaging.core.known_duplicate_ids(self.address.name)
        return 0 if cache is None else len(cache)


def _address(getter: Callable[[Address], Any]) -> Callable[[AddressControl], Any]:
    return lambda control: getter(control.address)


def _queue_names(address: Address) -> list[str]:
    return [queue.name for queue in address.queues]


AddressControl.ATTRIBUTES = {
    "Id": _address(lambda address: address.address_id),
    "Address": _address(lambda address: address.name),
    "RoutingTypes": _address(lambda address: [ROUTING_TYPE_NAMES[kind] for kind in sorted(address.routing_types)]),
    "RoutingTypesAsJSON": _address(lambda address: json.dumps([ROUTING_TYPE_NAMES[kind] for kind in sorted(address.routing_types)])),
    "Roles": lambda control: roles_as_lists(control.roles()),
    "RolesAsJSON": lambda control: roles_as_json(control.roles()),
    "AddressSize": _address(lambda address: address.memory.size),
    "AddressLimitPercent": _address(lambda address: address.limit_percent),
    "QueueNames": _address(_queue_names),
    "AllQueueNames": _address(_queue_names),
    "RemoteQueueNames": lambda control: [],
    "BindingNames": lambda control: [
        *_queue_names(control.address),
        *control.server.messaging.diverts.names_on(control.address.name),
    ],
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
    "pause": Operation(AddressControl.pause, 0, 1),
    "resume": Operation(AddressControl.resume),
    "block": Operation(AddressControl.block),
    "unblock": Operation(lambda control: control.address.memory.unblock()),
    "purge": Operation(AddressControl.purge),
    "schedulePageCleanup": Operation(lambda control: None),
    "clearDuplicateIdCache": Operation(AddressControl.clear_duplicate_ids),
    "getRolesAsJSON": Operation(lambda control: roles_as_json(control.roles())),
}
