"""Packets that connect: keep-alive, topology, opening and reattaching sessions, and the generic responses.

Source: ``protocol-spec/``, chapters "Connection and session" and "Responses and confirmations".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mqclient.wire.packets.base import (
    ALL_GROUPS,
    BOOL,
    CONNECTOR,
    I8,
    I32,
    I64,
    NSSTR,
    NSTR,
    STR,
    Field,
    FieldTable,
    Packet,
    register,
)
from mqclient.wire.primitives import TransportConfiguration

# --- connection -------------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class Ping(Packet):
    """Keep-alive; the broker takes ``connection_ttl`` (ms, -1 = never) for the connection and echoes the packet."""

    TYPE: ClassVar[int] = 10
    NAME: ClassVar[str] = "PING"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("connection_ttl", I64),)
    connection_ttl: int


@register
@dataclass(slots=True, eq=False, repr=False)
class Disconnect(Packet):
    TYPE: ClassVar[int] = 11
    NAME: ClassVar[str] = "DISCONNECT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("node_id", NSSTR),)
    node_id: str | None


@register
@dataclass(slots=True, eq=False, repr=False)
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


@register
@dataclass(slots=True, eq=False, repr=False)
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


@register
@dataclass(slots=True, eq=False, repr=False)
class DisconnectConsumer(Packet):
    TYPE: ClassVar[int] = 12
    NAME: ClassVar[str] = "DISCONNECT_CONSUMER"
    SINCE: ClassVar[int] = 124
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64),)
    consumer_id: int


@register
@dataclass(slots=True, eq=False, repr=False)
class DisconnectConsumerKill(Packet):
    TYPE: ClassVar[int] = 13
    NAME: ClassVar[str] = "DISCONNECT_CONSUMER_KILL"
    COUNTED: ClassVar[bool] = False
    SINCE: ClassVar[int] = 128
    FIELDS: ClassVar[FieldTable] = (("node_id", NSSTR),)
    node_id: str | None


@register
@dataclass(slots=True, eq=False, repr=False)
class SubscribeTopology(Packet):
    TYPE: ClassVar[int] = 112
    NAME: ClassVar[str] = "SUBSCRIBE_TOPOLOGY"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_connection", BOOL),)
    cluster_connection: bool


@register
@dataclass(slots=True, eq=False, repr=False)
class SubscribeTopologyV2(Packet):
    TYPE: ClassVar[int] = 113
    NAME: ClassVar[str] = "SUBSCRIBE_TOPOLOGY_V2"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_connection", BOOL), ("client_version", I32))
    cluster_connection: bool
    client_version: int


@dataclass(slots=True, eq=False, repr=False)
class Topology(Packet):
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


@register
class ClusterTopology(Topology):
    __slots__ = ()
    TYPE = 110
    NAME = "CLUSTER_TOPOLOGY"


@register
class ClusterTopologyV2(Topology):
    __slots__ = ()
    TYPE = 114
    NAME = "CLUSTER_TOPOLOGY_V2"
    SINCE = 122


@register
class ClusterTopologyV3(Topology):
    __slots__ = ()
    TYPE = 122
    NAME = "CLUSTER_TOPOLOGY_V3"
    SINCE = 125


@register
class ClusterTopologyV4(Topology):
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


@register
@dataclass(slots=True, eq=False, repr=False)
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


@register
class CreateSessionV2(CreateSession):
    __slots__ = ()
    TYPE = -18
    NAME = "CREATESESSION_V2"
    SINCE = 131
    FIELDS = (*_CREATE_SESSION, ("client_id", NSTR))


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateSessionResponse(Packet):
    TYPE: ClassVar[int] = 31
    NAME: ClassVar[str] = "CREATESESSION_RESP"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("server_version", I32),)
    server_version: int


@register
@dataclass(slots=True, eq=False, repr=False)
class ReattachSession(Packet):
    TYPE: ClassVar[int] = 32
    NAME: ClassVar[str] = "REATTACH_SESSION"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("name", STR), ("last_confirmed_command_id", I32))
    name: str
    last_confirmed_command_id: int


@register
@dataclass(slots=True, eq=False, repr=False)
class ReattachSessionResponse(Packet):
    TYPE: ClassVar[int] = 33
    NAME: ClassVar[str] = "REATTACH_SESSION_RESP"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("last_confirmed_command_id", I32), ("reattached", BOOL))
    last_confirmed_command_id: int
    reattached: bool


@register
@dataclass(slots=True, eq=False, repr=False)
class CheckForFailover(Packet):
    TYPE: ClassVar[int] = -4
    NAME: ClassVar[str] = "CHECK_FOR_FAILOVER"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("node_id", NSTR),)
    node_id: str | None


@register
@dataclass(slots=True, eq=False, repr=False)
class CheckForFailoverReply(Packet):
    TYPE: ClassVar[int] = -5
    NAME: ClassVar[str] = "CHECK_FOR_FAILOVER_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("ok_to_failover", BOOL),)
    ok_to_failover: bool


# --- generic responses ------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class ExceptionResponse(Packet):
    """A request failed with an error ``code``.  ``correlation_id`` is None in the short form."""

    TYPE: ClassVar[int] = 20
    NAME: ClassVar[str] = "EXCEPTION"
    RESPONSE: ClassVar[bool] = True
    error_code: int
    message: str | None
    correlation_id: int | None = None


@register
@dataclass(slots=True, eq=False, repr=False)
class NullResponse(Packet):
    """A request without a result succeeded.  ``correlation_id`` is the request's, or -1; None means the empty form before 130."""

    TYPE: ClassVar[int] = 21
    NAME: ClassVar[str] = "NULL_RESPONSE"
    RESPONSE: ClassVar[bool] = True
    correlation_id: int | None = -1


@register
@dataclass(slots=True, eq=False, repr=False)
class PacketsConfirmed(Packet):
    TYPE: ClassVar[int] = 22
    NAME: ClassVar[str] = "PACKETS_CONFIRMED"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("command_id", I32),)
    command_id: int
