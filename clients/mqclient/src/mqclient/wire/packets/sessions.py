"""Packets that control a session and its transactions, local and XA.

Source: ``protocol-spec/``, chapter "Session control and transactions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mqclient.wire.packets.base import (
    BOOL,
    I32,
    I64,
    NSTR,
    STR,
    XID,
    XID_ARRAY,
    FieldTable,
    Group,
    Packet,
    register,
)
from mqclient.wire.primitives import Xid

# --- session control --------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionStart(Packet):
    TYPE: ClassVar[int] = 67
    NAME: ClassVar[str] = "SESS_START"


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionStop(Packet):
    TYPE: ClassVar[int] = 68
    NAME: ClassVar[str] = "SESS_STOP"


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionClose(Packet):
    TYPE: ClassVar[int] = 69
    NAME: ClassVar[str] = "SESS_CLOSE"


@register
@dataclass(slots=True, eq=False, repr=False)
class Commit(Packet):
    """``correlation_id`` is None in the empty form (before 132, or when the client does not wait)."""

    TYPE: ClassVar[int] = 43
    NAME: ClassVar[str] = "SESS_COMMIT"
    correlation_id: int | None = None


@register
@dataclass(slots=True, eq=False, repr=False)
class Rollback(Packet):
    TYPE: ClassVar[int] = 44
    NAME: ClassVar[str] = "SESS_ROLLBACK"
    FIELDS: ClassVar[FieldTable] = (("consider_last_message_as_delivered", BOOL),)
    consider_last_message_as_delivered: bool = False


@register
@dataclass(slots=True, eq=False, repr=False)
class AddMetadata(Packet):
    TYPE: ClassVar[int] = 104
    NAME: ClassVar[str] = "SESS_ADD_METADATA"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR))
    key: str
    data: str


@register
@dataclass(slots=True, eq=False, repr=False)
class AddMetadataV2(Packet):
    """Counted for the confirmation window only when ``requires_confirmation`` is true."""

    TYPE: ClassVar[int] = 105
    NAME: ClassVar[str] = "SESS_ADD_METADATA2"
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR), ("requires_confirmation", BOOL))
    key: str
    data: str
    requires_confirmation: bool = True


@register
@dataclass(slots=True, eq=False, repr=False)
class UniqueAddMetadata(Packet):
    TYPE: ClassVar[int] = 106
    NAME: ClassVar[str] = "SESS_UNIQUE_ADD_METADATA"
    FIELDS: ClassVar[FieldTable] = (("key", STR), ("data", STR), ("requires_confirmation", BOOL))
    key: str
    data: str
    requires_confirmation: bool = True


# --- XA ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class _XaRequest(Packet):
    FIELDS: ClassVar[FieldTable] = (("xid", XID),)
    xid: Xid


@register
class XaFailed(_XaRequest):
    __slots__ = ()
    TYPE = 39
    NAME = "SESS_XA_FAILED"


@register
class XaStart(_XaRequest):
    __slots__ = ()
    TYPE = 51
    NAME = "SESS_XA_START"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaEnd(Packet):
    TYPE: ClassVar[int] = 52
    NAME: ClassVar[str] = "SESS_XA_END"
    FIELDS: ClassVar[FieldTable] = (("xid", XID), ("failed", BOOL))
    xid: Xid
    failed: bool = False


@register
@dataclass(slots=True, eq=False, repr=False)
class XaCommit(Packet):
    TYPE: ClassVar[int] = 53
    NAME: ClassVar[str] = "SESS_XA_COMMIT"
    FIELDS: ClassVar[FieldTable] = (("xid", XID), ("one_phase", BOOL))
    xid: Xid
    one_phase: bool = False


@register
class XaPrepare(_XaRequest):
    __slots__ = ()
    TYPE = 54
    NAME = "SESS_XA_PREPARE"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaResponse(Packet):
    TYPE: ClassVar[int] = 55
    NAME: ClassVar[str] = "SESS_XA_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (
        ("error", BOOL),
        ("response_code", I32),
        ("message", NSTR),
        Group(8, since=130),
        ("correlation_id", I64),
    )
    error: bool
    response_code: int
    message: str | None = None
    correlation_id: int = -1
    groups: int = 0


@register
class XaRollback(_XaRequest):
    __slots__ = ()
    TYPE = 56
    NAME = "SESS_XA_ROLLBACK"


@register
class XaJoin(_XaRequest):
    __slots__ = ()
    TYPE = 57
    NAME = "SESS_XA_JOIN"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaSuspend(Packet):
    TYPE: ClassVar[int] = 58
    NAME: ClassVar[str] = "SESS_XA_SUSPEND"


@register
class XaResume(_XaRequest):
    __slots__ = ()
    TYPE = 59
    NAME = "SESS_XA_RESUME"


@register
class XaForget(_XaRequest):
    __slots__ = ()
    TYPE = 60
    NAME = "SESS_XA_FORGET"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaInDoubtXids(Packet):
    TYPE: ClassVar[int] = 61
    NAME: ClassVar[str] = "SESS_XA_INDOUBT_XIDS"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaInDoubtXidsResponse(Packet):
    TYPE: ClassVar[int] = 62
    NAME: ClassVar[str] = "SESS_XA_INDOUBT_XIDS_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("xids", XID_ARRAY),)
    xids: tuple[Xid, ...]


@register
@dataclass(slots=True, eq=False, repr=False)
class XaSetTimeout(Packet):
    TYPE: ClassVar[int] = 63
    NAME: ClassVar[str] = "SESS_XA_SET_TIMEOUT"
    FIELDS: ClassVar[FieldTable] = (("timeout_seconds", I32),)
    timeout_seconds: int


@register
@dataclass(slots=True, eq=False, repr=False)
class XaSetTimeoutResponse(Packet):
    TYPE: ClassVar[int] = 64
    NAME: ClassVar[str] = "SESS_XA_SET_TIMEOUT_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("ok", BOOL),)
    ok: bool = True


@register
@dataclass(slots=True, eq=False, repr=False)
class XaGetTimeout(Packet):
    TYPE: ClassVar[int] = 65
    NAME: ClassVar[str] = "SESS_XA_GET_TIMEOUT"


@register
@dataclass(slots=True, eq=False, repr=False)
class XaGetTimeoutResponse(Packet):
    TYPE: ClassVar[int] = 66
    NAME: ClassVar[str] = "SESS_XA_GET_TIMEOUT_RESP"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("timeout_seconds", I32),)
    timeout_seconds: int
