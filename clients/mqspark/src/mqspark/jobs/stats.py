"""Statistics of an archive: throughput, latency and sizes per address, producer and hour, as tables and as an HTML page.

A row of the archive tells two latencies: *to broker* is the time from the client's timestamp until the broker had the message (where the
address settings have ``enable-ingress-timestamp``), *to archive* the time until Spark planned the batch that brought it to the archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.jobs.archives import (
    ADDRESS,
    ARCHIVED_AT,
    SENT_SINCE,
    SENT_UNTIL,
    SIZE,
    millis,
    moment_of,
    open_archive,
    property_text,
    selected,
    where_option,
)
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.report import Report, Table, duration_text, size_text
from mqspark.jobs.status import JobError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

DEFAULT_PRODUCER: Final = "_AMQ_VALIDATED_USER"
"""The property in which the broker writes the user of a message, with ``populate-validated-user``."""
GROUPS_MAX: Final = 200_000
"""Groups (addresses, their hours, producers) that the driver takes: about 100 MB."""
ROWS_SHOWN: Final = 20
"""Producers and hours in the tables that are printed; the page has all addresses and this many of the others."""

_PERCENTILES = (0.5, 0.95, 0.99)
_ACCURACY = 1000  # of percentile_approx: one in a thousand


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in ms."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Group:
    """Sums over the messages of one address, producer or hour, or over all messages."""

    messages: int
    size: int
    """Bytes of the bodies."""
    largest: int
    first: datetime | None
    last: datetime | None
    to_broker: Latency | None = None
    to_archive: Latency | None = None

    @property
    def rate(self) -> float:
        """Messages a second between the first and the last one; over one second at least."""
        if self.first is None or self.last is None:
            return 0.0
        return self.messages / max(1.0, (self.last - self.first).total_seconds())


@dataclass(slots=True)
class Stats:
    """The statistics of an archive."""

    total: Group
    addresses: dict[str, Group] = field(default_factory=dict)
    producers: dict[str | None, Group] = field(default_factory=dict)
    """By the producer's name; None: messages without the property."""
    hours: dict[datetime, Group] = field(default_factory=dict)
    address_hours: dict[tuple[str, datetime], Group] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Number of messages with a body of at least 2 ** (key - 1) bytes and less than 2 ** key; key 0: with an empty body."""


def stats(
    spark: SparkSession,
    archive: str,
    *,
    where: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    producer: str = DEFAULT_PRODUCER,
    progress: Progress | None = None,
) -> Stats:
    """The statistics of the messages of ``archive`` that :func:`mqspark.jobs.archives.selected` chooses.

    ``producer`` is the property that names the sender of a message.  Raises :class:`mqspark.jobs.JobError` when there is no archive, when
    no message is selected, and when there are more than :data:`GROUPS_MAX` groups.
    """
    progress = progress or NoProgress()
    progress.step("Reading the archive")
    frame = grouped(selected(open_archive(spark, archive), where, since, until), producer)
    rows = frame.limit(GROUPS_MAX + 1).collect()
    if len(rows) > GROUPS_MAX:
        raise JobError(f"more than {GROUPS_MAX} addresses, producers and hours: choose some of them by a condition or a time range")
    found = collected(rows)
    if found is None:
        raise JobError(f"the archive at {archive} has no selected message")
    progress.reached(found.total.messages)
    return found


def grouped(frame: DataFrame, producer: str) -> DataFrame:
    """One row for each group of :class:`Stats`, in one pass over the archive; the column ``kind`` names the group's kind."""
    from pyspark.sql import functions as f

    sent = millis(frame, "timestamp")
    known = f.when(sent > 0, sent)
    arrived = property_text(frame, "_AMQ_INGRESS_TIMESTAMP").cast("long")
    rows = frame.select(
        f.col(ADDRESS).alias("address"),
        f.coalesce(property_text(frame, producer), f.lit("")).alias("producer"),
        f.floor(known / 3_600_000).cast("long").alias("hour"),
        f.when(f.col(SIZE) > 0, f.floor(f.log2(f.col(SIZE))).cast("int") + 1).otherwise(f.lit(0)).alias("power"),
        f.col(SIZE).alias("size"),
        known.alias("sent"),
        (arrived - known).alias("to_broker"),
        (millis(frame, ARCHIVED_AT) - known).alias("to_archive"),
    )
    sets = [[], ["address"], ["producer"], ["hour"], ["address", "hour"], ["power"]]
    keys = [f.col(name) for name in ("address", "producer", "hour", "power")]
    percentiles = [f.percentile_approx(name, list(_PERCENTILES), _ACCURACY).alias(name) for name in ("to_broker", "to_archive")]
    return rows.groupingSets([[f.col(name) for name in one] for one in sets], *keys).agg(
        f.grouping_id().alias("kind"),
        f.count(f.lit(1)).alias("messages"),
        f.sum("size").alias("bytes"),
        f.max("size").alias("largest"),
        f.min("sent").alias("first"),
        f.max("sent").alias("last"),
        *percentiles,
    )


