"""Exactly once by transactions: a branch per task, and one decision per batch that every branch follows.

A task sends its rows in a branch of a distributed transaction (XA) of its own and prepares it; the driver commits all branches of the batch
once every task is done.  Before it does so, it writes which branches they are as a durable message, the *decision*, to the queue
``mqspark.decisions``.  Whoever comes later acts by what stands there:

=========================================  ==========================================================================================
the driver goes away …                     … and when the batch is run again
=========================================  ==========================================================================================
before the decision                        the new branches are decided for, the old ones are rolled back
between the decision and the last commit   the old branches that are left are committed, the new ones are rolled back
after the last commit                      the same: there is nothing left to commit, and the new ones are rolled back
=========================================  ==========================================================================================

The decision has a duplicate id made of query and batch: of two drivers that decide at once, only the first is heard.  It is written to the
*home* of the batch first, the first node of the list that the tasks went by, which the branches name, and then to every node with branches,
before these are committed there.  It stays until the next batch of the query is decided; that of a batch job is removed at its end, and
expires after :data:`JOB_DECISION_MS` when that was never reached.

Branch ids: format :data:`FORMAT_ID`; global id: 16 bytes of the query (or job), 8 bytes of the number of the batch, 16 bytes of the home;
qualifier: 4 bytes of the partition, 4 bytes of the attempt, 8 random bytes.  Numbers are big endian.

Branches of the query that no decision names are rolled back with each batch: those of lost attempts of tasks and of earlier runs.  One that
was not prepared ends with its connection, or after ``transactionTimeout``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqclient.core.message import ClientMessage
from mqclient.errors import DuplicateIdRejectedError, MQError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import KEY_DUPLICATE_ID, TYPE_TEXT
from mqclient.wire.properties import LONG, STRING
from mqclient.xa import XA_HEURCOM, XA_HEURRB, XA_RDONLY, XA_RETRY, XAER_NOTA, XAER_RMFAIL, XAError, Xid
from mqspark.broker import Broker
from mqspark.errors import BrokerUnreachableError, DataLossError, MqsparkError
from mqspark.failures import OF_THE_CONNECTION

FORMAT_ID: Final = 0x6D717370
"""Tells our branches from others: "mqsp"."""
DECISIONS: Final = "mqspark.decisions"
"""The queue of the decisions, made where it does not exist."""
JOB_DECISION_MS: Final = 7 * 24 * 3600 * 1000
ATTEMPTS_MAX: Final = 20
"""How often a call is made over connections that get lost before they bring its answer."""
PAUSE_SECONDS: Final = 0.2
"""Before a call that the broker wants to be made again."""
QUERY: Final = "mqspark_query"
BATCH: Final = "mqspark_batch"
"""Properties of a decision."""
_GLOBAL = struct.Struct(">16sq16s")
_QUALIFIER = struct.Struct(">iiq")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is decided at once: a batch of a streaming query, or (``number`` 0) the write job with this id."""

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
    """What a branch id says."""

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
        raise MqsparkError(f"a message in the queue {DECISIONS} is no decision of this version: {error}") from None


