"""Look for lost, doubled and reordered messages over archives, data folders and live queues of a whole cluster.

With a property in which every producer numbers its messages: a number that is missing between two others is *lost*, a number that
several messages have is *doubled*, a number that came to its queue behind a greater one of its producer is *reordered*.  Without numbers
messages are told apart by an id: *doubled* is an id that several messages have, and *lost* one that is in the reference archive and nowhere
else.

One message in several places (still in its queue, and already archived) counts as one message, told by node and message id.  Brokers are
read before archives, so that a message that is archived meanwhile is seen twice rather than not at all.  Spark does all the work; the
driver only takes counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BadOptionError
from mqspark.jobs import status
from mqspark.jobs.archives import open_archive, property_text, setting
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.report import Report
from mqspark.jobs.status import JobError
from mqspark.options import Use

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOST: Final = "lost"
DOUBLED: Final = "doubled"
REORDERED: Final = "reordered"
ROWS_SHOWN: Final = 20
"""Findings, and producers with findings, in the tables that are printed."""
ARCHIVE: Final = "archive"
REFERENCE: Final = "reference"
BROKER: Final = "broker"
_COLUMNS: Final = ("message_id", "address", "queue", "node_id", "user_id", "properties")
_USER_ID: Final = "user_id"
_FEWER_PARTITIONS: Final = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
"""Setting of Spark.  Without it a persisted frame has 200 partitions, as many as a shuffle, and each query of it as many tasks."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The places to search for messages, and the properties that tell messages apart (see :func:`plan_audit`)."""

    archives: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the data source ``mqbroker`` for the live queues; empty for none."""
    reference: str | None = None
    """An archive of all that should be somewhere."""
    sequence: str | None = None
    producer: str | None = None
    identity: str = _USER_ID
    first: int | None = None
    addresses: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """The property that tells messages apart, as error texts name it."""
        if self.sequence is not None:
            return f"the property {self.sequence} with a whole number"
        return "a JMSMessageID" if self.identity == _USER_ID else f"the property {self.identity}"

    @property
    def places(self) -> list[str]:
        named = [f"{ARCHIVE} {path}" for path in self.archives] + [f"journal {path}" for path in self.journals]
        queues = [f"queues {self.options['queue']}"] if self.options else []
        return named + queues + ([f"{REFERENCE} {self.reference}"] if self.reference else [])


@dataclass(slots=True)
class Audit:
    """The result of an audit.  ``findings`` has a row for each, as ``docs/spark-jobs.md`` describes.

    ``messages`` is the number of different messages; ``skipped`` of these have no number or no id.
    """

    findings: DataFrame
    messages: int = 0
    skipped: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Messages that are lost, doubled (beyond the first) and reordered."""

    @property
    def clean(self) -> bool:
        return not any(self.counts.values())


def plan_audit(
    broker: Mapping[str, str],
    *,
    archives: Sequence[str] = (),
    journals: Sequence[str] = (),
    queues: Sequence[str] = (),
    reference: str | None = None,
    sequence: str | None = None,
    producer: str | None = None,
    identity: str | None = None,
    first: int | None = None,
    addresses: Sequence[str] = (),
) -> AuditPlan:
    """The plan of the command's options.  ``broker``: options of the data source for reaching the broker.

    Raises :class:`mqspark.errors.BadOptionError` when there is nothing to look at, or when options exclude each other.
    """
    if not (archives or journals or queues):
        raise BadOptionError("nothing to look at: give --archive, --journal or --queue, each as often as needed")
    if sequence is not None and identity is not None:
        raise BadOptionError("--sequence and --id exclude each other: messages are told apart by one or the other")
    if sequence is None and (producer is not None or first is not None):
        raise BadOptionError("--producer and --first need --sequence, the property with the number of the message")
    options = {**broker, "queue": ",".join(queues)} if queues else {}
    told_apart = identity or _USER_ID
    return AuditPlan(tuple(archives), tuple(journals), options, reference, sequence, producer, told_apart, first, tuple(addresses))


