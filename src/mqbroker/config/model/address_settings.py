"""The settings of an address: all elements of an ``address-setting`` of broker.xml.

Each element is a field here, written with underscores.  One ``address-setting`` is a *partial*: a dictionary of the fields that it sets.
:func:`merge` lays partials over each other, the most specific first (Artemis manual, chapter on address settings).

Units: delays and periods are milliseconds unless the field says otherwise, sizes are bytes, -1 means "no limit" or "off".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

MULTICAST = 0
ANYCAST = 1

PartialSettings = Mapping[str, Any]
"""Some fields of :class:`AddressSettings` by name."""


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """Settings of one address, every default filled in."""

    dead_letter_address: str | None = None
    auto_create_dead_letter_resources: bool = False
    dead_letter_queue_prefix: str = "DLQ."
    dead_letter_queue_suffix: str = ""
    expiry_address: str | None = None
    auto_create_expiry_resources: bool = False
    expiry_queue_prefix: str = "EXP."
    expiry_queue_suffix: str = ""
    expiry_delay: int = -1
    min_expiry_delay: int = -1
    max_expiry_delay: int = -1
    no_expiry: bool = False
    max_delivery_attempts: int = 10
    """-1 and 0 mean for ever."""
    redelivery_delay: int = 0
    redelivery_delay_multiplier: float = 1.0
    redelivery_collision_avoidance_factor: float = 0.0
    max_redelivery_delay: int | None = None
    """None means ten times ``redelivery_delay``."""
    send_to_dla_on_no_route: bool = False
    address_full_policy: str = "PAGE"
    """PAGE, DROP, BLOCK or FAIL."""
    max_size_bytes: int = -1
    max_size_messages: int = -1
    max_size_bytes_reject_threshold: int = -1
    page_size_bytes: int = 10485760
    max_read_page_bytes: int = 20971520
    """Unless it is set: twice ``page_size_bytes``."""
    max_read_page_messages: int = -1
    prefetch_page_bytes: int = 20971520
    """Unless it is set: ``max_read_page_bytes``."""
    prefetch_page_messages: int = -1
    """Unless it is set: ``max_read_page_messages``."""
    page_limit_bytes: int | None = None
    page_limit_messages: int | None = None
    page_full_policy: str | None = None
    """DROP or FAIL."""
    disk_full_policy: str = "BLOCK"
    """BLOCK, FAIL or DROP."""
    page_max_cache_size: int = 5
    default_address_routing_type: int = MULTICAST
    default_queue_routing_type: int = MULTICAST
    auto_create_addresses: bool = True
    auto_create_queues: bool = True
    auto_delete_addresses: bool = True
    auto_delete_queues: bool = True
    auto_delete_addresses_delay: int = 0
    auto_delete_queues_delay: int = 0
    auto_delete_addresses_skip_usage_check: bool = False
    auto_delete_queues_skip_usage_check: bool = False
    auto_delete_queues_message_count: int = 0
    auto_delete_created_queues: bool = False
    config_delete_addresses: str = "OFF"
    """OFF or FORCE, as are the next two."""
    config_delete_queues: str = "OFF"
    config_delete_diverts: str = "OFF"
    default_max_consumers: int = -1
    default_purge_on_no_consumers: bool = False
    default_exclusive_queue: bool = False
    default_group_rebalance: bool = False
    default_group_rebalance_pause_dispatch: bool = False
    default_group_buckets: int = -1
    default_group_first_key: str | None = None
    default_last_value_queue: bool = False
    default_last_value_key: str | None = None
    default_non_destructive: bool = False
    default_consumers_before_dispatch: int = 0
    default_delay_before_dispatch: int = -1
    default_ring_size: int = -1
    default_consumer_window_size: int = 1048576
    """Bytes; a client uses it when its own window is the default."""
    retroactive_message_count: int = 0
    redistribution_delay: int = -1
    slow_consumer_threshold: int = -1
    slow_consumer_threshold_measurement_unit: str = "MESSAGES_PER_SECOND"
    slow_consumer_check_period: int = 5
    """Seconds."""
    slow_consumer_policy: str = "NOTIFY"
    """NOTIFY or KILL."""
    id_cache_size: int = 20000
    """Unless it is set: ``id-cache-size`` of the broker."""
    initial_queue_buffer_size: int = 8192
    management_browse_page_size: int = 200
    management_message_attribute_size_limit: int = 256
    message_counter_history_day_limit: int = 0
    """Days."""
    enable_metrics: bool = True
    enable_ingress_timestamp: bool = False
    consumer_flow_limit: int | None = None
    """Of home brokers: messages under way to a remote consumer, below the limit of the cluster; None: that limit."""
    local_delivery_preferred: bool = False
    """Of home brokers: consumers of the broker that keeps a message come before those of other members."""
    auto_create_jms_queues: bool = True
    auto_create_jms_topics: bool = True
    auto_delete_jms_queues: bool = True
    auto_delete_jms_topics: bool = True


_NOTHING = {"dead_letter_address": "", "expiry_address": "", "page_limit_bytes": -1, "page_limit_messages": -1}
"""Values by which a match takes back what a more general one says: without them the field would have the value of that one."""

FIELD_NAMES = frozenset(field.name for field in fields(AddressSettings))


def merge(partials: Iterable[PartialSettings], defaults: AddressSettings) -> AddressSettings:
    """The settings that come out when ``partials``, the most specific first, are laid over ``defaults``.

    A field takes the first value that is not None.  Raises KeyError for a field that does not exist.
    """
    merged: dict[str, Any] = {}
    for partial in partials:
        for name, value in partial.items():
            if name not in FIELD_NAMES:
                raise KeyError(name)
            if value is not None and name not in merged:
                merged[name] = value
    merged |= {name: None for name, nothing in _NOTHING.items() if merged.get(name) == nothing}
    _derive(merged)
    return AddressSettings(**{name: getattr(defaults, name) for name in FIELD_NAMES - merged.keys()}, **merged)


def _derive(merged: dict[str, Any]) -> None:
    if "page_size_bytes" in merged:
        merged.setdefault("max_read_page_bytes", 2 * merged["page_size_bytes"])
    if "max_read_page_bytes" in merged:
        merged.setdefault("prefetch_page_bytes", merged["max_read_page_bytes"])
    if "max_read_page_messages" in merged:
        merged.setdefault("prefetch_page_messages", merged["max_read_page_messages"])
