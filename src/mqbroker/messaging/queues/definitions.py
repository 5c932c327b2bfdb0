"""The definition of a queue, with every default filled in from the address settings."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.ports import QueueRecord
from mqclient.wire.message import KEY_LAST_VALUE

MULTICAST = 0
ANYCAST = 1

ROUTING_TYPE_NAMES = {MULTICAST: "MULTICAST", ANYCAST: "ANYCAST"}


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """The attributes of one queue (Artemis manual, chapters on the address model and on queue attributes).

    ``routing_type`` is 0 multicast, 1 anycast.  Delays are ms; -1 means none or unlimited.  ``temporary`` queues end with the connection
    that made them, ``transient`` ones with their last consumer; neither is durable.  ``configuration_managed`` queues come from broker.xml.
    """

    name: str
    address: str
    routing_type: int = MULTICAST
    filter_string: str | None = None
    durable: bool = True
    temporary: bool = False
    transient: bool = False
    internal: bool = False
    auto_created: bool = False
    configuration_managed: bool = False
    user: str | None = None
    max_consumers: int = -1
    purge_on_no_consumers: bool = False
    consumers_before_dispatch: int = 0
    delay_before_dispatch: int = -1
    enabled: bool = True
    exclusive: bool = False
    group_buckets: int = -1
    group_rebalance: bool = False
    group_rebalance_pause_dispatch: bool = False
    group_first_key: str | None = None
    last_value: bool = False
    last_value_key: str | None = None
    """The property that is the key; set exactly when ``last_value`` is true."""
    ring_size: int = -1
    non_destructive: bool = False
    auto_delete: bool = False
    auto_delete_delay: int = 0
    auto_delete_message_count: int = 0

    def record(self, queue_id: int) -> QueueRecord:
        """The form that the bindings keep."""
        attributes = {name: getattr(self, name) for name in _ATTRIBUTES}
        return QueueRecord(queue_id, self.name, self.address, self.routing_type, self.filter_string, attributes)

    @classmethod
    def from_record(cls, record: QueueRecord) -> QueueDefinition:
        known = {name: value for name, value in record.attributes.items() if name in _ATTRIBUTES}
        plain = cls(record.name, record.address, record.routing_type, record.filter_string)
        return replace(plain, **known)  # type: ignore[arg-type]


_ATTRIBUTES = frozenset(field.name for field in fields(QueueDefinition)) - {
    "name",
    "address",
    "routing_type",
    "filter_string",
    "temporary",
    "transient",
    "internal",
}


def resolve(configuration: QueueConfiguration, settings: AddressSettings) -> QueueDefinition:
    """Fill in the values that ``configuration`` leaves open."""

    def either(value: bool | None, default: bool) -> bool:
        return default if value is None else value

    auto_delete = configuration.auto_delete
    if auto_delete is None:
        auto_delete = settings.auto_delete_queues if configuration.auto_created else settings.auto_delete_created_queues
    durable = either(configuration.durable, True) and not configuration.temporary and not configuration.transient
    routing_type = configuration.routing_type
    text = configuration.filter_string
    key = _last_value_key(configuration, settings)
    return QueueDefinition(
        name=configuration.name,
        address=configuration.address or configuration.name,
        routing_type=settings.default_queue_routing_type if routing_type is None or routing_type < 0 else routing_type,
        filter_string=text if text and text.strip() else None,
        durable=durable,
        temporary=bool(configuration.temporary),
        transient=bool(configuration.transient),
        internal=bool(configuration.internal),
        auto_created=bool(configuration.auto_created),
        configuration_managed=bool(configuration.configuration_managed),
        user=configuration.user,
        max_consumers=_number(configuration.max_consumers, settings.default_max_consumers),
        purge_on_no_consumers=either(configuration.purge_on_no_consumers, settings.default_purge_on_no_consumers),
        consumers_before_dispatch=_number(configuration.consumers_before_dispatch, settings.default_consumers_before_dispatch),
        delay_before_dispatch=_number(configuration.delay_before_dispatch, settings.default_delay_before_dispatch),
        enabled=either(configuration.enabled, True),
        exclusive=either(configuration.exclusive, settings.default_exclusive_queue),
        group_buckets=_number(configuration.group_buckets, settings.default_group_buckets),
        group_rebalance=either(configuration.group_rebalance, settings.default_group_rebalance),
        group_rebalance_pause_dispatch=either(
            configuration.group_rebalance_pause_dispatch, settings.default_group_rebalance_pause_dispatch
        ),
        group_first_key=configuration.group_first_key or settings.default_group_first_key or None,
        last_value=key is not None,
        last_value_key=key,
        non_destructive=either(configuration.non_destructive, settings.default_non_destructive),
        ring_size=max(_number(configuration.ring_size, settings.default_ring_size), -1),
        auto_delete=auto_delete and not configuration.configuration_managed and not configuration.internal,
        auto_delete_delay=_number(configuration.auto_delete_delay, settings.auto_delete_queues_delay),
        auto_delete_message_count=_number(configuration.auto_delete_message_count, settings.auto_delete_queues_message_count),
    )


def _number(value: int | None, default: int) -> int:
    return default if value is None else value


def _last_value_key(configuration: QueueConfiguration, settings: AddressSettings) -> str | None:
    """The property whose newest message per value a last-value queue keeps; None for other queues.

    A key, also one in the settings, makes a last-value queue even if ``last-value`` is false: old clients send false because they know no
    key.
    """
    key = configuration.last_value_key or settings.default_last_value_key
    if key:
        return key
    wanted = configuration.last_value
    return KEY_LAST_VALUE if (settings.default_last_value_queue if wanted is None else wanted) else None
