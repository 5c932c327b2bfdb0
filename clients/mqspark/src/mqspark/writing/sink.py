"""The sink: ``df.write.format("mqbroker")`` and ``df.writeStream.format("mqbroker")``.

Spark makes a writer on the driver for every batch, sends a copy of it to each task, and lets another copy (for streams: another writer)
commit or abort.  Nodes and target, on which the tasks have to agree, are found out once, when the first writer is made: the :class:`Plan`.

A task sends to one node, that at the place ``(batch + partition) modulo nodes`` of the plan's list: so a repeated task of the same batch
sends to the same one, which is the one that knows its duplicate ids, and a stream whose batches have one partition uses all nodes in turn.
So that a repeated batch does, too, the tasks of a stream go by a list that the nodes keep for its query (:mod:`mqspark.writing.plans`).
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqclient.xa import Xid
from mqspark.broker.broker import Broker, Node, connect, nodes
from mqspark.errors import BadOptionError, BrokerUnreachableError, MqsparkError, SchemaError
from mqspark.messages.rows import EncodedRows, RowEncoder, RowSettings, check_schema
from mqspark.options import Options
from mqspark.reading.checkpoints import has_begun
from mqspark.transactions import branches
from mqspark.transactions.branches import BranchTask, NodeBranches
from mqspark.transactions.decisions import Batch, Branch, new_xid
from mqspark.transactions.healing import heal_others
from mqspark.writing.plans import NodePlans, agree, check_all_there, node_is_away
from mqspark.writing.sending import Sender
from mqspark.writing.targets import Budget, Target, id_cache_size, resolve

DUPLICATE_IDS: Final = "duplicateIds"
TRANSACTIONS: Final = "transactions"
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""Local properties in which a task of a stream finds its query and batch."""
CREDITS: Final = 2 * 1024 * 1024
"""Bytes that a task may send to an address before the broker has to allow more."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """Job id, nodes and target: the same for all tasks of a batch."""

    job: str
    """A UUID: part of the duplicate ids and branches of a batch write."""
    nodes: tuple[Node, ...]
    """In the order of their ids."""
    target: Target | None

    @property
    def home(self) -> str:
        return self.nodes[0].node_id


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The report of a task to the driver."""

    batch: Batch
    nodes: tuple[Node, ...]
    node_id: str | None
    """The node that the task has sent to; None: it had no rows."""
    rows: Mapping[str, int]
    """Number of rows by address."""
    id_cache_sizes: Mapping[str, int]
    """Duplicate ids that the broker keeps, by address; empty unless duplicate ids are in use."""
    branch: Branch | None


