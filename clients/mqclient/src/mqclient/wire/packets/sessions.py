"""Packets that control a session and its transactions, local and XA.

Source: ``protocol-spec/``, chapter "Session control and transactions".
"""

from dataclasses import dataclass
from typing import Annotated

from mqclient.wire.packets.base import (
    BOOL,
    I32,
    I64,
    NSTR,
    STR,
    XID,
    XID_ARRAY,
    Group,
    Packet,
    packet,
)

# --- session control --------------------------------------------------------------------------------------------------


@packet(67, "SESS_START")
class SessionStart(Packet):
    pass


@packet(68, "SESS_STOP")
class SessionStop(Packet):
    pass


@packet(69, "SESS_CLOSE")
class SessionClose(Packet):
    pass


@packet(43, "SESS_COMMIT")
class Commit(Packet):
    """``correlation_id`` is None in the empty form (before 132, or when the client does not wait)."""

    correlation_id: int | None = None


@packet(44, "SESS_ROLLBACK")
class Rollback(Packet):
    consider_last_message_as_delivered: BOOL = False


@packet(104, "SESS_ADD_METADATA", counted=False)
class AddMetadata(Packet):
    key: STR
    data: STR


@packet(105, "SESS_ADD_METADATA2")
class AddMetadataV2(Packet):
    """Counted for the confirmation window only when ``requires_confirmation`` is true."""

    key: STR
    data: STR
    requires_confirmation: BOOL = True


@packet(106, "SESS_UNIQUE_ADD_METADATA")
class UniqueAddMetadata(Packet):
    key: STR
    data: STR
    requires_confirmation: BOOL = True


# --- XA ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class _XaRequest(Packet):
    xid: XID


@packet(39, "SESS_XA_FAILED")
class XaFailed(_XaRequest):
    __slots__ = ()


@packet(51, "SESS_XA_START")
class XaStart(_XaRequest):
    __slots__ = ()


@packet(52, "SESS_XA_END")
class XaEnd(Packet):
    xid: XID
    failed: BOOL = False


@packet(53, "SESS_XA_COMMIT")
class XaCommit(Packet):
    xid: XID
    one_phase: BOOL = False


@packet(54, "SESS_XA_PREPARE")
class XaPrepare(_XaRequest):
    __slots__ = ()


@packet(55, "SESS_XA_RESP", response=True)
class XaResponse(Packet):
    error: BOOL
    response_code: I32
    message: NSTR = None
    correlation_id: Annotated[I64, Group(8, since=130)] = -1
    groups: int = 0


@packet(56, "SESS_XA_ROLLBACK")
class XaRollback(_XaRequest):
    __slots__ = ()


@packet(57, "SESS_XA_JOIN")
class XaJoin(_XaRequest):
    __slots__ = ()


@packet(58, "SESS_XA_SUSPEND")
class XaSuspend(Packet):
    pass


@packet(59, "SESS_XA_RESUME")
class XaResume(_XaRequest):
    __slots__ = ()


@packet(60, "SESS_XA_FORGET")
class XaForget(_XaRequest):
    __slots__ = ()


@packet(61, "SESS_XA_INDOUBT_XIDS")
class XaInDoubtXids(Packet):
    pass


@packet(62, "SESS_XA_INDOUBT_XIDS_RESP", response=True)
class XaInDoubtXidsResponse(Packet):
    xids: XID_ARRAY


@packet(63, "SESS_XA_SET_TIMEOUT")
class XaSetTimeout(Packet):
    timeout_seconds: I32


@packet(64, "SESS_XA_SET_TIMEOUT_RESP", response=True)
class XaSetTimeoutResponse(Packet):
    ok: BOOL = True


@packet(65, "SESS_XA_GET_TIMEOUT")
class XaGetTimeout(Packet):
    pass


@packet(66, "SESS_XA_GET_TIMEOUT_RESP", response=True)
class XaGetTimeoutResponse(Packet):
    timeout_seconds: I32
