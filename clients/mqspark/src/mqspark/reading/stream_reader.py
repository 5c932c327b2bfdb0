"""``spark.readStream.format("mqbroker")``: exactly once, also after failures and repetitions (decision 23).

Spark calls the driver's side in one long-lived process, in this order for each batch: ``latestOffset(start, limit)``, ``commit`` of the
batch before, ``partitions(start, end)``; tasks call ``read`` in processes of their own, perhaps more than once.  After a restart the range
that was written down last comes first, without ``initialOffset`` or ``latestOffset``.  The ``commit`` of the last batch never comes.
Hence:

* A message is settled when Spark has durably committed its batch: that is known at ``latestOffset(start)``, for all messages up to
  ``start``, and at ``commit(end)``.  :mod:`mqspark.settling` settles the last batch.
* The reader on the broker keeps all messages behind its settled position, so a range can be read again and again.
* A query without the option ``readerName`` makes a name up, which is written down with the first batch.  Its reader is made in
  ``partitions``, when that has happened: until then the broker is only looked at, and a query that ends so early leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

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
from mqspark.broker.broker import Limits
from mqspark.errors import BadOptionError, BrokerUnreachableError
from mqspark.options import Options
from mqspark.reading.offsets import OLDEST, PARTS_MAX, Offset, parts_of, share, split
from mqspark.reading.positions import Lane, Place, Readers
from mqspark.reading.queues import Cluster, Reading
from mqspark.reading.reading import RangePartition, converter_for, data_loss, read_range

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
NO_LIMIT: Final = -1
NOTHING: Final = -2


class Offer(NamedTuple):
    """A queue on a node from which a batch may take messages."""

    lane: Lane
    after: int
    """The position behind which the next range begins."""
    target: int
    """The last id that the next range may hold; NO_LIMIT, or NOTHING for no range."""

    @property
    def place(self) -> Place:
        return self.lane.node_id, self.lane.queue


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One source of a query: the driver's side, and :meth:`read`, which tasks call."""

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
        """Position behind which reading begins, for queues that no offset names yet."""
        self._targets: dict[Place, int | None] | None = None
        """Last id that a run with ``availableNow`` reads, by queue; None: the last id when its first range is handed out."""
        self._reported: dict[str, Any] | None = None
        self._told: set[str] = set()
        """Nodes that the log calls away."""

    def __reduce__(self) -> tuple[object, ...]:
        return StreamReader, (self._options, self._schema)

    # --- the driver's side

    def initialOffset(self) -> dict[str, Any]:
        """The offset at which a query without a checkpoint begins.

        Raises BrokerUnreachableError, LoginError, MissingQueueError, PermissionDeniedError, ReaderRefusedError, BadOptionError.
        """
        given = self._options.reader_name
        readers = self._named(given or f"spark-{os.urandom(8).hex()}")
        self._written_down = given is not None
        self._first = True

        def begin(node_id: str, broker: Reading) -> dict[str, int]:
            return {queue: self._beginning(readers, broker, node_id, queue) for queue in self._cluster.queues(node_id, broker)}

        self._cluster.look()
        nodes = {node_id: positions for node_id, positions in self._cluster.each(begin).items() if positions}
        self._cluster.check_queues()
        return Offset(readers.name, nodes).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_messages_per_trigger is not None:
            return ReadMaxRows(self._options.max_messages_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """End the run with the messages that are there now; messages that arrive later are for the next run."""

        def note(node_id: str, broker: Reading) -> dict[Place, int | None]:
            queues = self._cluster.queues(node_id, broker)
            return {(node_id, queue): broker.survey(queue, OLDEST).until if broker.has_readers else None for queue in queues}

        self._cluster.look()
        targets = self._cluster.each(note)
        if not self._cluster.away:
            self._cluster.check_queues()
        self._targets = {place: target for found in targets.values() for place, target in found.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle all messages up to ``start``, which Spark has committed, and hand out the following ones.

        A node that cannot be reached, or is late, keeps its position.  Raises BrokerUnreachableError when no node can be reached, and
        FencedError.
        """
        position = Offset.parse(start)
        readers = self._named(position.reader)
        self._look()
        settled = self._cluster.each(partial(self._settle, readers, position), everyone=self._everyone)
        if not self._cluster.away:
            self._cluster.check_queues()
        offers = [offer for each in settled.values() for offer in each]
        ends = self._hand_out(readers, offers, limit)
        waiting = self._waiting(offers)
        away = self._cluster.away
        self._tell(away)
        if offers and all(offer.lane.node_id in away for offer in offers):
            raise BrokerUnreachableError(away[offers[0].lane.node_id])
        following = Offset(readers.name, {node: dict(queues) for node, queues in position.nodes.items()})
        if self._first:
            # Also of queues that the first batch takes nothing from: "latest" would be another position when it is repeated.
            following.begins.update({node: dict(queues) for node, queues in position.nodes.items()})
        for (node_id, queue), found in ends.items():
            if found.until > found.after and node_id not in away:
                following.nodes.setdefault(node_id, {})[queue] = found.until
                following.parts.setdefault(node_id, {})[queue] = self._ends(found)
                if self._first or position.get(node_id, queue) is None:
                    following.begins.setdefault(node_id, {})[queue] = found.after
        self._report(readers, offers, waiting, following)
        return start if following.nodes == position.nodes else following.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress: the query's position, the messages in the queues, and the messages handed out and not settled."""
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
        read: dict[str, tuple[str, ...]] = {}
        """The queues that the query reads now, by node."""
        for node_id, queue, stop in until:
            known = until.begins.get(node_id, {}).get(queue, begin.get(node_id, queue))
            needed = known is None or stop > known
            if not needed and node_id in self._cluster.away:
                continue
            try:
                broker = self._cluster.broker(node_id, patient=needed)
                if not needed and node_id not in read:
                    read[node_id] = self._cluster.queues(node_id, broker)
                if not needed and queue not in read[node_id]:
                    continue  # The query does not read it any more, or it was deleted: a reader there would only hold messages.
                lane = readers.open(broker, node_id, queue, known)
                partitions += self._cut(readers, broker, lane, readers.begin(lane, known), stop, until.parts.get(node_id, {}).get(queue))
            except BrokerUnreachableError:
                self._cluster.forget(node_id)
                if needed:
                    raise
        return partitions

    def commit(self, end: dict[str, Any]) -> None:
        """Settle everything up to ``end``.  A node that is away is told when it is back.  Raises FencedError."""
        position = Offset.parse(end)
        readers = self._named(position.reader)
        for node_id, queue, until in position:
            broker = self._cluster.connected(node_id)
            if broker is None:
                continue
            try:
                readers.settle(broker, node_id, queue, until)
            except BrokerUnreachableError as error:
                self._cluster.forget(node_id)
                log.warning("committed, not settled: queue %s on node %s up to %d: %s", queue, node_id, until, error)

    def stop(self) -> None:
        if self._readers is not None and self._readers.unsettled():
            log.info("%d messages have been handed out and are not settled", self._readers.unsettled())
        self._cluster.close()

    # --- methods for tasks

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

    @property
    def _everyone(self) -> bool:
        """Is every node waited for?  A run that is to end must not end before it has heard of all that it is to read."""
        return self._targets is not None

    def _look(self) -> None:
        try:
            self._cluster.look()
        except BrokerUnreachableError:
            if not self._cluster.nodes:
                raise

    def _tell(self, away: dict[str, str]) -> None:
        """Log nodes that have gone away, and nodes that are back."""
        for node_id in sorted(away.keys() - self._told):
            log.warning("node %s keeps its position and its messages: %s", node_id, away[node_id])
        for node_id in sorted(self._told - away.keys()):
            log.info("reading from node %s again", node_id)
        self._told = set(away)

    def _beginning(self, readers: Readers, broker: Reading, node_id: str, queue: str) -> int:
        """The position at which a query without a checkpoint begins in one queue."""
        if self._written_down:
            return readers.open(broker, node_id, queue, None).settled
        return readers.look(broker, node_id, queue)

    def _settle(self, readers: Readers, position: Offset, node_id: str, broker: Reading) -> list[Offer]:
        """Settle up to the position on one node; returns the node's offers."""
        offers = []
        for queue in self._cluster.queues(node_id, broker):
            after = self._settled(readers, broker, node_id, queue, position)
            offers.append(Offer(readers.lane(node_id, queue), after, self._target(broker, (node_id, queue), after)))
        return offers

    def _settled(self, readers: Readers, broker: Reading, node_id: str, queue: str, position: Offset) -> int:
        """Settle up to the position of one queue; where its next range begins."""
        known = position.get(node_id, queue)
        if self._written_down:
            lane = readers.open(broker, node_id, queue, known if known is not None else readers.first(node_id, queue))
            after = readers.begin(lane, known)
            readers.settle(broker, node_id, queue, after)
            return after
        begin = readers.look(broker, node_id, queue)
        return known if known is not None else self._begins.setdefault((node_id, queue), begin)

    def _hand_out(self, readers: Readers, offers: Sequence[Offer], limit: ReadLimit) -> dict[Place, ReaderRange]:
        messages, size = self._limits(limit)
        chosen = [offer for offer in offers if offer.target == NO_LIMIT or offer.target > offer.after]
        shares = dict.fromkeys((offer.place for offer in chosen), (messages, size))
        if len(chosen) > 1 and (messages, size) != (NO_LIMIT, NO_LIMIT):

            def survey(broker: Reading, offer: Offer) -> ReaderRange:
                return broker.survey(offer.lane.queue, offer.after, until=offer.target, max_messages=messages, max_bytes=size)

            found = self._ask(chosen, survey)
            counts = [NO_LIMIT] * len(found) if messages == NO_LIMIT else share(messages, [each.messages for each in found.values()])
            sizes = [NO_LIMIT] * len(found) if size == NO_LIMIT else share(size, [each.bytes for each in found.values()])
            shares = dict(zip(found, zip(counts, sizes, strict=True), strict=True))

        def hand_out(broker: Reading, offer: Offer) -> ReaderRange:
            most, bytes_most = shares[offer.place]
            limits: Limits = {"until": offer.target, "max_messages": most, "max_bytes": bytes_most, "parts": self._parts_max}
            return readers.hand_out(broker, offer.lane, offer.after, **limits)

        ends = self._ask([offer for offer in chosen if all(shares.get(offer.place, (0, 0)))], hand_out)
        total = sum(each.messages for each in ends.values())
        if isinstance(limit, ReadMinRows) and total < limit.min_rows and self._targets is None:
            return {}
        return ends

    def _ask(self, offers: Sequence[Offer], question: Callable[[Reading, Offer], T]) -> dict[Place, T]:
        """The answers of nodes for each of their queues, without nodes that have gone away: these can promise nothing now."""

        def ask(wanted: list[Offer], broker: Reading) -> dict[Place, T]:
            return {offer.place: question(broker, offer) for offer in wanted}

        by_node: dict[str, list[Offer]] = {}
        for offer in offers:
            by_node.setdefault(offer.lane.node_id, []).append(offer)
        answers = self._cluster.ask({node_id: partial(ask, wanted) for node_id, wanted in by_node.items()}, everyone=self._everyone)
        return {place: found for each in answers.values() for place, found in each.items()}

    def _target(self, broker: Reading, place: Place, after: int) -> int:
        """The last id that a range of this queue may hold, as in :attr:`Offer.target`."""
        if self._targets is None:
            return NO_LIMIT
        target = self._targets.get(place, NOTHING)
        if target is None:
            target = self._targets[place] = broker.survey(place[1], after).until
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
        """The last id of each task of a range."""
        ends = split(found.ends, parts_of(found.messages, found.bytes, self._options.min_partitions or 1))
        return [*ends[:-1], found.until]

    def _cut(self, readers: Readers, broker: Reading, lane: Lane, after: int, until: int, ends: list[int] | None) -> list[InputPartition]:
        """``ends``: as they were written down; None by a version that did not."""
        if until <= after:
            return []
        found = readers.hand_out(broker, lane, after, until=until, parts=self._parts_max if ends is None else 1)
        if not found.messages:
            data_loss(self._options, f"of queue {lane.queue} on node {lane.node_id} all messages between {after} and {until} are gone")
            return []
        selector = None if self._options.topic is not None else self._options.selector
        node = self._cluster.nodes[lane.node_id]
        ids = broker.handed_out(lane.queue, after, until)
        if ids is not None:
            return [RangePartition(node, lane.queue, after, until, selector, plain=True, ids=ids)]
        ends = self._ends(found) if ends is None else [*ends]
        ends[-1] = until
        begins = [after, *(max(after, end) for end in ends[:-1])]
        return [RangePartition(node, lane.queue, begin, end, selector) for begin, end in zip(begins, ends, strict=True)]

    def _waiting(self, offers: Sequence[Offer]) -> dict[str, dict[str, int]]:
        """The messages in the queues now, not settled by all readers."""
        messages: dict[str, dict[str, int]] = {}
        for (node_id, queue), count in self._ask(offers, lambda broker, offer: broker.queue_query(offer.lane.queue).message_count).items():
            messages.setdefault(node_id, {})[queue] = count
        return messages

    def _report(self, readers: Readers, offers: Sequence[Offer], messages: dict[str, dict[str, int]], following: Offset) -> None:
        """``notSettled``: the ``messages`` that this query has handed out before.

        ``epochs`` are for :mod:`mqspark.settling`; a reader that is about to be made has epoch 1.
        """
        epochs: dict[str, dict[str, int]] = {}
        for lane, _, _ in offers:
            epochs.setdefault(lane.node_id, {})[lane.queue] = lane.epoch or 1
        counts = {"messages": messages, "notSettled": readers.unsettled(), "epochs": epochs}
        self._reported = {**Offset(following.reader, following.nodes).as_json(), **counts}
        log.info(
            "handed out up to %s; messages in the queues: %s, of which %d are not settled", following.nodes, messages, readers.unsettled()
        )
