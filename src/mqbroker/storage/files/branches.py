"""Branches between the form of the messaging core and that of the journal."""

from __future__ import annotations

from mqbroker.messaging.ports import BranchRecord, BranchState
from mqclient.storageformat import records
from mqclient.wire.primitives import Xid


def encode_record(record: BranchRecord) -> bytes:
    xid = record.xid
    return records.encode_branch(
        records.BranchRecord(
            record.branch_id,
            record.state,
            record.time_ms,
            xid.format_id,
            xid.branch_qualifier,
            xid.global_transaction_id,
            record.acknowledged,
            record.duplicate_ids,
        )
    )


def to_branch(record: records.BranchRecord) -> BranchRecord:
    return BranchRecord(
        record.branch_id,
        Xid(record.format_id, record.branch_qualifier, record.global_transaction_id),
        BranchState(record.state),
        record.time_ms,
        record.acknowledged,
        record.duplicate_ids,
    )