class BranchTask:
    """The branch of one task, from its beginning to the answer of ``prepare``."""

    def __init__(self, broker: Broker, xid: Xid, timeout_seconds: int) -> None:
        """Begin the branch.  Raises MqsparkError."""
        self._broker = broker
        self._xid = xid
        self.session = broker.session(xa=True)
        self._xa = self.session.xa_resource
        self._run(self._xa.set_transaction_timeout(timeout_seconds), "setting the timeout of a transaction")
        self._run(self._xa.start(xid), "beginning a transaction")

    def prepare(self) -> bool:
        """End and prepare; False when there is nothing to commit.  Raises MqsparkError."""
        self._run(self._xa.end(self._xid), "ending a transaction")
        outcome: int = self._run(self._xa.prepare(self._xid), "preparing a transaction")
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
        self._sessions: dict[bool, Any] = {}
        self._queue_is_there = False

    def in_doubt(self) -> list[Xid]:
        """Our branches that are prepared here.  Raises MqsparkError."""
        found = self._retried("looking for prepared transactions", lambda session: session.xa_resource.recover(), xa=True)
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
        def finish(session: Any) -> Any:
            return call(session.xa_resource)

        try:
            self._retried(doing, finish, xa=True)
        except XAError as error:
            if error.error_code == XAER_NOTA:
                return
            if error.error_code in (XA_HEURCOM, XA_HEURRB):
                wanted = XA_HEURCOM if "committing" in doing else XA_HEURRB
                self._retried(doing, lambda session: session.xa_resource.forget(xid), xa=True)
                if error.error_code == wanted:
                    return
                raise DataLossError(f"{doing} at {self._broker.place}: an operator has decided otherwise: {xid.base64}") from error
            raise MqsparkError(f"{doing} at {self._broker.place}: {error}") from error

    # --- decisions

    def decision(self, batch: Batch) -> list[Branch] | None:
        """What was decided; None when nothing was."""
        for _, text in self._browse(f"{QUERY} = '{batch.query}' AND {BATCH} = {batch.number}"):
            return decode_decision(text)
        return None

    def decide(self, batch: Batch, branches: Sequence[Branch], now: int) -> None:
        """Write the decision, durably, unless there is one for that batch: see :meth:`decision` afterwards."""
        self._ensure_queue()
        message = ClientMessage(
            type=TYPE_TEXT,
            durable=True,
            timestamp=now,
            expiration=now + JOB_DECISION_MS if batch.job else 0,
            body=encode_text(encode_decision(branches)),
            properties={
                QUERY: (STRING, batch.query),
                BATCH: (LONG, batch.number),
                KEY_DUPLICATE_ID: (STRING, f"{batch.query}/{batch.number}"),
            },
        )

        async def send(session: Any) -> None:
            producer = await session.create_producer(DECISIONS)
            try:
                await producer.send(message)
            except DuplicateIdRejectedError:
                pass

        self._retried("writing a decision", send)

    def forget(self, batch: Batch) -> None:
        """Remove the decisions of earlier batches of the query; of a job its own."""
        selector = f"{QUERY} = '{batch.query}' AND {BATCH} {'<=' if batch.job else '<'} {batch.number}"
        if not self._browse(selector):
            return

        async def remove(session: Any) -> None:
            consumer = await session.create_consumer(DECISIONS, selector)
            await session.start()
            while (message := await consumer.receive_immediate()) is not None:
                await message.acknowledge()
            await session.flush_acknowledgements()
            await consumer.close()

        self._retried("removing decisions", remove, own=True)

    def _browse(self, selector: str) -> list[tuple[ClientMessage, str]]:
        if not self._queue_is_there and not self._broker.queue_query(DECISIONS).exists:
            return []
        self._queue_is_there = True

        async def browse(session: Any) -> list[tuple[ClientMessage, str]]:
            consumer = await session.create_consumer(DECISIONS, selector, browse_only=True)
            await session.start()
            found = []
            while (message := await consumer.receive_immediate()) is not None:
                body = await message.large.read() if message.large is not None else message.plain_body()
                found.append((message, decode_text(body) or ""))
            await consumer.close()
            return found

        found: list[tuple[ClientMessage, str]] = self._retried("looking for decisions", browse, own=True)
        return found

    def _ensure_queue(self) -> None:
        if not self._queue_is_there:
            self._broker.create_queue(DECISIONS)
            self._queue_is_there = True

    # --- calls

    def _retried(self, doing: str, function: Any, *, xa: bool = False, own: bool = False) -> Any:
        """What ``function(session)`` gives, made again over another connection when one is lost.  All of it may be made twice.

        ``xa``: with a session for branches; ``own``: with one that nobody had before.  Raises ``XAError`` for an answer of the broker.
        """
        for _ in range(ATTEMPTS_MAX):
            kept = None if own else self._sessions.get(xa)
            session = self._broker.session(xa=xa) if kept is None or kept.closed else kept
            if not own:
                self._sessions[xa] = session
            try:
                return self._broker.runtime.run(function(session))
            except XAError as error:
                if error.error_code not in (XA_RETRY, XAER_RMFAIL):
                    raise
                _log.warning("%s at %s: %s", doing, self._broker.place, error)
                self._broker.runtime.pump(PAUSE_SECONDS)
            except OF_THE_CONNECTION as error:
                _log.warning("%s: the connection to %s was lost: %s", doing, self._broker.place, error)
            except MQError as error:
                self._broker.failed(error, doing)
            finally:
                if own and not session.closed:
                    self._broker.runtime.run(session.close())
        raise BrokerUnreachableError(f"{doing}: {self._broker.place} lost every connection before it answered")


def finish(batch: Batch, mine: Sequence[Branch], nodes: Mapping[str, NodeBranches], home: str, now: int) -> bool:
    """Commit a batch whose tasks have prepared ``mine``; False when an earlier run of it was decided for, and ``mine`` was rolled back.

    ``nodes`` are those of the cluster that can be reached, with ``home`` and those of ``mine`` among them; ``now`` in ms since 1970.
    Raises MqsparkError when something is missing to know or to do what was decided: the batch is to be run again.
    """
    waiting = {node_id: [xid for xid in node.in_doubt() if _of(xid, batch)] for node_id, node in nodes.items()}
    decided = _decision(batch, nodes, waiting)
    if decided is None and not mine and not any(waiting.values()):
        return True
    if decided is None:
        for branch in mine:
            # Once decided for, a branch that is not there counts as committed.
            if branch.xid not in waiting[branch.node_id]:
                raise MqsparkError(
                    f"a transaction of {batch} is not prepared any more on node {branch.node_id}: somebody has ended it; run it again"
                )
        nodes[home].decide(batch, mine, now)
        decided = nodes[home].decision(batch)
        if decided is None:
            raise MqsparkError(f"the decision about {batch} is not in the queue {DECISIONS} of node {home}: who takes messages from there?")
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
    """Roll back the branches of a batch that is given up; of a write job all that the ``nodes`` have.

    Nothing happens to one that was decided for, since Spark gives up what it could not commit to the end, or when ``home`` is away: the
    next run of the batch finds the branches.
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
    """What an earlier run has decided.  Raises BrokerUnreachableError when that cannot be known."""
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