class _Writer:
    """The common part of batch and stream."""

    def __init__(self, options: Options, schema: StructType, planned: bool) -> None:
        self._options = options
        try:
            arrow = to_arrow_schema(schema, timezone="UTC")
        except Exception as error:  # Spark's own, of several kinds
            raise SchemaError(f"the rows cannot be sent: {error}") from error
        check_schema(arrow, self._row_settings(None, None))
        self._plan = self._make_plan() if planned else None

    # --- on the driver

    def _members(self) -> list[Node]:
        return nodes(self._options)

    def _make_plan(self) -> Plan:
        options = self._options
        members = self._members()
        if options.nodes:
            members = _chosen(options.nodes, members)
        with connect(options, members[0]) as broker:
            target = resolve(options, broker)
            if target is not None and options.exactly_once == DUPLICATE_IDS:
                id_cache_size(target.address, broker)
        return Plan(str(uuid.uuid4()), tuple(members), target)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        if not written:
            return
        if self._options.exactly_once == TRANSACTIONS:
            self._finish(written)
        elif self._options.exactly_once == DUPLICATE_IDS:
            _warn_of_overflow(written)

    def _finish(self, written: Sequence[Written]) -> None:
        batch, planned = written[0].batch, _planned(written)
        with ExitStack() as stack:
            mine = [each.branch for each in written if each.branch is not None]
            needed = {planned[0].node_id, *(branch.node_id for branch in mine)}
            known = {node.node_id: node for node in (*nodes(self._options, patient=True), *planned)}
            reached = self._branches(stack, known.values(), needed)
            now = _now()
            if not branches.finish(batch, mine, reached, planned[0].node_id, now, lambda: heal_others(batch, reached, now)):
                _log.warning("%s had already been decided: the messages of the earlier run were used", batch)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        mine = [message.branch for message in written if message.branch is not None]
        if mine:
            planned = _planned(written)
            used = {planned[0].node_id, *(branch.node_id for branch in mine)}
            self._undo(written[0].batch, mine, [node for node in planned if node.node_id in used], planned[0].node_id)

    def _undo(self, batch: Batch, mine: Sequence[Branch], members: Iterable[Node], home: str) -> None:
        with ExitStack() as stack:
            branches.undo(batch, mine, self._branches(stack, members, set()), home)

    def _branches(self, stack: ExitStack, members: Iterable[Node], needed: set[str]) -> dict[str, NodeBranches]:
        """Connections to the nodes; nodes that are not ``needed`` are left out if they cannot be reached."""
        reached = {}
        for node in members:
            try:
                broker = connect(self._options, node, patient=node.node_id in needed)
            except BrokerUnreachableError as error:
                if node.node_id in needed:
                    raise
                _log.warning("%s", error)
                continue
            stack.enter_context(broker)
            reached[node.node_id] = NodeBranches(broker)
        return reached

    # --- in a task

    def _write(self, batches: Iterator[Any], batch: Batch, prefix: str) -> Written:
        """``prefix``: the name of the batch in duplicate ids; a broker does not forget ids in favour of others of the same batch."""
        context, plan = TaskContext.get(), self._plan
        assert context is not None and plan is not None
        partition = context.partitionId()
        slices = self._slices(batches, plan, f"batch!{prefix}!{partition}/")
        first = next(slices, None)
        if first is None:
            return Written(batch, plan.nodes, None, {}, {}, None)
        with ExitStack() as stack:
            node, broker, members = self._node_of(stack, batch, partition)
            xid = None
            if self._options.exactly_once == TRANSACTIONS:
                xid = new_xid(batch, members[0].node_id, partition, context.attemptNumber(), os.urandom(8))
            task = _Task(self._options, broker, plan.target, xid)
            task.send(first)
            for encoded in slices:
                task.send(encoded)
            branch = task.end(node.node_id)
            return Written(batch, members, node.node_id, task.budget.sent, task.budget.sizes, branch)

    def _node_of(self, stack: ExitStack, batch: Batch, partition: int) -> tuple[Node, Broker, tuple[Node, ...]]:
        """The node that the task sends to, a connection to it, and all nodes that tasks of the batch send to, the home first."""
        options, plan = self._options, self._plan
        assert plan is not None
        known = {node.node_id: node for node in plan.nodes}
        settings: dict[str, Any] = {"producer_window_size": CREDITS}
        if options.exactly_once == TRANSACTIONS:
            # A task that waits for its rows is silent, and a transaction ends with its connection: both may last equally long.
            given = options.configuration().settings.connection_ttl
            settings["connection_ttl"] = given if given < 0 else max(given, options.transaction_timeout)

        def reach(node_id: str) -> Broker:
            return stack.enter_context(connect(options, known[node_id], **settings))

        place = batch.number + partition
        node = plan.nodes[place % len(plan.nodes)]
        broker = reach(node.node_id)
        if batch.job or options.exactly_once == "none" or options.nodes or node.alone:
            return node, broker, plan.nodes
        record = NodePlans(broker).look(batch.query)
        if record is not None and record.confirmed:
            agreed = record.nodes
        else:
            agreed = agree(
                batch.query,
                [each.node_id for each in plan.nodes],
                lambda node_id: NodePlans(broker if node_id == node.node_id else reach(node_id)),
                lambda: check_all_there(options, plan.nodes),
                _now(),
            )
        chosen = agreed[place % len(agreed)]
        # The first one keeps the decisions of the query.
        for needed in (chosen, agreed[0]) if options.exactly_once == TRANSACTIONS else (chosen,):
            if needed not in known:
                raise node_is_away(batch.query, needed)
        members = tuple(known[node_id] for node_id in agreed if node_id in known)
        return known[chosen], broker if chosen == node.node_id else reach(chosen), members

    def _slices(self, batches: Iterator[Any], plan: Plan, prefix: str) -> Iterator[EncodedRows]:
        """The rows of the task, encoded, some at a time."""
        encoder: RowEncoder | None = None
        row = 0
        for batch in batches:
            if encoder is None:
                encoder = RowEncoder(batch.schema, self._row_settings(plan.target, prefix))
            for part in encoder.slices(batch):
                yield encoder.encode(part, row, _now())
                row += part.num_rows

    def _row_settings(self, target: Target | None, prefix: str | None) -> RowSettings:
        options = self._options
        named = options.topic or options.address or "".join(options.queues[:1])
        return RowSettings(
            address=named or None if target is None else target.address,
            routing_type=None if target is None else target.routing_type,
            time_to_live=options.time_to_live,
            id_prefix=prefix if options.exactly_once == DUPLICATE_IDS else None,
            extra_properties=options.unknown_columns == "properties",
        )


