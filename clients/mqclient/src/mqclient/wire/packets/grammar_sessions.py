"""The packets that control a session and its transactions, described."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_packets import CLIENT_TO_SERVER, SERVER_TO_CLIENT, Description, group
from mqclient.wire.packets.grammar_types import BOOL, I32, I64, NSTR, STR, XID, XID_ARRAY

_USER = "session"
_XA_RESPONSE = "SESS_XA_RESP"

CONTROL = (
    Description(67, "SESS_START", CLIENT_TO_SERVER, _USER, "Start delivery.", cs.Struct()),
    Description(68, "SESS_STOP", CLIENT_TO_SERVER, _USER, "Stop delivery.", cs.Struct(), answer="NULL_RESPONSE"),
    Description(
        69,
        "SESS_CLOSE",
        CLIENT_TO_SERVER,
        _USER,
        "Close the session; its open transaction is rolled back.",
        cs.Struct(),
        answer="NULL_RESPONSE",
    ),
    Description(
        43,
        "SESS_COMMIT",
        CLIENT_TO_SERVER,
        _USER,
        "Commit the transaction of the session.",
        cs.Struct(*group(1, "correlation_id" / I64 * "missing when the client does not wait", minimum=8, version=132)),
        answer="NULL_RESPONSE",
    ),
    Description(
        44,
        "SESS_ROLLBACK",
        CLIENT_TO_SERVER,
        _USER,
        "Roll the transaction of the session back.",
        cs.Struct("consider_last_message_as_delivered" / BOOL * "true: the oldest message of each consumer counts as delivered"),
        answer="NULL_RESPONSE",
    ),
    Description(
        104,
        "SESS_ADD_METADATA",
        CLIENT_TO_SERVER,
        _USER,
        "Note a value on the session. Old form.",
        cs.Struct("key" / STR, "data" / STR),
        answer="NULL_RESPONSE",
        counted=False,
    ),
    Description(
        105,
        "SESS_ADD_METADATA2",
        CLIENT_TO_SERVER,
        _USER,
        "Note a value on the session.",
        cs.Struct("key" / STR, "data" / STR, "requires_confirmation" / BOOL * "false: neither answered nor counted"),
        answer="NULL_RESPONSE if wanted",
    ),
    Description(
        106,
        "SESS_UNIQUE_ADD_METADATA",
        CLIENT_TO_SERVER,
        _USER,
        "Note a value on the session that no other session may have (client ids).",
        cs.Struct("key" / STR, "data" / STR, "requires_confirmation" / BOOL),
        answer="NULL_RESPONSE",
    ),
)

XA = (
    Description(39, "SESS_XA_FAILED", CLIENT_TO_SERVER, _USER, "The branch has failed with its connection.", cs.Struct("xid" / XID)),
    Description(51, "SESS_XA_START", CLIENT_TO_SERVER, _USER, "Begin a branch.", cs.Struct("xid" / XID), answer=_XA_RESPONSE),
    Description(
        52,
        "SESS_XA_END",
        CLIENT_TO_SERVER,
        _USER,
        "End the work on a branch.",
        cs.Struct("xid" / XID, "failed" / BOOL),
        answer=_XA_RESPONSE,
    ),
    Description(
        53,
        "SESS_XA_COMMIT",
        CLIENT_TO_SERVER,
        _USER,
        "Commit a branch.",
        cs.Struct("xid" / XID, "one_phase" / BOOL),
        answer=_XA_RESPONSE,
    ),
    Description(54, "SESS_XA_PREPARE", CLIENT_TO_SERVER, _USER, "Prepare a branch.", cs.Struct("xid" / XID), answer=_XA_RESPONSE),
    Description(
        55,
        "SESS_XA_RESP",
        SERVER_TO_CLIENT,
        _USER,
        "The outcome of an XA request.",
        cs.Struct(
            "error" / BOOL,
            "response_code" / I32 * "0, or a code of the XA standard",
            "message" / NSTR,
            *group(1, "correlation_id" / I64, minimum=8, version=130, absent=-1),
        ),
        response=True,
    ),
    Description(56, "SESS_XA_ROLLBACK", CLIENT_TO_SERVER, _USER, "Roll a branch back.", cs.Struct("xid" / XID), answer=_XA_RESPONSE),
    Description(57, "SESS_XA_JOIN", CLIENT_TO_SERVER, _USER, "Join a branch.", cs.Struct("xid" / XID), answer=_XA_RESPONSE),
    Description(58, "SESS_XA_SUSPEND", CLIENT_TO_SERVER, _USER, "Suspend the branch.", cs.Struct(), answer=_XA_RESPONSE),
    Description(59, "SESS_XA_RESUME", CLIENT_TO_SERVER, _USER, "Resume a branch.", cs.Struct("xid" / XID), answer=_XA_RESPONSE),
    Description(
        60,
        "SESS_XA_FORGET",
        CLIENT_TO_SERVER,
        _USER,
        "Forget a heuristically completed branch.",
        cs.Struct("xid" / XID),
        answer=_XA_RESPONSE,
    ),
    Description(
        61,
        "SESS_XA_INDOUBT_XIDS",
        CLIENT_TO_SERVER,
        _USER,
        "Ask for the prepared branches.",
        cs.Struct(),
        answer="SESS_XA_INDOUBT_XIDS_RESP",
    ),
    Description(
        62,
        "SESS_XA_INDOUBT_XIDS_RESP",
        SERVER_TO_CLIENT,
        _USER,
        "The prepared branches.",
        cs.Struct("xids" / XID_ARRAY),
        response=True,
    ),
    Description(
        63,
        "SESS_XA_SET_TIMEOUT",
        CLIENT_TO_SERVER,
        _USER,
        "Set the time limit of branches.",
        cs.Struct("timeout_seconds" / I32 * "s"),
        answer="SESS_XA_SET_TIMEOUT_RESP",
    ),
    Description(64, "SESS_XA_SET_TIMEOUT_RESP", SERVER_TO_CLIENT, _USER, "Done.", cs.Struct("ok" / BOOL), response=True),
    Description(
        65,
        "SESS_XA_GET_TIMEOUT",
        CLIENT_TO_SERVER,
        _USER,
        "Ask for the time limit of branches.",
        cs.Struct(),
        answer="SESS_XA_GET_TIMEOUT_RESP",
    ),
    Description(
        66, "SESS_XA_GET_TIMEOUT_RESP", SERVER_TO_CLIENT, _USER, "The time limit.", cs.Struct("timeout_seconds" / I32 * "s"), response=True
    ),
)