def audit(spark: SparkSession, plan: AuditPlan, *, progress: Progress | None = None) -> Audit:
    """Look at all places.

    Raises :class:`mqspark.jobs.JobError` for an invalid place, and when no message has the number or id; also the errors of the sources.
    """
    with setting(spark, _FEWER_PARTITIONS, "true"):
        return _audit(spark, plan, progress or NoProgress())


def _audit(spark: SparkSession, plan: AuditPlan, progress: Progress) -> Audit:
    from pyspark.sql import functions as f

    progress.step("Reading brokers")
    live = [_rows(_queues(spark, plan), plan, BROKER)] if plan.options else []
    live += [_rows(_journal(spark, path), plan, BROKER) for path in plan.journals]
    # A journal has the same messages as the queues of its broker: both are one place.
    kept = [reduce(lambda left, right: left.union(right), live).distinct().persist()] if live else []
    try:
        for frame in kept:
            frame.count()
        progress.step("Reading archives")
        frames = kept + [_rows(open_archive(spark, path), plan, f"{ARCHIVE} {path}") for path in plan.archives]
        if plan.reference is not None:
            frames.append(_rows(open_archive(spark, plan.reference), plan, REFERENCE))
        rows = reduce(lambda left, right: left.union(right), frames).persist()
        kept.append(rows)
        known = rows.where(f.col("key").isNotNull())
        message = f.col("node_id"), f.col("message_id")
        with_key = f.when(f.col("key").isNotNull(), f.struct(*message))
        (total,) = rows.select(f.count_distinct(*message).alias("all"), f.count_distinct(with_key).alias("known")).collect()
        if not total["known"]:
            if not total["all"]:
                raise JobError("there is no message in any of the places: there is nothing to compare")
            raise JobError(f"no message has {plan.wanted}: there is nothing to compare ({total['all']} messages were looked at)")
        progress.step("Comparing")
        if plan.sequence:
            kinds = [_gaps(known, plan.first), _doubled(known), _reordered(known)]
        else:
            kinds = [*([_absent(known)] if plan.reference is not None else []), _doubled(known)]
        findings = reduce(lambda left, right: left.unionByName(right), kinds).persist()
        found = Audit(findings, total["all"], total["all"] - total["known"], dict.fromkeys((LOST, DOUBLED, REORDERED), 0))
        for row in findings.groupBy("kind").agg(f.sum("count").alias("count")).collect():
            found.counts[row["kind"]] = row["count"]
        return found
    finally:
        for frame in kept:
            frame.unpersist()


def _queues(spark: SparkSession, plan: AuditPlan) -> DataFrame:
    for _ in Brokers(plan.options, Use.JOB | Use.READ).each():
        pass  # A node that is away would be left out below, and its messages would count as lost.
    # Messages that are consumed while the queue is read are no failure of the audit.
    options = {"failOnDataLoss": "false", **plan.options, "columns": ",".join(_COLUMNS)}
    return spark.read.format("mqbroker").options(**options).load()