class _Task:
    """The sending side of one task, with the transaction ``xid`` if there is one."""

    def __init__(self, options: Options, broker: Broker, target: Target | None, xid: Xid | None) -> None:
        self._broker = broker
        self._target = target
        if target is not None:
            resolve(options, broker)  # the driver has seen to it on the first node only
        self._branch = None if xid is None else BranchTask(broker, xid, max(1, options.transaction_timeout // 1000))
        self._sender: Sender | None = None
        self.budget = Budget(broker, options.exactly_once == DUPLICATE_IDS)

    def send(self, encoded: EncodedRows) -> None:
        if self._target is not None:
            self.budget.spend({self._target.address: len(encoded)}, checked=True)
        else:
            self.budget.spend(Counter(encoded.addresses))
        if self._sender is None:
            branch = self._branch
            opens = self._broker.session if branch is None else lambda: branch.session
            self._sender = Sender(self._broker.runtime, opens, in_transaction=branch is not None)
        self._sender.send(encoded.messages, self._target.address if self._target is not None else encoded.addresses or [])

    def end(self, node_id: str) -> Branch | None:
        """Wait until the broker has everything, and prepare the branch if there is one."""
        if self._sender is not None:
            self._sender.flush()
        if self._branch is None or not self._branch.prepare():
            return None
        return Branch(node_id, self._branch.xid)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadOptionError("a queue cannot be overwritten: expected .mode('append')")
        super().__init__(options, schema, True)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        assert self._plan is not None
        return self._write(iterator, self._batch(self._plan), self._plan.job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once != TRANSACTIONS or self._plan is None:
            return
        mine = [message.branch for message in messages if isinstance(message, Written) and message.branch is not None]
        self._undo(self._batch(self._plan), mine, self._plan.nodes, self._plan.home)

    @staticmethod
    def _batch(plan: Plan) -> Batch:
        return Batch(plan.job, 0, job=True)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the batches of a stream.  ``outputMode("complete")`` sends the whole result with each batch.

    Spark makes one of its own to commit a batch or abort it, ``committing``: that one needs no plan, and perhaps no broker.
    """

    def __init__(
        self, options: Options, schema: StructType, overwrite: bool, committing: bool = False, checkpoint: str | None = None
    ) -> None:
        """``checkpoint``: where that of the query is; None: Spark does not say."""
        self._checkpoint = checkpoint
        super().__init__(options, schema, not committing)

    def _members(self) -> list[Node]:
        try:
            return super()._members()
        except BrokerUnreachableError as error:
            if self._checkpoint is None or not has_begun(self._checkpoint):
                raise
            _log.warning("%s; the query has run before, and therefore waits", error)
        return nodes(self._options, patient=True)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query, number = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or number is None:
            raise MqsparkError("Spark does not say which query and batch the task belongs to: this version of Spark is not supported")
        return self._write(iterator, Batch(query, int(number)), f"{query}/{number}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._abort(messages)


def _planned(written: Sequence[Written]) -> tuple[Node, ...]:
    """The nodes by which the tasks with rows have chosen theirs."""
    return next((each.nodes for each in written if each.node_id is not None), written[0].nodes)


def _chosen(wanted: Sequence[str], members: Sequence[Node]) -> list[Node]:
    """The members that the option names, in the order of their ids."""
    known = {node.node_id: node for node in members}
    missing = sorted(set(wanted) - set(known))
    if missing:
        raise BrokerUnreachableError(f"the option nodes: {', '.join(missing)} is not in the cluster; there are: {', '.join(known)}")
    return [known[node_id] for node_id in sorted(wanted)]


def _warn_of_overflow(written: Sequence[Written]) -> None:
    """A batch of more rows than ids are kept was written well, but could not have been repeated: the operator has to know."""
    sums: Counter[tuple[str | None, str]] = Counter()
    for each in written:
        for address, count in each.rows.items():
            sums[each.node_id, address] += count
    sizes = {(each.node_id, address): size for each in written for address, size in each.id_cache_sizes.items()}
    for (node_id, address), count in sums.items():
        size = sizes.get((node_id, address))
        if size is not None and count > size:
            _log.warning(
                "%s has sent %d messages to the address %s of node %s, which keeps %d duplicate ids: a repetition would "
                "have doubled messages; make batches smaller, choose a larger id-cache-size, or use exactlyOnce=transactions",
                written[0].batch,
                count,
                address,
                node_id,
                size,
            )


def _now() -> int:
    return time.time_ns() // 1_000_000
