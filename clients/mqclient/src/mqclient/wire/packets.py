"""Every packet of the CORE protocol as a class, with the codec of the packets that are not on the message path.

A packet class lists its fields in wire order.  :func:`decode_packet` and :func:`encode_packet` know all of them, for protocol
versions 121 to 136; the packets on the message path have hand-written codecs in :mod:`mqclient.wire.hot`, to which both
functions pass them on.

Fields after a ``Group`` marker are optional: they are read only when bytes are left, and ``groups`` keeps how many such groups
a packet had, so that it is written again as it was read.

Source: ``protocol-spec/``, chapters "Packets".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mqclient.errors import MalformedPacketError
from mqclient.wire import hot
from mqclient.wire.primitives import Reader, TransportConfiguration, Writer, Xid

VERSION_MIN = 121
VERSION_MAX = 136
"""Protocol versions that are spoken, both included."""

ROUTING_MULTICAST = 0
ROUTING_ANYCAST = 1

ALL_GROUPS = 99
"""Value of ``groups`` on a packet that has every optional group."""


class Kind:
    """How one field is written and read."""

    __slots__ = ("name", "read", "write")

    def __init__(self, name: str, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> None:
        self.name = name
        self.write = write
        self.read = read


def _array(name: str, size: int, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> Kind:
    def write_all(out: Writer, values: tuple[Any, ...]) -> None:
        out.i32(len(values))
        for value in values:
            write(out, value)

    def read_all(source: Reader) -> tuple[Any, ...]:
        return tuple(read(source) for _ in range(source.count(size)))

    return Kind(name, write_all, read_all)


def _optional(name: str, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> Kind:
    def write_present(out: Writer, value: Any) -> None:
        out.boolean(value is not None)
        if value is not None:
            write(out, value)

    return Kind(name, write_present, lambda source: read(source) if source.boolean() else None)


I8 = Kind("i8", Writer.i8, Reader.i8)
I32 = Kind("i32", Writer.i32, Reader.i32)
I64 = Kind("i64", Writer.i64, Reader.i64)
BOOL = Kind("bool", Writer.boolean, Reader.boolean)
STR = Kind("Str", Writer.string, Reader.string)
NSTR = Kind("NStr", Writer.nullable_string, Reader.nullable_string)
SSTR = Kind("SStr", Writer.simple_string, Reader.simple_string)
NSSTR = Kind("NSStr", Writer.nullable_simple_string, Reader.nullable_simple_string)
NBOOL = Kind("NBool", Writer.nullable_bool, Reader.nullable_bool)
NINT = Kind("NInt", Writer.nullable_int, Reader.nullable_int)
NLONG = Kind("NLong", Writer.nullable_long, Reader.nullable_long)
XID = Kind("Xid", Writer.xid, Reader.xid)
CONNECTOR = _optional("bool, TC if true", Writer.transport, Reader.transport)
I8_ARRAY = _array("i32 n, n x i8", 1, Writer.i8, Reader.i8)
SSTR_ARRAY = _array("i32 n, n x SStr", 4, Writer.simple_string, Reader.simple_string)
XID_ARRAY = _array("i32 n, n x Xid", 12, Writer.xid, Reader.xid)
REST = Kind("bytes to the end", Writer.raw, lambda source: source.raw(source.remaining))


class Group:
    """Marks the start of fields that are present only if bytes are left (``minimum`` of them at least)."""

    __slots__ = ("minimum",)

    def __init__(self, minimum: int = 1) -> None:
        self.minimum = minimum


Field = tuple[str, Kind]
FieldTable = tuple["Field | Group", ...]


class Packet:
    """Base of all packets.

    TYPE is the signed packet type; NAME the protocol's name; COUNTED says whether the packet advances the confirmation window of a
    session channel; RESPONSE whether it completes a blocking call.
    """

    __slots__ = ()
    TYPE: ClassVar[int]
    NAME: ClassVar[str]
    FIELDS: ClassVar[FieldTable] = ()
    COUNTED: ClassVar[bool] = True
    RESPONSE: ClassVar[bool] = False
    SINCE: ClassVar[int] = 0


PACKETS: dict[int, type[Packet]] = {}


def _register(cls: Any) -> Any:
    if cls.TYPE in PACKETS:
        raise TypeError(f"packet type {cls.TYPE} is used twice")
    PACKETS[cls.TYPE] = cls
    return cls


# --- connection -------------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class Ping(Packet):
    """Keep-alive; the broker takes ``connection_ttl`` (ms, -1 = never) for the connection and echoes the packet."""

    TYPE: ClassVar[int] = 10
    NAME: ClassVar[str] = "PING"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("connection_ttl", I64),)
    connection_ttl: int


@_register
@dataclass(slots=True)
class Disconnect(Packet):
    TYPE: ClassVar[int] = 11
    NAME: ClassVar[str] = "DISCONNECT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("node_id", NSSTR),)
    node_id: str | None


@_register
@dataclass(slots=True)
class DisconnectV2(Packet):
    TYPE: ClassVar[int] = 124
    NAME: ClassVar[str] = "DISCONNECT_V2"
    COUNTED: ClassVar[bool] = False
    SINCE: ClassVar[int] = 125
    FIELDS: ClassVar[FieldTable] = (("node_id", NSSTR), ("scale_down_node_id", NSSTR))
    node_id: str | None
    scale_down_node_id: str | None = None


REASON_REDIRECT = 0
REASON_SCALE_DOWN = 2
REASON_SHUT_DOWN = 4


@_register
@dataclass(slots=True)
class DisconnectV3(Packet):
    TYPE: ClassVar[int] = -19
    NAME: ClassVar[str] = "DISCONNECT_V3"
    COUNTED: ClassVar[bool] = False
    SINCE: ClassVar[int] = 131
    FIELDS: ClassVar[FieldTable] = (
        ("node_id", NSSTR),
        ("reason", I8),
        ("target_node_id", NSSTR),
        ("connector", CONNECTOR),
    )
    node_id: str | None
    reason: int
    target_node_id: str | None = None
    connector: TransportConfiguration | None = None


@_register
@dataclass(slots=True)
class DisconnectConsumer(Packet):
    TYPE: ClassVar[int] = 12
    NAME: ClassVar[str] = "DISCONNECT_CONSUMER"
    SINCE: ClassVar[int] = 124
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64),)
    consumer_id: int


@_register
@dataclass(slots=True)
class DisconnectConsumerKill(Packet):
    TYPE: ClassVar[int] = 13
    NAME: ClassVar[str] = "DISCONNECT_CONSUMER_KILL"
    COUNTED: ClassVar[bool] = False
    SINCE: ClassVar[int] = 128
    FIELDS: ClassVar[FieldTable] = (("node_id", NSSTR),)
    node_id: str | None


@_register
@dataclass(slots=True)
class SubscribeTopology(Packet):
    TYPE: ClassVar[int] = 112
    NAME: ClassVar[str] = "SUBSCRIBE_TOPOLOGY"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_connection", BOOL),)
    cluster_connection: bool


@_register
@dataclass(slots=True)
class SubscribeTopologyV2(Packet):
    TYPE: ClassVar[int] = 113
    NAME: ClassVar[str] = "SUBSCRIBE_TOPOLOGY_V2"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_connection", BOOL), ("client_version", I32))
    cluster_connection: bool
    client_version: int


@dataclass(slots=True)
class _Topology(Packet):
    """A member of the cluster appeared or changed, or left (``exit``)."""

    COUNTED: ClassVar[bool] = False
    exit: bool
    node_id: str
    unique_event_id: int = 0
    primary: TransportConfiguration | None = None
    backup: TransportConfiguration | None = None
    last: bool = False
    backup_group_name: str | None = None
    scale_down_group_name: str | None = None
    server_version: int = 0
    groups: int = ALL_GROUPS


@_register
class ClusterTopology(_Topology):
    __slots__ = ()
    TYPE = 110
    NAME = "CLUSTER_TOPOLOGY"


@_register
class ClusterTopologyV2(_Topology):
    __slots__ = ()
    TYPE = 114
    NAME = "CLUSTER_TOPOLOGY_V2"
    SINCE = 122


@_register
class ClusterTopologyV3(_Topology):
    __slots__ = ()
    TYPE = 122
    NAME = "CLUSTER_TOPOLOGY_V3"
    SINCE = 125


@_register
class ClusterTopologyV4(_Topology):
    __slots__ = ()
    TYPE = -17
    NAME = "CLUSTER_TOPOLOGY_V4"
    SINCE = 131


# --- session management -----------------------------------------------------------------------------------------------

_CREATE_SESSION: tuple[Field, ...] = (
    ("name", STR),
    ("session_channel_id", I64),
    ("version", I32),
    ("username", NSTR),
    ("password", NSTR),
    ("min_large_message_size", I32),
    ("xa", BOOL),
    ("auto_commit_sends", BOOL),
    ("auto_commit_acks", BOOL),
    ("window_size", I32),
    ("pre_acknowledge", BOOL),
    ("default_address", NSTR),
)


@_register
@dataclass(slots=True)
class CreateSession(Packet):
    """Open a session on ``session_channel_id``; ``window_size`` (bytes, -1 = none) is the confirmation window."""

    TYPE: ClassVar[int] = 30
    NAME: ClassVar[str] = "CREATESESSION"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = _CREATE_SESSION
    name: str
    session_channel_id: int
    version: int
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    min_large_message_size: int = 102400
    xa: bool = False
    auto_commit_sends: bool = True
    auto_commit_acks: bool = True
    window_size: int = -1
    pre_acknowledge: bool = False
    default_address: str | None = None
    client_id: str | None = None


@_register
class CreateSessionV2(CreateSession):
    __slots__ = ()
    TYPE = -18
    NAME = "CREATESESSION_V2"
    SINCE = 131
    FIELDS = (*_CREATE_SESSION, ("client_id", NSTR))


@_register
@dataclass(slots=True)
class CreateSessionResponse(Packet):
    TYPE: ClassVar[int] = 31
    NAME: ClassVar[str] = "CREATESESSION_RESP"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("server_version", I32),)
    server_version: int


@_register
@dataclass(slots=True)
class ReattachSession(Packet):
    TYPE: ClassVar[int] = 32
    NAME: ClassVar[str] = "REATTACH_SESSION"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("name", STR), ("last_confirmed_command_id", I32))
    name: str
    last_confirmed_command_id: int


@_register
@dataclass(slots=True)
class ReattachSessionResponse(Packet):
    TYPE: ClassVar[int] = 33
    NAME: ClassVar[str] = "REATTACH_SESSION_RESP"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("last_confirmed_command_id", I32), ("reattached", BOOL))
    last_confirmed_command_id: int
    reattached: bool


@_register
@dataclass(slots=True)
class CheckForFailover(Packet):
    TYPE: ClassVar[int] = -4
    NAME: ClassVar[str] = "CHECK_FOR_FAILOVER"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("node_id", NSTR),)
    node_id: str | None


@_register
@dataclass(slots=True)
class CheckForFailoverReply(Packet):
    TYPE: ClassVar[int] = -5
    NAME: ClassVar[str] = "CHECK_FOR_FAILOVER_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("ok_to_failover", BOOL),)
    ok_to_failover: bool


# --- generic responses ------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class ExceptionResponse(Packet):
    """A request failed with an error ``code``.  ``correlation_id`` is None in the short form."""

    TYPE: ClassVar[int] = 20
    NAME: ClassVar[str] = "EXCEPTION"
    RESPONSE: ClassVar[bool] = True
    error_code: int
    message: str | None
    correlation_id: int | None = None


@_register
@dataclass(slots=True)
class NullResponse(Packet):
    """A request without a result succeeded.  ``correlation_id`` is the request's, or -1; None means the empty form before 130."""

    TYPE: ClassVar[int] = 21
    NAME: ClassVar[str] = "NULL_RESPONSE"
    RESPONSE: ClassVar[bool] = True
    correlation_id: int | None = -1


