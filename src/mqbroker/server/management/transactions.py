"""Operations of the resource ``broker`` on prepared branches of XA transactions (Artemis manual, "Management")."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.delivery.branches import Branch, Branches, xid_base64, xid_text
from mqbroker.messaging.ports import BranchState
from mqbroker.server.management.registry import Operation, as_text
from mqbroker.server.management.views import message_map
from mqclient.wire.message import TYPE_BYTES, TYPE_MAP, TYPE_OBJECT, TYPE_STREAM, TYPE_TEXT

if TYPE_CHECKING:
    from mqbroker.server.management.registry import ServerResource

MESSAGE_TYPES = {
    TYPE_OBJECT: "ObjectMessage",
    TYPE_TEXT: "TextMessage",
    TYPE_BYTES: "ByteMessage",
    TYPE_MAP: "MapMessage",
    TYPE_STREAM: "StreamMessage",
}
MESSAGES_SHOWN_MAX = 200
"""The most sent and the most acknowledged messages that the details of a prepared branch show: the answer has to fit into one message."""


def _branches(control: ServerResource) -> Branches:
    return control.server.messaging.branches


def _date(time_ms: int) -> str:
    """A time as Artemis prints it in an English locale, by the clock of this machine."""
    moment = datetime.fromtimestamp(time_ms / 1000)
    return f"{moment.month}/{moment.day}/{moment:%y}, {moment.hour % 12 or 12}:{moment:%M:%S} {'AM' if moment.hour < 12 else 'PM'}"


def _line(branch: Branch) -> str:
    return f"{_date(branch.began_ms)} base64: {xid_base64(branch.xid)} {xid_text(branch.xid)}"


def _prepared(control: ServerResource) -> list[Branch]:
    """The prepared branches, the oldest first."""
    return sorted(_branches(control).prepared(), key=lambda branch: branch.began_ms)


def details_as_json(control: ServerResource) -> str:
    """Every prepared branch with the first messages that it sends (+) and acknowledges (-)."""
    rows = []
    core = control.server.messaging.core
    for branch in _prepared(control):
        xid, work = branch.xid, branch.transaction
        messages = [("(+) send", message) for message, _ in work.sends[:MESSAGES_SHOWN_MAX]]
        messages += [("(-) receive", reference.message) for reference in work.acknowledged[:MESSAGES_SHOWN_MAX]]
        rows.append(
            {
                "creation_time": _date(branch.began_ms),
                "xid_as_base64": xid_base64(xid),
                "xid_format_id": xid.format_id,
                "xid_global_txid": xid.global_transaction_id.decode("utf-8", "replace"),
                "xid_branch_qual": xid.branch_qualifier.decode("utf-8", "replace"),
                "tx_related_messages": [
                    {
                        "message_operation_type": kind,
                        "message_type": MESSAGE_TYPES.get(message.decoded().type, "Default"),
                        "message_properties": message_map(
                            message, core.settings_of(message.address).management_message_attribute_size_limit
                        ),
                    }
                    for kind, message in messages
                ],
            }
        )
    return json.dumps(rows)


def _decided(state: BranchState) -> Operation:
    return Operation(lambda control: [xid_base64(record.xid) for record in _branches(control).decided(state)])


def _decide(commit: bool) -> Operation:
    def call(control: ServerResource, name: Any) -> bool:
        return _branches(control).decide(as_text(name), commit=commit)

    return Operation(call, 1)


TRANSACTION_OPERATIONS = {
    "listPreparedTransactions": Operation(lambda control: [_line(branch) for branch in _prepared(control)]),
    "listPreparedTransactionDetailsAsJSON": Operation(details_as_json),
    "listHeuristicCommittedTransactions": _decided(BranchState.COMMITTED),
    "listHeuristicRolledBackTransactions": _decided(BranchState.ROLLED_BACK),
    "commitPreparedTransaction": _decide(commit=True),
    "rollbackPreparedTransaction": _decide(commit=False),
}
