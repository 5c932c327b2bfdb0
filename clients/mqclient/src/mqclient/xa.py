"""Distributed transactions (XA): branch ids, flags and error codes.

Source: the X/Open XA specification, whose names and numbers Java's ``javax.transaction.xa`` has too, and ``protocol-spec/``, chapter
"Session control and transactions".
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from mqclient.wire.primitives import Xid as WireXid

# Flags of start, end and recover.

TMNOFLAGS: Final = 0
TMJOIN: Final = 0x200000
"""start: work on a branch that another session has begun."""

TMRESUME: Final = 0x8000000
"""start: go on with a branch that was suspended."""

TMSUCCESS: Final = 0x4000000
"""end: the work is done."""

TMFAIL: Final = 0x20000000
"""end: the work has failed; the branch can only be rolled back."""

TMSUSPEND: Final = 0x2000000
"""end: the work will go on."""

TMSTARTRSCAN: Final = 0x1000000
"""recover: begin a scan."""

TMENDRSCAN: Final = 0x800000
"""recover: end a scan."""

TMONEPHASE: Final = 0x40000000
"""Not used here: ``commit`` has an argument for it."""

# Answers to prepare.

XA_OK: Final = 0
XA_RDONLY: Final = 3

# Codes of XAError: the branch is, or has to be, rolled back (100 to 107).

XA_RBROLLBACK: Final = 100
XA_RBCOMMFAIL: Final = 101
XA_RBDEADLOCK: Final = 102
XA_RBINTEGRITY: Final = 103
XA_RBOTHER: Final = 104
XA_RBPROTO: Final = 105
XA_RBTIMEOUT: Final = 106
XA_RBTRANSIENT: Final = 107
XA_RBBASE: Final = XA_RBROLLBACK
XA_RBEND: Final = XA_RBTRANSIENT

# Codes of outcomes that are no plain failure.

XA_RETRY: Final = 4
"""The branch is undecided: the same call has to be made again."""

XA_HEURMIX: Final = 5
XA_HEURRB: Final = 6
"""An administrator has rolled the branch back."""

XA_HEURCOM: Final = 7
"""An administrator has committed the branch."""

XA_HEURHAZ: Final = 8
XA_NOMIGRATE: Final = 9

# Failures.

XAER_ASYNC: Final = -2
XAER_RMERR: Final = -3
XAER_NOTA: Final = -4
"""The broker does not know the branch."""

XAER_INVAL: Final = -5
XAER_PROTO: Final = -6
"""The call is not allowed in the state of the branch."""

XAER_RMFAIL: Final = -7
"""The broker cannot be reached, or the outcome of the call is unknown."""

XAER_DUPID: Final = -8
XAER_OUTSIDE: Final = -9

GLOBAL_TRANSACTION_ID_MAX: Final = 64
"""Bytes of a global transaction id (the XA specification)."""

BRANCH_QUALIFIER_MAX: Final = 64
"""Bytes of a branch qualifier (the XA specification)."""

_FORMAT_ID_LIMIT: Final = 2**31
_NULL_FORMAT_ID: Final = -1

_NAMES: Final = {
    XA_RBROLLBACK: "XA_RBROLLBACK",
    XA_RBCOMMFAIL: "XA_RBCOMMFAIL",
    XA_RBDEADLOCK: "XA_RBDEADLOCK",
    XA_RBINTEGRITY: "XA_RBINTEGRITY",
    XA_RBOTHER: "XA_RBOTHER",
    XA_RBPROTO: "XA_RBPROTO",
    XA_RBTIMEOUT: "XA_RBTIMEOUT",
    XA_RBTRANSIENT: "XA_RBTRANSIENT",
    XA_RETRY: "XA_RETRY",
    XA_HEURMIX: "XA_HEURMIX",
    XA_HEURRB: "XA_HEURRB",
    XA_HEURCOM: "XA_HEURCOM",
    XA_HEURHAZ: "XA_HEURHAZ",
    XA_NOMIGRATE: "XA_NOMIGRATE",
    XAER_ASYNC: "XAER_ASYNC",
    XAER_RMERR: "XAER_RMERR",
    XAER_NOTA: "XAER_NOTA",
    XAER_INVAL: "XAER_INVAL",
    XAER_PROTO: "XAER_PROTO",
    XAER_RMFAIL: "XAER_RMFAIL",
    XAER_DUPID: "XAER_DUPID",
    XAER_OUTSIDE: "XAER_OUTSIDE",
}


class XAError(Exception):
    """The failure of an XA call: ``error_code`` is one of the constants of this module (Java's ``XAException.errorCode``)."""

    def __init__(self, error_code: int, reason: str = "") -> None:
        name = _NAMES.get(error_code, f"XA error {error_code}")
        super().__init__(f"{name}: {reason}" if reason else name)
        self.error_code = error_code

    @property
    def rolled_back(self) -> bool:
        """Does the code say that the branch is, or has to be, rolled back (XA_RB…)?"""
        return XA_RBBASE <= self.error_code <= XA_RBEND


@dataclass(frozen=True, slots=True, order=True)
class Xid:
    """The id of a transaction branch.

    ``format_id`` is a signed 32-bit number but -1, which means "no transaction"; ``global_transaction_id`` has 1 to 64 bytes,
    ``branch_qualifier`` 0 to 64.  Raises ValueError for other values.
    """

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""

    def __post_init__(self) -> None:
        if not -_FORMAT_ID_LIMIT <= self.format_id < _FORMAT_ID_LIMIT or self.format_id == _NULL_FORMAT_ID:
            raise ValueError(f"format_id is {self.format_id}, expected a signed 32-bit number other than -1")
        if not 1 <= len(self.global_transaction_id) <= GLOBAL_TRANSACTION_ID_MAX:
            raise ValueError(
                f"global_transaction_id has {len(self.global_transaction_id)} bytes, expected 1 to {GLOBAL_TRANSACTION_ID_MAX}"
            )
        if len(self.branch_qualifier) > BRANCH_QUALIFIER_MAX:
            raise ValueError(f"branch_qualifier has {len(self.branch_qualifier)} bytes, expected 0 to {BRANCH_QUALIFIER_MAX}")

    @property
    def base64(self) -> str:
        """The form that management shows and takes (``commitPreparedTransaction``).

        Its last four bytes come from the format id, lowest first; as the Artemis broker has it, each is a remainder of division by 255.
        """
        format_id = bytes(_remainder(self.format_id >> shift) for shift in (0, 8, 16, 24))
        return base64.urlsafe_b64encode(self.branch_qualifier + self.global_transaction_id + format_id).decode("ascii")

    def to_wire(self) -> WireXid:
        return WireXid(self.format_id, self.branch_qualifier, self.global_transaction_id)

    @classmethod
    def from_wire(cls, xid: WireXid) -> Xid:
        """Raises ValueError for sizes that are not allowed."""
        return cls(xid.format_id, xid.global_transaction_id, xid.branch_qualifier)


def _remainder(number: int) -> int:
    """The byte of Java's ``number % 255``, whose sign is the number's."""
    return (abs(number) % 255 * (1 if number >= 0 else -1)) & 0xFF