@_register
@dataclass(slots=True)
class PacketsConfirmed(Packet):
    TYPE: ClassVar[int] = 22
    NAME: ClassVar[str] = "PACKETS_CONFIRMED"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("command_id", I32),)
    command_id: int


# --- addresses and queues ---------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
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


@_register
@dataclass(slots=True)
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


@_register
@dataclass(slots=True)
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


@_register
@dataclass(slots=True)
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


@_register
@dataclass(slots=True)
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


@_register
@dataclass(slots=True)
class DeleteQueue(Packet):
    TYPE: ClassVar[int] = 35
    NAME: ClassVar[str] = "DELETE_QUEUE"
    FIELDS: ClassVar[FieldTable] = (("queue_name", SSTR),)
    queue_name: str


@_register
@dataclass(slots=True)
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


@dataclass(slots=True)
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


@_register
class QueueQueryResponse(_QueueQueryResponse):
    __slots__ = ()
    TYPE = 46
    NAME = "SESS_QUEUEQUERY_RESP"
    FIELDS = _QUEUE_QUERY


@_register
class QueueQueryResponseV2(_QueueQueryResponse):
    __slots__ = ()
    TYPE = -7
    NAME = "SESS_QUEUEQUERY_RESP_V2"
    SINCE = 126
    FIELDS = (*_QUEUE_QUERY, ("auto_create_queues", BOOL))


