"""The counters of queues, summed over the members of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mqbroker.cli.cluster.nodes import Node, Open, each_member, names_of, rows
from mqbroker.cli.management import Management
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.config.model.internal_names import NOTIFICATION_QUEUE

MANAGEMENT_QUEUES: Final = "activemq.management."
_NOTIFICATION_QUEUES: Final = ("activemq.notifications", NOTIFICATION_QUEUE)
"""Address and beginning of the name of the queues by which other members hear of this one; brokers do not mark them as internal."""
_SUMMED: Final = ("consumerCount", "messageCount", "messagesAdded", "deliveringCount", "messagesAcked", "scheduledCount")
_KEPT: Final = ("name", "address", "routingType", "internalQueue")


def is_internal(row: Mapping[str, Any]) -> bool:
    """Is the queue one that brokers have for themselves: between the members of a cluster, or for their notifications?"""
    address, beginning = _NOTIFICATION_QUEUES
    return str(row.get("internalQueue")).lower() == "true" or (row.get("address") == address and str(row.get("name")).startswith(beginning))


def selected(found: Iterable[dict[str, Any]], max_rows: int, internal: bool) -> dict[str, Any]:
    """At most ``max_rows`` of the queues, by name; internal ones at the end, or without ``internal`` only their number (``leftOut``)."""
    ordered = sorted(found, key=lambda row: (is_internal(row), str(row.get("name"))))
    kept = [row for row in ordered if internal or not is_internal(row)]
    return {"data": kept[:max_rows], "count": len(kept), "leftOut": len(ordered) - len(kept)}


def clustered_queues(
    connection: ConnectionOptions, broker: Management, opened: Open, wanted: Mapping[str, str], include_management: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The queues with sums over all members and with the share of each node; and the nodes, also those that did not answer.

    ``wanted`` is a filter as of ``listQueues``, applied to the sums.
    """
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    nodes: list[Node] = []

    def ask(each: Management) -> tuple[str, list[dict[str, Any]]]:
        found = [row for row in rows(each, "broker", "listQueues") if row.get("name") != each.reply_queue]
        return str(each.attribute("broker", "Name")), found

    for node_id, place, answer in each_member(connection, broker, opened, ask):
        if isinstance(answer, CommandError):
            nodes.append(Node(node_id, place, error=str(answer)))
            continue
        nodes.append(Node(node_id, place, answer[0]))
        for row in answer[1]:
            name = str(row.get("name"))
            if not include_management and name.startswith(MANAGEMENT_QUEUES):
                continue
            entry = sums.setdefault(
                (str(row.get("address")), name), {key: row.get(key, "") for key in _KEPT} | dict.fromkeys(_SUMMED, 0) | {"nodes": {}}
            )
            for key in _SUMMED:
                entry[key] += int(row.get(key, 0))
            entry["nodes"][node_id] = int(row.get("messageCount", 0))
    names = names_of(nodes)
    return [entry for entry in sums.values() if _matches(entry, wanted)], [_node(node, names) for node in nodes]


def _node(node: Node, names: Mapping[str, str]) -> dict[str, Any]:
    known = {"nodeID": node.node_id, "name": names[node.node_id], "primary": node.place}
    return known if node.error is None else known | {"error": node.error}


def _matches(entry: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    field, operation, value = wanted["field"], wanted["operation"], wanted["value"]
    if not field:
        return True
    found = entry[field]
    if operation in ("CONTAINS", "NOT_CONTAINS"):
        return (value in str(found)) == (operation == "CONTAINS")
    if not isinstance(found, int):
        if operation not in ("EQUALS", "NOT_EQUALS"):
            raise BadUsage(f"--operation {operation} can only be used with numbers")
        return (str(found) == value) == (operation == "EQUALS")
    try:
        limit = int(value)
    except ValueError:
        raise BadUsage(f"--value: {value!r} is not a whole number") from None
    return {"EQUALS": found == limit, "NOT_EQUALS": found != limit, "GREATER_THAN": found > limit, "LESS_THAN": found < limit}[operation]
