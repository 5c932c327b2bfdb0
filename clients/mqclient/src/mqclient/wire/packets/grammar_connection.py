"""The packets that connect, described: keep-alive, topology, sessions, generic responses."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_packets import BOTH, CLIENT_TO_SERVER, SERVER_TO_CLIENT, Description, When, group
from mqclient.wire.packets.grammar_types import BOOL, CONNECTOR, I8, I32, I64, NSSTR, NSTR, STR, Wire

_PING, _SESSION, _USER = "0", "1", "session"


def _while_up(subcon: Wire, absent: object = None) -> When:
    return When("exit = false", lambda context: not context.exit, subcon, absent)


_TOPOLOGY_1 = ("exit" / BOOL * "true: the node has left", "node_id" / STR)
_TOPOLOGY_EVENT = ("unique_event_id" / I64 * "a later event of a node has a greater number",)
_TOPOLOGY_MEMBER = (
    "primary" / _while_up(CONNECTOR),
    "backup" / _while_up(CONNECTOR),
    "last" / _while_up(BOOL, False) * "true on the last member of the answer to a subscription",
)
_BACKUP_GROUP = "backup_group_name" / NSTR
_SCALE_DOWN_GROUP = "scale_down_group_name" / NSTR

CONNECTION = (
    Description(
        10,
        "PING",
        BOTH,
        _PING,
        "Keep-alive. The server takes the time to live for the connection and sends the packet back.",
        cs.Struct("connection_ttl" / I64 * "ms; -1 = for ever"),
        answer="PING",
        counted=False,
    ),
    Description(
        112,
        "SUBSCRIBE_TOPOLOGY",
        CLIENT_TO_SERVER,
        _PING,
        "Ask for the members of the cluster, now and when they change. Old form.",
        cs.Struct("cluster_connection" / BOOL * "true from the cluster connection of a broker"),
        answer="a topology packet for each member",
        counted=False,
    ),
    Description(
        113,
        "SUBSCRIBE_TOPOLOGY_V2",
        CLIENT_TO_SERVER,
        _PING,
        "Ask for the members of the cluster, now and when they change.",
        cs.Struct(
            "cluster_connection" / BOOL * "true from the cluster connection of a broker",
            "client_version" / I32 * "highest protocol version of the sender",
        ),
        answer="a topology packet for each member",
        counted=False,
    ),
    Description(
        110,
        "CLUSTER_TOPOLOGY",
        SERVER_TO_CLIENT,
        _PING,
        "A member of the cluster, for versions below 122.",
        cs.Struct(*_TOPOLOGY_1, *_TOPOLOGY_MEMBER),
        counted=False,
    ),
    Description(
        114,
        "CLUSTER_TOPOLOGY_V2",
        SERVER_TO_CLIENT,
        _PING,
        "A member of the cluster. Members that leave are always told in this form.",
        cs.Struct(*_TOPOLOGY_1, *_TOPOLOGY_EVENT, *_TOPOLOGY_MEMBER, *group(1, _BACKUP_GROUP)),
        since=122,
        counted=False,
    ),
    Description(
        122,
        "CLUSTER_TOPOLOGY_V3",
        SERVER_TO_CLIENT,
        _PING,
        "A member of the cluster.",
        cs.Struct(*_TOPOLOGY_1, *_TOPOLOGY_EVENT, *_TOPOLOGY_MEMBER, _BACKUP_GROUP, _SCALE_DOWN_GROUP),
        since=125,
        counted=False,
    ),
    Description(
        -17,
        "CLUSTER_TOPOLOGY_V4",
        SERVER_TO_CLIENT,
        _PING,
        "A member of the cluster.",
        cs.Struct(
            *_TOPOLOGY_1,
            *_TOPOLOGY_EVENT,
            *_TOPOLOGY_MEMBER,
            _BACKUP_GROUP,
            _SCALE_DOWN_GROUP,
            "server_version" / I32 * "highest protocol version of the server",
        ),
        since=131,
        counted=False,
    ),
    Description(
        11,
        "DISCONNECT",
        SERVER_TO_CLIENT,
        _PING,
        "The server closes this connection, for versions below 125.",
        cs.Struct("node_id" / NSSTR),
        counted=False,
    ),
    Description(
        124,
        "DISCONNECT_V2",
        SERVER_TO_CLIENT,
        _PING,
        "The server closes this connection.",
        cs.Struct("node_id" / NSSTR, "scale_down_node_id" / NSSTR * "where the messages went"),
        since=125,
        counted=False,
    ),
    Description(
        -19,
        "DISCONNECT_V3",
        SERVER_TO_CLIENT,
        _PING,
        "The server closes this connection, or sends the client elsewhere.",
        cs.Struct(
            "node_id" / NSSTR,
            "reason" / I8 * "0 redirect, 2 scale down or stop, 4 stop; odd: the same after a critical error; -1 none",
            "target_node_id" / NSSTR,
            "connector" / CONNECTOR * "where to connect instead",
        ),
        since=131,
        counted=False,
    ),
)

_CREATE_SESSION = (
    "name" / STR * "a UUID, unique for each session",
    "session_channel_id" / I64 * "10 or more; chosen by the client",
    "version" / I32 * "protocol version that this attempt offers",
    "username" / NSTR,
    "password" / NSTR * "clear text",
    "min_large_message_size" / I32 * "bytes; also the size of the chunks that the server delivers",
    "xa" / BOOL,
    "auto_commit_sends" / BOOL,
    "auto_commit_acks" / BOOL,
    "window_size" / I32 * "confirmation window in bytes; -1 = none",
    "pre_acknowledge" / BOOL,
    "default_address" / NSTR * "null from all known clients",
)

SESSION = (
    Description(
        30,
        "CREATESESSION",
        CLIENT_TO_SERVER,
        _SESSION,
        "Open a session.",
        cs.Struct(*_CREATE_SESSION),
        answer="CREATESESSION_RESP",
        counted=False,
    ),
    Description(
        -18,
        "CREATESESSION_V2",
        CLIENT_TO_SERVER,
        _SESSION,
        "Open a session, with the client id of the connection.",
        cs.Struct(*_CREATE_SESSION, "client_id" / NSTR),
        answer="CREATESESSION_RESP",
        since=131,
        counted=False,
    ),
    Description(
        31,
        "CREATESESSION_RESP",
        SERVER_TO_CLIENT,
        _SESSION,
        "The session is open.",
        cs.Struct("server_version" / I32 * "highest protocol version of the server, not the agreed one"),
        counted=False,
        response=True,
    ),
    Description(
        32,
        "REATTACH_SESSION",
        CLIENT_TO_SERVER,
        _SESSION,
        "Carry on a session of a lost connection.",
        cs.Struct("name" / STR, "last_confirmed_command_id" / I32 * "last packet of the server that the client has processed"),
        answer="REATTACH_SESSION_RESP",
        counted=False,
    ),
    Description(
        33,
        "REATTACH_SESSION_RESP",
        SERVER_TO_CLIENT,
        _SESSION,
        "Whether the session is still there.",
        cs.Struct(
            "last_confirmed_command_id" / I32 * "last packet of the client that the server has processed; -1 if not reattached",
            "reattached" / BOOL,
        ),
        counted=False,
        response=True,
    ),
    Description(
        -4,
        "CHECK_FOR_FAILOVER",
        CLIENT_TO_SERVER,
        _SESSION,
        "May this client fail over from the named node to this server?",
        cs.Struct("node_id" / NSTR),
        answer="CHECK_FOR_FAILOVER_REPLY",
        counted=False,
    ),
    Description(
        -5,
        "CHECK_FOR_FAILOVER_REPLY",
        SERVER_TO_CLIENT,
        _SESSION,
        "The answer.",
        cs.Struct("ok_to_failover" / BOOL),
        counted=False,
        response=True,
    ),
    Description(
        13,
        "DISCONNECT_CONSUMER_KILL",
        SERVER_TO_CLIENT,
        _SESSION,
        "A consumer was too slow and the connection is about to be closed.",
        cs.Struct("node_id" / NSSTR),
        since=128,
        counted=False,
    ),
)

_CORRELATION = "correlation_id" / I64 * "that of the request"

GENERIC = (
    Description(
        20,
        "EXCEPTION",
        SERVER_TO_CLIENT,
        "1, session",
        "A request has failed.",
        cs.Struct(
            "error_code" / I32 * "see chapter 13",
            "message" / NSTR,
            *group(1, _CORRELATION, minimum=8, version=130),
        ),
        response=True,
    ),
    Description(
        21,
        "NULL_RESPONSE",
        SERVER_TO_CLIENT,
        _USER,
        "A request that has no result was carried out.",
        cs.Struct(*group(1, "correlation_id" / I64 * "that of the request, -1 if it has none", minimum=8, version=130)),
        response=True,
    ),
    Description(
        22,
        "PACKETS_CONFIRMED",
        BOTH,
        _USER,
        "All counted packets up to this one were processed.",
        cs.Struct("command_id" / I32 * "the first counted packet of a channel has the number 0"),
        counted=False,
    ),
)
