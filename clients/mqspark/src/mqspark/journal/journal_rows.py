"""Messages and records of files as Arrow batches: the bytes of messages go through the converter of the data source ``mqbroker``."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqclient.storageformat.records import (
    BRANCH_COMMITTED,
    BRANCH_PREPARED,
    BRANCH_ROLLED_BACK,
    BindingGoneRecord,
    BindingRecord,
    BranchRecord,
    MessageRecord,
    Record,
)
from mqspark.errors import JournalError
from mqspark.journal_tables import MESSAGE_COLUMNS
from mqspark.messages.blocks import BlockConverter, MadeBlock
from mqspark.messages.ranges import spread

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 4 << 20
BODIES_OPEN_MAX: Final = 64
"""Files of large bodies that one batch keeps open."""

STATES: Final = {BRANCH_PREPARED: "prepared", BRANCH_COMMITTED: "committed", BRANCH_ROLLED_BACK: "rolled_back"}
_BODY_COLUMNS: Final = ("body", "text", "map_body")
_I64: Final = struct.Struct(">q")
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def encoded(records: Sequence[MessageRecord], counts: Sequence[int]) -> MadeBlock:
    """The messages of ``records``, delivered ``counts`` times, as a broker hands them out."""
    parts = [
        record.buffer if record.body_id is None else _I64.pack(record.body_size) + record.buffer[record.headers :] for record in records
    ]
    return MadeBlock([record.message_id for record in records], counts, parts, bytes(record.body_id is not None for record in records))


class Rows:
    """Gathers rows, and makes batches of ``schema`` of them.

    A row has values for columns of its own, and perhaps a message, from which the converter makes the other columns.  ``fetches``: large
    bodies are read; else they are null.
    """

    def __init__(self, schema: StructType, node_id: str, fetches: bool) -> None:
        self.arrow = to_arrow_schema(schema, timezone="UTC")
        wanted = [each for each in schema.fields if each.name in MESSAGE_COLUMNS]
        self._node_id = node_id
        self._fetches = fetches
        self._converter: BlockConverter | None = None
        self.wants_bodies = False
        if wanted:
            self._converter = BlockConverter(
                StructType(wanted), body_format="binary", fail_fast=False, queue="", node_id=node_id, fetch=self._body
            )
            self.wants_bodies = fetches and self._converter.wants_bodies
        self._names = [each.name for each in self.arrow]
        self._own: dict[str, list[Any]] = {}
        self._messages: list[tuple[int, MessageRecord, int]] = []
        self._bodies: dict[int, int] = {}
        self._count = 0
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._count >= BATCH_ROWS or self._bytes >= BATCH_BYTES or len(self._bodies) >= BODIES_OPEN_MAX

    def add(self, values: dict[str, Any], record: MessageRecord | None = None, count: int = 0, body: int | None = None) -> None:
        """Add a row; ``body`` is an open file with the body of a large message, which is closed with the batch."""
        for name in self._names:
            own = self._own.get(name)
            if own is None:
                if name in MESSAGE_COLUMNS and values.get(name) is None:
                    continue
                own = self._own[name] = [None] * self._count
            own.append(values.get(name))
        if record is not None:
            self._messages.append((self._count, record, count))
            self._bytes += len(record.buffer)
            if body is not None:
                known = self._bodies.setdefault(record.message_id, body)
                if known != body:
                    os.close(body)
        self._count += 1

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that have gathered, as batches."""
        try:
            if self._count:
                yield from self._batches()
        finally:
            self.close()

    def close(self) -> None:
        """Forget the gathered messages."""
        for descriptor in self._bodies.values():
            os.close(descriptor)
        self._own, self._messages, self._bodies, self._count, self._bytes = {}, [], {}, 0, 0

    def _batches(self) -> Iterator[pa.RecordBatch]:
        done = 0
        for first, last, decoded in self._decoded():
            rows = np.array([row for row, _, _ in self._messages[first:last]], np.int64)
            # Rows without a message belong to the batch of the message before them.
            end = self._messages[last][0] if last < len(self._messages) else self._count
            large = np.array([record.body_id is not None for _, record, _ in self._messages[first:last]], np.bool_)
            arrays = [self._column(each, done, end, decoded, rows - done, large) for each in self.arrow]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
            done = end

    def _decoded(self) -> Iterator[tuple[int, int, pa.RecordBatch | None]]:
        """Ranges of the messages, each with the converter's result."""
        if self._converter is None or not self._messages:
            yield 0, len(self._messages), None
            return
        records = [record for _, record, _ in self._messages]
        first = 0
        for batch in self._converter.batches(encoded(records, [count for _, _, count in self._messages])):
            yield first, first + batch.num_rows, batch
            first += batch.num_rows

    def _column(self, kind: pa.Field, first: int, last: int, decoded: pa.RecordBatch | None, rows: Any, large: Any) -> pa.Array:
        """The column of the rows from ``first`` on; ``rows``: which of them have a message, ``large``: which messages are large."""
        own = self._own.get(kind.name)
        if own is not None and (kind.name not in MESSAGE_COLUMNS or decoded is None):
            return pa.array(own[first:last], kind.type)
        if decoded is None:
            return pa.nulls(last - first, kind.type)
        array = decoded.column(kind.name)
        if kind.name in _BODY_COLUMNS and not self._fetches and large.any():
            places = np.flatnonzero(~large)
            array = spread(array.take(pa.array(places)), places, len(array))
        array = spread(array, rows, last - first)
        return array if own is None else _first_of(own[first:last], array, kind.type)

    def _body(self, message_id: int, size: int) -> bytes:
        if not self._fetches or not size:
            return b""
        descriptor = self._bodies[message_id]
        pieces = []
        offset = 0
        while offset < size:
            piece = os.pread(descriptor, min(size - offset, 1 << 30), offset)
            if not piece:
                raise JournalError(f"the body of large message {message_id} ends after {offset} of {size} bytes")
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)


