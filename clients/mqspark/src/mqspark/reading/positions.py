"""The readers of a streaming query on the nodes of a cluster: their positions, and the messages that they hand out and settle."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Unpack

from mqclient.wire.packets import START_NEWEST, START_OLDEST, ReaderRange
from mqspark.broker.broker import Limits
from mqspark.errors import ReaderRefusedError
from mqspark.options import Options
from mqspark.reading.offsets import OLDEST, Offset
from mqspark.reading.queues import Cluster, Reading
from mqspark.reading.reading import data_loss

log: Final = logging.getLogger(__name__)

Place = tuple[str, str]
"""Node id and queue."""


@dataclass(slots=True)
class Lane:
    """One queue on one node."""

    node_id: str
    queue: str
    epoch: int = 0
    """The epoch of the reader; 0 while it is not open."""
    settled: int = OLDEST
    reserved: int = OLDEST
    handed_out: int = 0
    """Number of messages between ``settled`` and ``reserved``."""


class Readers:
    """A reader of one name on every queue of every node.

    The reader is opened, and made if need be, by :meth:`open`; before that :meth:`hand_out` only looks.  So a query whose name was made up
    leaves no reader behind when it ends before Spark has written the name down.
    """

    def __init__(self, options: Options, cluster: Cluster, name: str) -> None:
        self._options = options
        self._cluster = cluster
        self.name = name
        self._lanes: dict[Place, Lane] = {}

    def lane(self, node_id: str, queue: str) -> Lane:
        return self._lanes.setdefault((node_id, queue), Lane(node_id, queue))

    def open(self, broker: Reading, node_id: str, queue: str, position: int | None) -> Lane:
        """Open the reader; a new one begins at ``position``, None: by the query's options.

        An earlier user of the reader is fenced.  Raises ReaderRefusedError, MissingQueueError, PermissionDeniedError.
        """
        lane = self.lane(node_id, queue)
        if lane.epoch:
            return lane
        state = broker.open_reader(queue, self.name, self._start(node_id, queue) if position is None else _start(position))
        lane.epoch, lane.settled, lane.reserved = state.epoch, state.settled, max(state.reserved, state.settled)
        log.info(
            "reader %s of queue %s on node %s is open: epoch %d, settled up to %d", self.name, queue, node_id, lane.epoch, lane.settled
        )
        return lane

    def begin(self, lane: Lane, position: int | None) -> int:
        """The position behind which the next range begins in a queue whose reader is open.

        Raises DataLossError when the reader has settled more than the query has come to.
        """
        if position is None or position == OLDEST:
            return lane.settled
        if lane.settled > position:
            data_loss(
                self._options,
                f"reader {self.name} of queue {lane.queue} on node {lane.node_id} has settled up to {lane.settled}, "
                f"but the query has only come to {position}",
            )
            return lane.settled
        return position

    def look(self, broker: Reading, node_id: str, queue: str) -> int:
        """The position behind which a query without a reader begins.  Raises ReaderRefusedError when the queue can have no reader."""
        found = broker.queue_query(queue)
        if found.consumer_count and broker.has_readers:
            raise ReaderRefusedError(
                f"queue {queue} on node {node_id} has {found.consumer_count} consumers, and a queue has either consumers or readers: stop "
                "them, or read a queue of their address that is the query's own"
            )
        start = self._start(node_id, queue)
        if start == START_NEWEST:
            return broker.survey(queue, OLDEST).until
        return OLDEST if start == START_OLDEST else start

    def _start(self, node_id: str, queue: str) -> int:
        return START_NEWEST if self._options.starting_offsets == "latest" else _start(self.first(node_id, queue))

    def first(self, node_id: str, queue: str) -> int:
        """The position at which a queue begins that comes when the query runs: as the option says, if that names it, or with the oldest
        message."""
        text = self._options.starting_offsets
        position = Offset.from_option(text, "startingOffsets").get(node_id, queue) if text.startswith("{") else None
        return OLDEST if position is None else position

    def settle(self, broker: Reading, node_id: str, queue: str, until: int) -> None:
        """Tell the broker that everything up to ``until`` is durably dealt with.  Raises FencedError."""
        lane = self._lanes.get((node_id, queue))
        until = until if lane is None else min(until, lane.reserved)
        if lane is None or not lane.epoch or until <= lane.settled:
            return
        broker.settle(queue, self.name, lane.epoch, until)
        lane.settled = until
        if until >= lane.reserved:
            lane.handed_out = 0

    def hand_out(self, broker: Reading, lane: Lane, after: int, **limits: Unpack[Limits]) -> ReaderRange:
        """The range behind ``after``.  Raises FencedError."""
        if not lane.epoch:
            return broker.survey(lane.queue, after, **limits)
        found = broker.reserve(lane.queue, self.name, lane.epoch, after, **limits)
        if found.until > lane.reserved:
            lane.reserved = found.until
            lane.handed_out += found.messages
        return found

    def unsettled(self) -> int:
        """Messages that were handed out and are not settled."""
        return sum(lane.handed_out for lane in list(self._lanes.values()))


def _start(position: int) -> int:
    return START_OLDEST if position == OLDEST else position
