"""The load client of the real distribution, `artemis perf client`: one run, and what it reports."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.bench.results import Load, LoadFailed
from tests.bench.rows import Perf
from tests.interop import instance
from tests.interop.artemis import artemis_command

GRACE_SECONDS = 90.0  # for the start of the JVM and the last messages, on a busy machine
CLIENT_JAVA_ARGS = "-Xms256m -Xmx512m -XX:+UseParallelGC"


def parse_report(samples: list[dict[str, Any]]) -> Load:
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
    return Load(
        messages=transfer["count"],
        total_messages=summary["totalReceived"],
        per_second=transfer["count"] / seconds,
        p50_ms=transfer["50"] / 1000,
        p99_ms=transfer["99"] / 1000,
        p999_ms=transfer["99.9"] / 1000,
    )


def run_load(url: str, load: Perf, durable: bool, seconds: int, warm_up_seconds: int, folder: Path) -> Load:
    """One bounded run of `seconds` (the warm-up comes on top) against the broker at `url`; sends are confirmed by the broker."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    name = f"bench.{load.size}.{load.producers}.{'durable' if durable else 'plain'}"
    command = artemis_command(
        *("perf", "client", "--silent", "--show-latency", "--json", str(report)),
        *("--url", f"{url}?confirmationWindowSize=1048576", "--user", instance.USER, "--password", instance.PASSWORD),
        *("--duration", str(seconds + warm_up_seconds), "--warmup", str(warm_up_seconds), "--message-size", str(load.size)),
        *("--producers", str(load.producers), "--consumers", str(load.consumers), "--threads", str(load.producers)),
        *("--max-pending", str(load.pending), *(("--persistent",) if durable else ())),
        f"{'topic' if load.topic else 'queue'}://{name}",
    )
    environment = {**os.environ, "JAVA_ARGS": CLIENT_JAVA_ARGS}
    limit = seconds + warm_up_seconds + GRACE_SECONDS
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"the load client did not end within {limit:.0f} s") from error
    if done.returncode != 0 or not report.exists():
        raise LoadFailed(f"{' '.join(command)}\nstatus {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return parse_report(json.loads(report.read_text()))
