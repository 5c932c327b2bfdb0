"""The nodes that a stream sends to with duplicate ids, and their order, the same for all of its batches, even when nodes are away.

A broker drops a message whose id it knows, but other brokers do not know that id: a row that is sent again has to go to the same node.  So
a query that sends to a cluster keeps a *plan*, the ids of its nodes in their order, as records in the queue ``mqspark.plans`` of each of
them; partition p of batch b goes to the node at place (b + p) modulo n.  The first tasks of a query agree on the plan:

1. The tasks look at all members of the cluster.  If a member has a record of the query, the plan in that record holds, and no other.
2. Else the plan is the list of the present members.
3. Each node of the plan gets a *proposal*, with a duplicate id made of the query: the first one that comes counts.
4. When all have it, each gets a *confirmation*.

A row is sent only under a plan that is confirmed on its node, and so proposed on all its nodes: as long as one of them is there, a later
run knows the plan, and which of its nodes are away.  A task of a later batch looks at its own node, finds the confirmation, and sends.

Proposals of drivers that begin at once may contradict each other.  A plan one of whose nodes holds another proposal can never be
confirmed, so at most one of those that share a node can.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqclient.core.connection.connection import describe
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqspark.broker.broker import Broker, connect
from mqspark.broker.nodes import Node
from mqspark.broker.records import Calls, RecordQueue
from mqspark.errors import BadOptionError, BrokerUnreachableError, MqsparkError
from mqspark.options import Options

PLANS: Final = "mqspark.plans"
"""The queue of the plans, made where it does not exist."""
QUERY: Final = "mqspark_query"
CONFIRMED: Final = "mqspark_confirmed"
"""Properties of a record."""
ROUNDS_MAX: Final = 3
"""Attempts to agree; a proposal may come later than that of another driver."""
_HINT: Final = "start the query again when it is there, or, if it does not come back, name the nodes that are left with the option nodes"


@dataclass(frozen=True, slots=True)
class Record:
    """The plan of a query on one node, and whether it is confirmed."""

    nodes: tuple[str, ...]
    confirmed: bool


class NodePlans:
    """The records of the node that ``broker`` is connected to."""

    def __init__(self, broker: Broker) -> None:
        self._records = RecordQueue(Calls(broker), PLANS, "plans of queries")

    def look(self, query: str) -> Record | None:
        """The record of the query on this node, a confirmation before a proposal; None when there is neither."""
        proposed: tuple[str, ...] | None = None
        for message, text in self._records.find(f"{QUERY} = '{query}'"):
            nodes = decode_plan(text)
            if message.get(CONFIRMED):
                return Record(nodes, True)
            proposed = proposed or nodes
        return None if proposed is None else Record(proposed, False)

    def propose(self, query: str, nodes: Sequence[str], now: int) -> None:
        """Write a plan unless the node has one; :meth:`look` says which plan it has then."""
        self._records.write(encode_plan(nodes), {QUERY: query, CONFIRMED: 0}, f"{query}/proposed", now)

    def confirm(self, query: str, nodes: Sequence[str], now: int) -> None:
        """Write that all nodes of the plan have it."""
        self._records.write(encode_plan(nodes), {QUERY: query, CONFIRMED: 1}, f"{query}/confirmed", now)


def node_is_away(query: str, node_id: str, reason: BrokerUnreachableError | None = None) -> BrokerUnreachableError:
    """The error when a node of a plan is away; ``reason`` None: it is not in the cluster."""
    return BrokerUnreachableError(f"query {query} sends to node {node_id}, which is away ({reason or 'it is not in the cluster'}): {_HINT}")


def encode_plan(nodes: Sequence[str]) -> str:
    """The text of a record."""
    return json.dumps({"version": 1, "nodes": list(nodes)}, separators=(",", ":"))


def decode_plan(text: str) -> tuple[str, ...]:
    """Raises MqsparkError for a text that is no plan."""
    try:
        found = json.loads(text)
        if found["version"] != 1 or not found["nodes"]:
            raise ValueError(f"version {found['version']} with {len(found['nodes'])} nodes")
        return tuple(str(node_id) for node_id in found["nodes"])
    except (ValueError, KeyError, TypeError) as error:
        raise MqsparkError(f"a message in the queue {PLANS} is not a plan of this version: {error}") from None


def check_all_there(options: Options, members: Sequence[Node]) -> None:
    """Raise unless every broker that the URL names is one of the members: the first plan of a query is to have all of them.

    A later run then finds the plan at whichever of them lets it in.  Raises BadOptionError for a URL that names no brokers.
    """
    brokers = options.configuration().brokers
    if isinstance(brokers, DiscoveryGroupConfiguration):
        raise BadOptionError(
            "the option url finds the brokers by discovery, so it is not known which there are: name the nodes to send to with the "
            f"option nodes; there are now: {', '.join(node.node_id for node in members)}"
        )
    known = {describe(connector) for node in members for connector in node.connectors}
    for connector in brokers:
        place = describe(connector)
        if place in known:
            continue
        try:
            with connect(options, Node("", (connector,)), patient=False) as broker:
                there = broker.node_id
        except BrokerUnreachableError as error:
            raise BrokerUnreachableError(
                f"before its first batch a query needs all brokers that the option url names, to know where it may send to, and {place} is "
                f"not there: wait for it, or name the nodes with the option nodes: {error}"
            ) from error
        if there not in {node.node_id for node in members}:
            raise BrokerUnreachableError(
                f"the brokers that the option url names are not one cluster, or do not know each other yet: {place} is node {there}"
            )


def agree(
    query: str, members: Sequence[str], reach: Callable[[str], NodePlans], check_first: Callable[[], None], now: int
) -> tuple[str, ...]:
    """The plan of a query, confirmed on all of its nodes.

    ``members``: the ids of the nodes that are in the cluster now; ``reach`` connects to one of them, or raises BrokerUnreachableError;
    ``check_first`` raises when the members may not be all that there are: it is asked before a query gets its first plan.  ``now`` in ms
    since 1970.  Raises BrokerUnreachableError when a node is away that has to be there.
    """
    for _ in range(ROUNDS_MAX):
        records, away = _reached(members, reach)
        held = {node_id: record for node_id, each in records.items() if (record := each.look(query)) is not None}
        plan = _chosen(query, held, records, away)
        if plan is None:
            if away:
                raise next(iter(away.values()))
            check_first()
            plan = tuple(members)
        for node_id in plan:
            if node_id not in records:
                raise node_is_away(query, node_id, away.get(node_id))
        # In the order of the ids: a driver that comes second at one node proposes nothing at later nodes, and gives way in the next round.
        if all(_proposed(records[node_id], query, plan, now) for node_id in plan):
            for node_id in plan:
                records[node_id].confirm(query, plan, now)
            return plan
    raise MqsparkError(f"others choose the nodes of query {query} at the same time: does it run twice?")


def _proposed(records: NodePlans, query: str, plan: tuple[str, ...], now: int) -> bool:
    """Has the node this plan now, and no other?"""
    records.propose(query, plan, now)
    record = records.look(query)
    return record is not None and record.nodes == plan


def _reached(members: Sequence[str], reach: Callable[[str], NodePlans]) -> tuple[dict[str, NodePlans], dict[str, BrokerUnreachableError]]:
    records: dict[str, NodePlans] = {}
    away: dict[str, BrokerUnreachableError] = {}
    for node_id in members:
        try:
            records[node_id] = reach(node_id)
        except BrokerUnreachableError as error:
            away[node_id] = error
    return records, away


def _chosen(
    query: str, held: Mapping[str, Record], records: Mapping[str, NodePlans], away: Mapping[str, BrokerUnreachableError]
) -> tuple[str, ...] | None:
    """The plan that holds, by the records of the nodes; None without any.  Raises BrokerUnreachableError when that cannot be known."""
    confirmed = {record.nodes for record in held.values() if record.confirmed}
    if len(confirmed) > 1:
        raise MqsparkError(f"query {query} has run in several parts of the cluster: name the nodes to send to with the option nodes")
    if confirmed:
        return confirmed.pop()
    possible = sorted(
        plan
        for plan in {record.nodes for record in held.values()}
        if all(held[node_id].nodes == plan for node_id in plan if node_id in held)
    )
    if held and not possible:
        raise MqsparkError(f"nodes contradict each other about query {query}: name the nodes to send to with the option nodes")
    for node_id in sorted({node_id for record in held.values() for node_id in record.nodes}):
        if node_id not in records:
            raise node_is_away(query, node_id, away.get(node_id))
    return possible[0] if possible else None
