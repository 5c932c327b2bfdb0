"""Packets that connect: keep-alive, topology, opening and reattaching sessions, and the generic responses.

Source: ``protocol-spec/``, chapters "Connection and session" and "Responses and confirmations".
"""

from dataclasses import dataclass, field

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
    Packet,
    packet,
)
from mqclient.wire.primitives import TransportConfiguration

# --- connection -------------------------------------------------------------------------------------------------------


@packet(10, "PING", counted=False)
class Ping(Packet):
    """Keep-alive; the broker takes ``connection_ttl`` (ms, -1 = never) for the connection and echoes the packet."""

    connection_ttl: I64


@packet(11, "DISCONNECT", counted=False)
class Disconnect(Packet):
    node_id: NSSTR


@packet(124, "DISCONNECT_V2", since=125, counted=False)
class DisconnectV2(Packet):
    node_id: NSSTR
    scale_down_node_id: NSSTR = None


REASON_REDIRECT = 0
REASON_SCALE_DOWN = 2
REASON_SHUT_DOWN = 4


@packet(-19, "DISCONNECT_V3", since=131, counted=False)
class DisconnectV3(Packet):
    node_id: NSSTR
    reason: I8
    target_node_id: NSSTR = None
    connector: CONNECTOR = None


@packet(12, "DISCONNECT_CONSUMER", since=124)
class DisconnectConsumer(Packet):
    consumer_id: I64


@packet(13, "DISCONNECT_CONSUMER_KILL", since=128, counted=False)
class DisconnectConsumerKill(Packet):
    node_id: NSSTR


@packet(112, "SUBSCRIBE_TOPOLOGY", counted=False)
class SubscribeTopology(Packet):
    cluster_connection: BOOL


@packet(113, "SUBSCRIBE_TOPOLOGY_V2", counted=False)
class SubscribeTopologyV2(Packet):
    cluster_connection: BOOL
    client_version: I32


@dataclass(slots=True, eq=False, repr=False)
class Topology(Packet):
    """A member of the cluster appeared or changed, or left (``exit``)."""

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


@packet(110, "CLUSTER_TOPOLOGY", counted=False)
class ClusterTopology(Topology):
    __slots__ = ()


@packet(114, "CLUSTER_TOPOLOGY_V2", since=122, counted=False)
class ClusterTopologyV2(Topology):
    __slots__ = ()


@packet(122, "CLUSTER_TOPOLOGY_V3", since=125, counted=False)
class ClusterTopologyV3(Topology):
    __slots__ = ()


@packet(-17, "CLUSTER_TOPOLOGY_V4", since=131, counted=False)
class ClusterTopologyV4(Topology):
    __slots__ = ()


# --- session management -----------------------------------------------------------------------------------------------


@packet(30, "CREATESESSION", counted=False, last="default_address")
class CreateSession(Packet):
    """Open a session on ``session_channel_id``; ``window_size`` (bytes, -1 = none) is the confirmation window."""

    name: STR
    session_channel_id: I64
    version: I32
    username: NSTR = field(default=None, repr=False)
    password: NSTR = field(default=None, repr=False)
    min_large_message_size: I32 = 102400
    xa: BOOL = False
    auto_commit_sends: BOOL = True
    auto_commit_acks: BOOL = True
    window_size: I32 = -1
    pre_acknowledge: BOOL = False
    default_address: NSTR = None
    client_id: NSTR = None


@packet(-18, "CREATESESSION_V2", since=131, counted=False)
class CreateSessionV2(CreateSession):
    __slots__ = ()


@packet(31, "CREATESESSION_RESP", counted=False, response=True)
class CreateSessionResponse(Packet):
    server_version: I32


@packet(32, "REATTACH_SESSION", counted=False)
class ReattachSession(Packet):
    name: STR
    last_confirmed_command_id: I32


@packet(33, "REATTACH_SESSION_RESP", counted=False, response=True)
class ReattachSessionResponse(Packet):
    last_confirmed_command_id: I32
    reattached: BOOL


@packet(-4, "CHECK_FOR_FAILOVER", counted=False)
class CheckForFailover(Packet):
    node_id: NSTR


@packet(-5, "CHECK_FOR_FAILOVER_REPLY", counted=False, response=True)
class CheckForFailoverReply(Packet):
    ok_to_failover: BOOL


# --- generic responses ------------------------------------------------------------------------------------------------


@packet(20, "EXCEPTION", response=True)
class ExceptionResponse(Packet):
    """A request failed with an error ``code``.  ``correlation_id`` is None in the short form."""

    error_code: int
    message: str | None
    correlation_id: int | None = None


@packet(21, "NULL_RESPONSE", response=True)
class NullResponse(Packet):
    """A request without a result succeeded.  ``correlation_id`` is the request's, or -1; None means the empty form before 130."""

    correlation_id: int | None = -1


@packet(22, "PACKETS_CONFIRMED", counted=False)
class PacketsConfirmed(Packet):
    command_id: I32
