"""Destinations: queues are anycast addresses with a queue of the same name, topics are multicast addresses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.config.imq.destinations import (
    DEAD_MESSAGE_QUEUE,
    AttributeRefused,
    Beans,
    parse_attributes,
    settings_with,
    shown_attributes,
)
from mqbroker.config.model.address_settings import ANYCAST, MULTICAST
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.config.model.internal_names import NOTIFICATION_QUEUE
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.queue_control import QueueControl
from mqbroker.server.management.registry import ManagementError, ServerResource, as_object, as_text
from mqbroker.server.management.settings_control import SETTINGS_OPERATIONS
from mqbroker.server.security.kept_settings import address_setting_as_json
from mqbroker.server.transport.naming import check_length

if TYPE_CHECKING:
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.server import Server

Pair = tuple[str, str]

QUEUE, TOPIC = "q", "t"
TYPE_NAMES = {QUEUE: "Queue", TOPIC: "Topic"}
ROUTING = {QUEUE: ANYCAST, TOPIC: MULTICAST}
_INTERNAL = ("$", NOTIFICATION_QUEUE, "activemq.")
"""Begin the names of addresses that brokers have for themselves."""


class Destinations:
    """Creates, changes, ends and shows destinations.

    ``flow_limit`` is ``imq.cluster.consumerFlowLimit``; ``held`` counts the messages of other members that are here for consumers of a
    queue.
    Each method raises ManagementError, the errors of the registrar, and Undecided while that has not decided.
    """

    def __init__(self, server: Server, flow_limit: int, held: Callable[[Queue], int]) -> None:
        self._server = server
        self._flow_limit = flow_limit
        self._held = held
        self._control = ServerResource(server)

    # --- changes

    def create(self, kind: Any, name: Any, attributes: Any = None) -> None:
        """Make a queue or topic.  A repetition does no harm: the settings come first, which mean nothing without the destination."""
        which, label = _type(kind), as_text(name)
        check_length(label)
        if not label or any(character.isspace() for character in label):
            raise ManagementError(f"The destination name '{label}' is not valid")
        if self._find(which, label) is not None:
            raise ManagementError(f"Can not create Destination {which.upper()}:{label} - the destination already exists")
        values = _attributes(which, attributes)
        self._keep(label, settings_with({}, values))
        definitions = self._server.messaging.definitions
        if which == TOPIC:
            address = self._server.messaging.core.addresses.get(label)
            types = frozenset((MULTICAST,)) | (frozenset() if address is None else address.routing_types)
            definitions.create_address(label, types)
        else:
            consumers = values.get("maxNumActiveConsumers")
            definitions.create_queue(QueueConfiguration(label, label, ANYCAST, max_consumers=consumers), auto_create_address=True)

    def update(self, kind: Any, name: Any, attributes: Any) -> None:
        """Change attributes of a destination; it is changed on all brokers."""
        which, label = _type(kind), as_text(name)
        self._needed(which, label)
        values = _attributes(which, attributes)
        consumers = values.get("maxNumActiveConsumers")
        queue = self._server.messaging.core.queues.get(label)
        if consumers is not None and queue is not None and queue.definition.max_consumers != consumers:
            if 0 <= consumers < queue.consumer_count:
                raise ManagementError(f"Destination {label} has {queue.consumer_count} consumers: expected a limit of at least that")
            self._server.messaging.definitions.update_queue(queue, max_consumers=consumers)
        self._keep(label, settings_with(self._kept(label), values))

    def destroy(self, kind: Any, name: Any) -> None:
        """Remove a destination with its messages, its consumers and its settings."""
        which, label = _type(kind), as_text(name)
        address = self._needed(which, label)
        if label == DEAD_MESSAGE_QUEUE:
            raise ManagementError(f"Destination {label} cannot be destroyed: dead messages go to it")
        definitions = self._server.messaging.definitions
        both = address.routing_types == {ANYCAST, MULTICAST}
        if not both:
            self._keep(label, {})
            definitions.delete_address(label, True)
            return
        for queue in [each for each in address.queues if each.definition.routing_type == ROUTING[which]]:
            definitions.delete_queue(queue, remove_consumers=True)
        definitions.update_address(address, address.routing_types - {ROUTING[which]})

    def purge(self, kind: Any, name: Any) -> Steps[int]:
        """Remove all messages; the result is their number."""
        which, label = _type(kind), as_text(name)
        return self._purge(list(self._queues(self._needed(which, label), which)))

    def _purge(self, queues: list[Queue]) -> Steps[int]:
        count = 0
        for queue in queues:
            count += yield from QueueControl(self._server, queue).purge()
        return count

    # --- views

    def rows(self, kind: Any = None, temporary: Any = False) -> list[dict[str, Any]]:
        """Each destination with its counts, by name."""
        types = [_type(kind)] if kind else [QUEUE, TOPIC]
        return [
            self._row(which, address)
            for name, address in sorted(self._server.messaging.core.addresses.items())
            for which in types
            if self._find(which, name) is address and (temporary or not self._is_temporary(address))
        ]

    def _row(self, which: str, address: Address) -> dict[str, Any]:
        queues = list(self._queues(address, which))
        count = sum(queue.message_count for queue in queues)
        size = sum(queue.persistent_size for queue in queues)
        return {
            "name": address.name,
            "type": TYPE_NAMES[which] + (" (temporary)" if self._is_temporary(address) else ""),
            "state": "PAUSED" if address.paused or any(queue.paused for queue in queues) else "RUNNING",
            "producers": self._producers(address.name),
            "consumers": sum(queue.consumer_count for queue in queues),
            "msgs": count,
            "remote": sum(map(self._held, queues)),
            "unAck": sum(queue.delivering for queue in queues),
            "inDelay": sum(queue.scheduled.count for queue in queues),
            "avgSize": round(size / count, 1) if count else 0.0,
        }

    def query(self, kind: Any, name: Any) -> list[list[Pair]]:
        """The answer to ``query dst``: groups of titles and values."""
        which, label = _type(kind), as_text(name)
        address = self._needed(which, label)
        row, queues = self._row(which, address), list(self._queues(address, which))
        queue = which == QUEUE
        size = sum(each.persistent_size for each in queues)
        limit = queues[0].definition.max_consumers if queue and queues else None
        numbers = [("Actual", row["msgs"]), ("Remote", row["remote"]), ("In Delay Delivery", row["inDelay"])]
        settings = address.settings
        return [
            [
                ("Destination Name", label),
                ("Destination Type", TYPE_NAMES[which]),
                ("Destination State", row["state"]),
                ("Created Administratively", "false" if self._server.messaging.core.is_automatic(address) else "true"),
            ],
            [
                ("Current Number of Messages", ""),
                *((f"    {title}", str(value)) for title, value in numbers),
                ("    Held in Transaction", str(sum(each.arriving for each in queues))),
                ("Current Message Bytes", ""),
                ("    Actual", str(size)),
                *_clients(queue, row["producers"], row["consumers"]),
            ],
            list(shown_attributes(settings, limit, self._flow_limit, queue).items()),
        ]

    # --- inside

    def _find(self, which: str, name: str) -> Address | None:
        address = self._server.messaging.core.addresses.get(name)
        if address is None or address.internal or name.startswith(_INTERNAL) or ROUTING[which] not in address.routing_types:
            return None
        return address

    def _needed(self, which: str, name: str) -> Address:
        address = self._find(which, name)
        if address is None:
            raise ManagementError(f"Unknown destination {name} of type {TYPE_NAMES[which]}")
        return address

    @staticmethod
    def _queues(address: Address, which: str) -> Iterator[Queue]:
        return (queue for queue in address.queues if queue.definition.routing_type == ROUTING[which])

    @staticmethod
    def _is_temporary(address: Address) -> bool:
        return address.temporary or any(queue.definition.temporary for queue in address.queues if queue.name == address.name)

    def _producers(self, name: str) -> int:
        return sum(address == name for session in self._server.all_sessions() for address in session.sends.producers.values())

    def _kept(self, name: str) -> Beans:
        kept: Mapping[str, Any] = self._server.messaging.core.settings.get(name) or {}
        return dict(json.loads(address_setting_as_json(kept)))

    def _keep(self, name: str, beans: Beans) -> None:
        """Let the settings of exactly this name be ``beans``; nobody is asked where they are so already."""
        if self._kept(name) == beans:
            return
        operation = "addAddressSettings" if beans else "removeAddressSettings"
        SETTINGS_OPERATIONS[operation].call(self._control, name, *([json.dumps(beans)] if beans else []))


def _clients(queue: bool, producers: int, consumers: int) -> list[Pair]:
    """The numbers of clients, for ``query dst``.  Backup consumers and clients of several topics by a wildcard do not exist here."""
    if queue:
        titles = {"Producers": producers, "Active Consumers": consumers, "Backup Consumers": 0}
    else:
        titles = {"Producers": producers, "Producer Wildcards": 0, "Consumers": consumers, "Consumer Wildcards": 0}
    return [(f"Current Number of {title}", str(count)) for title, count in titles.items()]


def _type(kind: Any) -> str:
    text = as_text(kind)
    if text not in TYPE_NAMES:
        raise ManagementError(f"The destination type '{text}' is not valid.")
    return text


def _attributes(which: str, given: Any) -> dict[str, Any]:
    texts = as_object(given, "the attributes are") if given else {}
    try:
        return parse_attributes({name: as_text(value) for name, value in texts.items()}, which == QUEUE)
    except AttributeRefused as error:
        raise ManagementError(str(error)) from error