@_register
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


@_register
@dataclass(slots=True)
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


@dataclass(slots=True)
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


@_register
class BindingQueryResponse(_BindingQueryResponse):
    __slots__ = ()
    TYPE = 50
    NAME = "SESS_BINDINGQUERY_RESP"
    FIELDS = _BINDING_QUERY


@_register
class BindingQueryResponseV2(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -8
    NAME = "SESS_BINDINGQUERY_RESP_V2"
    SINCE = 126
    FIELDS = (*_BINDING_QUERY, ("auto_create_queues", BOOL))


@_register
class BindingQueryResponseV3(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -10
    NAME = "SESS_BINDINGQUERY_RESP_V3"
    SINCE = 127
    FIELDS = (*_BINDING_QUERY, ("auto_create_queues", BOOL), ("auto_create_addresses", BOOL))


@_register
class BindingQueryResponseV4(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -15
    NAME = "SESS_BINDINGQUERY_RESP_V4"
    SINCE = 129
    FIELDS = _BINDING_QUERY_V4


@_register
class BindingQueryResponseV5(_BindingQueryResponse):
    __slots__ = ()
    TYPE = -22
    NAME = "SESS_BINDINGQUERY_RESP_V5"
    SINCE = 135
    FIELDS = (*_BINDING_QUERY_V4, Group(), ("supports_multicast", BOOL), ("supports_anycast", BOOL))


# --- consumers --------------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class CreateConsumer(Packet):
    TYPE: ClassVar[int] = 40
    NAME: ClassVar[str] = "SESS_CREATECONSUMER"
    consumer_id: int
    queue_name: str
    filter_string: str | None = None
    browse_only: bool = False
    requires_response: bool = True
    priority: int = 0


@_register
@dataclass(slots=True)
class FlowToken(Packet):
    """Consumer credits in bytes of frames: -1 unlimited, 0 sets the balance to 0, n adds n."""

    TYPE: ClassVar[int] = 70
    NAME: ClassVar[str] = "SESS_FLOWTOKEN"
    consumer_id: int
    credits: int


@_register
@dataclass(slots=True)
class ForceConsumerDelivery(Packet):
    TYPE: ClassVar[int] = 78
    NAME: ClassVar[str] = "SESS_FORCE_CONSUMER_DELIVERY"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64), ("sequence", I64))
    consumer_id: int
    sequence: int


@_register
@dataclass(slots=True)
class ConsumerClose(Packet):
    TYPE: ClassVar[int] = 74
    NAME: ClassVar[str] = "SESS_CONSUMER_CLOSE"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64),)
    consumer_id: int


