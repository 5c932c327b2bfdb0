"""Batches of the sink, the ids of their branches, and the text of the decision about a batch.

Branch ids: format :data:`FORMAT_ID`; global id: 16 bytes of the query (or job), 8 bytes of the number of the batch, 16 bytes of the home;
qualifier: 4 bytes of the partition, 4 bytes of the attempt, 8 random bytes.  Numbers are big endian.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mqclient.xa import Xid
from mqspark.errors import MqsparkError

FORMAT_ID: Final = 0x6D717370
"""Tells our branches from others: "mqsp"."""
DECISIONS: Final = "mqspark.decisions"
"""The queue of the decisions, made where it does not exist."""
_GLOBAL = struct.Struct(">16sq16s")
_QUALIFIER = struct.Struct(">iiq")


@dataclass(frozen=True, slots=True)
class Batch:
    """The unit of a decision: a batch of a streaming query, or (``number`` 0) the write job with this id."""

    query: str
    """A UUID."""
    number: int
    job: bool = False

    def __str__(self) -> str:
        return f"write job {self.query}" if self.job else f"batch {self.number} of query {self.query}"


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch that is prepared on a node."""

    node_id: str
    xid: Xid


def sixteen(name: str) -> bytes:
    """A UUID as bytes; of another name a digest."""
    try:
        return uuid.UUID(name).bytes
    except ValueError:
        return hashlib.sha256(name.encode()).digest()[:16]


def new_xid(batch: Batch, home: str, partition: int, attempt: int, entropy: bytes) -> Xid:
    """``entropy``: 8 random bytes, since an earlier run of the batch had the same numbers."""
    qualifier = _QUALIFIER.pack(partition, attempt, int.from_bytes(entropy, "big", signed=True))
    return Xid(FORMAT_ID, _GLOBAL.pack(sixteen(batch.query), batch.number, sixteen(home)), qualifier)


@dataclass(frozen=True, slots=True)
class XidParts:
    """The fields of a branch id."""

    query: bytes
    batch: int
    home: bytes
    partition: int


def parts_of(xid: Xid) -> XidParts | None:
    """None when the branch is not one of ours."""
    if xid.format_id != FORMAT_ID or len(xid.global_transaction_id) != _GLOBAL.size or len(xid.branch_qualifier) != _QUALIFIER.size:
        return None
    query, batch, home = _GLOBAL.unpack(xid.global_transaction_id)
    return XidParts(query, batch, home, _QUALIFIER.unpack(xid.branch_qualifier)[0])


def encode_decision(branches: Iterable[Branch]) -> str:
    """The text of a decision."""
    listed = [[each.node_id, each.xid.global_transaction_id.hex(), each.xid.branch_qualifier.hex()] for each in branches]
    return json.dumps({"version": 1, "branches": listed}, separators=(",", ":"))


def decode_decision(text: str) -> list[Branch]:
    """Raises MqsparkError for a text that is no decision."""
    try:
        found = json.loads(text)
        if found["version"] != 1:
            raise ValueError(f"version {found['version']}")
        return [Branch(node_id, Xid(FORMAT_ID, bytes.fromhex(name), bytes.fromhex(rest))) for node_id, name, rest in found["branches"]]
    except (ValueError, KeyError, TypeError) as error:
        raise MqsparkError(f"a message in the queue {DECISIONS} is not a decision of this version: {error}") from None
