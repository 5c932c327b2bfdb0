"""Settling messages that Spark has committed, when the query itself has no occasion to do it.

A query settles a batch when it plans the next one, or finds that there is none yet.  Spark never tells a source that its last batch is
committed: the messages of the last batch stay on the broker, "committed, not settled", when the query is stopped then.  They are settled

* when the query is started again, from its checkpoint;
* by :func:`settle_checkpoint` (``python -m mqspark settle --checkpoint DIR``), which reads Spark's offset and commit logs;
* at once after every batch, with :func:`install`: a listener that is told of each batch when it is committed.
"""

from __future__ import annotations

import json
import logging
import queue as queues
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from mqspark.errors import BrokerUnreachableError, MqsparkError
from mqspark.options import Options, Use
from mqspark.reading.checkpoints import Checkpoint
from mqspark.reading.offsets import OLDEST, Offset
from mqspark.reading.queues import Cluster, Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log: Final = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 10.0
"""Time that :meth:`SettlingListener.close` waits for calls that are under way."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome for one queue of one node."""

    reader: str
    node_id: str
    queue: str
    position: int
    """Messages up to this id are settled, or would have been without ``problem``."""
    messages: int
    """Messages that were committed and not settled."""
    problem: str | None = None
    """Why nothing was settled; None when it was."""


def settle_checkpoint(path: str, options: Options, *, dry_run: bool = False, spark: SparkSession | None = None) -> list[Settled]:
    """Settle all messages up to the last batch that the query of a checkpoint has committed; with ``dry_run`` only count them.

    ``path`` is a folder, or a URL of a file system of Arrow, or with ``spark`` of Hadoop.  A node that is away is named in the answer with
    the reason.  A user who may not manage the broker has to open the reader for this: a running query is fenced then, and fails before it
    settles or hands out more messages.

    Raises BadOptionError when there is no checkpoint, MqsparkError when it cannot be read, BrokerUnreachableError when no node is there.
    """
    found = Checkpoint(path, spark).committed()
    if found is None:
        return []
    cluster = Cluster(options)
    try:
        cluster.look()
        return [each for offset in found[1] for each in _settle(cluster, offset, dry_run)]
    finally:
        cluster.close()


def _settle(cluster: Cluster, offset: Offset, dry_run: bool) -> list[Settled]:
    outcome = []
    for node_id, queue, position in offset:
        try:
            messages = _settle_queue(cluster.broker(node_id), queue, offset.reader, position, dry_run)
            outcome.append(Settled(offset.reader, node_id, queue, position, messages))
        except MqsparkError as error:
            outcome.append(Settled(offset.reader, node_id, queue, position, 0, str(error)))
    return outcome


def _settle_queue(broker: Reading, queue: str, reader: str, position: int, dry_run: bool) -> int:
    """The number of messages that were settled, or with ``dry_run`` would be."""
    if position == OLDEST:
        return 0
    if dry_run:
        return broker.survey(queue, OLDEST, until=position).messages
    epoch, settled, reserved = broker.reader_state(queue, reader, position)
    until = min(position, reserved)
    if until <= settled:
        return 0
    messages = broker.survey(queue, settled, until=until).messages
    broker.settle(queue, reader, epoch, until)
    return messages


def install(spark: SparkSession, options: Mapping[str, str]) -> SettlingListener:
    """Settle every batch of the session's queries as soon as Spark has committed it.

    ``options`` are the source's options for connecting: ``url`` and the credentials.  The listener gets the reader, its epoch and the
    position with each batch.  An error of the listener never fails a query: it is logged, and the query settles itself with its next batch.
    Returns the listener; ``close()`` removes it.
    """
    listener = SettlingListener(spark, Options.parse(options, Use.JOB))
    spark.streams.addListener(listener)
    return listener


class SettlingListener(StreamingQueryListener):
    """Made by :func:`install`.  Spark's calls return at once; a thread talks to the broker."""

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self._spark = spark
        self._cluster = Cluster(options)
        self._tasks: queues.SimpleQueue[tuple[int, Offset, Mapping[str, Any]] | None] = queues.SimpleQueue()
        self._told = 0
        """The number of the newest batch that Spark has told of."""
        self._away: set[str] = set()
        """Nodes that could not be reached last."""
        self._thread = threading.Thread(target=self._run, name="mqspark-settling", daemon=True)
        self._thread.start()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """The batch is in Spark's commit log: Spark tells of it after that."""
        for source in event.progress.sources:
            try:
                end, report = json.loads(source.endOffset or "null"), json.loads(source.latestOffset or "null")
            except ValueError:
                continue
            if isinstance(end, dict) and isinstance(report, dict) and end.get("reader") and end["reader"] == report.get("reader"):
                self._told += 1
                self._tasks.put((self._told, Offset.parse(end), report.get("epochs", {})))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass

    def close(self) -> None:
        """Settle the batches told so far, and end."""
        self._spark.streams.removeListener(self)
        self._tasks.put(None)
        self._thread.join(LEAVE_SECONDS)

    def _run(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                try:
                    self._settle(*task)
                except Exception:  # the next batch tries it again
                    log.exception("committed, not settled: %s", task[1])
        finally:
            self._cluster.close()

    def _settle(self, number: int, offset: Offset, epochs: Mapping[str, Any]) -> None:
        for node_id, queue, position in offset:
            epoch = epochs.get(node_id, {}).get(queue)
            if not isinstance(epoch, int) or position == OLDEST:
                continue
            if node_id in self._away and number < self._told:
                # An absent node takes long to miss: if it were missed once for each batch, batches would pile up, and other nodes wait.
                continue
            try:
                if node_id not in self._cluster.nodes:
                    self._cluster.look()
                self._cluster.broker(node_id).settle(queue, offset.reader, epoch, position)
                self._away.discard(node_id)
            except BrokerUnreachableError as error:
                self._cluster.forget(node_id)
                self._away.add(node_id)
                log.warning("committed, not settled: queue %s on node %s up to %d: %s", queue, node_id, position, error)
            except MqsparkError as error:
                log.info("the query settles queue %s on node %s itself: %s", queue, node_id, error)