@_register
@dataclass(slots=True)
class Acknowledge(Packet):
    """Everything delivered to the consumer up to and including ``message_id`` is done with."""

    TYPE: ClassVar[int] = 41
    NAME: ClassVar[str] = "SESS_ACKNOWLEDGE"
    consumer_id: int
    message_id: int
    requires_response: bool = False


@_register
@dataclass(slots=True)
class IndividualAcknowledge(Packet):
    TYPE: ClassVar[int] = 81
    NAME: ClassVar[str] = "SESS_INDIVIDUAL_ACKNOWLEDGE"
    consumer_id: int
    message_id: int
    requires_response: bool = False


@_register
@dataclass(slots=True)
class Expired(Packet):
    TYPE: ClassVar[int] = 42
    NAME: ClassVar[str] = "SESS_EXPIRED"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64), ("message_id", I64))
    consumer_id: int
    message_id: int


# --- producers --------------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class CreateProducer(Packet):
    TYPE: ClassVar[int] = -20
    NAME: ClassVar[str] = "CREATE_PRODUCER"
    SINCE: ClassVar[int] = 134
    FIELDS: ClassVar[FieldTable] = (("producer_id", I32), ("address", NSSTR))
    producer_id: int
    address: str | None = None


@_register
@dataclass(slots=True)
class RemoveProducer(Packet):
    TYPE: ClassVar[int] = -21
    NAME: ClassVar[str] = "REMOVE_PRODUCER"
    SINCE: ClassVar[int] = 134
    FIELDS: ClassVar[FieldTable] = (("producer_id", I32),)
    producer_id: int


@_register
@dataclass(slots=True)
class SessionSend(Packet):
    """A regular message.  ``message`` is its buffer in the layout of version 129 and later, whatever the version on the wire.

    ``correlation_id`` is 0 when no answer is wanted (or by clients that match answers by order); it travels from 130 on,
    ``sender_id`` from 134 on.
    """

    TYPE: ClassVar[int] = 71
    NAME: ClassVar[str] = "SESS_SEND"
    message: bytes
    requires_response: bool = False
    correlation_id: int = 0
    sender_id: int = -1


@_register
@dataclass(slots=True)
class SessionSendLarge(Packet):
    """Opens a large message; ``headers`` is the headers-and-properties block."""

    TYPE: ClassVar[int] = 72
    NAME: ClassVar[str] = "SESS_SEND_LARGE"
    FIELDS: ClassVar[FieldTable] = (("headers", REST),)
    headers: bytes


@_register
@dataclass(slots=True)
class SessionSendContinuation(Packet):
    """A chunk of a large message; ``message_body_size`` travels only with the last one (``continues`` false)."""

    TYPE: ClassVar[int] = 73
    NAME: ClassVar[str] = "SESS_SEND_CONTINUATION"
    chunk: bytes
    continues: bool
    message_body_size: int = -1
    requires_response: bool = False
    correlation_id: int = -1
    sender_id: int = -1


@_register
@dataclass(slots=True)
class ProducerRequestCredits(Packet):
    TYPE: ClassVar[int] = 79
    NAME: ClassVar[str] = "SESS_PRODUCER_REQUEST_CREDITS"
    credits: int
    address: str


