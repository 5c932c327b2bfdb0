"""Packets that ask for, create and delete addresses and queues.

Source: ``protocol-spec/``, chapter "Addresses and queues".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mqclient.wire.packets.base import (
    ALL_GROUPS,
    BOOL,
    I8,
    I8_ARRAY,
    I32,
    I64,
    NBOOL,
    NINT,
    NLONG,
    NSSTR,
    ROUTING_MULTICAST,
    SSTR,
    SSTR_ARRAY,
    Field,
    FieldTable,
    Group,
    Packet,
    register,
)

# --- addresses and queues ---------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateAddress(Packet):
    TYPE: ClassVar[int] = -11
    NAME: ClassVar[str] = "CREATE_ADDRESS"
    SINCE: ClassVar[int] = 129
    FIELDS: ClassVar[FieldTable] = (
        ("address", SSTR),
        ("routing_types", I8_ARRAY),
        ("requires_response", BOOL),
        ("auto_created", BOOL),
    )
    address: str
    routing_types: tuple[int, ...]
    requires_response: bool = True
    auto_created: bool = False


_CREATE_QUEUE: tuple[Field, ...] = (
    ("address", SSTR),
    ("queue_name", SSTR),
    ("filter_string", NSSTR),
    ("durable", BOOL),
    ("temporary", BOOL),
    ("requires_response", BOOL),
)

_QUEUE_G2: tuple[Field, ...] = (
    ("last_value_key", NSSTR),
    ("non_destructive", NBOOL),
    ("consumers_before_dispatch", NINT),
    ("delay_before_dispatch", NLONG),
    ("group_rebalance", NBOOL),
    ("group_buckets", NINT),
    ("auto_delete", NBOOL),
    ("auto_delete_delay", NLONG),
    ("auto_delete_message_count", NLONG),
)
_QUEUE_TAIL: FieldTable = (
    Group(),
    ("group_first_key", NSSTR),
    Group(),
    ("ring_size", NLONG),
    Group(),
    ("enabled", NBOOL),
    Group(),
    ("group_rebalance_pause_dispatch", NBOOL),
)


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateQueue(Packet):
    TYPE: ClassVar[int] = 34
    NAME: ClassVar[str] = "CREATE_QUEUE"
    FIELDS: ClassVar[FieldTable] = _CREATE_QUEUE
    address: str
    queue_name: str
    filter_string: str | None = None
    durable: bool = False
    temporary: bool = False
    requires_response: bool = True


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateQueueV2(Packet):
    """Create a queue; an attribute that is None takes the default of the matching address settings."""

    TYPE: ClassVar[int] = -12
    NAME: ClassVar[str] = "CREATE_QUEUE_V2"
    SINCE: ClassVar[int] = 129
    FIELDS: ClassVar[FieldTable] = (
        *_CREATE_QUEUE,
        ("auto_created", BOOL),
        ("routing_type", I8),
        ("max_consumers", I32),
        ("purge_on_no_consumers", BOOL),
        Group(),
        ("exclusive", NBOOL),
        ("last_value", NBOOL),
        Group(),
        *_QUEUE_G2,
        *_QUEUE_TAIL,
    )
    address: str
    queue_name: str
    filter_string: str | None = None
    durable: bool = True
    temporary: bool = False
    requires_response: bool = True
    auto_created: bool = False
    routing_type: int = -1
    max_consumers: int = -1
    purge_on_no_consumers: bool = False
    exclusive: bool | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch: int | None = None
    group_rebalance: bool | None = None
    group_buckets: int | None = None
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    group_first_key: str | None = None
    ring_size: int | None = None
    enabled: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    groups: int = ALL_GROUPS


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateSharedQueue(Packet):
    TYPE: ClassVar[int] = 36
    NAME: ClassVar[str] = "CREATE_SHARED_QUEUE"
    FIELDS: ClassVar[FieldTable] = (
        ("address", SSTR),
        ("queue_name", SSTR),
        ("filter_string", NSSTR),
        ("durable", BOOL),
        ("requires_response", BOOL),
    )
    address: str
    queue_name: str
    filter_string: str | None = None
    durable: bool = False
    requires_response: bool = True


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateSharedQueueV2(Packet):
    TYPE: ClassVar[int] = -13
    NAME: ClassVar[str] = "CREATE_SHARED_QUEUE_V2"
    SINCE: ClassVar[int] = 129
    FIELDS: ClassVar[FieldTable] = (
        ("address", SSTR),
        ("queue_name", SSTR),
        ("filter_string", NSSTR),
        ("durable", BOOL),
        ("routing_type", I8),
        ("requires_response", BOOL),
        Group(),
        ("max_consumers", NINT),
        ("purge_on_no_consumers", NBOOL),
        ("exclusive", NBOOL),
        ("last_value", NBOOL),
        Group(),
        *_QUEUE_G2,
        *_QUEUE_TAIL,
    )
    address: str
    queue_name: str
    filter_string: str | None = None
    durable: bool = False
    routing_type: int = -1
    requires_response: bool = True
    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch: int | None = None
    group_rebalance: bool | None = None
    group_buckets: int | None = None
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    group_first_key: str | None = None
    ring_size: int | None = None
    enabled: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    groups: int = ALL_GROUPS


@register
@dataclass(slots=True, eq=False, repr=False)
class DeleteQueue(Packet):
    TYPE: ClassVar[int] = 35
    NAME: ClassVar[str] = "DELETE_QUEUE"
    FIELDS: ClassVar[FieldTable] = (("queue_name", SSTR),)
    queue_name: str


@register
@dataclass(slots=True, eq=False, repr=False)
class QueueQuery(Packet):
    TYPE: ClassVar[int] = 45
    NAME: ClassVar[str] = "SESS_QUEUEQUERY"
    FIELDS: ClassVar[FieldTable] = (("queue_name", SSTR),)
    queue_name: str


_QUEUE_QUERY: tuple[Field, ...] = (
    ("exists", BOOL),
    ("durable", BOOL),
    ("temporary", BOOL),
    ("consumer_count", I32),
    ("message_count", I64),
    ("filter_string", NSSTR),
    ("address", NSSTR),
    ("name", NSSTR),
)


@dataclass(slots=True, eq=False, repr=False)
class _QueueQueryResponse(Packet):
    """What the broker knows of a queue; for a missing one the defaults that it would get."""

    RESPONSE: ClassVar[bool] = True
    exists: bool
    durable: bool
    temporary: bool
    consumer_count: int
    message_count: int
    filter_string: str | None
    address: str | None
    name: str | None
    auto_create_queues: bool = True
    auto_created: bool = False
    purge_on_no_consumers: bool = False
    routing_type: int = ROUTING_MULTICAST
    max_consumers: int = -1
    exclusive: bool | None = None
    last_value: bool | None = None
    default_consumer_window_size: int | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch: int | None = None
    group_rebalance: bool | None = None
    group_buckets: int | None = None
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    group_first_key: str | None = None
    ring_size: int | None = None
    enabled: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    configuration_managed: bool | None = None
    groups: int = ALL_GROUPS


@register
class QueueQueryResponse(_QueueQueryResponse):
    __slots__ = ()
    TYPE = 46
    NAME = "SESS_QUEUEQUERY_RESP"
    FIELDS = _QUEUE_QUERY


@register
class QueueQueryResponseV2(_QueueQueryResponse):
    __slots__ = ()
    TYPE = -7
    NAME = "SESS_QUEUEQUERY_RESP_V2"
    SINCE = 126
    FIELDS = (*_QUEUE_QUERY, ("auto_create_queues", BOOL))


@register
class QueueQueryResponseV3(_QueueQueryResponse):
    __slots__ = ()
    TYPE = -14
    NAME = "SESS_QUEUEQUERY_RESP_V3"
    SINCE = 129
    FIELDS = (
        *_QUEUE_QUERY,
        ("auto_create_queues", BOOL),
        ("auto_created", BOOL),
        ("purge_on_no_consumers", BOOL),
        ("routing_type", I8),
        ("max_consumers", I32),
        Group(),
        ("exclusive", NBOOL),
        ("last_value", NBOOL),
        Group(),
        ("default_consumer_window_size", NINT),
        Group(),
        *_QUEUE_G2,
        *_QUEUE_TAIL,
        Group(),
        ("configuration_managed", NBOOL),
    )


@register
@dataclass(slots=True, eq=False, repr=False)
class BindingQuery(Packet):
    TYPE: ClassVar[int] = 49
    NAME: ClassVar[str] = "SESS_BINDINGQUERY"
    FIELDS: ClassVar[FieldTable] = (("address", SSTR),)
    address: str


_BINDING_QUERY: tuple[Field, ...] = (("exists", BOOL), ("queue_names", SSTR_ARRAY))
_BINDING_QUERY_V4: FieldTable = (
    *_BINDING_QUERY,
    ("auto_create_queues", BOOL),
    ("auto_create_addresses", BOOL),
    ("default_purge_on_no_consumers", BOOL),
    ("default_max_consumers", I32),
    Group(),
    ("default_exclusive", NBOOL),
    ("default_last_value", NBOOL),
    Group(),
    ("default_last_value_key", NSSTR),
    ("default_non_destructive", NBOOL),
    ("default_consumers_before_dispatch", NINT),
    ("default_delay_before_dispatch", NLONG),
)


@dataclass(slots=True, eq=False, repr=False)
class _BindingQueryResponse(Packet):
    """What the broker knows of an address and of the queues bound to it."""

    RESPONSE: ClassVar[bool] = True
    exists: bool
    queue_names: tuple[str, ...]
    auto_create_queues: bool = True
    auto_create_addresses: bool = True
    default_purge_on_no_consumers: bool = False
    default_max_consumers: int = -1
    default_exclusive: bool | None = None
    default_last_value: bool | None = None
    default_last_value_key: str | None = None
    default_non_destructive: bool | None = None
    default_consumers_before_dispatch: int | None = None
    default_delay_before_dispatch: int | None = None
    supports_multicast: bool = True
    supports_anycast: bool = True
    groups: int = ALL_GROUPS


@register
class BindingQueryResponse(_BindingQueryResponse):
    __slots__ = ()
    TYPE = 50
    NAME = "SESS_BINDINGQUERY_RESP"
    FIELDS = _BINDING_QUERY


@register
class BindingQueryResponseV2(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -8
    NAME = "SESS_BINDINGQUERY_RESP_V2"
    SINCE = 126
    FIELDS = (*_BINDING_QUERY, ("auto_create_queues", BOOL))


@register
class BindingQueryResponseV3(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -10
    NAME = "SESS_BINDINGQUERY_RESP_V3"
    SINCE = 127
    FIELDS = (*_BINDING_QUERY, ("auto_create_queues", BOOL), ("auto_create_addresses", BOOL))


@register
class BindingQueryResponseV4(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -15
    NAME = "SESS_BINDINGQUERY_RESP_V4"
    SINCE = 129
    FIELDS = _BINDING_QUERY_V4


@register
class BindingQueryResponseV5(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -22
    NAME = "SESS_BINDINGQUERY_RESP_V5"
    SINCE = 135
    FIELDS = (*_BINDING_QUERY_V4, Group(), ("supports_multicast", BOOL), ("supports_anycast", BOOL))


QUEUE_QUERY_ANSWERS = (QueueQueryResponseV3, QueueQueryResponseV2, QueueQueryResponse)
"""The answers to QUEUEQUERY, the newest first."""
BINDING_QUERY_ANSWERS = (
    BindingQueryResponseV5,
    BindingQueryResponseV4,
    BindingQueryResponseV3,
    BindingQueryResponseV2,
    BindingQueryResponse,
)
"""The answers to BINDINGQUERY, the newest first."""
