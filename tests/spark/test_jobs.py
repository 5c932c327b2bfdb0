"""The jobs on a broker and on Spark: archive, statistics, replay, dead letters, settling.  One session for all."""

from __future__ import annotations

import io
import itertools
import json
import re
import shlex
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mqspark.errors import BadOptionError
from mqspark.jobs import JobError
from mqspark.jobs.archive import archive, make_diverts, plan_archive
from mqspark.jobs.archives import open_archive, selected, with_added_columns
from mqspark.jobs.brokers import Brokers
from mqspark.jobs.command import invoke
from mqspark.jobs.deadletters import Retried, dead_letters, grouped, propose, retry, retry_one, source_options
from mqspark.jobs.folder import Folder
from mqspark.jobs.replay import FOLDER, Replay, pacer, replay
from mqspark.jobs.replay_plan import Lane
from mqspark.jobs.stats import stats
from mqspark.options import Use
from tests.interop.artemis import ArtemisBroker
from tests.spark.support import (
    PASSWORD,
    ROOT,
    USER,
    MqbrokerProcess,
    all_numbers,
    context,
    login,
    message_count,
    received_numbers,
    send_numbered,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00 UTC


def rows(count: int, node: str = "n1") -> list[str]:
    """Expressions of a table as an archive has it: ``count`` messages of three queues, each 700 ms later than the one before."""
    return [
        "id + 100 as message_id",
        "case when id % 3 = 0 then 'prices' else '007' end as address",
        "concat('q.', id % 3) as queue",
        f"'{node}' as node_id",
        f"timestamp_millis({NOON_MS} + id * 700) as timestamp",
        "cast(null as timestamp) as expiration",
        "map('who', concat('p', id % 2)::variant, '_AMQ_INGRESS_TIMESTAMP', "
        f"({NOON_MS} + id * 700 + 5)::variant, 'number', id::variant) as properties",
        "cast(repeat('x', cast(id % 40 as int)) as binary) as body",
    ]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive that no broker was needed for: 9,000 messages."""
    path = str(tmp_path_factory.mktemp("made") / "archive")
    with_added_columns(spark.range(9000).selectExpr(*rows(9000))).write.partitionBy("address", "day").parquet(path)
    return path


class Played:
    """The targets of a replay that is only planned."""

    def __init__(self, cache: int = 4000) -> None:
        self.cache = cache
        self.asked: list[str] = []

    def smallest_id_cache(self, addresses: list[str]) -> int:
        self.asked += addresses
        return self.cache

    def node_ids(self) -> tuple[str, ...]:
        return ("n1", "n2")


def run(url: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command; it finds the session of the tests, and leaves it running."""
    out, err = io.StringIO(), io.StringIO()
    secret = folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    access = () if arguments[0] == "stats" else ("--url", url, "--user", USER, "--password-file", str(secret))
    with redirect_stdout(out), redirect_stderr(err):
        status = invoke([*arguments, *access])
    return status, out.getvalue(), err.getvalue()


# --- archives, statistics, plans: no broker


def test_an_address_that_looks_like_a_number_stays_a_text(spark: SparkSession, made: str) -> None:
    frame = open_archive(spark, made)
    assert {row["address"] for row in frame.select("address").distinct().collect()} == {"007", "prices"}
    assert frame.schema["day"].dataType.simpleString() == "date"
    assert spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"


def test_time_and_condition_select(spark: SparkSession, made: str) -> None:
    frame = open_archive(spark, made)
    begin, end = datetime(2026, 11, 21, 12, 0, 7, tzinfo=UTC), datetime(2026, 11, 21, 12, 0, 14, tzinfo=UTC)
    assert selected(frame, None, begin, end).count() == 10
    assert selected(frame, "properties['number']::bigint < 12", begin, end).count() == 2
    assert selected(frame, None, datetime(2026, 11, 22, tzinfo=UTC), None).count() == 0


def test_what_is_no_archive_is_refused(spark: SparkSession, made: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is no archive at"):
        open_archive(spark, str(tmp_path / "missing"))
    spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(JobError, match="not an archive of messages: it has no column address, message_id"):
        open_archive(spark, str(tmp_path / "other"))
    with pytest.raises(BadOptionError, match="the condition 'nonsense = 1' cannot be used"):
        selected(open_archive(spark, made), "nonsense = 1", None, None)
    with pytest.raises(BadOptionError, match="the condition"):
        selected(open_archive(spark, made), "priority >", None, None)


def test_statistics_count_every_message_once(spark: SparkSession, made: str) -> None:
    found = stats(spark, made, producer="who")
    assert (found.total.messages, found.total.size) == (9000, sum(number % 40 for number in range(9000)))
    assert {name: group.messages for name, group in found.addresses.items()} == {"prices": 3000, "007": 6000}
    assert {name: group.messages for name, group in found.producers.items()} == {"p0": 4500, "p1": 4500}
    assert [hour.hour for hour in sorted(found.hours)] == [12, 13]
    assert sum(group.messages for group in found.address_hours.values()) == 9000
    assert sum(found.sizes.values()) == 9000 and found.sizes[0] == 225
    assert found.total.to_broker is not None and found.total.to_broker.p99 == 5
    assert found.total.first == datetime(2026, 11, 21, 12, tzinfo=UTC)
    with pytest.raises(JobError, match="no selected message"):
        stats(spark, made, where="address = 'nobody'")


def test_a_plan_shares_all_messages_out_in_their_order(spark: SparkSession, made: str) -> None:
    from mqspark.jobs.replay import chosen
    from mqspark.jobs.replay_plan import make_plan

    targets = Played(cache=4000)
    request = Replay(archive=made, mapping={"007": "bond"}, where="message_id < 5100")
    plan = make_plan(chosen(spark, request), request, targets)
    assert sorted(targets.asked) == ["bond", "prices"]
    assert [(part.address, part.target, part.messages) for part in plan.parts] == [("007", "bond", 3333), ("prices", "prices", 1667)]
    assert (plan.messages, plan.nodes, plan.tasks) == (5000, ("n1", "n2"), 2)
    assert all(sum(lane.messages for lane in lanes) <= 2000 for lanes in plan.rounds)
    by_queue: dict[str, list[Lane]] = {}
    for lanes in plan.rounds:
        for lane in lanes:
            by_queue.setdefault(lane.queue, []).append(lane)
    for lanes in by_queue.values():
        assert all(one.last < other.first for one, other in itertools.pairwise(lanes))
    assert sum(lane.messages for lanes in by_queue.values() for lane in lanes) == 5000


def test_a_pacer_keeps_the_rate(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        frame = spark.range(0, 1000, 1, 1)
        frame.where(pacer(1e9)("id")).count()  # the worker has to start once
        began = time.monotonic()
        assert frame.where(pacer(1000)("id")).count() == 1000
        assert time.monotonic() - began >= 0.9
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


# --- with a broker


class Smaller:
    """The targets as they are, but with a cache that makes several rounds."""

    def __init__(self, brokers: Brokers, cache: int) -> None:
        self._brokers = brokers
        self._cache = cache

    def smallest_id_cache(self, addresses: list[str]) -> int:
        assert self._brokers.smallest_id_cache(addresses) == 20_000
        return self._cache

    def node_ids(self) -> tuple[str, ...]:
        return self._brokers.node_ids()


def test_archive_statistics_and_replay_agree(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    """And a replay whose last round was sent, but not noted before the job died, doubles nothing."""
    send_numbered(broker.url, "jobs.round", 3000, properties=lambda number: {"customer": f"c{number % 3}"})
    to = str(tmp_path / "archive")
    assert archive(spark, plan_archive(login(broker.url), to, queues=["jobs.round"])).messages == 3000
    assert message_count(broker.url, "jobs.round") == 0

    found = stats(spark, to, producer="customer")
    assert found.total.messages == 3000 and found.total.to_archive is not None
    assert {name: group.messages for name, group in found.producers.items()} == {"c0": 1000, "c1": 1000, "c2": 1000}

    began = time.time() * 1000
    mapping, where = {"jobs.*": "again.*"}, "properties['number']::bigint >= 1000"
    request = Replay(archive=to, mapping=mapping, where=where, new_timestamps=True, id="friday")
    targets = Smaller(Brokers(login(broker.url)), 2000)
    done = replay(spark, request, login(broker.url), targets)
    assert (done.sent, done.skipped, len(done.plan.rounds)) == (2000, 0, 2)
    folder = Folder(spark, f"{to}/{FOLDER}/friday")
    assert folder.names() == ["done-2", "plan.json"]
    folder.remove("done-2")
    folder.write("done-1", "")
    done = replay(spark, replace(request, rate=50_000.0), login(broker.url), targets)
    assert (done.sent, done.skipped) == (1000, 1)
    done = replay(spark, request, login(broker.url), targets)
    assert (done.sent, done.skipped) == (0, 2)
    with context(broker.url) as session:
        assert next(iter(session.create_browser(session.create_queue("again.round")))).timestamp >= began
    assert all_numbers(broker.url, "again.round", 2000) == list(range(1000, 3000))
    with pytest.raises(JobError, match="the id friday is that of another replay"):
        replay(spark, Replay(archive=to, id="friday"), login(broker.url), targets)


def test_a_replay_gives_no_timestamp_to_messages_that_had_none(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    with context(broker.url) as session:
        producer = session.create_producer()
        for producer.disable_message_timestamp in (True, False):
            producer.send(session.create_queue("jobs.timeless"), session.create_text_message("text"))
        sent = [message.timestamp for message in session.create_browser(session.create_queue("jobs.timeless"))]
    assert sent[0] == 0 and sent[1] > 0
    to = str(tmp_path / "archive")
    archive(spark, plan_archive(login(broker.url), to, queues=["jobs.timeless"]))
    request = Replay(archive=to, mapping={"jobs.timeless": "again.timeless"})
    replay(spark, request, login(broker.url), Brokers(login(broker.url), Use.JOB | Use.WRITE))
    with context(broker.url) as session:
        assert [message.timestamp for message in session.create_browser(session.create_queue("again.timeless"))] == sent


def test_a_diverted_address_is_archived_beside_its_consumers(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    plan = plan_archive(login(broker.url), str(tmp_path / "archive"), divert=["jobs.news"])
    brokers = Brokers(login(broker.url))
    assert len(make_diverts(brokers, ["jobs.news"])) == 1
    assert make_diverts(brokers, ["jobs.news"]) == []
    send_numbered(broker.url, "jobs.news", 50)
    assert archive(spark, plan).messages == 50
    assert received_numbers(broker.url, "jobs.news", 50) == list(range(50))

    # The next run has one queue more, and stays until it is told to end.
    send_numbered(broker.url, "jobs.added", 7)
    more = plan_archive(login(broker.url), plan.to, divert=["jobs.news"], queues=["jobs.added"], every=0.2)
    stop = threading.Event()
    progress = Stopping(stop, 7)
    assert archive(spark, more, stop=stop, progress=progress).messages == 7
    rows = open_archive(spark, plan.to).groupBy("address", "queue").count().collect()
    assert {tuple(row) for row in rows} == {("jobs.news", "archive.jobs.news", 50), ("jobs.added", "jobs.added", 7)}
    assert message_count(broker.url, "jobs.added") == 0


class Stopping:
    """A progress that ends a job when it has come so far."""

    def __init__(self, stop: threading.Event, goal: int) -> None:
        self._stop = stop
        self._goal = goal

    def step(self, title: str, total: int | None = None) -> None:
        pass

    def reached(self, done: int, total: int | None = None) -> None:
        if done >= self._goal:
            self._stop.set()


def test_diverts_and_retries_of_a_real_artemis(artemis: ArtemisBroker) -> None:
    brokers = Brokers(login(artemis.url))
    assert (len(make_diverts(brokers, ["jobs.news"])), make_diverts(brokers, ["jobs.news"])) == (1, [])
    send_numbered(artemis.url, "jobs.news", 5)
    assert [one.messages for one in brokers.waiting(["jobs.news", "archive.jobs.news", "jobs.none"])] == [5, 5, None]
    make_dead(artemis.url, "jobs.dead", 3)
    for broker in brokers.each():
        waiting = json.loads(broker.manage("queue.DLQ", "listMessagesAsJSON", ""))
        first = next(one["messageID"] for one in waiting if one["_AMQ_ORIG_QUEUE"] == "jobs.dead")
        result = Retried()
        retry_one(broker, "DLQ", first, result)
        retry_one(broker, "DLQ", first, result)
        assert (result.done, result.gone, result.failed) == (1, 1, [])
    assert message_count(artemis.url, "jobs.dead") == 1


def make_dead(url: str, queue: str, count: int) -> None:
    """Messages of ``queue`` in the dead letter queue, as if they had been delivered too often."""
    send_numbered(url, queue, count, properties=lambda number: {"failure": f"no stock {number % 2}\n  at Shop.java"})
    for broker in Brokers(login(url)).each():
        broker.create_queue("DLQ")
        assert broker.manage(f"queue.{queue}", "sendMessagesToDeadLetterAddress", "") == count


def test_times_of_dead_letters_are_in_utc_wherever_the_job_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"timestamp_millis({NOON_MS} + id) as timestamp", *(f"'x' as {name}" for name in ("node_id", "queue", "reason", "address"))]
    letters = spark.range(3).selectExpr(*columns, "cast(null as string) as origin")
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        (group,) = grouped(letters)
    finally:
        monkeypatch.undo()
        time.tzset()
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert (group.messages, group.oldest, group.newest) == (3, noon, noon.replace(microsecond=2000))


def test_dead_letters_are_grouped_and_sent_back(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    make_dead(broker.url, "jobs.dead", 10)
    send_numbered(broker.url, "DLQ", 3)
    options = source_options(login(broker.url), ["DLQ"])
    brokers = Brokers(options, Use.JOB | Use.READ)
    letters = dead_letters(spark, options, reason_properties=["failure"])
    groups = grouped(letters)
    assert [(group.reason, group.address, group.origin, group.messages) for group in groups] == [
        ("not delivered: no stock 0", "jobs.dead", "jobs.dead", 5),
        ("not delivered: no stock 1", "jobs.dead", "jobs.dead", 5),
        ("sent there", None, None, 3),
    ]
    proposals = propose(groups, brokers)
    assert [proposals[group].retry for group in groups] == [True, True, False]

    done = retry(letters, groups[:1], brokers, limit=2)
    assert (done.done, done.gone, done.failed) == (2, 0, [])
    assert (message_count(broker.url, "jobs.dead"), message_count(broker.url, "DLQ")) == (2, 11)
    status, out, err = run(broker.url, tmp_path, "deadletters", "--queue", "DLQ", "--reason", "not delivered", "--retry", "--dry-run")
    assert (status, "would send back 8 of them" in out) == (0, True), err
    assert message_count(broker.url, "DLQ") == 11
    status, out, err = run(broker.url, tmp_path, "deadletters", "--queue", "DLQ", "--retry")
    assert (status, "8 of 11 dead letters were sent back." in out) == (0, True), err
    assert sorted(received_numbers(broker.url, "jobs.dead", 10)) == list(range(10))
    assert message_count(broker.url, "DLQ") == 3


def test_what_a_killed_stream_has_committed_can_be_settled(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    """A stream that was stopped right behind its last batch leaves that on the broker."""
    send_numbered(broker.url, "jobs.left", 20)
    frame = spark.readStream.format("mqbroker").options(**login(broker.url), queue="jobs.left").load()
    checkpoint = str(tmp_path / "checkpoint")
    query = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(once=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    assert message_count(broker.url, "jobs.left") == 20
    status, out, err = run(broker.url, tmp_path, "settle", "--checkpoint", checkpoint, "--dry-run")
    assert (status, "Committed, not settled" in out, " 20 " in out) == (0, True, True), out + err
    assert message_count(broker.url, "jobs.left") == 20
    status, out, err = run(broker.url, tmp_path, "settle", "--checkpoint", checkpoint)
    assert (status, " 20 " in out) == (0, True), out + err
    assert message_count(broker.url, "jobs.left") == 0
    status, out, err = run(broker.url, tmp_path, "settle", "--checkpoint", checkpoint)
    assert (status, " 0 " in out) == (0, True), out + err


def test_the_commands_of_the_page_run_as_they_are_shown(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    """In their order, on one broker; only the places are those of the test."""
    make_dead(broker.url, "orders", 4)
    send_numbered(broker.url, "orders", 40)
    outputs = {}
    for line in re.findall(r"^\$ python -m mqspark (.+)$", (ROOT / "docs" / "spark-jobs.md").read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(line.replace("/data/archive", str(tmp_path / "archive")).replace("stats.html", str(tmp_path / "stats.html")))
        if words[0] != "audit":
            status, out, err = run(broker.url, tmp_path, *words)
            assert status == 0, f"{line}: {err}"
            outputs[line] = out
    assert "<svg" in (tmp_path / "stats.html").read_text(encoding="utf-8")
    assert message_count(broker.url, "orders.again") == 40
    assert message_count(broker.url, "orders") == 4  # the dead letters of the first step are back
    assert any("4 of 4 dead letters were sent back." in out for out in outputs.values()), outputs