@_register
@dataclass(slots=True)
class ProducerCredits(Packet):
    TYPE: ClassVar[int] = 80
    NAME: ClassVar[str] = "SESS_PRODUCER_CREDITS"
    credits: int
    address: str


@_register
@dataclass(slots=True)
class ProducerFailCredits(Packet):
    TYPE: ClassVar[int] = 82
    NAME: ClassVar[str] = "SESS_PRODUCER_FAIL_CREDITS"
    FIELDS: ClassVar[FieldTable] = (("credits", I32), ("address", SSTR))
    credits: int
    address: str


# --- delivery ---------------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class SessionReceive(Packet):
    """A message for a consumer; ``message`` as in :class:`SessionSend`."""

    TYPE: ClassVar[int] = 75
    NAME: ClassVar[str] = "SESS_RECEIVE_MSG"
    message: bytes
    consumer_id: int
    delivery_count: int


@_register
@dataclass(slots=True)
class SessionReceiveLarge(Packet):
    TYPE: ClassVar[int] = 76
    NAME: ClassVar[str] = "SESS_RECEIVE_LARGE_MSG"
    FIELDS: ClassVar[FieldTable] = (
        ("consumer_id", I64),
        ("delivery_count", I32),
        ("large_message_size", I64),
        ("headers", REST),
    )
    consumer_id: int
    delivery_count: int
    large_message_size: int
    headers: bytes


@_register
@dataclass(slots=True)
class SessionReceiveContinuation(Packet):
    TYPE: ClassVar[int] = 77
    NAME: ClassVar[str] = "SESS_RECEIVE_CONTINUATION"
    chunk: bytes
    continues: bool
    consumer_id: int


# --- session control --------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class SessionStart(Packet):
    TYPE: ClassVar[int] = 67
    NAME: ClassVar[str] = "SESS_START"


@_register
@dataclass(slots=True)
class SessionStop(Packet):
    TYPE: ClassVar[int] = 68
    NAME: ClassVar[str] = "SESS_STOP"


@_register
@dataclass(slots=True)
class SessionClose(Packet):
    TYPE: ClassVar[int] = 69
    NAME: ClassVar[str] = "SESS_CLOSE"


@_register
@dataclass(slots=True)
class Commit(Packet):
    """``correlation_id`` is None in the empty form (before 132, or when the client does not wait)."""

    TYPE: ClassVar[int] = 43
    NAME: ClassVar[str] = "SESS_COMMIT"
    correlation_id: int | None = None


@_register
@dataclass(slots=True)
class Rollback(Packet):
    TYPE: ClassVar[int] = 44
    NAME: ClassVar[str] = "SESS_ROLLBACK"
    FIELDS: ClassVar[FieldTable] = (("consider_last_message_as_delivered", BOOL),)
    consider_last_message_as_delivered: bool = False


@_register
@dataclass(slots=True)
class AddMetadata(Packet):
    TYPE: ClassVar[int] = 104
    NAME: ClassVar[str] = "SESS_ADD_METADATA"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR))
    key: str
    data: str


@_register
@dataclass(slots=True)
class AddMetadataV2(Packet):
    """Counted for the confirmation window only when ``requires_confirmation`` is true."""

    TYPE: ClassVar[int] = 105
    NAME: ClassVar[str] = "SESS_ADD_METADATA2"
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR), ("requires_confirmation", BOOL))
    key: str
    data: str
    requires_confirmation: bool = True


@_register
@dataclass(slots=True)
class UniqueAddMetadata(Packet):
    TYPE: ClassVar[int] = 106
    NAME: ClassVar[str] = "SESS_UNIQUE_ADD_METADATA"
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR), ("requires_confirmation", BOOL))
    key: str
    data: str
    requires_confirmation: bool = True


# --- XA ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _XaRequest(Packet):
    FIELDS: ClassVar[FieldTable] = (("xid", XID),)
    xid: Xid


@_register
class XaFailed(_XaRequest):
    __slots__ = ()
    TYPE = 39
    NAME = "SESS_XA_FAILED"


@_register
class XaStart(_XaRequest):
    __slots__ = ()
    TYPE = 51
    NAME = "SESS_XA_START"


@_register
@dataclass(slots=True)
class XaEnd(Packet):
    TYPE: ClassVar[int] = 52
    NAME: ClassVar[str] = "SESS_XA_END"
    FIELDS: ClassVar[FieldTable] = (("xid", XID), ("failed", BOOL))
    xid: Xid
    failed: bool = False


@_register
@dataclass(slots=True)
class XaCommit(Packet):
    TYPE: ClassVar[int] = 53
    NAME: ClassVar[str] = "SESS_XA_COMMIT"
    FIELDS: ClassVar[FieldTable] = (("xid", XID), ("one_phase", BOOL))
    xid: Xid
    one_phase: bool = False


