"""``spark.read.format("mqbroker")``: the present messages of queues.

The query takes no messages, and gives the same again as long as other clients neither take nor send.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from mqclient.wire.packets import ReaderRange
from mqspark.broker.nodes import Node
from mqspark.errors import BrokerUnreachableError
from mqspark.options import Options
from mqspark.reading.offsets import OLDEST, PARTS_MAX, POSITION_MAX, Offset, parts_of, split
from mqspark.reading.pushdown import Pushed
from mqspark.reading.queues import Cluster, Reading
from mqspark.reading.reading import RangePartition, converter_for, read_range

log: Final = logging.getLogger(__name__)


class _PushFilters:
    """A ``pushFilters`` that Spark accepts with filter pushdown on or off.

    Spark refuses to use a source that has the method while ``spark.sql.python.filterPushdown.enabled`` is false, which is its default, and
    a source cannot read that setting.  Spark compares the function behind the method with the base class's function: here it finds that
    function.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, pushed: Pushed) -> None:
        self._pushed = pushed

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._pushed.push(filters)


class BatchReader(DataSourceReader):
    """One query: made on the driver, which plans the partitions; a copy reads them in every task."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Raises SchemaError when the schema is not one of messages."""
        self._options = options
        self._schema = schema
        self._pushed = Pushed()
        converter_for(options, schema)

    @property
    def pushFilters(self) -> Any:
        return _PushFilters(self._pushed)

    def partitions(self) -> list[InputPartition]:
        """Look through the queues of all nodes.

        Raises BrokerUnreachableError, LoginError, MissingQueueError, PermissionDeniedError, BadOptionError.
        """
        cluster = Cluster(self._options)
        try:
            # Spark wants at least one partition; one that is no range has nothing to read.
            return self._plan(cluster) or [InputPartition(None)]
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)

    def _plan(self, cluster: Cluster) -> list[InputPartition]:
        options = self._options
        selector = self._pushed.selector(None if options.topic is not None else options.selector)
        starts, ends = _bounds(options.starting_offsets, "startingOffsets"), _bounds(options.ending_offsets, "endingOffsets")

        def survey(node_id: str, broker: Reading) -> list[tuple[Node, str, ReaderRange]]:
            wanted = [queue for queue in cluster.queues(node_id, broker) if self._pushed.includes(node_id, queue)]
            return [(cluster.nodes[node_id], queue, self._survey(broker, queue, starts, ends)) for queue in wanted]

        cluster.look()
        found = [each for ranges in cluster.each(survey).values() for each in ranges]
        if not cluster.away:
            cluster.check_queues()
        for node_id, reason in cluster.away.items():
            text = f"node {node_id} has messages that cannot be read now: {reason}"
            if options.fail_on_data_loss:
                raise BrokerUnreachableError(f"{text}; with failOnDataLoss=false those of the other nodes are read")
            log.warning("%s; failOnDataLoss=false: continuing without them", text)
        return self._cut([each for each in found if each[2].messages], selector)

    def _survey(self, broker: Reading, queue: str, starts: str | Offset, ends: str | Offset) -> ReaderRange:
        after, until = OLDEST, POSITION_MAX
        if not broker.has_readers:
            count = broker.queue_query(queue).message_count
            return ReaderRange(self._pushed.after, self._pushed.until, count, 0, 0, ())
        if isinstance(starts, Offset):
            given = starts.get(broker.node_id, queue)
            after = OLDEST if given is None else given
        if isinstance(ends, Offset):
            given = ends.get(broker.node_id, queue)
            until = POSITION_MAX if given is None else given
        after, until = max(after, self._pushed.after), min(until, self._pushed.until)
        if starts == "latest" or until <= after:
            return ReaderRange(after, after, 0, 0, 0, ())
        parts = max(PARTS_MAX, self._options.min_partitions or 1)
        return broker.survey(queue, after, until=-1 if until == POSITION_MAX else until, parts=parts)

    def _cut(self, found: list[tuple[Node, str, ReaderRange]], selector: str | None) -> list[InputPartition]:
        total = sum(each.messages for _, _, each in found)
        partitions: list[InputPartition] = []
        for node, queue, each in found:
            least = -(-(self._options.min_partitions or 1) * each.messages // total)
            if not each.ends:
                partitions.append(RangePartition(node, queue, each.after, each.until, selector, plain=True))
                continue
            # Messages below the oldest one are not missing: they were consumed before the query began.
            after = max(each.after, each.oldest - 1)
            for end in split(each.ends, parts_of(each.messages, each.bytes, least)):
                partitions.append(RangePartition(node, queue, after, end, selector))
                after = end
        return partitions


def _bounds(text: str, name: str) -> str | Offset:
    return Offset.from_option(text, name) if text.startswith("{") else text