def _journal(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("mqbroker-journal").option("columns", ",".join(_COLUMNS)).load(path)


def _rows(frame: DataFrame, plan: AuditPlan, place: str) -> DataFrame:
    """The messages of a place: where they are, and the number or id that tells them apart (``key``, null without one)."""
    from pyspark.sql import functions as f

    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise JobError(f"a table of messages has no column {', '.join(missing)}")
    if plan.addresses:
        frame = frame.where(f.col("address").isin(*plan.addresses))
    if plan.sequence is not None:
        key = property_text(frame, plan.sequence).try_cast("long")
    else:
        key = f.col(_USER_ID) if plan.identity == _USER_ID else property_text(frame, plan.identity)
    producer = property_text(frame, plan.producer) if plan.producer is not None else f.lit(None).cast("string")
    return frame.select(
        f.lit(place).alias("place"),
        "address",
        "queue",
        "node_id",
        "message_id",
        f.coalesce(producer, f.lit("")).alias("producer"),
        key.alias("key"),
    )


def _finding(frame: DataFrame, kind: str, count: Column | int, **columns: Column) -> DataFrame:
    """Rows of the table of findings; columns that do not apply are null."""
    from pyspark.sql import functions as f

    types = {
        "address": "string", "queue": "string", "producer": "string", "key": "string", "until": "string",
        "node_ids": "array<string>", "message_ids": "array<bigint>", "places": "array<string>",
    }  # fmt: skip
    wanted = [columns.get(name, f.lit(None)).cast(type_).alias(name) for name, type_ in types.items()]
    number = f.lit(count) if isinstance(count, int) else count
    return frame.select(f.lit(kind).alias("kind"), number.cast("long").alias("count"), *wanted)


def _gaps(rows: DataFrame, first: int | None) -> DataFrame:
    """Runs of numbers of a producer that no message of the address has in any place."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    scope = ["address", "producer"]
    before = f.lag("key", 1, None if first is None else first - 1).over(Window.partitionBy(*scope).orderBy("key"))
    numbers = rows.select(*scope, "key").distinct().withColumn("before", before).where("key - before > 1")
    return _finding(
        numbers, LOST, f.expr("key - before - 1"),
        address=f.col("address"), producer=f.col("producer"), key=f.col("before") + 1, until=f.col("key") - 1,
    )  # fmt: skip


def _absent(rows: DataFrame) -> DataFrame:
    """Ids that only the reference has."""
    from pyspark.sql import functions as f

    elsewhere = rows.where(f.col("place") != REFERENCE).select("key").distinct()
    left = rows.where(f.col("place") == REFERENCE).join(elsewhere, "key", "left_anti")
    lost = left.groupBy("address", "producer", "key").agg(*_where_found())
    return _finding(
        lost, LOST, 1,
        address=f.col("address"), key=f.col("key"), node_ids=f.col("node_ids"), message_ids=f.col("message_ids"), places=f.col("places"),
    )  # fmt: skip


def _where_found() -> list[Column]:
    from pyspark.sql import functions as f

    found = f.array_sort(f.collect_set(f.struct("node_id", "message_id")))
    return [
        f.transform(found, lambda each: each["node_id"]).alias("node_ids"),
        f.transform(found, lambda each: each["message_id"]).alias("message_ids"),
        f.array_sort(f.collect_set("place")).alias("places"),
    ]


def _doubled(rows: DataFrame) -> DataFrame:
    """Numbers or ids that several messages of a queue have, and messages that an archive has more than once."""
    from pyspark.sql import functions as f

    scope = ["address", "queue", "producer", "key"]
    same = [*scope, "node_id", "message_id"]
    # Two archives may hold a message each; one place holds it once.
    times = rows.groupBy("place", *same).agg(f.count(f.lit(1)).alias("times"))
    each = times.groupBy(*same).agg(f.max("times").alias("times"), f.collect_set("place").alias("in_places"))
    found = each.groupBy(*scope).agg(
        f.sum("times").alias("times"),
        f.array_sort(f.collect_list(f.struct("node_id", "message_id"))).alias("found"),
        f.array_sort(f.array_distinct(f.flatten(f.collect_list("in_places")))).alias("places"),
    )
    doubled = found.where("times > 1")
    return _finding(
        doubled, DOUBLED, f.col("times") - 1,
        address=f.col("address"), queue=f.col("queue"), producer=f.col("producer"), key=f.col("key"),
        node_ids=f.transform("found", lambda one: one["node_id"]),
        message_ids=f.transform("found", lambda one: one["message_id"]),
        places=f.col("places"),
    )  # fmt: skip


def _reordered(rows: DataFrame) -> DataFrame:
    """Messages of a queue on a node that stand behind a greater number of their producer, by the order of their ids there.

    The first message of a doubled number counts.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    scope = ["address", "queue", "producer", "node_id"]
    once = rows.groupBy(*scope, "key").agg(f.min("message_id").alias("message_id"), f.array_sort(f.collect_set("place")).alias("places"))
    window = Window.partitionBy(*scope).orderBy("message_id").rowsBetween(Window.unboundedPreceding, -1)
    behind = once.withColumn("greatest", f.max("key").over(window)).where("key < greatest")
    return _finding(
        behind, REORDERED, 1,
        address=f.col("address"), queue=f.col("queue"), producer=f.col("producer"), key=f.col("key"), until=f.col("greatest"),
        node_ids=f.array("node_id"), message_ids=f.array("message_id"), places=f.col("places"),
    )  # fmt: skip


def report_of(found: Audit) -> Report:
    """Summary, the producers with most findings, and the first findings.  The status is 4 when there is one."""
    from pyspark.sql import functions as f

    report = Report(status=status.OK if found.clean else status.FINDINGS)
    summary = report.table("Audit", "messages", "without number or id", LOST, DOUBLED, REORDERED)
    summary.add(found.messages, found.skipped, *(found.counts[kind] for kind in (LOST, DOUBLED, REORDERED)))
    if found.clean:
        report.notes.append("No message is lost, doubled or reordered.")
        return report
    sums = [f.sum(f.when(f.col("kind") == kind, f.col("count")).otherwise(0)).alias(kind) for kind in (LOST, DOUBLED, REORDERED)]
    groups = found.findings.groupBy("address", "producer").agg(*sums, f.sum("count").alias("all"))
    worst = report.table("Producers with most findings", "address", "producer", LOST, DOUBLED, REORDERED)
    for row in groups.orderBy(f.desc("all"), "address", "producer").limit(ROWS_SHOWN).collect():
        worst.add(row["address"], row["producer"] or None, row[LOST], row[DOUBLED], row[REORDERED])
    first = report.table("First findings", "kind", "address", "producer", "number or id", "count", "messages", "places")
    for row in found.findings.orderBy("kind", "address", "producer", f.col("key").try_cast("long"), "key").limit(ROWS_SHOWN).collect():
        ids = ", ".join(map(str, (row["message_ids"] or [])[:5])) or None
        places = ", ".join(row["places"] or []) or None
        key = row["key"] if row["kind"] != LOST or row["until"] in (None, row["key"]) else f"{row['key']} to {row['until']}"
        first.add(row["kind"], row["address"], row["producer"] or None, key, row["count"], ids, places)
    return report


@job_command("audit", epilog="Example: python -m mqspark audit --queue orders --archive /data/archive --producer sender --sequence number")
@click.option("--archive", "archives", multiple=True, metavar="PATH", help="An archive, written by the job `archive`.")
@click.option("--journal", "journals", multiple=True, metavar="FOLDER", help="The data folder of a broker, stopped or running.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue of the broker, on all nodes of its cluster.")
@click.option(
    "--address", "addresses", multiple=True, metavar="NAME", help="Only messages of this address. Default: messages of all addresses."
)
@click.option("--sequence", metavar="PROPERTY", help="The property in which producers number their messages.")
@click.option("--producer", metavar="PROPERTY", help="The property that names the producer. Default: all messages are from one producer.")
@click.option("--first", type=int, metavar="NUMBER", help="The first number of every producer. Default: the smallest number found.")
@click.option("--id", "identity", metavar="PROPERTY", help="Without --sequence: the property that holds the id. Default: JMSMessageID.")
@click.option("--reference", metavar="PATH", help="An archive of all messages that must exist: a message found only there counts as lost.")
@click.option("--findings", metavar="PATH", help="Write all findings to this folder, as Parquet.")
def command(run: Run, findings: str | None, **asked: Any) -> Report:
    """Look for lost, doubled and reordered messages in archives, data folders and live queues; nothing is taken or changed.

    The exit status tells the result: 0: nothing was found; 4: there are findings; any other: the audit could not be done.
    """
    plan = plan_audit(run.broker, **asked)
    if run.dry_run:
        report = Report()
        table = report.table("Would look at", "place")
        for place in plan.places:
            table.add(place)
        return report
    if plan.options:
        Brokers(plan.options, Use.JOB | Use.READ).check()
    with run.session() as spark:
        found = audit(spark, plan, progress=run.progress)
        report = report_of(found)
        if findings is not None:
            found.findings.write.mode("overwrite").parquet(findings)
            report.notes.append(f"All findings are in {findings}.")
        found.findings.unpersist()
    return report
