"""The reading of a task: a range of one queue of one node, from the executor itself, straight into batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mqclient.wire.packets import READ_BYTES_MAX
from mqspark.broker.broker import Broker, connect
from mqspark.broker.nodes import Node
from mqspark.errors import DataLossError, MessageFormatError, MessageGoneError
from mqspark.messages.blocks import BlockConverter, MadeBlock
from mqspark.options import Options
from mqspark.reading.plain_source import browsed

log: Final = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):
    """The messages of a queue of a node with ids above ``after``, up to ``until``."""

    node: Node
    queue: str
    after: int
    until: int
    selector: str | None
    plain: bool = False
    """Is the broker one without readers?"""
    ids: frozenset[int] | None = None
    """Just these messages."""


def converter_for(options: Options, schema: StructType, queue: str = "", node_id: str = "", broker: Broker | None = None) -> BlockConverter:
    """Raises SchemaError when the schema does not fit the options; without ``broker`` it is made for that only."""

    def fetch(message_id: int, size: int) -> bytes:
        assert broker is not None
        return read_body(broker, queue, message_id, size)

    return BlockConverter(
        schema,
        body_format=options.body_format,
        fail_fast=options.mode == "FAILFAST",
        queue=queue,
        node_id=node_id,
        fetch=fetch,
    )


def read_body(broker: Broker, queue: str, message_id: int, size: int) -> bytes:
    """The stored body of a large message, piece by piece."""
    pieces = []
    offset = 0
    while offset < size:
        piece = broker.body(queue, message_id, offset, min(READ_BYTES_MAX, size - offset))
        if not piece:
            raise MessageFormatError(f"the body of message {message_id} of queue {queue} ends after {offset} of {size} bytes")
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def read_range(options: Options, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The batches of one partition; while one is made and handed over, the next block is on its way."""
    if not isinstance(partition, RangePartition):
        return
    with connect(options, partition.node) as broker:
        converter = converter_for(options, schema, partition.queue, partition.node.node_id, broker)
        if partition.plain:
            for plain in _browsed(broker, partition):
                yield from converter.batches(plain)
            return
        position = partition.after
        gone: set[str] = set()
        while True:
            try:
                for batch, last in _read(options, broker, converter, partition, position):
                    yield batch
                    position = last
                return
            except MessageGoneError as error:
                # It went between its headers and its body: what is left of the range is read without it.
                if str(error) in gone:
                    raise
                gone.add(str(error))
                data_loss(options, str(error))


def _read(
    options: Options, broker: Broker, converter: BlockConverter, partition: RangePartition, after: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches of the range behind ``after``, each with the id of its last message.  Raises MessageGoneError."""
    for block in broker.blocks(partition.queue, after, partition.until, selector=partition.selector):
        if block.lost:
            place = f"queue {partition.queue} on node {partition.node.node_id}"
            between = f"messages between {partition.after} and {partition.until}"
            data_loss(options, f"of {place} {between} were settled or removed before they were read")
        if block.count:
            rows = 0
            for batch in converter.batches(block):
                rows += batch.num_rows
                yield batch, int.from_bytes(block.ids[8 * (rows - 1) : 8 * rows], "big")


def _browsed(broker: Broker, partition: RangePartition) -> Iterator[MadeBlock]:
    ids = partition.ids
    if ids is not None:
        return browsed(broker, partition.queue, partition.selector, ids.__contains__, len(ids))
    return browsed(broker, partition.queue, partition.selector, lambda each: partition.after < each <= partition.until, None)


def data_loss(options: Options, what: str) -> None:
    """Raise DataLossError, or log it, as ``failOnDataLoss`` says."""
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}; failOnDataLoss=false continues without them")
    log.warning("%s; failOnDataLoss=false: continuing without them", what)
