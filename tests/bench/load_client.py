"""The load client of the real distribution, `artemis perf client`: one run, and what it reports."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop import instance
from tests.interop.artemis import artemis_command

GRACE_SECONDS = 60.0  # for the start of the JVM and the last messages
CLIENT_JAVA_ARGS = "-Xms256m -Xmx512m -XX:+UseParallelGC"


@dataclass(frozen=True)
class Workload:
    """Messages of 1 KiB through one queue, `pairs` producers and as many consumers, each producer with at most `pending` sends open."""

    name: str
    durable: bool
    pairs: int
    pending: int = 200


WORKLOADS = (
    Workload("durable 1 KiB, 1 × 1", durable=True, pairs=1),
    Workload("durable 1 KiB, 4 × 4", durable=True, pairs=4),
    Workload("non-durable 1 KiB, 1 × 1", durable=False, pairs=1),
    Workload("non-durable 1 KiB, 4 × 4", durable=False, pairs=4),
)


@dataclass(frozen=True)
class LoadResult:
    """What one run of the load client measured after its warm-up; times from sending to receiving in ms."""

    messages: int
    total_messages: int
    per_second: float
    p50_ms: float
    p99_ms: float


class LoadFailed(Exception):
    """The load client ended with an error or reported none of its numbers."""


def parse_report(samples: list[dict[str, Any]]) -> LoadResult:
    """The numbers of one report file (a list of samples, in order of time; times in it are epoch ms and µs)."""
    summaries = [sample for sample in samples if sample["sampleType"] == "summary"]
    if len(summaries) != 1 or summaries[0]["result"] != "success":
        raise LoadFailed(f"no successful summary in the report: {samples[-1:]}")
    summary = summaries[0]
    warm_at = [sample["time"] for sample in samples if sample.get("warmup")]
    transfer = summary["totalTransferTime"]
    if not warm_at or not transfer["count"]:
        raise LoadFailed("the run was too short: nothing was measured after the warm-up")
    seconds = (summary["time"] - warm_at[-1]) / 1000
    return LoadResult(
        messages=transfer["count"],
        total_messages=summary["totalReceived"],
        per_second=transfer["count"] / seconds,
        p50_ms=transfer["50"] / 1000,
        p99_ms=transfer["99"] / 1000,
    )


def run_load(url: str, workload: Workload, seconds: int, warm_up_seconds: int, folder: Path) -> LoadResult:
    """One bounded run of `seconds` (the warm-up comes on top) against the broker at `url`; sends are confirmed by the broker."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = artemis_command(
        *("perf", "client", "--silent", "--show-latency", "--json", str(report)),
        *("--url", f"{url}?confirmationWindowSize=1048576", "--user", instance.USER, "--password", instance.PASSWORD),
        *("--duration", str(seconds + warm_up_seconds), "--warmup", str(warm_up_seconds), "--message-size", "1024"),
        *("--producers", str(workload.pairs), "--consumers", str(workload.pairs), "--threads", str(workload.pairs)),
        *("--max-pending", str(workload.pending), *(("--persistent",) if workload.durable else ())),
        f"queue://bench.{workload.pairs}.{'durable' if workload.durable else 'plain'}",
    )
    environment = {**os.environ, "JAVA_ARGS": CLIENT_JAVA_ARGS}
    limit = seconds + warm_up_seconds + GRACE_SECONDS
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    if done.returncode != 0 or not report.exists():
        raise LoadFailed(f"{' '.join(command)}\nstatus {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return parse_report(json.loads(report.read_text()))
