"""Send messages of an archive again, exactly once.

A replay has an id.  Its first run counts the messages, cuts them into *rounds*, and writes that plan into ``_replays/ID`` of the archive; a
file there says how many rounds are done.  Every message gets the duplicate id ``ID/node/queue/message id``.  A second run with this id
goes on behind the last round that was noted; of the round in doubt the broker drops the messages that it already has.  So a round must
not have more messages than an address keeps duplicate ids; it has at most half as many.

The order of each queue of the archive is kept: its messages are sent by one task, ascending by message id.  Rounds take from all queues
in proportion, so that queues which were filled side by side are filled side by side again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BadOptionError
from mqspark.jobs.archives import ADDED, ADDRESS, SENT_SINCE, SENT_UNTIL, millis, open_archive, selected, setting, where_option
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.folder import Folder
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.replay_plan import Lane, Plan, Replay, make_plan, parse_mapping, plan_text, read_plan
from mqspark.jobs.report import Report, duration_text, size_text
from mqspark.options import Use

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FOLDER: Final = "_replays"
"""In the archive; Spark passes over names that begin with ``_`` when it reads one."""
BATCHES_A_SECOND: Final = 5
"""Portions in which the messages of one second are sent when a rate is set: more portions keep the rate more evenly."""

_PLAN, _DONE = "plan.json", "done-"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of one run."""

    id: str
    plan: Plan
    skipped: int
    """Rounds that an earlier run has sent."""
    sent: int
    """Messages of the rounds of this run."""
    seconds: float


def replay(
    spark: SparkSession,
    request: Replay,
    options: Mapping[str, str],
    targets: Brokers,
    *,
    progress: Progress | None = None,
) -> Replayed:
    """Send the messages of ``request`` through the sink ``mqbroker`` with ``options``; an interrupted run is continued.

    ``targets`` is called once, when the replay is planned.  Raises :class:`mqspark.jobs.JobError` for an id of another replay, and the
    errors of the sink.
    """
    progress = progress or NoProgress()
    folder = Folder(spark, f"{request.archive}/{FOLDER}/{request.name()}")
    frame = chosen(spark, request)
    plan = _kept_plan(folder, request)
    if plan is None:
        progress.step("Planning")
        plan = make_plan(frame, request, targets)
        if plan.rounds:
            folder.write(_PLAN, plan_text(plan, request))
    skipped = _done(folder)
    progress.step("Sending", plan.messages)
    sent = before = sum(lane.messages for lanes in plan.rounds[:skipped] for lane in lanes)
    started = time.monotonic()
    for number, lanes in enumerate(plan.rounds[skipped:], skipped):
        progress.reached(sent)
        _send(spark, frame, lanes, plan, request, options)
        folder.write(f"{_DONE}{number + 1}", "")
        folder.remove(f"{_DONE}{number}")
        sent += sum(lane.messages for lane in lanes)
    progress.reached(sent)
    return Replayed(request.name(), plan, skipped, sent - before, time.monotonic() - started)


def chosen(spark: SparkSession, request: Replay) -> DataFrame:
    """The rows of the archive that are to be sent."""
    return selected(open_archive(spark, request.archive), request.where, request.since, request.until)


def _kept_plan(folder: Folder, request: Replay) -> Plan | None:
    return read_plan(folder.read(_PLAN).decode(), request) if folder.has(_PLAN) else None


def _done(folder: Folder) -> int:
    """The number of rounds that are done.  A crash may leave several notes: the greatest counts."""
    return max((int(name.removeprefix(_DONE)) for name in folder.names() if name.startswith(_DONE)), default=0)


# --- sending


def _send(spark: SparkSession, frame: DataFrame, lanes: Sequence[Lane], plan: Plan, request: Replay, options: Mapping[str, str]) -> None:
    """Send one round: done when the broker has confirmed all of it."""
    rows = outgoing(frame.where(_in_lanes(lanes)), plan, request).repartition(plan.tasks, "node_id", "queue")
    rows = rows.sortWithinPartitions("node_id", "queue", "message_id")
    options = {**options, "nodes": ",".join(plan.nodes)}
    if request.rate is None:
        rows.write.format("mqbroker").options(**options).mode("append").save()
        return
    share = request.rate / plan.tasks
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", str(max(1, min(10_000, int(share / BATCHES_A_SECOND))))):
        rows.where(pacer(share)("message_id")).write.format("mqbroker").options(**options).mode("append").save()


def outgoing(frame: DataFrame, plan: Plan, request: Replay) -> DataFrame:
    """Rows of the archive as the sink is to have them: target, duplicate id, times."""
    from pyspark.sql import functions as f

    identity = f.concat_ws("/", f.lit(request.name()), f.col("node_id"), f.col("queue"), f.col("message_id").cast("string"))
    columns = {"duplicate_id": identity, ADDRESS: _targets(plan)}
    kind = frame.schema["timestamp"].dataType
    if request.new_timestamps:
        left = millis(frame, "expiration") - millis(frame, "timestamp")
        columns["expiration"] = f.when(left > 0, f.timestamp_millis(f.unix_millis(f.current_timestamp()) + left))
        columns["timestamp"] = f.lit(None).cast(kind)
    else:
        # The sink takes null for "now", and the wire 0 for "none".
        columns["timestamp"] = f.coalesce(f.col("timestamp"), f.timestamp_millis(f.lit(0)).cast(kind))
    return frame.withColumns(columns).drop(*ADDED)


