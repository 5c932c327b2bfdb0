"""The job ``audit``: planted losses, doubles and changes of order are found, and nothing else, in archives and on brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mqspark.errors import BadOptionError
from mqspark.jobs import JobError
from mqspark.jobs.archives import with_added_columns
from mqspark.jobs.audit import DOUBLED, LOST, REORDERED, Audit, AuditPlan, audit, plan_audit, report_of
from mqspark.jobs.command import invoke
from tests.spark.support import NUMBER, MqbrokerProcess, login, received_numbers, send_numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "message_id bigint, address string, queue string, node_id string, timestamp timestamp, user_id string, properties map<string,string>, "
    "archived_at timestamp, size bigint, day date"
)
MOMENT = datetime(2026, 11, 21, tzinfo=UTC)
Sent = tuple[int, str, int]
"""Message id, producer, number."""


def write(spark: SparkSession, path: Path, sent: Iterable[Sent], queue: str = "q", node: str = "n1") -> str:
    rows = [
        (message_id, "a", queue, node, MOMENT, f"ID:{producer}-{number}", {"who": producer, "seq": str(number)}, MOMENT, 1, MOMENT.date())
        for message_id, producer, number in sent
    ]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").partitionBy("address", "day").parquet(str(path))
    return str(path)


def findings(found: Audit) -> list[tuple[Any, ...]]:
    rows = found.findings.collect()
    return sorted((row.kind, row.producer, row.key, row.until, row["count"], tuple(row.message_ids or ())) for row in rows)


def numbered(*archives: str, **changes: Any) -> AuditPlan:
    return plan_audit({}, archives=archives, sequence="seq", producer="who", **changes)


def sent(producer: str, numbers: Sequence[int], first_id: int) -> list[Sent]:
    return [(first_id + place, producer, number) for place, number in enumerate(numbers)]


def test_planted_losses_doubles_and_changes_of_order(spark: SparkSession, tmp_path: Path) -> None:
    one = sent("one", [*range(40), *range(43, 60), 57, *range(60, 100)], 1_000)
    two = sent("two", [*range(10), 11, 12, 10, *range(13, 20)], 5_000)
    path = write(spark, tmp_path / "archive", [*one, *two])
    write(spark, tmp_path / "archive", [two[3]])
    found = audit(spark, numbered(path))
    assert found.counts == {LOST: 3, DOUBLED: 2, REORDERED: 1}
    assert (found.messages, found.skipped, found.clean) == (118, 0, False)
    assert findings(found) == [
        (DOUBLED, "one", "57", None, 1, (1_054, 1_057)),
        (DOUBLED, "two", "3", None, 1, (5_003,)),
        (LOST, "one", "40", "42", 3, ()),
        (REORDERED, "two", "10", "12", 1, (5_012,)),
    ]
    report = report_of(found)
    assert report.status == 4
    assert report.tables[0].rows == [(118, 0, 3, 2, 1)]
    assert report.tables[1].rows == [("a", "one", 3, 1, 0), ("a", "two", 0, 1, 1)]


def test_places_complete_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """What two nodes and two archives have together is whole; a message in two archives is one."""
    everything = sent("one", range(100), 1_000)
    first = write(spark, tmp_path / "first", everything[:60])
    second = write(spark, tmp_path / "second", everything[50:80])
    write(spark, tmp_path / "second", everything[80:], node="n2")
    found = audit(spark, numbered(first, second, first=0))
    assert (found.clean, found.messages, report_of(found).status) == (True, 100, 0)
    assert audit(spark, numbered(second)).counts == {LOST: 0, DOUBLED: 0, REORDERED: 0}
    # Only who knows where producers began can miss the beginning.
    found = audit(spark, numbered(second, first=0))
    assert findings(found) == [(LOST, "one", "0", "49", 50, ())]


def test_by_id_against_a_reference(spark: SparkSession, tmp_path: Path) -> None:
    everything = sent("one", range(20), 1_000)
    reference = write(spark, tmp_path / "reference", everything, queue="archive.a")
    path = write(spark, tmp_path / "archive", [*everything[:7], *everything[8:], (2_000, "one", 3)])
    found = audit(spark, plan_audit({}, archives=[path], reference=reference))
    assert [(kind, key, ids) for kind, _, key, _, _, ids in findings(found)] == [
        (DOUBLED, "ID:one-3", (1_003, 2_000)),
        (LOST, "ID:one-7", (1_007,)),
    ]


def test_a_small_audit_has_few_tasks_however_many_a_shuffle_may_have(spark: SparkSession, tmp_path: Path) -> None:
    path = write(spark, tmp_path / "archive", sent("one", [1, 2, 4], 1))
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", "60")
    try:
        found = audit(spark, numbered(path))
        assert found.findings.rdd.getNumPartitions() < 10
        found.findings.unpersist()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_what_cannot_be_audited(spark: SparkSession, tmp_path: Path) -> None:
    path = write(spark, tmp_path / "archive", sent("one", range(3), 1))
    with pytest.raises(JobError, match="no message has the property sequence with a whole number"):
        audit(spark, plan_audit({}, archives=[path], sequence="sequence"))
    with pytest.raises(JobError, match="there is no archive"):
        audit(spark, numbered(str(tmp_path / "nowhere")))
    for wrong in ({}, {"archives": ["x"], "producer": "p"}, {"archives": ["x"], "sequence": "s", "identity": "i"}):
        with pytest.raises(BadOptionError):
            plan_audit({}, **wrong)  # type: ignore[arg-type]


def test_an_archive_a_queue_and_the_folder_of_its_broker(
    spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_numbered(broker.url, "audited", 120)
    options = login(broker.url)
    queue = spark.read.format("mqbroker").options(**options).option("queue", "audited").load()
    oldest = queue.orderBy("message_id").limit(80)
    archive = str(tmp_path / "archive")
    with_added_columns(oldest).write.partitionBy("address", "day").parquet(archive)
    # Between its commit and its settlement a message is in the archive and in the queue.
    assert received_numbers(broker.url, "audited", 70) == list(range(70))
    (tmp_path / "password").write_text(f"{options['password']}\n")
    command = ["audit", "--url", broker.url, "--user", options["user"], "--password-file", str(tmp_path / "password")]
    command += ["--archive", archive, "--queue", "audited", "--journal", str(broker.folder), "--address", "audited"]
    command += ["--sequence", NUMBER, "--first", "0"]
    assert invoke([*command, "--dry-run"]) == 0
    assert f"journal {broker.folder}" in capsys.readouterr().out
    assert invoke(command) == 0
    assert "No message is lost, doubled or reordered." in capsys.readouterr().out
    # Somebody takes what was not archived, and sends some again.
    assert received_numbers(broker.url, "audited", 13) == list(range(70, 83))
    send_numbered(broker.url, "audited", 2, first=98)
    target = str(tmp_path / "findings")
    assert invoke([*command, "--findings", target]) == 4
    assert "80 to 82" in capsys.readouterr().out
    counts = {(row.kind, row.key): row["count"] for row in spark.read.parquet(target).collect()}
    assert counts == {(LOST, "80"): 3, (DOUBLED, "98"): 1, (DOUBLED, "99"): 1}
    assert invoke([*command[:-4], "--sequence", "nothing"]) == 1
    assert invoke(["audit"]) == 2