@_register
class XaPrepare(_XaRequest):
    __slots__ = ()
    TYPE = 54
    NAME = "SESS_XA_PREPARE"


@_register
@dataclass(slots=True)
class XaResponse(Packet):
    TYPE: ClassVar[int] = 55
    NAME: ClassVar[str] = "SESS_XA_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (
        ("error", BOOL),
        ("response_code", I32),
        ("message", NSTR),
        Group(8),
        ("correlation_id", I64),
    )
    error: bool
    response_code: int
    message: str | None = None
    correlation_id: int = -1
    groups: int = 0


@_register
class XaRollback(_XaRequest):
    __slots__ = ()
    TYPE = 56
    NAME = "SESS_XA_ROLLBACK"


@_register
class XaJoin(_XaRequest):
    __slots__ = ()
    TYPE = 57
    NAME = "SESS_XA_JOIN"


@_register
@dataclass(slots=True)
class XaSuspend(Packet):
    TYPE: ClassVar[int] = 58
    NAME: ClassVar[str] = "SESS_XA_SUSPEND"


@_register
class XaResume(_XaRequest):
    __slots__ = ()
    TYPE = 59
    NAME = "SESS_XA_RESUME"


@_register
class XaForget(_XaRequest):
    __slots__ = ()
    TYPE = 60
    NAME = "SESS_XA_FORGET"


@_register
@dataclass(slots=True)
class XaInDoubtXids(Packet):
    TYPE: ClassVar[int] = 61
    NAME: ClassVar[str] = "SESS_XA_INDOUBT_XIDS"


@_register
@dataclass(slots=True)
class XaInDoubtXidsResponse(Packet):
    TYPE: ClassVar[int] = 62
    NAME: ClassVar[str] = "SESS_XA_INDOUBT_XIDS_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("xids", XID_ARRAY),)
    xids: tuple[Xid, ...]


@_register
@dataclass(slots=True)
class XaSetTimeout(Packet):
    TYPE: ClassVar[int] = 63
    NAME: ClassVar[str] = "SESS_XA_SET_TIMEOUT"
    FIELDS: ClassVar[FieldTable] = (("timeout_seconds", I32),)
    timeout_seconds: int


@_register
@dataclass(slots=True)
class XaSetTimeoutResponse(Packet):
    TYPE: ClassVar[int] = 64
    NAME: ClassVar[str] = "SESS_XA_SET_TIMEOUT_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("ok", BOOL),)
    ok: bool = True


@_register
@dataclass(slots=True)
class XaGetTimeout(Packet):
    TYPE: ClassVar[int] = 65
    NAME: ClassVar[str] = "SESS_XA_GET_TIMEOUT"


@_register
@dataclass(slots=True)
class XaGetTimeoutResponse(Packet):
    TYPE: ClassVar[int] = 66
    NAME: ClassVar[str] = "SESS_XA_GET_TIMEOUT_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("timeout_seconds", I32),)
    timeout_seconds: int


# --- cluster control --------------------------------------------------------------------------------------------------


@_register
@dataclass(slots=True)
class ClusterConnect(Packet):
    TYPE: ClassVar[int] = 125
    NAME: ClassVar[str] = "CLUSTER_CONNECT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_user", STR), ("cluster_password", STR))
    cluster_user: str
    cluster_password: str = field(repr=False)


@_register
@dataclass(slots=True)
class ClusterConnectReply(Packet):
    TYPE: ClassVar[int] = 126
    NAME: ClassVar[str] = "CLUSTER_CONNECT_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("authorized", BOOL),)
    authorized: bool


@_register
@dataclass(slots=True)
class NodeAnnounce(Packet):
    TYPE: ClassVar[int] = 111
    NAME: ClassVar[str] = "NODE_ANNOUNCE"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("node_id", STR),
        ("backup_group_name", NSTR),
        ("backup", BOOL),
        ("event_id", I64),
        ("connector", CONNECTOR),
        ("backup_connector", CONNECTOR),
        ("scale_down_group_name", NSTR),
    )
    node_id: str
    backup_group_name: str | None
    backup: bool
    event_id: int
    connector: TransportConfiguration | None
    backup_connector: TransportConfiguration | None = None
    scale_down_group_name: str | None = None


@_register
@dataclass(slots=True)
class BackupRegistration(Packet):
    TYPE: ClassVar[int] = 115
    NAME: ClassVar[str] = "BACKUP_REGISTRATION"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("cluster_user", STR),
        ("cluster_password", STR),
        ("wants_failback", BOOL),
        ("connector", Kind("TC", Writer.transport, Reader.transport)),
    )
    cluster_user: str
    cluster_password: str = field(repr=False)
    wants_failback: bool
    connector: TransportConfiguration


@_register
@dataclass(slots=True)
class BackupRegistrationFailed(Packet):
    TYPE: ClassVar[int] = 116
    NAME: ClassVar[str] = "BACKUP_REGISTRATION_FAILED"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("problem", I32),)
    problem: int