def _targets(plan: Plan) -> Column:
    """The target of each address, as the plan says."""
    from pyspark.sql import functions as f

    moved = [f.lit(text) for part in plan.parts if part.target != part.address for text in (part.address, part.target)]
    return f.coalesce(f.try_element_at(f.create_map(*moved), f.col(ADDRESS)), f.col(ADDRESS)) if moved else f.col(ADDRESS)


def _in_lanes(lanes: Sequence[Lane]) -> Column:
    from pyspark.sql import functions as f

    number = f.col("message_id")
    condition = f.lit(False)
    for lane in lanes:
        condition |= (f.col("node_id") == lane.node_id) & (f.col("queue") == lane.queue) & number.between(lane.first, lane.last)
    everything = number.between(min(lane.first for lane in lanes), max(lane.last for lane in lanes))  # files without them are not opened
    return everything & condition


def pacer(rate: float) -> Any:
    """A condition that always holds, and lets at most ``rate`` rows a second pass in each task."""
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.pandas.functions import pandas_udf

    def pace(batches: Any) -> Any:
        begun, passed = time.monotonic(), 0
        for batch in batches:
            time.sleep(max(0.0, begun + passed / rate - time.monotonic()))
            passed += len(batch)
            yield pd.Series([True] * len(batch))

    # Spark learns the kind of the function from its annotations.
    pace.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return pandas_udf(pace, "boolean").asNondeterministic()  # type: ignore[call-overload]


# --- the command


@job_command(
    "replay",
    epilog="Example: python -m mqspark replay --archive /data/archive --where \"address = 'orders'\" --since 2026-11-20 "
    "--map orders=orders.again --rate 500",
)
@click.option("--archive", required=True, metavar="PATH", help="The archive: a folder written by the job `archive`.")
@where_option("the archive's columns")
@SENT_SINCE
@SENT_UNTIL
@click.option(
    "--map",
    "mappings",
    multiple=True,
    metavar="ADDRESS=TARGET",
    help="Send messages of ADDRESS to TARGET. One * matches any text: '*=test.*'. May be given several times.",
)
@click.option(
    "--timestamps",
    type=click.Choice(["original", "new"]),
    default="original",
    show_default=True,
    help="Keep the times at which messages were sent and expire, or set both anew.",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="NUMBER", help="Maximum number of messages per second.")
@click.option("--id", "identity", default="", metavar="NAME", help="Name of this replay. Default: made from its other arguments.")
def command(
    run: Run,
    archive: str,
    where: str | None,
    since: datetime | None,
    until: datetime | None,
    mappings: tuple[str, ...],
    timestamps: str,
    rate: float | None,
    identity: str,
) -> Report:
    """Send messages of an archive again, exactly once.

    Run the same command again to continue an interrupted replay. A replay that is complete sends nothing; to send the messages once more,
    give another --id.
    """
    if "/" in identity:
        raise BadOptionError(f"the id '{identity}' has a '/' in it, and a folder is to have its name")
    request = Replay(
        archive=archive,
        where=where,
        since=since,
        until=until,
        new_timestamps=timestamps == "new",
        mapping=parse_mapping(mappings),
        rate=rate,
        id=identity,
    )
    brokers = Brokers(run.broker, Use.JOB | Use.WRITE)
    brokers.check()
    with run.session() as spark:
        if run.dry_run:
            return dry_run(spark, request, brokers)
        done = replay(spark, request, run.broker, brokers, progress=run.progress)
    return report(done, request)


def dry_run(spark: SparkSession, request: Replay, targets: Brokers) -> Report:
    """The messages that a run would send; nothing is written, neither to the broker nor beside the archive."""
    folder = Folder(spark, f"{request.archive}/{FOLDER}/{request.name()}")
    kept = _kept_plan(folder, request)
    plan = kept or make_plan(chosen(spark, request), request, targets)
    answer = Report()
    _parts_table(answer, "Would send", plan, request)
    done = _done(folder)
    left = sum(lane.messages for lanes in plan.rounds[done:] for lane in lanes)
    answer.notes.append(f"Replay {request.name()}: {left} messages in {len(plan.rounds) - done} rounds.")
    if done:
        answer.notes.append(f"{done} rounds of it were sent before.")
    if request.rate is not None:
        answer.notes.append(f"It would take {duration_text(left / request.rate * 1000)} at least.")
    return answer


def report(done: Replayed, request: Replay) -> Report:
    """The text that the command prints."""
    answer = Report()
    _parts_table(answer, "Replay", done.plan, request)
    rate = ""
    if done.sent and done.seconds > 0:
        speed = done.sent / done.seconds
        rate = f", {speed:,.{0 if speed >= 10 else 1}f} messages a second"
    answer.notes.append(f"Replay {done.id}: {'1 message' if done.sent == 1 else f'{done.sent} messages'} sent{rate}.")
    if done.skipped == len(done.plan.rounds) and done.skipped:
        answer.notes.append("It was already complete. Use another --id to send the messages again.")
    elif done.skipped:
        answer.notes.append(f"{done.skipped} of {len(done.plan.rounds)} rounds were sent by an earlier run.")
    return answer


def _parts_table(answer: Report, title: str, plan: Plan, request: Replay) -> None:
    table = answer.table(title, "address", "target", "messages", "bytes", "expired")
    for part in plan.parts:
        table.add(part.address, part.target, part.messages, size_text(part.size), part.expired)
    expired = sum(part.expired for part in plan.parts)
    if expired and not request.new_timestamps:
        answer.notes.append(f"{expired} messages have expired since they were archived: the broker will expire them. See --timestamps new.")
