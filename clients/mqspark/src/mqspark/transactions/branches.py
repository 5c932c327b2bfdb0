"""Exactly once by transactions: a branch per task, and one decision per batch that every branch follows.

A task sends its rows in a branch of a distributed transaction (XA) of its own and prepares it; the driver commits all branches of the batch
once every task is done.  Before that, the driver writes the names of these branches as a durable message, the *decision*, to the queue
``mqspark.decisions``.  Later drivers act by the decision:

=========================================  ==========================================================================================
the driver goes away …                     … and when the batch is run again
=========================================  ==========================================================================================
before the decision                        the new branches are decided for, the old ones are rolled back
between the decision and the last commit   the old branches that are left are committed, the new ones are rolled back
after the last commit                      the same: there is nothing left to commit, and the new ones are rolled back
=========================================  ==========================================================================================

The decision has a duplicate id made of query and batch: if two drivers decide at once, only the first decision counts.  The decision is
written to the *home* of the batch first, the first node of the tasks' list, which the branches name, and then to every node with branches,
before these are committed there.  A decision stays until the next batch of the query is decided; the decision of a batch job is removed at
the job's end, and expires after :data:`JOB_DECISION_MS` if the end was never reached.

Branches of the query that no decision names are rolled back with each batch: branches of lost attempts of tasks and of earlier runs.  An
unprepared branch ends with its connection, or after ``transactionTimeout``.  Branches of a driver that never comes back are ended by
:mod:`mqspark.transactions.healing`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mqclient.errors import MQError
from mqclient.xa import XA_HEURCOM, XA_HEURRB, XA_RDONLY, XAER_NOTA, XAError, Xid
from mqspark.broker.broker import Broker
from mqspark.broker.records import Calls, RecordQueue
from mqspark.errors import BrokerUnreachableError, DataLossError, MqsparkError
from mqspark.transactions.decisions import DECISIONS, Batch, Branch, decode_decision, encode_decision, parts_of, sixteen

JOB_DECISION_MS: Final = 7 * 24 * 3600 * 1000
QUERY: Final = "mqspark_query"
BATCH: Final = "mqspark_batch"
"""Properties of a decision."""
_log = logging.getLogger(__name__)


class BranchTask:
    """The branch of one task, from its beginning to the answer of ``prepare``."""

    def __init__(self, broker: Broker, xid: Xid, timeout_seconds: int) -> None:
        """Begin the branch.  Raises MqsparkError."""
        self._broker = broker
        self.xid = xid
        self.session = broker.session(xa=True)
        self._xa = self.session.xa_resource
        self._run(self._xa.set_transaction_timeout(timeout_seconds), "setting the timeout of a transaction")
        self._run(self._xa.start(xid), "beginning a transaction")

    def prepare(self) -> bool:
        """End and prepare; False when there is nothing to commit.  Raises MqsparkError."""
        self._run(self._xa.end(self.xid), "ending a transaction")
        outcome: int = self._run(self._xa.prepare(self.xid), "preparing a transaction")
        return outcome != XA_RDONLY

    def _run(self, awaitable: Any, doing: str) -> Any:
        try:
            return self._broker.runtime.run(awaitable)
        except XAError as error:
            raise MqsparkError(f"{doing} at {self._broker.place}: {error}") from error
        except MQError as error:
            self._broker.failed(error, doing)


class NodeBranches:
    """The branches and decisions on one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._calls = Calls(broker)
        self._records = RecordQueue(self._calls, DECISIONS, "decisions")

    def in_doubt(self) -> list[Xid]:
        """Our branches that are prepared here.  Raises MqsparkError."""
        found = self._calls.make("looking for prepared transactions", lambda session: session.xa_resource.recover(), xa=True)
        return [xid for xid in found if parts_of(xid) is not None]

    def commit(self, xid: Xid) -> None:
        """Commit a prepared branch; nothing happens when it is committed already.

        Raises DataLossError when an operator has rolled it back.
        """
        self._finish(xid, "committing a transaction", lambda resource: resource.commit(xid))

    def roll_back(self, xid: Xid) -> None:
        """Roll back a branch; nothing happens when it is gone already."""
        self._finish(xid, "rolling back a transaction", lambda resource: resource.rollback(xid))

    def _finish(self, xid: Xid, doing: str, call: Any) -> None:
        try:
            self._calls.make(doing, lambda session: call(session.xa_resource), xa=True)
        except XAError as error:
            if error.error_code == XAER_NOTA:
                return
            if error.error_code in (XA_HEURCOM, XA_HEURRB):
                wanted = XA_HEURCOM if "committing" in doing else XA_HEURRB
                self._calls.make(doing, lambda session: session.xa_resource.forget(xid), xa=True)
                if error.error_code == wanted:
                    return
                raise DataLossError(f"{doing} at {self._broker.place}: an operator has decided otherwise: {xid.base64}") from error
            raise MqsparkError(f"{doing} at {self._broker.place}: {error}") from error

    # --- decisions

    def decision(self, batch: Batch) -> list[Branch] | None:
        """The branches to commit as the decision names them; None when there is no decision."""
        for _, text in self._records.find(f"{QUERY} = '{batch.query}' AND {BATCH} = {batch.number}"):
            return decode_decision(text)
        return None

    def decisions(self) -> dict[Batch, list[Branch]]:
        """All that were decided and not forgotten yet."""
        found: dict[Batch, list[Branch]] = {}
        for message, text in self._records.find(f"{QUERY} IS NOT NULL"):
            query, number = message.get(QUERY), message.get(BATCH)
            if isinstance(query, str) and isinstance(number, int):
                found.setdefault(Batch(query, number, job=message.expiration > 0), decode_decision(text))
        return found

    def decide(self, batch: Batch, branches: Sequence[Branch], now: int) -> None:
        """Write the decision, durably, unless there is one for that batch: see :meth:`decision` afterwards."""
        expiration = now + JOB_DECISION_MS if batch.job else 0
        properties: dict[str, str | int] = {QUERY: batch.query, BATCH: batch.number}
        self._records.write(encode_decision(branches), properties, f"{batch.query}/{batch.number}", now, expiration)

    def forget(self, batch: Batch) -> None:
        """Remove the decisions of earlier batches of the query; of a job its own."""
        self._records.remove(f"{QUERY} = '{batch.query}' AND {BATCH} {'<=' if batch.job else '<'} {batch.number}")


