"""Write queues or addresses to Parquet or Delta, exactly once.

A stream of Spark reads the queues and writes files; its checkpoint and the log of its sink make that exactly once.  Messages are settled
on the broker when a batch is committed, the last batch at the end of the job.  A run that was killed goes on from the checkpoint; messages
that it had committed and not settled are settled by the next run, or by the job ``settle``.
"""

from __future__ import annotations

import importlib
import importlib.util
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BadOptionError, MissingQueueError, MqsparkError
from mqspark.jobs import status
from mqspark.jobs.archives import ADDRESS, DAY, with_added_columns
from mqspark.jobs.brokers import Brokers, Waiting
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.report import Report
from mqspark.jobs.settle import settled_table
from mqspark.jobs.status import JobError
from mqspark.options import Options, Use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from mqspark.settling import Settled

CHECKPOINT: Final = "_checkpoint"
"""Default name of the checkpoint, in the folder of the archive: Spark passes over names that begin with ``_``."""
QUEUE_OF_A_DIVERT: Final = "archive."
"""Prefix of an address in the name of the queue to which its divert copies."""
DIVERT_SUFFIX: Final = ".divert"
"""Suffix of the queue's name in the name of its divert: Artemis ignores a divert that has the name of a queue."""
BATCH_BYTES: Final = "256m"
"""Limit of a batch: a failed task reads all of its messages again, and a deep queue may hold very many."""
POLL_SECONDS: Final = 0.25

_LIMITS = ("maxmessagespertrigger", "maxbytespertrigger")


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """The queues to archive, and the place of the archive."""

    options: Mapping[str, str]
    """Options of the data source."""
    to: str
    checkpoint: str
    format: str = "parquet"
    every: float | None = None
    """Seconds between batches; None: archive the present messages, and then end."""
    diverted: tuple[str, ...] = ()
    """Addresses that are archived through a divert."""


@dataclass(frozen=True, slots=True)
class Archived:
    """The outcome of one run."""

    batches: int
    messages: int
    settled: list[Settled]


def plan_archive(
    broker: Mapping[str, str],
    to: str,
    *,
    queues: Sequence[str] = (),
    topic: str | None = None,
    subscription: str | None = None,
    divert: Sequence[str] = (),
    checkpoint: str | None = None,
    format: str = "parquet",
    every: float | None = None,
) -> ArchivePlan:
    """The plan of the command's options.  ``broker``: options of the data source for reaching the broker.

    Raises :class:`mqspark.errors.BadOptionError` when nothing is to be archived, or when options exclude each other, and
    :class:`mqspark.jobs.JobError` for Delta where it is not installed.
    """
    if format == "delta" and importlib.util.find_spec("delta") is None:
        raise JobError("the format delta needs the package delta-spark, which is not installed: pip install delta-spark, or choose parquet")
    if topic is not None and (queues or divert):
        raise BadOptionError("--topic cannot be combined with --queue or --divert: archive them separately, into different folders")
    if (topic is None) != (subscription is None):
        raise BadOptionError("--topic and --subscription go together: the subscription is the name under which the broker keeps messages")
    options = dict(broker)
    names = (*queues, *(QUEUE_OF_A_DIVERT + address for address in divert))
    if names:
        options["queue"] = ",".join(names)
    elif topic is not None and subscription is not None:
        options |= {"topic": topic, "subscription": subscription}
    else:
        raise BadOptionError("nothing to archive: give --queue, --divert, or --topic with --subscription")
    if not any(name.lower() in _LIMITS for name in options):
        options["maxBytesPerTrigger"] = BATCH_BYTES
    return ArchivePlan(options, to, checkpoint or f"{to.rstrip('/')}/{CHECKPOINT}", format, every, tuple(divert))


