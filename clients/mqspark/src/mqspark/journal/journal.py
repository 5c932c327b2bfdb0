"""The data source ``mqbroker-journal``: the data folder of a broker, stopped or running, as tables.

The driver reads the journals once, without content, and finds the surviving messages by the rules of a broker's start
(:mod:`mqclient.storageformat.surviving`); then each file is read by a task of its own.  The source neither writes nor locks.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqclient.storageformat.errors import Loss
from mqclient.storageformat.frames import KIND_BINDINGS, KIND_MESSAGES, KIND_PAGE
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING, MessageRecord
from mqclient.storageformat.salvage import SegmentFile
from mqclient.storageformat.surviving import Index, SegmentShare, salvaged_index
from mqspark.journal.journal_folder import find_folders, steady
from mqspark.journal.journal_reading import FolderReader, Found, PackedShare
from mqspark.journal.journal_rows import STATES, Rows, facts_of, record_name, without_passwords, xid_text
from mqspark.journal_tables import check_table_schema, table_ddl
from mqspark.messages.blocks import TIME_MAX_MS
from mqspark.options import Options, Use

_KINDS = {KIND_MESSAGES: "messages", KIND_BINDINGS: "bindings", KIND_PAGE: "page"}
_BINDINGS = {ADDRESS_BINDING: "address", QUEUE_BINDING: "queue"}


class JournalDataSource(DataSource):
    """See the manual's page on the journal source."""

    @classmethod
    def name(cls) -> str:
        return "mqbroker-journal"

    def schema(self) -> str:
        """Asked for only when the query brings no schema."""
        options = Options.parse(self.options, Use.JOURNAL)
        return table_ddl(options.table, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return JournalReader(Options.parse(self.options, Use.JOURNAL), schema)


@dataclass
class RowsPartition(InputPartition):
    """Rows that the driver has read already."""

    rows: list[dict[str, Any]]


@dataclass
class SharePartition(InputPartition):
    """The messages of one file.  ``queues`` are the names of queues by their ids, ``xids`` the xids of the prepared branches."""

    share: PackedShare
    node_id: str
    queues: Mapping[int, str]
    xids: Mapping[int, str]


@dataclass
class FilePartition(InputPartition):
    """The records of one file."""

    file: SegmentFile
    node_id: str
    queues: Mapping[int, str]


class JournalReader(DataSourceReader):
    """One query: made on the driver, which plans the partitions; a copy reads them in every task."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Raises SchemaError when the schema is not one of the table."""
        check_table_schema(options.table, schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Raises JournalError when there is no journal, or it is damaged."""
        folders = find_folders(self._options)
        reader = FolderReader(folders, self._skips)
        plans = {
            "messages": self._plan_messages,
            "records": self._plan_records,
            "transactions": self._plan_transactions,
            "bindings": self._plan_bindings,
            "damage": self._plan_damage,
        }
        return plans[self._options.table](reader) or [RowsPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises JournalError for a place that is damaged, and stays so."""
        if isinstance(partition, RowsPartition):
            yield from self._read_rows(partition.rows)
            return
        reader = FolderReader(find_folders(self._options), self._skips)
        if isinstance(partition, FilePartition):
            yield from self._read_records(reader, partition)
        elif isinstance(partition, SharePartition) and self._options.table == "damage":
            yield from self._read_rows([_loss_row(loss) for loss in reader.losses(partition.share.unpack())])
        elif isinstance(partition, SharePartition):
            yield from self._read_messages(reader, partition)

    @property
    def _skips(self) -> bool:
        return self._options.on_damage == "skip"

    # --- planning

    def _plan_messages(self, reader: FolderReader) -> list[InputPartition]:
        return _shares(reader.index())

    def _plan_damage(self, reader: FolderReader) -> list[InputPartition]:
        index = steady(lambda: salvaged_index(reader.files, reader.folders))
        return [RowsPartition([_loss_row(loss) for loss in index.losses]), *_shares(index)]

    def _plan_records(self, reader: FolderReader) -> list[InputPartition]:
        files = reader.record_files()
        index = reader.index()
        queues = _queues(index)
        return [FilePartition(file, _node_id(index), queues) for file in files]

    def _plan_transactions(self, reader: FolderReader) -> list[InputPartition]:
        index = reader.index()
        queues = _queues(index)
        sent: dict[int, list[int]] = {}
        for share in index.segments:
            for message_id, details in share.others.items():
                if details.branch_id:
                    sent.setdefault(details.branch_id, []).append(message_id)
        rows = []
        for branch_id, stored in sorted(index.branches.items()):
            record = stored.record
            rows.append(
                {
                    "xid": xid_text(record),
                    "branch_id": branch_id,
                    "state": STATES[record.state],
                    "time": record.time_ms * 1000,
                    "messages": sorted(sent.get(branch_id, [])),
                    "acknowledgements": [
                        {"queue_id": queue_id, "queue": queues.get(queue_id), "message_id": message_id}
                        for queue_id, message_id in record.acknowledged
                    ],
                    "duplicate_ids": len(record.duplicate_ids),
                    "node_id": _node_id(index),
                }
            )
        return [RowsPartition(rows)]

    def _plan_bindings(self, reader: FolderReader) -> list[InputPartition]:
        index = reader.index()
        rows = []
        for (what, *_), binding in sorted(index.bindings.items(), key=lambda each: tuple(map(str, each[0]))):
            value = binding.value
            kind = _BINDINGS.get(what, "setting") if isinstance(what, int) else "setting"
            rows.append(
                {
                    "kind": kind,
                    "id": value.get("id"),
                    "name": value.get("key") if kind == "setting" else value.get("name"),
                    "address": value.get("name") if kind == "address" else value.get("address"),
                    "value": json.dumps(without_passwords(value), sort_keys=True),
                    "node_id": _node_id(index),
                }
            )
        return [RowsPartition(rows)]

    # --- tasks

    def _read_rows(self, found: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        rows = Rows(self._schema, "", False)
        for values in found:
            rows.add(values)
            if rows.full:
                yield from rows.batches()
        yield from rows.batches()

    def _read_messages(self, reader: FolderReader, partition: SharePartition) -> Iterator[pa.RecordBatch]:
        rows = Rows(self._schema, partition.node_id, True)
        share = partition.share.unpack()
        paged = not isinstance(share, SegmentShare)
        try:
            for found in reader.messages(share):
                survivor = found.survivor
                record = survivor.record
                if survivor.branch_id and not self._options.include_prepared:
                    continue
                references = survivor.references
                table = {references: (0, 0)} if isinstance(references, int) else references
                for queue_id, (count, scheduled) in table.items():
                    body = None
                    if rows.wants_bodies and record.body_id is not None and record.body_size:
                        body = reader.body(record)
                        if body is None:
                            break
                    values = _message_values(found, partition, queue_id, scheduled, paged)
                    rows.add(values, record, count, body)
                if rows.full:
                    yield from rows.batches()
            yield from rows.batches()
        finally:
            rows.close()

    def _read_records(self, reader: FolderReader, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        rows = Rows(self._schema, partition.node_id, False)
        file = partition.file
        for position, offset, record in reader.records(file):
            facts = facts_of(record)
            queue_ids = facts.queue_ids
            is_message = isinstance(record, MessageRecord)
            values = {
                "file": file.path,
                "journal": _KINDS[file.kind],
                "sequence": file.sequence,
                "offset": offset,
                "position": position,
                "record": record_name(record),
                "queue_ids": queue_ids,
                "queues": None if queue_ids is None else [partition.queues.get(queue_id) for queue_id in queue_ids],
                "moved": record.moved if isinstance(record, MessageRecord) else None,
                "branch_id": facts.branch_id,
                "detail": facts.detail,
                "message_id": facts.message_id,
                "address": facts.address,
                "node_id": partition.node_id,
            }
            rows.add(values, record if is_message else None)  # type: ignore[arg-type]
            if rows.full:
                yield from rows.batches()
        yield from rows.batches()


def _message_values(found: Found, partition: SharePartition, queue_id: int, scheduled: int, paged: bool) -> dict[str, Any]:
    survivor = found.survivor
    return {
        "queue": partition.queues.get(queue_id),
        "queue_id": queue_id,
        "scheduled": min(scheduled, TIME_MAX_MS) * 1000 if scheduled > 0 else None,
        "xid": partition.xids.get(survivor.branch_id),
        "file": found.file,
        "offset": survivor.offset,
        "sequence": found.sequence,
        "paged": paged,
        "address": survivor.record.address,
    }


def _shares(index: Index) -> list[InputPartition]:
    queues = _queues(index)
    xids = {branch_id: xid_text(stored.record) for branch_id, stored in index.branches.items()}
    found: list[InputPartition] = []
    for share in index.segments:
        ids = {*share.plain, *(queue_id for details in share.others.values() for queue_id in details.references)}
        branches = {details.branch_id for details in share.others.values()}
        mine = {branch_id: xids[branch_id] for branch_id in branches if branch_id in xids}
        found.append(SharePartition(PackedShare(share), _node_id(index), _of(queues, ids), mine))
    pages = (SharePartition(PackedShare(page), _node_id(index), _of(queues, page.page.queues), {}) for page in index.pages)
    return [*found, *pages]


def _of(queues: Mapping[int, str], ids: Any) -> dict[int, str]:
    return {queue_id: queues[queue_id] for queue_id in ids if queue_id in queues}


def _queues(index: Index) -> dict[int, str]:
    found = {}
    for (what, *_), binding in index.bindings.items():
        queue_id, name = binding.value.get("id"), binding.value.get("name")
        if what == QUEUE_BINDING and isinstance(queue_id, int) and isinstance(name, str):
            found[queue_id] = name
    return found


def _node_id(index: Index) -> str:
    return "" if index.node_id is None else str(uuid.UUID(bytes=index.node_id))


def _loss_row(loss: Loss) -> dict[str, Any]:
    return {"file": loss.file, "offset": loss.offset, "size": loss.size, "message_ids": list(loss.message_ids), "reason": loss.reason}
