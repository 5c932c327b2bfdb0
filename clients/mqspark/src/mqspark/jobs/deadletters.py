"""Dead letters: why they are there, where they come from, and sending them back.

Reading takes nothing from the queue.  A retry is the broker's own (``retryMessage`` of the queue): it moves one message to the queue it
came from, or to its address when that queue is gone, in one transaction.  So nothing is lost or doubled when this job or the broker dies
in between, with mqbroker and Artemis alike; an id that was retried already is found to be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BrokerUnreachableError, MqsparkError
from mqspark.jobs import status
from mqspark.jobs.archives import SENT_SINCE, SENT_UNTIL, millis, moment_of, property_text, selected, where_option
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.report import Report
from mqspark.jobs.status import JobError
from mqspark.options import Use

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from mqspark.broker.broker import Broker

DEFAULT_QUEUE: Final = "DLQ"
EXPIRED: Final = "expired"
NOT_ROUTED: Final = "not routed"
NOT_DELIVERED: Final = "not delivered"
SENT: Final = "sent there"
"""The reasons that a broker tells apart; a property of the message can say more."""
REASON_CHARACTERS: Final = 120
"""Characters of a property that become part of the reason: traces are cut, so that they fall into few groups."""
GROUPS_MAX: Final = 10_000
GROUPS_SHOWN: Final = 50
FAILURES_SHOWN: Final = 10

_COLUMNS = ("message_id", "queue", "node_id", "timestamp", "properties")


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one queue on one node that have the reason and the origin in common."""

    node_id: str
    queue: str
    reason: str
    address: str | None
    """The address that they were sent to; None when no property says it."""
    origin: str | None
    """The queue that they come from; None when no property says it."""
    messages: int
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Whether to retry a group, and why."""

    retry: bool
    text: str


@dataclass(slots=True)
class Retried:
    """The outcome for the messages that were to be retried."""

    done: int = 0
    gone: int = 0
    """Messages that were no longer in the queue: consumed meanwhile, or retried by a call whose answer was lost."""
    failed: list[str] = field(default_factory=list)
    """A sentence of the broker for each message that it refused."""


def source_options(broker: Mapping[str, str], queues: Sequence[str]) -> dict[str, str]:
    """Options of the data source: ``broker`` says how to reach it.

    Dead letters that consumers, or a retry, take away while they are counted are no loss of data.
    """
    return {"failOnDataLoss": "false", **broker, "queue": ",".join(queues)}


def dead_letters(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    where: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    reason_properties: Sequence[str] = (),
) -> DataFrame:
    """The dead letters of the queues in ``options``, one row each: message_id, queue, node_id, timestamp, reason, address and origin.

    ``where`` is an SQL expression over the columns of the data source, ``since`` and ``until`` are about their timestamp.
    ``reason_properties``: properties of the messages that say why they failed; the first that is there counts.
    """
    from pyspark.sql import functions as f

    from mqspark.columns import COLUMNS

    reader = spark.read.format("mqbroker").options(**options)
    if not where:
        # A condition may need any column; without one no body is read.
        reader = reader.schema(", ".join(column.ddl() for column in COLUMNS if column.name in _COLUMNS))
    frame = selected(reader.load(), where, since, until)
    return frame.select(
        "message_id",
        "queue",
        "node_id",
        "timestamp",
        reason(frame, reason_properties).alias("reason"),
        property_text(frame, "_AMQ_ORIG_ADDRESS").alias("address"),
        property_text(frame, "_AMQ_ORIG_QUEUE").alias("origin"),
    ).withColumn("reason", f.substring("reason", 1, REASON_CHARACTERS))


def reason(frame: DataFrame, reason_properties: Sequence[str]) -> Column:
    """Why a message is a dead letter, as far as its properties say."""
    from pyspark.sql import functions as f

    kind = (
        f.when(property_text(frame, "_AMQ_ACTUAL_EXPIRY").isNotNull(), EXPIRED)
        .when(property_text(frame, "_AMQ_ORIG_ADDRESS").isNull(), SENT)
        .when(property_text(frame, "_AMQ_ORIG_QUEUE").isNull(), NOT_ROUTED)
        .otherwise(NOT_DELIVERED)
    )
    said = f.coalesce(*(property_text(frame, name) for name in reason_properties), f.lit(None).cast("string"))
    first_line = f.split_part(said, f.lit("\n"), f.lit(1))
    return f.when(said.isNull(), kind).otherwise(f.concat(kind, f.lit(": "), first_line))


def grouped(letters: DataFrame) -> list[Group]:
    """The dead letters in groups, the greatest first.  Raises :class:`mqspark.jobs.JobError` for more than :data:`GROUPS_MAX`."""
    from pyspark.sql import functions as f

    sent = millis(letters, "timestamp")
    rows = (
        letters.groupBy("node_id", "queue", "reason", "address", "origin")
        .agg(f.count(f.lit(1)).alias("messages"), f.min(sent).alias("oldest"), f.max(sent).alias("newest"))
        .limit(GROUPS_MAX + 1)
        .collect()
    )
    if len(rows) > GROUPS_MAX:
        raise JobError(f"there are more than {GROUPS_MAX} reasons and origins: choose some of the messages, or another property as reason")
    groups = map(_group, rows)
    return sorted(
        groups, key=lambda group: (-group.messages, group.node_id, group.queue, group.reason, group.address or "", group.origin or "")
    )


def _group(row: Row) -> Group:
    times = {name: None if row[name] is None else moment_of(row[name]) for name in ("oldest", "newest")}
    return Group(**row.asDict() | times)


def propose(groups: Iterable[Group], brokers: Brokers, wanted: Sequence[str] = ()) -> dict[Group, Proposal]:
    """A proposal for each group; its node is asked whether the origin still exists.

    ``wanted``: reasons that were asked for by name; without that, messages that had expired are left alone.
    """
    proposals = {group: Proposal(False, "leave: its node is away") for group in groups}
    for broker in brokers.each():
        for group in proposals:
            if group.node_id == broker.node_id:
                proposals[group] = _proposal(group, broker, wanted)
    return proposals


def _proposal(group: Group, broker: Broker, wanted: Sequence[str]) -> Proposal:
    if group.address is None:
        return Proposal(False, "leave: nothing says where from")
    if group.reason.startswith(EXPIRED) and not matches(group.reason, wanted):
        return Proposal(False, "leave: too old when it expired")
    if group.origin is not None:
        queue = broker.queue_query(group.origin)
        if queue.exists:
            return Proposal(True, "retry" if queue.consumer_count else "retry: but no consumer is there")
    if broker.address_query(group.address).queue_names:
        return Proposal(True, "retry: to the address" if group.origin is None else "retry: to the address, as its queue no longer exists")
    return Proposal(False, "leave: its queue no longer exists" if group.origin is not None else "leave: the address has no queue")


def matches(reason: str, wanted: Sequence[str]) -> bool:
    """Does ``reason`` begin with one of the wanted texts?"""
    return any(reason.startswith(one) for one in wanted)


def retry(
    letters: DataFrame,
    groups: Sequence[Group],
    brokers: Brokers,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Retried:
    """Let the broker send back the messages of ``groups``, at most ``limit``, the oldest of each queue first.

    A message that the broker refuses is noted in the result, and the next one is tried; a broker that goes away ends the job with
    :class:`mqspark.errors.BrokerUnreachableError`.
    """
    progress = progress or NoProgress()
    total = sum(group.messages for group in groups)
    progress.step("Retrying", total if limit is None else min(total, limit))
    result = Retried()
    for broker in brokers.each():
        for queue in sorted({group.queue for group in groups if group.node_id == broker.node_id}):
            left = None if limit is None else limit - _tried(result)
            for message_id in _chosen(
                letters, [group for group in groups if (group.node_id, group.queue) == (broker.node_id, queue)], left
            ):
                retry_one(broker, queue, message_id, result)
                progress.reached(_tried(result))
    return result


def _tried(result: Retried) -> int:
    return result.done + result.gone + len(result.failed)


def _chosen(letters: DataFrame, groups: Sequence[Group], limit: int | None) -> Iterable[int]:
    """The ids of the messages in these groups of one queue, ascending: the broker finds the first of a queue at once."""
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for group in groups:
        origin = f.col("address").eqNullSafe(f.lit(group.address)) & f.col("origin").eqNullSafe(f.lit(group.origin))
        condition |= (f.col("reason") == group.reason) & origin
    here = (f.col("node_id") == groups[0].node_id) & (f.col("queue") == groups[0].queue)
    ids = letters.where(here & condition).select("message_id").orderBy("message_id")
    rows = ids if limit is None else ids.limit(max(0, limit))
    return (row["message_id"] for row in rows.toLocalIterator())


def retry_one(broker: Broker, queue: str, message_id: int, result: Retried) -> None:
    """Let the broker send back one message, and note the outcome in ``result``.  Safe to call twice."""
    try:
        moved = broker.manage(f"queue.{queue}", "retryMessage", message_id, repeat=True)
    except BrokerUnreachableError:
        raise
    except MqsparkError as error:
        result.failed.append(f"{queue}: message {message_id}: {error}")
        return
    if moved:
        result.done += 1
    else:
        result.gone += 1


@job_command("deadletters", epilog="Example: python -m mqspark deadletters --queue DLQ --since 2026-11-21 --retry --limit 100")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=(DEFAULT_QUEUE,),
    show_default=True,
    metavar="NAME",
    help="Queue with dead letters. May be given several times.",
)
@where_option("the columns of the data source")
@SENT_SINCE
@SENT_UNTIL
@click.option("--origin", "origins", multiple=True, metavar="ADDRESS", help="Only messages of this address. May be given several times.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="TEXT",
    help="Only messages whose reason begins with this text. May be given several times.",
)
@click.option(
    "--reason-property",
    "reason_properties",
    multiple=True,
    metavar="NAME",
    help="Property in which your applications say why a message failed. May be given several times: the first that a message has counts.",
)
@click.option("--retry", "perform", is_flag=True, help="Send back all messages that can be sent back.")
@click.option("--limit", type=click.IntRange(min=1), metavar="NUMBER", help="Send back at most this many messages.")
def command(
    run: Run,
    queues: tuple[str, ...],
    origins: tuple[str, ...],
    reasons: tuple[str, ...],
    perform: bool,
    limit: int | None,
    **chosen_by: Any,
) -> Report:
    """Group dead letters by reason and origin, say what can be done, and do it with --retry.

    Without --retry nothing is changed. Expired messages are sent back only if --reason names them.
    """
    options = source_options(run.broker, queues)
    brokers = Brokers(options, Use.JOB | Use.READ)
    brokers.check()
    with run.session() as spark:
        run.progress.step("Reading dead letters")
        letters = dead_letters(spark, options, **chosen_by)
        groups = [
            group
            for group in grouped(letters)
            if (not reasons or matches(group.reason, reasons)) and (not origins or group.address in origins)
        ]
        run.progress.reached(sum(group.messages for group in groups))
        proposals = propose(groups, brokers, reasons)
        chosen = [group for group in groups if proposals[group].retry]
        done = retry(letters, chosen, brokers, limit=limit, progress=run.progress) if perform and not run.dry_run else None
    return report(groups, proposals, done, limit if perform else None)


def report(groups: Sequence[Group], proposals: Mapping[Group, Proposal], done: Retried | None, limit: int | None) -> Report:
    """The report of the command; ``done`` None: nothing was retried."""
    answer = Report()
    title = f"Dead letters, the greatest {GROUPS_SHOWN} of {len(groups)} groups" if len(groups) > GROUPS_SHOWN else "Dead letters"
    table = answer.table(title, "node", "queue", "reason", "address", "from queue", "messages", "oldest (UTC)", "newest (UTC)", "proposal")
    for group in groups[:GROUPS_SHOWN]:
        proposal = proposals[group].text
        table.add(
            group.node_id, group.queue, group.reason, group.address, group.origin, group.messages, group.oldest, group.newest, proposal
        )
    possible = sum(group.messages for group in groups if proposals[group].retry)
    everything = sum(group.messages for group in groups)
    if done is None:
        would = possible if limit is None else min(possible, limit)
        answer.notes.append(f"{everything} dead letters; --retry would send back {would} of them.")
        return answer
    answer.notes.append(f"{done.done} of {everything} dead letters were sent back.")
    if done.gone:
        answer.notes.append(f"{done.gone} were no longer in the queue.")
    if done.failed:
        answer.notes.append(f"{len(done.failed)} were refused:")
        answer.notes += [f"  {text}" for text in done.failed[:FAILURES_SHOWN]]
        answer.status = status.FAILED
    return answer
