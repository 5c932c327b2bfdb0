"""One run of the Java scenario driver: several scenarios in one JVM, results as JSON lines, help from the harness on request."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.maven import java_classpath

RUN_SECONDS = 600.0  # a minute or two where nothing else runs


@dataclass(frozen=True)
class ScenarioResult:
    """What one scenario said: whether it passed, its error text, its run time in ms, and what else it reported."""

    name: str
    ok: bool
    ms: int
    error: str = ""
    reported: Mapping[str, Any] = field(default_factory=dict)


def java_command(generation: str, *arguments: str) -> list[str]:
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
    return ["java", *options, "-cp", java_classpath(generation), "interop.Driver", *arguments]


def scenario_names(generation: str) -> list[str]:
    """All scenarios that run on their own (those of the exchange with Python need a partner)."""
    listed = subprocess.run(java_command(generation, "list"), capture_output=True, text=True, timeout=60, check=True)
    return [name for name in listed.stdout.split() if not name.startswith("exchange-")]


@dataclass(frozen=True)
class Harness:
    """What a batch of scenarios works with: the broker's URL, the proxy before it, and ways to stop and start the broker."""

    url: str
    proxy: CuttingProxy
    restart: Callable[[], None]
    kill_and_start: Callable[[], None]

    def help(self, question: str) -> None:
        """Do what a scenario asked for; unknown questions want an answer only."""
        actions = {"cut": self.proxy.cut, "lose-replies": self.proxy.lose_replies, "restart": self.restart, "kill": self.kill_and_start}
        if question in actions:
            actions[question]()


def run_scenarios(
    generation: str, harness: Harness, names: Sequence[str], answers: Mapping[str, str] | None = None
) -> dict[str, ScenarioResult]:
    """Run `names` in one JVM; the result of each by its name. A scenario that the JVM did not reach is missing."""
    results: dict[str, ScenarioResult] = {}
    process = subprocess.Popen(
        java_command(generation, harness.url, harness.proxy.url, *names),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(RUN_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stdin is not None and process.stdout is not None
        for text in process.stdout:
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            if "ask" in line:
                question = line["ask"]
                harness.help(question)
                process.stdin.write((answers or {}).get(question, "done") + "\n")
                process.stdin.flush()
            else:
                result = ScenarioResult(line.pop("scenario"), line.pop("ok"), line.pop("ms"), line.pop("error", ""), line)
                results[result.name] = result
        process.wait(10)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
    return results
