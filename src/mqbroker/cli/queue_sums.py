"""The counters of queues, summed over the members of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mqbroker.cli.cluster_nodes import Node, Open, each_member, names_of, rows
from mqbroker.cli.management import Management
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import BadUsage, CommandError

MANAGEMENT_QUEUES: Final = "activemq.management."
_SUMMED: Final = ("consumerCount", "messageCount", "messagesAdded", "deliveringCount", "messagesAcked", "scheduledCount")
_KEPT: Final = ("name", "address", "routingType", "internalQueue")


def clustered_queues(
    connection: ConnectionOptions, broker: Management, opened: Open, wanted: Mapping[str, str], max_rows: int, include_management: bool
) -> dict[str, Any]:
    """At most ``max_rows`` queues with sums over all members, by name, and what each node has of their messages.

    ``wanted`` is a filter as of ``listQueues``; it is about the sums.  ``nodes`` of the result says who was asked, and who did not answer.
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
    judged = [entry for entry in sums.values() if _matches(entry, wanted)]
    judged.sort(key=lambda entry: str(entry["name"]))
    names = names_of(nodes)
    return {"data": judged[:max_rows], "count": len(judged), "nodes": [_node(node, names) for node in nodes]}


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
            raise BadUsage(f"--operation {operation} goes with numbers only")
        return (str(found) == value) == (operation == "EQUALS")
    try:
        limit = int(value)
    except ValueError:
        raise BadUsage(f"--value: {value!r} is not a whole number") from None
    return {"EQUALS": found == limit, "NOT_EQUALS": found != limit, "GREATER_THAN": found > limit, "LESS_THAN": found < limit}[operation]
