"""Queues, addresses and transformers as management requests describe them: JSON objects with the manual's hyphenated names."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.cluster import TransformerConfiguration
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.management.registry import ManagementError, as_bool, as_int, as_object, as_text
from mqbroker.server.transport.naming import split_qualified
from mqclient.errors import QueueDoesNotExistError

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging

_TYPES = {name: number for number, name in ROUTING_TYPE_NAMES.items()}

_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "filter_string": as_text,
    "durable": as_bool,
    "user": as_text,
    "max_consumers": as_int,
    "exclusive": as_bool,
    "group_rebalance": as_bool,
    "group_rebalance_pause_dispatch": as_bool,
    "group_buckets": as_int,
    "group_first_key": as_text,
    "last_value": as_bool,
    "last_value_key": as_text,
    "non_destructive": as_bool,
    "purge_on_no_consumers": as_bool,
    "enabled": as_bool,
    "consumers_before_dispatch": as_int,
    "delay_before_dispatch": as_int,
    "auto_delete": as_bool,
    "auto_delete_delay": as_int,
    "auto_delete_message_count": as_int,
    "ring_size": as_int,
    "configuration_managed": as_bool,
    "temporary": as_bool,
    "transient": as_bool,
    "auto_created": as_bool,
}
"""Attributes of a queue beside names and routing type, each with the function that reads its value, in the order of an answer."""


def routing_type(text: Any) -> int:
    """The number of a routing type's name.  Raises ManagementError."""
    found = _TYPES.get(as_text(text).strip().upper())
    if found is None:
        raise ManagementError(f"Invalid routing type provided: {text}; expected ANYCAST or MULTICAST")
    return found


def parse_routing_types(text: Any) -> frozenset[int]:
    """The routing types of a comma list.  Raises ManagementError."""
    return frozenset(routing_type(part) for part in as_text(text).split(",") if part.strip())


def parse_queue(text: Any) -> tuple[QueueConfiguration, dict[str, Any]]:
    """A queue from its JSON form, and the values of the attributes that were given.  Raises ManagementError."""
    given = as_object(text, "the queue configuration is")
    values = {str(key).replace("-", "_"): value for key, value in given.items() if value is not None}
    name = as_text(values.get("name"))
    if not name:
        raise ManagementError("AMQ229229: 'name' is required")
    qualifier, qualified = split_qualified(name)
    configuration = QueueConfiguration(name=qualified or name)
    configuration.address = qualifier if qualified else as_text(values.get("address")) or name
    changes: dict[str, Any] = {}
    if "routing_type" in values:
        configuration.routing_type = changes["routing_type"] = routing_type(values["routing_type"])
    changes |= {attribute: read(values[attribute]) for attribute, read in _ATTRIBUTES.items() if attribute in values}
    for attribute, value in changes.items():
        setattr(configuration, attribute, value)
    return configuration, changes


def parse_transformer(value: Any, subject: str) -> TransformerConfiguration:
    """A transformer from an object with ``class-name`` and ``properties``, each object given as such or as JSON.

    Raises ManagementError, whose sentence begins with ``subject``.
    """
    given = as_object(value, subject)
    properties = as_object(given.get("properties") or {}, subject)
    return TransformerConfiguration(as_text(given.get("class-name")), {str(key): as_text(each) for key, each in properties.items()})


def find_queue(messaging: Messaging, name: Any) -> Queue:
    """Raises QueueDoesNotExistError."""
    queue = messaging.core.queues.get(as_text(name))
    if queue is None:
        raise QueueDoesNotExistError(f"AMQ229017: Queue {name} does not exist")
    return queue


def describe_queue(queue: Queue) -> str:
    """The JSON text that queue operations return."""
    definition = queue.definition
    values = {
        "id": queue.queue_id,
        "name": queue.name,
        "address": definition.address,
        "routing-type": ROUTING_TYPE_NAMES[definition.routing_type],
        **{name.replace("_", "-"): getattr(definition, name) for name in _ATTRIBUTES},
        "enabled": None if definition.enabled else False,
        "auto-create-address": True,
        "internal": definition.internal,
        "fqqn": False,
    }
    return json.dumps({name: value for name, value in values.items() if value is not None}, ensure_ascii=False, separators=(",", ":"))


_SHOWN = (
    ("name", "name"),
    ("address", "address"),
    ("routingType", "routing-type"),
    ("filter", "filter-string"),
    ("durable", "durable"),
    ("maxConsumers", "max-consumers"),
    ("purgeOnNoConsumers", "purge-on-no-consumers"),
    ("autoCreateAddress", "auto-created"),
    ("exclusive", "exclusive"),
    ("lastValue", "last-value"),
    ("lastValueKey", "last-value-key"),
    ("nonDestructive", "non-destructive"),
    ("consumersBeforeDispatch", "consumers-before-dispatch"),
    ("delayBeforeDispatch", "delay-before-dispatch"),
    ("autoCreateAddress", "auto-created"),
)
"""Attributes in the line about a queue, and their names in its JSON form.  As in Artemis the line shows ``auto-created`` twice."""


def queue_line(queue: Queue | str) -> str:
    """The line that the command line prints about a queue, given as such or as the text of :func:`describe_queue`.

    Raises ValueError for another text.
    """
    values = json.loads(queue if isinstance(queue, str) else describe_queue(queue))
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    left_out = {"filter-string": None, "max-consumers": -1}
    shown = ((label, name, values.get(name)) for label, name in _SHOWN)
    parts = (f"{label}={_word(value)}" for label, name, value in shown if name not in left_out or value not in (None, left_out[name]))
    return f"Queue [{', '.join(parts)}]"


def _word(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def type_names(types: Collection[int]) -> str:
    """The names of routing types, in the order of their numbers, with commas between."""
    return ",".join(ROUTING_TYPE_NAMES[kind] for kind in sorted(types))


def describe_address(address: Address) -> str:
    """The text that address operations return."""
    types = type_names(address.routing_types)
    return f"Address [name={address.name}, routingTypes={{{types}}}, autoCreated={str(address.auto_created).lower()}]"


def describe_binding(queue: Queue) -> str:
    """The text about a queue among the bindings of its address."""
    text = queue.definition.filter_string
    return f"LocalQueueBinding [address={queue.definition.address}, queue={queue.name}{f', filter={text}' if text else ''}]"