@_register
@dataclass(slots=True)
class BackupRequest(Packet):
    TYPE: ClassVar[int] = 127
    NAME: ClassVar[str] = "BACKUP_REQUEST"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("backup_size", I32),
        ("journal_directory", NSTR),
        ("bindings_directory", NSTR),
        ("large_messages_directory", NSTR),
        ("paging_directory", NSTR),
        ("node_id", NSSTR),
    )
    backup_size: int
    journal_directory: str | None
    bindings_directory: str | None
    large_messages_directory: str | None
    paging_directory: str | None
    node_id: str | None


@_register
@dataclass(slots=True)
class BackupRequestResponse(Packet):
    TYPE: ClassVar[int] = -1
    NAME: ClassVar[str] = "BACKUP_REQUEST_RESPONSE"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("backup_started", BOOL),)
    backup_started: bool


@_register
@dataclass(slots=True)
class QuorumVote(Packet):
    TYPE: ClassVar[int] = -2
    NAME: ClassVar[str] = "QUORUM_VOTE"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("handler", SSTR), ("vote", REST))
    handler: str
    vote: bytes


@_register
@dataclass(slots=True)
class QuorumVoteReply(Packet):
    TYPE: ClassVar[int] = -3
    NAME: ClassVar[str] = "QUORUM_VOTE_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("handler", SSTR), ("vote", REST))
    handler: str
    vote: bytes


@_register
@dataclass(slots=True)
class ScaleDownAnnouncement(Packet):
    TYPE: ClassVar[int] = -6
    NAME: ClassVar[str] = "SCALEDOWN_ANNOUNCEMENT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("target_node_id", SSTR), ("scaled_down_node_id", SSTR))
    target_node_id: str
    scaled_down_node_id: str


# --- codec ------------------------------------------------------------------------------------------------------------


def encode_packet(packet: Packet, version: int) -> bytes:
    """The body of ``packet`` as a peer of protocol ``version`` reads it."""
    encode = _ENCODERS.get(packet.TYPE)
    if encode is not None:
        return encode(packet, version)
    out = Writer()
    groups = 0
    present = getattr(packet, "groups", ALL_GROUPS)
    for entry in packet.FIELDS:
        if isinstance(entry, Group):
            groups += 1
            if groups > present:
                break
        else:
            entry[1].write(out, getattr(packet, entry[0]))
    return bytes(out.data)


def decode_packet(packet_type: int, body: bytes, version: int) -> Packet:
    """Read the body of a packet that a peer of protocol ``version`` sent.

    Surplus bytes at the end are ignored, as by the Java peers.  Raises :class:`MalformedPacketError` naming packet and field.
    """
    decode = _DECODERS.get(packet_type)
    if decode is not None:
        return decode(body, version)
    cls = PACKETS.get(packet_type)
    if cls is None:
        raise MalformedPacketError("frame", "type", f"unknown packet type {packet_type}")
    source = Reader(body, cls.NAME)
    values: dict[str, Any] = {}
    groups = 0
    for entry in cls.FIELDS:
        if isinstance(entry, Group):
            if source.remaining < entry.minimum:
                values["groups"] = groups
                break
            groups += 1
        else:
            source.field = entry[0]
            values[entry[0]] = entry[1].read(source)
    else:
        if groups:
            values["groups"] = groups
    return cls(**values)


def _encode_topology(packet: _Topology, version: int) -> bytes:
    out = Writer()
    out.boolean(packet.exit)
    out.string(packet.node_id)
    kind = packet.TYPE
    if kind != ClusterTopology.TYPE:
        out.i64(packet.unique_event_id)
    if not packet.exit:
        CONNECTOR.write(out, packet.primary)
        CONNECTOR.write(out, packet.backup)
        out.boolean(packet.last)
    if kind != ClusterTopology.TYPE and packet.groups:
        out.nullable_string(packet.backup_group_name)
    if kind in (ClusterTopologyV3.TYPE, ClusterTopologyV4.TYPE):
        out.nullable_string(packet.scale_down_group_name)
    if kind == ClusterTopologyV4.TYPE:
        out.i32(packet.server_version)
    return bytes(out.data)