def finish(
    batch: Batch,
    mine: Sequence[Branch],
    nodes: Mapping[str, NodeBranches],
    home: str,
    now: int,
    on_others: Callable[[], object] = lambda: None,
) -> bool:
    """Commit a batch whose tasks have prepared ``mine``; False when an earlier run of it was decided for, and ``mine`` was rolled back.

    ``nodes`` are the nodes of the cluster that can be reached, ``home`` and the nodes of ``mine`` included; ``now`` in ms since 1970.
    ``on_others`` is called when branches of other queries, jobs or later batches are prepared there, too.  Raises MqsparkError when the
    decision cannot be read or carried out: the batch is to be run again.
    """
    prepared = {node_id: node.in_doubt() for node_id, node in nodes.items()}
    waiting = {node_id: [xid for xid in xids if _of(xid, batch)] for node_id, xids in prepared.items()}
    if any(len(xids) > len(waiting[node_id]) for node_id, xids in prepared.items()):
        on_others()
    decided = _decision(batch, nodes, waiting)
    if decided is None and not mine and not any(waiting.values()):
        return True
    if decided is None:
        for branch in mine:
            # Once decided for, a branch that is not there counts as committed.
            if branch.xid not in waiting[branch.node_id]:
                raise MqsparkError(
                    f"a transaction of {batch} is no longer prepared on node {branch.node_id}: it was ended by somebody else; run it again"
                )
        nodes[home].decide(batch, mine, now)
        decided = nodes[home].decision(batch)
        if decided is None:
            raise MqsparkError(
                f"the decision about {batch} is not in the queue {DECISIONS} of node {home}: does another program take messages from it?"
            )
    for node_id in sorted({branch.node_id for branch in decided}):
        node = nodes.get(node_id)
        if node is None:
            raise BrokerUnreachableError(
                f"{batch} was decided and has branches on node {node_id}, which is away: run it again when it is back"
            )
        if node_id != home:
            node.decide(batch, decided, now)
        for branch in decided:
            if branch.node_id == node_id:
                node.commit(branch.xid)
    kept = {branch.xid for branch in decided}
    for node_id, xids in waiting.items():
        for xid in xids:
            if xid not in kept:
                nodes[node_id].roll_back(xid)
    for node in nodes.values():
        node.forget(batch)
    return kept == {branch.xid for branch in mine}


def undo(batch: Batch, mine: Iterable[Branch], nodes: Mapping[str, NodeBranches], home: str) -> None:
    """Roll back the branches of a batch that is given up; for a write job all its branches on the ``nodes``.

    A batch that was decided for stays, since Spark also gives up a batch whose commit has not come to its end; so does a batch whose
    ``home`` is away.  The next run of the batch finds the branches.
    """
    if home not in nodes or any(node.decision(batch) is not None for node in nodes.values()):
        return
    for branch in mine:
        node = nodes.get(branch.node_id)
        if node is not None:
            node.roll_back(branch.xid)
    if batch.job:
        # Attempts whose answer never came: no later run looks for them.
        for node in nodes.values():
            for xid in node.in_doubt():
                if _of(xid, batch):
                    node.roll_back(xid)


def _of(xid: Xid, batch: Batch) -> bool:
    """Does a branch belong to the batch, or an earlier one of its query, which is over?"""
    parts = parts_of(xid)
    return parts is not None and parts.query == sixteen(batch.query) and parts.batch <= batch.number


def _decision(batch: Batch, nodes: Mapping[str, NodeBranches], waiting: Mapping[str, Sequence[Xid]]) -> list[Branch] | None:
    """The decision of an earlier run; None when there is none.  Raises BrokerUnreachableError when that cannot be known."""
    for node in nodes.values():
        decided = node.decision(batch)
        if decided is not None:
            return decided
    homes = {parts.home for xids in waiting.values() for parts in map(parts_of, xids) if parts is not None and parts.batch == batch.number}
    if homes - {sixteen(node_id) for node_id in nodes}:
        raise BrokerUnreachableError(
            f"an earlier run of {batch} has prepared transactions, and the node that knows whether they were decided for is away: "
            "run it again when it is back"
        )
    return None
