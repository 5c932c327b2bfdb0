"""``spark.readStream.format("mqbroker")``: exactly once, whatever fails and is tried again.

Spark calls the driver's side in one long-lived process, in this order for each batch: ``latestOffset(start, limit)``, ``commit`` of the
batch before, ``partitions(start, end)``; tasks call ``read`` in processes of their own, perhaps more than once.  After a restart the range
that was written down last comes first, without ``initialOffset`` or ``latestOffset``.  The ``commit`` of the last batch never comes.
Hence:

* A message is settled when Spark has durably committed the batch: that is known at ``latestOffset(start)``, for all up to ``start``, and at
  ``commit(end)``.  What the last batch leaves behind is the business of :mod:`mqspark.settling`.
* The reader on the broker keeps everything behind its settled position, so a range can be read as often as it is asked for.
* A query without the option ``readerName`` makes a name up, which is written down with the first batch.  Its reader is made in
  ``partitions``, when that has happened: until then the broker is only looked at, and a query that ends so early leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqclient.wire.packets import ReaderRange
from mqspark.errors import BadOptionError, BrokerUnreachableError
from mqspark.offsets import OLDEST, PARTS_MAX, Offset, parts_of, share, split
from mqspark.options import Options
from mqspark.plain_source import PlainBroker
from mqspark.positions import Lane, Place, Readers
from mqspark.queues import Cluster, Reading
from mqspark.reading import RangePartition, converter_for, data_loss, read_range

log: Final = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
NO_LIMIT: Final = -1
NOTHING: Final = -2


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One source of a query: the driver's side, and what tasks call."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Raises SchemaError when the schema is not one of messages."""
        self._options = options
        self._schema = schema
        converter_for(options, schema)
        self._cluster = Cluster(options)
        self._readers: Readers | None = None
        self._written_down = True
        """Is the name of the reader in the checkpoint?  Not while a name made up here has not come back from Spark."""
        self._first = False
        """Is no offset of the query written down?"""
        self._begins: dict[Place, int] = {}
        """Where queues begin that no offset names yet."""
        self._targets: dict[Place, int | None] | None = None
        """How far a run goes that is to end; None: to what is there when its first range is handed out."""
        self._reported: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return StreamReader, (self._options, self._schema)

    # --- the driver's side

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins.

        Raises BrokerUnreachableError, LoginError, MissingQueueError, PermissionDeniedError, ReaderRefusedError, BadOptionError.
        """
        given = self._options.reader_name
        readers = self._named(given or f"spark-{os.urandom(8).hex()}")
        self._written_down = given is not None
        self._first = True
        nodes: dict[str, dict[str, int]] = {}

        def begin(node_id: str, broker: Reading) -> None:
            for queue in self._cluster.queues(node_id, broker):
                if self._written_down:
                    position = readers.open(broker, node_id, queue, None).settled
                else:
                    position = readers.look(broker, node_id, queue)
                nodes.setdefault(node_id, {})[queue] = position

        self._cluster.look()
        self._cluster.each(begin)
        self._cluster.check_queues()
        return Offset(readers.name, nodes).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_messages_per_trigger is not None:
            return ReadMaxRows(self._options.max_messages_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is for the next run."""
        targets: dict[Place, int | None] = {}

        def note(node_id: str, broker: Reading) -> None:
            for queue in self._cluster.queues(node_id, broker):
                targets[node_id, queue] = None if isinstance(broker, PlainBroker) else broker.survey(queue, OLDEST).until

        self._cluster.look()
        self._cluster.each(note)
        self._cluster.check_queues()
        self._targets = targets

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle everything up to ``start``, which Spark has committed, and hand out what follows.

        A node that cannot be reached keeps its position.  Raises BrokerUnreachableError when no node can, and FencedError.
        """
        position = Offset.parse(start)
        readers = self._named(position.reader)
        offered: dict[Place, tuple[Reading, Lane, int]] = {}

        def settle(node_id: str, broker: Reading) -> None:
            for queue in self._cluster.queues(node_id, broker):
                after = self._settled(readers, broker, node_id, queue, position)
                offered[node_id, queue] = broker, readers.lane(node_id, queue), after

        self._look()
        self._cluster.each(settle)
        self._cluster.check_queues()
        offers = list(offered.values())
        ends = self._hand_out(readers, offers, limit)
        waiting = self._waiting(offers)
        away = self._cluster.away
        if offers and all(lane.node_id in away for _, lane, _ in offers):
            raise BrokerUnreachableError(away[offers[0][1].node_id])
        following = Offset(readers.name, {node: dict(queues) for node, queues in position.nodes.items()})
        for (node_id, queue), found in ends.items():
            if found.until > found.after and node_id not in away:
                following.nodes.setdefault(node_id, {})[queue] = found.until
                following.parts.setdefault(node_id, {})[queue] = self._ends(found)
                if self._first or position.get(node_id, queue) is None:
                    following.begins.setdefault(node_id, {})[queue] = found.after
        self._report(readers, offers, waiting, following)
        return start if following.nodes == position.nodes else following.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress: where the query has come to, the messages in the queues, and those handed out and not settled."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges between two offsets, which Spark has written down: of this run, or of the one before.

        Raises BrokerUnreachableError when a node is away that has some of them, and DataLossError.
        """
        begin, until = Offset.parse(start), Offset.parse(end)
        readers = self._named(until.reader)
        self._written_down, self._first = True, False
        if not self._cluster.nodes:
            self._cluster.look()
        partitions: list[InputPartition] = []
        for node_id, queue, stop in until:
            known = until.begins.get(node_id, {}).get(queue, begin.get(node_id, queue))
            try:
                broker = self._cluster.broker(node_id, patient=True)
                lane = readers.open(broker, node_id, queue, known)
                partitions += self._cut(readers, broker, lane, readers.begin(lane, known), stop, until.parts.get(node_id, {}).get(queue))
            except BrokerUnreachableError:
                self._cluster.forget(node_id)
                if known is None or stop > known:
                    raise
        return partitions

    def commit(self, end: dict[str, Any]) -> None:
        """Settle everything up to ``end``.  A node that is away is told when it is back.  Raises FencedError."""
        position = Offset.parse(end)
        readers = self._named(position.reader)
        for node_id, queue, until in position:
            try:
                readers.settle(self._cluster.broker(node_id), node_id, queue, until)
            except BrokerUnreachableError as error:
                self._cluster.forget(node_id)
                log.warning("committed, not settled: queue %s on node %s up to %d: %s", queue, node_id, until, error)

    def stop(self) -> None:
        if self._readers is not None and self._readers.unsettled():
            log.info("%d messages were handed out and are not settled", self._readers.unsettled())
        self._cluster.close()

    # --- what tasks call

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)

    # --- inside

    def _named(self, name: str) -> Readers:
        """The readers of this name.  Raises BadOptionError when the checkpoint has another name than the options."""
        given = self._options.reader_name
        if given is not None and name and given != name:
            raise BadOptionError(
                f"the option readerName={given!r}: the query's checkpoint was written by reader {name}, which still holds its messages: "
                f"use that name, or begin with a new checkpoint and remove the reader from the broker"
            )
        if self._readers is None or (name and name != self._readers.name):
            self._readers = Readers(self._options, self._cluster, name or given or f"spark-{os.urandom(8).hex()}")
        return self._readers

    def _look(self) -> None:
        try:
            self._cluster.look()
        except BrokerUnreachableError:
            if not self._cluster.nodes:
                raise
        for node_id, reason in self._cluster.away.items():
            log.warning("node %s keeps its position and its messages: %s", node_id, reason)

    def _settled(self, readers: Readers, broker: Reading, node_id: str, queue: str, position: Offset) -> int:
        """Settle up to the position of one queue; where its next range begins."""
        known = position.get(node_id, queue)
        if self._written_down:
            lane = readers.open(broker, node_id, queue, known if known is not None else OLDEST)
            after = readers.begin(lane, known)
            readers.settle(broker, node_id, queue, after)
            return after
        begin = readers.look(broker, node_id, queue)
        return known if known is not None else self._begins.setdefault((node_id, queue), begin)

    def _hand_out(self, readers: Readers, offers: list[tuple[Reading, Lane, int]], limit: ReadLimit) -> dict[Place, ReaderRange]:
        messages, size = self._limits(limit)
        chosen = []
        for broker, lane, after in offers:
            target = self._ask(lane, self._target, broker, lane, after)
            if target is not None and (target == NO_LIMIT or target > after):
                chosen.append((broker, lane, after, target))
        shares = [(messages, size)] * len(chosen)
        if len(chosen) > 1 and (messages, size) != (NO_LIMIT, NO_LIMIT):
            found = [
                self._ask(lane, broker.survey, lane.queue, after, until=target, max_messages=messages, max_bytes=size)
                or ReaderRange(after, after, 0, 0, 0, ())
                for broker, lane, after, target in chosen
            ]
            counts = [NO_LIMIT] * len(found) if messages == NO_LIMIT else share(messages, [each.messages for each in found])
            sizes = [NO_LIMIT] * len(found) if size == NO_LIMIT else share(size, [each.bytes for each in found])
            shares = list(zip(counts, sizes, strict=True))
        ends: dict[Place, ReaderRange] = {}
        total = 0
        for (broker, lane, after, target), (count, amount) in zip(chosen, shares, strict=True):
            if count == 0 or amount == 0:
                continue
            handed = self._ask(lane, readers.hand_out, broker, lane, after, target, count, amount, parts=self._parts_max)
            if handed is not None:
                ends[lane.node_id, lane.queue] = handed
                total += handed.messages
        if isinstance(limit, ReadMinRows) and total < limit.min_rows and self._targets is None:
            return {}
        return ends

    def _ask(self, lane: Lane, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What a node answers; None when it has gone away, and so nothing of it can be promised now."""
        if lane.node_id in self._cluster.away:
            return None
        try:
            return function(*args, **kwargs)
        except BrokerUnreachableError as error:
            self._cluster.lost(lane.node_id, error)
            log.warning("node %s keeps its position and its messages: %s", lane.node_id, error)
            return None

    def _target(self, broker: Reading, lane: Lane, after: int) -> int:
        """How far a range may go."""
        if self._targets is None:
            return NO_LIMIT
        place = (lane.node_id, lane.queue)
        target = self._targets.get(place, NOTHING)
        if target is None:
            target = self._targets[place] = broker.survey(lane.queue, after).until
        return NOTHING if target == OLDEST else target

    def _limits(self, limit: ReadLimit) -> tuple[int, int]:
        """(messages, bytes) of a batch."""
        options = self._options
        if isinstance(limit, ReadMaxRows):
            own = limit.max_rows == options.max_messages_per_trigger
            return limit.max_rows, (options.max_bytes_per_trigger or NO_LIMIT) if own else NO_LIMIT
        if isinstance(limit, ReadMaxBytes):
            return NO_LIMIT, limit.max_bytes
        return NO_LIMIT, NO_LIMIT

    @property
    def _parts_max(self) -> int:
        return max(PARTS_MAX, self._options.min_partitions or 1)

    def _ends(self, found: ReaderRange) -> list[int]:
        """Where the tasks of a range end."""
        ends = split(found.ends, parts_of(found.messages, found.bytes, self._options.min_partitions or 1))
        return [*ends[:-1], found.until]

    def _cut(self, readers: Readers, broker: Reading, lane: Lane, after: int, until: int, ends: list[int] | None) -> list[InputPartition]:
        """``ends``: as they were written down; None by a version that did not."""
        if until <= after:
            return []
        found = readers.hand_out(broker, lane, after, until, parts=self._parts_max if ends is None else 1)
        if not found.messages:
            data_loss(self._options, f"of queue {lane.queue} on node {lane.node_id} all messages between {after} and {until} are gone")
            return []
        selector = None if self._options.topic is not None else self._options.selector
        node = self._cluster.nodes[lane.node_id]
        if isinstance(broker, PlainBroker):
            ids = broker.handed_out(lane.queue, after, until)
            return [RangePartition(node, lane.queue, after, until, selector, plain=True, ids=ids)]
        ends = self._ends(found) if ends is None else [*ends]
        ends[-1] = until
        begins = [after, *(max(after, end) for end in ends[:-1])]
        return [RangePartition(node, lane.queue, begin, end, selector) for begin, end in zip(begins, ends, strict=True)]

    def _waiting(self, offers: list[tuple[Reading, Lane, int]]) -> dict[str, dict[str, int]]:
        """The messages in the queues now, not settled by all readers."""
        messages: dict[str, dict[str, int]] = {}
        for broker, lane, _ in offers:
            found = self._ask(lane, broker.queue_query, lane.queue)
            if found is not None:
                messages.setdefault(lane.node_id, {})[lane.queue] = found.message_count
        return messages

    def _report(
        self, readers: Readers, offers: list[tuple[Reading, Lane, int]], messages: dict[str, dict[str, int]], following: Offset
    ) -> None:
        """``notSettled``: of the ``messages`` those handed out by this query before.

        ``epochs`` are for :mod:`mqspark.settling`; that of a reader which is about to be made is 1.
        """
        epochs: dict[str, dict[str, int]] = {}
        for _, lane, _ in offers:
            epochs.setdefault(lane.node_id, {})[lane.queue] = lane.epoch or 1
        counts = {"messages": messages, "notSettled": readers.unsettled(), "epochs": epochs}
        self._reported = {**Offset(following.reader, following.nodes).as_json(), **counts}
        log.info("handed out up to %s; messages in the queues: %s; of them not settled: %d", following.nodes, messages, readers.unsettled())