def _topology_decoder(cls: type[_Topology]) -> Callable[[bytes, int], Packet]:
    def decode(body: bytes, version: int) -> Packet:
        source = Reader(body, cls.NAME)
        source.field = "exit"
        packet = cls(source.boolean(), "")
        source.field = "node_id"
        packet.node_id = source.string()
        if cls.TYPE != ClusterTopology.TYPE:
            source.field = "unique_event_id"
            packet.unique_event_id = source.i64()
        if not packet.exit:
            source.field = "primary"
            packet.primary = CONNECTOR.read(source)
            source.field = "backup"
            packet.backup = CONNECTOR.read(source)
            source.field = "last"
            packet.last = source.boolean()
        if cls.TYPE == ClusterTopologyV2.TYPE and not source.remaining:
            packet.groups = 0
        elif cls.TYPE != ClusterTopology.TYPE:
            source.field = "backup_group_name"
            packet.backup_group_name = source.nullable_string()
        if cls.TYPE in (ClusterTopologyV3.TYPE, ClusterTopologyV4.TYPE):
            source.field = "scale_down_group_name"
            packet.scale_down_group_name = source.nullable_string()
        if cls.TYPE == ClusterTopologyV4.TYPE:
            source.field = "server_version"
            packet.server_version = source.i32()
        return packet

    return decode


def _encode_exception(packet: ExceptionResponse, version: int) -> bytes:
    out = Writer()
    out.i32(packet.error_code)
    out.nullable_string(packet.message)
    if packet.correlation_id is not None and version >= hot.VERSION_CORRELATION:
        out.i64(packet.correlation_id)
    return bytes(out.data)


def _decode_exception(body: bytes, version: int) -> Packet:
    source = Reader(body, ExceptionResponse.NAME)
    source.field = "error_code"
    code = source.i32()
    source.field = "message"
    message = source.nullable_string()
    return ExceptionResponse(code, message, source.i64() if source.remaining >= 8 else None)


_ENCODERS: dict[int, Callable[[Any, int], bytes]] = {
    ExceptionResponse.TYPE: _encode_exception,
    NullResponse.TYPE: lambda p, v: hot.encode_null_response(p.correlation_id, v),
    CreateConsumer.TYPE: lambda p, v: hot.encode_create_consumer(
        p.consumer_id, p.queue_name, p.filter_string, p.browse_only, p.requires_response, p.priority, v
    ),
    FlowToken.TYPE: lambda p, v: hot.encode_flow_token(p.consumer_id, p.credits),
    Acknowledge.TYPE: lambda p, v: hot.encode_acknowledge(p.consumer_id, p.message_id, p.requires_response),
    IndividualAcknowledge.TYPE: lambda p, v: hot.encode_acknowledge(p.consumer_id, p.message_id, p.requires_response),
    SessionSend.TYPE: lambda p, v: hot.encode_send(p.message, p.requires_response, p.correlation_id, p.sender_id, v),
    SessionSendContinuation.TYPE: lambda p, v: hot.encode_send_continuation(
        p.chunk, p.continues, p.message_body_size, p.requires_response, p.correlation_id, p.sender_id, v
    ),
    ProducerRequestCredits.TYPE: lambda p, v: hot.encode_credits(p.credits, p.address),
    ProducerCredits.TYPE: lambda p, v: hot.encode_credits(p.credits, p.address),
    SessionReceive.TYPE: lambda p, v: hot.encode_receive(p.message, p.consumer_id, p.delivery_count, v),
    SessionReceiveContinuation.TYPE: lambda p, v: hot.encode_receive_continuation(p.chunk, p.continues, p.consumer_id),
    Commit.TYPE: lambda p, v: hot.encode_commit(p.correlation_id, v),
    **{cls.TYPE: _encode_topology for cls in (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)},
}

_DECODERS: dict[int, Callable[[bytes, int], Packet]] = {
    ExceptionResponse.TYPE: _decode_exception,
    NullResponse.TYPE: lambda b, v: NullResponse(hot.decode_null_response(b)),
    CreateConsumer.TYPE: lambda b, v: CreateConsumer(*hot.decode_create_consumer(b)),
    FlowToken.TYPE: lambda b, v: FlowToken(*hot.decode_flow_token(b)),
    Acknowledge.TYPE: lambda b, v: Acknowledge(*hot.decode_acknowledge(b, Acknowledge.NAME)),
    IndividualAcknowledge.TYPE: lambda b, v: IndividualAcknowledge(*hot.decode_acknowledge(b, IndividualAcknowledge.NAME)),
    SessionSend.TYPE: lambda b, v: SessionSend(*hot.decode_send(b, v)),
    SessionSendContinuation.TYPE: lambda b, v: SessionSendContinuation(*hot.decode_send_continuation(b, v)),
    ProducerRequestCredits.TYPE: lambda b, v: ProducerRequestCredits(*hot.decode_credits(b, ProducerRequestCredits.NAME)),
    ProducerCredits.TYPE: lambda b, v: ProducerCredits(*hot.decode_credits(b, ProducerCredits.NAME)),
    SessionReceive.TYPE: lambda b, v: SessionReceive(*hot.decode_receive(b, v)),
    SessionReceiveContinuation.TYPE: lambda b, v: SessionReceiveContinuation(*hot.decode_receive_continuation(b)),
    Commit.TYPE: lambda b, v: Commit(hot.decode_commit(b)),
    **{cls.TYPE: _topology_decoder(cls) for cls in (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)},
}