def _first_of(own: list[Any], array: pa.Array, kind: pa.DataType) -> pa.Array:
    """``own`` where it is not None, else ``array``."""
    return pc.coalesce(pa.array(own, kind), array)


def record_name(record: Record) -> str:
    """``page_acknowledge`` for a ``PageAcknowledgeRecord``."""
    return _WORD.sub("_", type(record).__name__.removesuffix("Record")).lower()


@dataclass(slots=True)
class RecordFacts:
    """The columns of a record besides those of its message."""

    queue_ids: list[int] | None = None
    branch_id: int | None = None
    message_id: int | None = None
    detail: str | None = None
    address: str | None = None


def facts_of(record: Record) -> RecordFacts:
    """The columns of ``record``."""
    if isinstance(record, MessageRecord):
        return RecordFacts(list(record.queue_ids), record.branch_id or None, record.message_id, address=record.address)
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    queue_id, queue_ids = values.pop("queue_id", None), values.pop("queue_ids", None)
    found = RecordFacts(
        [queue_id] if queue_id is not None else None if queue_ids is None else list(queue_ids),
        values.pop("branch_id", None),
        values.pop("message_id", None),
        address=values.get("address"),
    )
    if isinstance(record, BindingRecord | BindingGoneRecord):
        values = {"what": values["what"], **without_passwords(values["value"])}
    if isinstance(record, BranchRecord):
        values["xid"] = xid_text(record)
    found.detail = json.dumps(values, default=_plain, sort_keys=True)
    return found


def without_passwords(binding: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a binding without passwords: a setting holds its value as JSON, among them users and bridges."""
    found = dict(binding)
    if isinstance(found.get("value"), str):
        try:
            value = json.loads(found["value"])
        except ValueError:
            return found
        found["value"] = json.dumps(_hidden(value), sort_keys=True)
    return found


def _hidden(value: Any) -> Any:
    if isinstance(value, list):
        return [_hidden(each) for each in value]
    if isinstance(value, dict):
        secret = {name for name in value if "password" in name.lower() and isinstance(value[name], str)}
        return {name: "***" if name in secret else _hidden(each) for name, each in value.items()}
    return value


def xid_text(record: BranchRecord) -> str:
    """Format id, global transaction id, branch qualifier."""
    return f"{record.format_id}:{record.global_transaction_id.hex()}:{record.branch_qualifier.hex()}"


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    raise TypeError(type(value).__name__)