def archive(
    spark: SparkSession,
    plan: ArchivePlan,
    *,
    expected: int | None = None,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Archived:
    """Run the stream until all messages that were there at its begin are archived, or, with ``plan.every``, until ``stop`` is set.

    ``expected``: the number of messages, for ``progress``.  Raises the errors of the source and of Spark; then only archived messages are
    settled.
    """
    from mqspark.settling import settle_checkpoint

    progress = progress or NoProgress()
    frame = spark.readStream.format("mqbroker").options(**plan.options).load()
    queues = [QUEUE_OF_A_DIVERT + address for address in plan.diverted]
    writer = with_added_columns(frame, queues).writeStream.format(plan.format).partitionBy(ADDRESS, DAY).outputMode("append")
    writer = writer.option("checkpointLocation", plan.checkpoint).queryName(f"archive {plan.to}")
    writer = (
        writer.trigger(availableNow=True)
        if plan.every is None
        else writer.trigger(processingTime=f"{round(plan.every * 1000)} milliseconds")
    )
    query = writer.start(plan.to)
    try:
        batches, messages = _follow(query, expected, stop or threading.Event(), progress)
    finally:
        query.stop()
    options = Options.parse(plan.options, Use.JOB | Use.READ_STREAM)
    return Archived(batches, messages, settle_checkpoint(plan.checkpoint, options, spark=spark))


def _follow(query: StreamingQuery, expected: int | None, stop: threading.Event, progress: Progress) -> tuple[int, int]:
    """Wait for the end of the query, and count its batches and messages."""
    progress.step("Archiving", expected)
    counts: dict[int, int] = {}

    def note() -> int:
        counts.update({one["batchId"]: one["numInputRows"] for one in map(_as_mapping, query.recentProgress) if one["numInputRows"]})
        return sum(counts.values())

    while query.isActive:
        time.sleep(POLL_SECONDS)
        done = note()
        progress.reached(done, None if expected is None else max(done, expected))
        if stop.is_set():
            query.stop()
    query.awaitTermination()  # raises the error that has ended the query
    done = note()
    progress.reached(done, done)
    return len(counts), done


def _as_mapping(progress: Any) -> Mapping[str, Any]:
    """Spark gives a mapping in some versions and an object in others."""
    return progress if isinstance(progress, Mapping) else {"batchId": progress.batchId, "numInputRows": progress.numInputRows}


def make_diverts(brokers: Brokers, addresses: Sequence[str]) -> list[str]:
    """Make, where it is missing, the queue ``archive.ADDRESS`` and a divert that copies to it, on every node; returns a sentence for each.

    Raises :class:`mqspark.errors.MqsparkError` with the broker's reason, or when the broker has made none and does not say why.
    """
    made = []
    for broker in brokers.each():
        for address in addresses:
            queue = QUEUE_OF_A_DIVERT + address
            divert = queue + DIVERT_SUFFIX
            if divert in broker.manage("broker", "listDivertNames", repeat=True):
                continue
            # The queue first: a divert to an address without one drops the copies.
            broker.create_queue(queue)
            broker.manage("broker", "createDivert", divert, divert, address, queue, False, None, None)
            if divert not in broker.manage("broker", "listDivertNames", repeat=True):
                raise MqsparkError(f"the broker at {broker.place} has not made the divert {divert}; its log says why")
            made.append(f"Node {broker.node_id}: a divert copies {address} to the queue {queue} from now on.")
    return made


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of ending the process in the middle of a batch."""
    event = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: event.set()) for number in numbers]
    try:
        yield event
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@job_command("archive", epilog="Example: python -m mqspark archive --queue orders --to /data/archive")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="A queue whose messages are moved into the archive. May be given several times.",
)
@click.option(
    "--divert",
    multiple=True,
    metavar="ADDRESS",
    help="An address whose messages are archived while their consumers get them as before: by a divert to the queue archive.ADDRESS, "
    "which is made. Needs the permission manage. May be given several times.",
)
@click.option("--topic", metavar="ADDRESS", help="An address to archive through a durable subscription.")
@click.option("--subscription", metavar="NAME", help="The name of the subscription; it is created if it does not exist.")
@click.option("--to", required=True, metavar="PATH", help="The folder of the archive, anywhere that Spark can write.")
@click.option("--format", type=click.Choice(["parquet", "delta"]), default="parquet", show_default=True, help="Format of the archive.")
@click.option("--checkpoint", metavar="PATH", help=f"Checkpoint of the stream. Default: {CHECKPOINT} in the archive.")
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Keep running until Ctrl-C or SIGTERM, and archive new messages at this interval. Default: archive what is there, and end.",
)
def command(run: Run, **asked: Any) -> Report:
    """Write queues or addresses to Parquet or Delta, exactly once.

    Messages leave their queue when the files that hold them are committed. Run the command again to continue where it stopped.
    """
    plan = plan_archive(run.broker, **asked)
    brokers = Brokers(plan.options, Use.JOB | Use.READ_STREAM)
    waiting = brokers.waiting(brokers.queues())
    check_queues(plan, waiting)
    if run.dry_run:
        return dry_run(plan, waiting)
    notes = make_diverts(brokers, plan.diverted)
    with run.session(configure=_with_delta if plan.format == "delta" else None) as spark, _stopped_by_signals() as stop:
        done = archive(spark, plan, expected=sum(one.messages or 0 for one in waiting), stop=stop, progress=run.progress)
    answer = Report(notes=notes)
    answer.table("Archived", "to", "format", "batches", "messages").add(plan.to, plan.format, done.batches, done.messages)
    settled_table(answer, done.settled)
    if stop.is_set() and plan.every is None:
        answer.notes.append("Interrupted: run the same command again to continue.")
        answer.status = status.INTERRUPTED
    return answer


def check_queues(plan: ArchivePlan, waiting: Sequence[Waiting]) -> None:
    """Raise :class:`mqspark.errors.MissingQueueError` for a queue that no node has and that would not be made."""
    made = {QUEUE_OF_A_DIVERT + address for address in plan.diverted}
    there = {one.queue for one in waiting if one.messages is not None}
    for one in waiting:
        if one.queue not in there | made and "topic" not in plan.options:
            raise MissingQueueError(f"there is no queue {one.queue} on any node: create it, or correct --queue")


def dry_run(plan: ArchivePlan, waiting: Sequence[Waiting]) -> Report:
    """The messages that a run would take."""
    answer = Report()
    table = answer.table("Would archive", "node", "queue", "messages")
    for one in waiting:
        table.add(one.node_id, one.queue, one.messages)
    answer.notes.append(f"To {plan.to}, as {plan.format}, with the checkpoint {plan.checkpoint}.")
    missing = {one.queue for one in waiting if one.messages is None}
    for address in plan.diverted:
        if QUEUE_OF_A_DIVERT + address in missing:
            answer.notes.append(f"The address {address} would get a divert to the queue {QUEUE_OF_A_DIVERT}{address}, which would be made.")
    return answer


def _with_delta(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Delta's extensions and its jars, as its own package sets them up."""
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    configured: SparkSession.Builder = importlib.import_module("delta").configure_spark_with_delta_pip(builder)
    return configured
