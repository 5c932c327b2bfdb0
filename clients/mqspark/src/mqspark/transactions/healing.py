"""Ending the transactions of drivers that never come back.

A driver may die between the decision and its last commit, and a lost attempt of a task may prepare after its batch was finished.  The next
batch of a query ends the branches that the query has left.  A write job, and a query that was given up, have no next batch: their decided
branches are ended with the next batch of any query on the same nodes, or by the job ``transactions``; this job also ends undecided
branches, when told to.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mqclient.xa import Xid
from mqspark.errors import MqsparkError
from mqspark.transactions.branches import NodeBranches
from mqspark.transactions.decisions import Batch, Branch, parts_of, sixteen

_log = logging.getLogger(__name__)

COMMITTED, ROLLED_BACK, UNDECIDED = "committed", "rolled back", "undecided"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A prepared branch, its ``outcome``, and the reason (``why``)."""

    node_id: str
    xid: Xid
    query: str
    batch: int
    partition: int
    outcome: str
    why: str


def heal(
    nodes: Mapping[str, NodeBranches], now: int, *, given_up: Iterable[str] = (), apart: str = "", dry_run: bool = False
) -> list[Doubt]:
    """End the branches of drivers that are gone, as far as they are decided.

    A branch is committed when a decision names it; it is rolled back when the decision about its batch does not name it, when a later batch
    of its query was decided, or when its query or job is one of ``given_up``: no driver of it may run.  ``apart``: a query that is left
    alone; ``now`` in ms since 1970; ``dry_run``: change nothing.  Raises MqsparkError.
    """
    decided: dict[tuple[bytes, int], tuple[Batch, list[Branch]]] = {}
    for node in nodes.values():
        for batch, branches in node.decisions().items():
            decided.setdefault((sixteen(batch.query), batch.number), (batch, branches))
    newest: dict[bytes, int] = {}
    for query, number in decided:
        newest[query] = max(number, newest.get(query, 0))
    homes = {sixteen(node_id) for node_id in nodes}
    over = {sixteen(query) for query in given_up}
    found = []
    for node_id, node in nodes.items():
        for xid in node.in_doubt():
            parts = parts_of(xid)
            if parts is None or (apart and parts.query == sixteen(apart)):
                continue
            entry = decided.get((parts.query, parts.batch))
            outcome, why = ROLLED_BACK, "its batch was decided without it"
            if entry is not None and any(branch.xid == xid for branch in entry[1]):
                outcome, why = COMMITTED, "its batch was decided"
            elif entry is None and newest.get(parts.query, -1) > parts.batch:
                why = "a later batch was decided"
            elif entry is None and parts.home not in homes:
                outcome, why = UNDECIDED, "the node that knows the decision is away"
            elif entry is None and parts.query in over:
                why = "given up"
            elif entry is None:
                outcome, why = UNDECIDED, "nothing was decided: its query or job runs, or will run again, or has to be given up"
            if outcome == COMMITTED and not dry_run:
                assert entry is not None
                node.decide(*entry, now)
                node.commit(xid)
            elif outcome == ROLLED_BACK and not dry_run:
                node.roll_back(xid)
            found.append(Doubt(node_id, xid, str(uuid.UUID(bytes=parts.query)), parts.batch, parts.partition, outcome, why))
    return found


def heal_others(batch: Batch, nodes: Mapping[str, NodeBranches], now: int) -> None:
    """End the branches of other queries' drivers; a failure does no harm to the batch."""
    try:
        for doubt in heal(nodes, now, apart=batch.query):
            if doubt.outcome != UNDECIDED:
                _log.warning(
                    "a transaction of query or job %s, batch %d, was left prepared at node %s, and is %s: %s",
                    doubt.query,
                    doubt.batch,
                    doubt.node_id,
                    doubt.outcome,
                    doubt.why,
                )
    except MqsparkError as error:
        _log.warning("transactions left by other runs: %s", error)
