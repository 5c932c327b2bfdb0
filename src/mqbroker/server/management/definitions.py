"""Queues and addresses as management requests describe them: JSON objects with the manual's hyphenated names."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.management.registry import ManagementError, as_bool, as_int, as_text
from mqbroker.server.transport.naming import split_qualified

_TYPES = {name: number for number, name in ROUTING_TYPE_NAMES.items()}

_BOOLEANS = (
    "durable",
    "exclusive",
    "group_rebalance",
    "group_rebalance_pause_dispatch",
    "last_value",
    "non_destructive",
    "purge_on_no_consumers",
    "enabled",
    "auto_delete",
    "configuration_managed",
    "temporary",
    "transient",
    "auto_created",
)
_NUMBERS = (
    "max_consumers",
    "group_buckets",
    "consumers_before_dispatch",
    "delay_before_dispatch",
    "auto_delete_delay",
    "auto_delete_message_count",
    "ring_size",
)
_TEXTS = ("filter_string", "user", "group_first_key", "last_value_key")


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
    """A queue from its JSON form, and which attributes were given.  Raises ManagementError."""
    if isinstance(text, dict):
        given = text
    else:
        try:
            given = json.loads(as_text(text))
        except (ValueError, RecursionError) as error:
            raise ManagementError(f"the queue configuration is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ManagementError("the queue configuration is not a JSON object")
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
    for attribute in _BOOLEANS:
        if attribute in values:
            changes[attribute] = as_bool(values[attribute])
    for attribute in _NUMBERS:
        if attribute in values:
            changes[attribute] = as_int(values[attribute])
    for attribute in _TEXTS:
        if attribute in values:
            changes[attribute] = as_text(values[attribute])
    for attribute, value in changes.items():
        setattr(configuration, attribute, value)
    return configuration, changes


def auto_create_address(given: Any) -> bool | None:
    """Whether the address is to be made with a queue, of which :func:`parse_queue` takes the description; None: it does not say."""
    values = given if isinstance(given, dict) else json.loads(as_text(given))
    value = values.get("auto-create-address")
    return None if value is None else as_bool(value)


def describe_queue(queue: Queue) -> str:
    """The JSON text that queue operations return."""
    definition = queue.definition
    values = {
        "id": queue.queue_id,
        "name": queue.name,
        "address": definition.address,
        "routing-type": ROUTING_TYPE_NAMES[definition.routing_type],
        "filter-string": definition.filter_string,
        "durable": definition.durable,
        "user": definition.user,
        "max-consumers": definition.max_consumers,
        "exclusive": queue.definition.exclusive,
        "group-rebalance": definition.group_rebalance,
        "group-rebalance-pause-dispatch": definition.group_rebalance_pause_dispatch,
        "group-buckets": definition.group_buckets,
        "group-first-key": definition.group_first_key,
        "last-value": definition.last_value,
        "last-value-key": definition.last_value_key,
        "non-destructive": definition.non_destructive,
        "purge-on-no-consumers": definition.purge_on_no_consumers,
        "enabled": None if definition.enabled else False,
        "consumers-before-dispatch": definition.consumers_before_dispatch,
        "delay-before-dispatch": definition.delay_before_dispatch,
        "auto-delete": definition.auto_delete,
        "auto-delete-delay": definition.auto_delete_delay,
        "auto-delete-message-count": definition.auto_delete_message_count,
        "ring-size": definition.ring_size,
        "configuration-managed": definition.configuration_managed,
        "temporary": definition.temporary,
        "auto-create-address": True,
        "internal": definition.internal,
        "transient": definition.transient,
        "auto-created": definition.auto_created,
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
"""Attributes in the line about a queue, and their names in its JSON form; one is told twice, under the name of another, as by Artemis."""


def queue_line(queue: Queue | str) -> str:
    """The line that the command line prints about a queue, or about one in its JSON form.  Raises ValueError for another text."""
    values = json.loads(queue if isinstance(queue, str) else describe_queue(queue))
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    left_out = {"filter-string": None, "max-consumers": -1}
    shown = ((label, name, values.get(name)) for label, name in _SHOWN)
    told = (f"{label}={_word(value)}" for label, name, value in shown if name not in left_out or value not in (None, left_out[name]))
    return f"Queue [{', '.join(told)}]"


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