def collected(rows: list[Row]) -> Stats | None:
    """The rows of :func:`grouped` as :class:`Stats`; None when there was no message.

    ``kind`` has one bit for each of address, producer, hour and power, set where the group is not of that.
    """
    by_kind: dict[int, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row["kind"], []).append(row)
    total = by_kind.get(0b1111, [])
    if not total or not total[0]["messages"]:
        return None
    found = Stats(_group(total[0]))
    for row in by_kind.get(0b0111, []):
        found.addresses[row["address"]] = _group(row)
    for row in by_kind.get(0b1011, []):
        found.producers[row["producer"] or None] = _group(row)
    for row in by_kind.get(0b1101, []):
        if row["hour"] is not None:
            found.hours[_hour(row)] = _group(row)
    for row in by_kind.get(0b0101, []):
        if row["hour"] is not None:
            found.address_hours[row["address"], _hour(row)] = _group(row)
    for row in by_kind.get(0b1110, []):
        found.sizes[row["power"]] = row["messages"]
    return found


def _hour(row: Row) -> datetime:
    return moment_of(row["hour"] * 3_600_000)


def _group(row: Row) -> Group:
    return Group(
        messages=row["messages"],
        size=row["bytes"] or 0,
        largest=row["largest"] or 0,
        first=None if row["first"] is None else moment_of(row["first"]),
        last=None if row["last"] is None else moment_of(row["last"]),
        to_broker=_latency(row["to_broker"]),
        to_archive=_latency(row["to_archive"]),
    )


def _latency(values: list[float] | None) -> Latency | None:
    return None if not values else Latency(*map(float, values))


def tables(found: Stats) -> list[Table]:
    """The statistics as tables: all addresses, the greatest producers, the latest hours, and the latencies of these."""
    addresses: dict[str, Group] = {"(all)": found.total, **_most(found.addresses, len(found.addresses))}
    producers = {name or "(not named)": group for name, group in _most(found.producers, ROWS_SHOWN).items()}
    hours = {f"{hour:%Y-%m-%d %H:%M}": found.hours[hour] for hour in sorted(found.hours)[-ROWS_SHOWN:]}
    greatest = f", the greatest {ROWS_SHOWN} of {len(found.producers)}" if len(found.producers) > ROWS_SHOWN else ""
    latest = f", the latest {ROWS_SHOWN} of {len(found.hours)}" if len(found.hours) > ROWS_SHOWN else ""
    kinds = (("Addresses", "address", addresses), (f"Producers{greatest}", "producer", producers), (f"Hours{latest}", "hour (UTC)", hours))
    return [
        *(_traffic(title, name, groups) for title, name, groups in kinds),
        *(_latencies(f"Latency: {title[0].lower()}{title[1:]}", name, groups) for title, name, groups in kinds if _known(groups)),
    ]


def _most(groups: Mapping[Any, Group], limit: int) -> dict[Any, Group]:
    return dict(sorted(groups.items(), key=lambda item: -item[1].messages)[:limit])


def _traffic(title: str, name: str, groups: Mapping[str, Group]) -> Table:
    table = Table(title, (name, "messages", "msg/s", "bytes", "average", "largest", "first (UTC)", "last (UTC)"))
    for key, group in groups.items():
        average = size_text(group.size / group.messages)
        table.add(key, group.messages, group.rate, size_text(group.size), average, size_text(group.largest), group.first, group.last)
    return table


def _known(groups: Mapping[str, Group]) -> list[tuple[str, str]]:
    """The latencies that at least one group has: title and attribute."""
    kinds = (("to broker", "to_broker"), ("to archive", "to_archive"))
    return [(title, attribute) for title, attribute in kinds if any(getattr(group, attribute) for group in groups.values())]


def _latencies(title: str, name: str, groups: Mapping[str, Group]) -> Table:
    kinds = _known(groups)
    table = Table(title, (name, *(f"{kind} {part}" for kind, _ in kinds for part in ("p50", "p95", "p99"))))
    for key, group in groups.items():
        cells: list[str | None] = []
        for _, attribute in kinds:
            latency: Latency | None = getattr(group, attribute)
            parts = (None, None, None) if latency is None else (latency.p50, latency.p95, latency.p99)
            cells += [None if part is None else duration_text(part) for part in parts]
        table.add(key, *cells)
    return table


@job_command("stats", broker=False, epilog="Example: python -m mqspark stats --archive /data/archive --since 2026-11-01 --html stats.html")
@click.option("--archive", required=True, metavar="PATH", help="The archive: a folder written by the job `archive`.")
@where_option("the archive's columns")
@SENT_SINCE
@SENT_UNTIL
@click.option("--producer", metavar="PROPERTY", default=DEFAULT_PRODUCER, show_default=True, help="The property that names the producer.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False, writable=True), help="Also write a page with plots to this file.")
def command(run: Run, archive: str, html: Path | None, **asked: Any) -> Report:
    """Print how many messages came when, from whom, how large and how fast.

    The HTML page is complete in itself: it needs no network and no other file.
    """
    if html is not None and not html.absolute().parent.is_dir():
        raise JobError(f"the folder of {html} does not exist")
    with run.session() as spark:
        if run.dry_run:
            asked.pop("producer")
            return _plan(selected(open_archive(spark, archive), **asked), html)
        found = stats(spark, archive, progress=run.progress, **asked)
    report = Report(tables(found))
    if html is not None:
        from mqspark.jobs.stats_page import page

        html.write_text(page(found, archive), encoding="utf-8")
        report.notes.append(f"The page is in {html}.")
    return report


def _plan(frame: DataFrame, html: Path | None) -> Report:
    """The files that would be read; no message is read for it."""
    report = Report()
    report.table("Would read", "files", "page").add(len(frame.inputFiles()), str(html) if html else None)
    return report
