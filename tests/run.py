"""Runs the suites, several at a time, prints the time of each, and ends with one line ``N passed, M failed``.

``python tests/run.py [-v] [SUITE…]`` runs only the named suites; with ``-v`` trial names each of its tests.  The numbers are the sums of
what pytest reported; a suite without pytest (lint, types, trial) that fails counts as one failure, so that the last line never says 0 when
something failed.  Exit status: 0 when all is well, 1 otherwise, 2 for a suite that does not exist.  Without Java 17 (and Maven) the suites
spark (interop) are skipped with one line, unless ``CI=true``: then they fail.

A suite with real processes waits much (for a JVM, a disk, a timeout), so two of them run side by side where the machine has two
processors.  The suites that only compute run one after the other beside them, at a low priority: they get what the two leave, and the time
that is printed for them includes their waiting for a processor.  The output of a suite appears as a whole when it has ended; that of a
single named suite appears as it comes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
SOURCE_PATHS = ("src", "clients/mqclient/src", "clients/mqspark/src", "plugins")
SUITE_SECONDS_MAX = 2700.0
"""A suite that takes longer hangs: it is ended and counts as failed."""
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_CLOSING_LINE = re.compile(r"^(=+ )?\d+ (passed|failed|errors?|skipped|deselected|xfailed|warnings?)\b.* in [\d.]+s")


@dataclass(slots=True)
class Outcome:
    """What one suite came to."""

    name: str
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    output: TextIO = field(default_factory=lambda: sys.stdout)
    begins_with: Sequence[str] = ()
    """What each command of the suite begins with."""

    def say(self, text: str) -> None:
        self.output.write(text)
        self.output.flush()


def counts_of(line: str) -> dict[str, int] | None:
    """The numbers in a closing line of pytest; None for any other line."""
    if not _CLOSING_LINE.match(line):
        return None
    found: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    for number, word in _COUNT.findall(line):
        found["failed" if word.startswith("error") else word] += int(number)
    return found


def environment() -> dict[str, str]:
    """The tests see the sources of this checkout, before anything installed."""
    paths = [str(ROOT / path) for path in SOURCE_PATHS]
    if inherited := os.environ.get("PYTHONPATH"):
        paths += [path for path in inherited.split(os.pathsep) if path not in paths]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def run(outcome: Outcome, command: Sequence[str]) -> int:
    """Run one command, passing its output through, and add what pytest counted to ``outcome``.  Returns the exit status."""
    process = subprocess.Popen(
        [*outcome.begins_with, *command],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    watchdog = threading.Timer(SUITE_SECONDS_MAX, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        for line in process.stdout:
            outcome.say(line)
            if counts := counts_of(line):
                outcome.passed += counts["passed"]
                outcome.failed += counts["failed"]
                outcome.skipped += counts["skipped"]
        return process.wait()
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()


def pytest_suite(folder: str, *options: str) -> Callable[[Outcome], int]:
    def suite(outcome: Outcome) -> int:
        if not (ROOT / folder).is_dir():
            outcome.say(f"{outcome.name}: there is no folder {folder}\n")
            return 1
        return run(outcome, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=5", folder, *options])

    return suite


def lint(outcome: Outcome) -> int:
    check = run(outcome, [sys.executable, "-m", "ruff", "check", "."])
    return run(outcome, [sys.executable, "-m", "ruff", "format", "--check", "."]) or check


def types(outcome: Outcome) -> int:
    return run(outcome, [sys.executable, "-m", "mypy", "--strict", "src", "clients/mqclient/src", "clients/mqspark/src", "examples"])


def test_modules(folder: str) -> Iterator[str]:
    """Dotted names of all test modules under this folder of ``tests/``."""
    for path in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def trial(outcome: Outcome) -> int:
    with tempfile.TemporaryDirectory(prefix="mqbroker-trial-") as folder:
        arguments = ["--reporter=bwverbose" if "-v" in sys.argv else "--reporter=text", f"--temp-directory={folder}/work"]
        return run(outcome, [sys.executable, "-m", "twisted.trial", *arguments, *test_modules("unit")])


def java_missing(*tools: str) -> str | None:
    """Which of these programs is missing, or that the first one (java or javac) is too old; None when all is there."""
    for tool in tools:
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    answer = subprocess.run([tools[0], "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'(?:javac |version ")(\d+)', answer.stdout + answer.stderr)
    if found is None or int(found[1]) < 17:
        return f"Java 17 or later is needed, found {(answer.stdout + answer.stderr).strip() or 'nothing'}"
    return None


def with_java(tools: Sequence[str], suite: Callable[[Outcome], int]) -> Callable[[Outcome], int]:
    """``suite``, where these programs are installed; elsewhere one line that it was not run."""

    def checked(outcome: Outcome) -> int:
        reason = java_missing(*tools)
        if reason is None:
            return suite(outcome)
        if os.environ.get("CI", "").lower() == "true":
            outcome.say(f"{outcome.name}: FAILED, {reason}, and CI=true demands it\n")
            return 1
        outcome.note = "skipped"
        outcome.say(f"{outcome.name}: skipped, {reason}\n")
        return 0

    return checked


COMPUTING: dict[str, Callable[[Outcome], int]] = {
    "lint": lint,
    "types": types,
    "unit": pytest_suite("tests/unit"),
    "trial": trial,
    "simulation": pytest_suite("tests/simulation"),
}
"""Suites that wait for nothing.  The one that uses several processors is the last: it may outlast the others."""
WAITING: dict[str, Callable[[Outcome], int]] = {
    "interop": with_java(("javac", "java", "mvn"), pytest_suite("tests/interop", "tests/bench")),
    "integration": pytest_suite("tests/integration", "--ignore=tests/integration/examples"),
    "spark": with_java(("java",), pytest_suite("tests/spark")),
    "examples": pytest_suite("tests/integration/examples"),
    "packaging": pytest_suite("tests/packaging"),
}
"""Suites with real processes, the longest first, so that both lanes end together."""
SUITES = COMPUTING | WAITING
LOW_PRIORITY = ("nice", "-n", "10")


def run_suite(name: str, output: TextIO, begins_with: Sequence[str] = ()) -> Outcome:
    outcome = Outcome(name, output=output, begins_with=begins_with)
    started = time.monotonic()
    status = SUITES[name](outcome)
    outcome.seconds = time.monotonic() - started
    if status != 0:
        outcome.failed = max(outcome.failed, 1)
        outcome.note = outcome.note or f"exit status {status}"
    return outcome


def run_beside(name: str, begins_with: Sequence[str] = ()) -> Outcome:
    """Run one suite while others run: its output waits in a file until it has ended."""
    with tempfile.TemporaryFile("w+", prefix=f"mqbroker-{name}-") as output:
        print(f"--- {name} begins", flush=True)
        outcome = run_suite(name, output, begins_with)
        output.seek(0)
        # One write, so that the output of two suites does not mix.
        sys.stdout.write(f"--- {name}\n{output.read()}")
        sys.stdout.flush()
    return outcome


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Runs the suites of tests, several at a time, and ends with one line: N passed, M failed.")
    parser.add_argument("names", nargs="*", metavar="SUITE", help=f"only these of: {', '.join(SUITES)}")
    parser.add_argument("-v", action="store_true", help="trial names each of its tests")
    names: list[str] = parser.parse_args(arguments).names
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        parser.error(f"unknown suite {', '.join(unknown)}; there are: {', '.join(SUITES)}")
    started = time.monotonic()
    lanes = min(2, os.cpu_count() or 1)
    if len(names) == 1 or lanes == 1:
        outcomes = []
        for name in names or SUITES:
            print(f"--- {name}", flush=True)
            outcomes.append(run_suite(name, sys.stdout))
    else:
        waiting = [name for name in names or SUITES if name in WAITING]
        computing = [name for name in names or SUITES if name in COMPUTING]
        with ThreadPoolExecutor(lanes) as pool, ThreadPoolExecutor(1) as left_over:
            running = [left_over.submit(run_beside, name, LOW_PRIORITY) for name in computing]
            running += [pool.submit(run_beside, name) for name in waiting]
            outcomes = [done.result() for done in as_completed(running)]
    print("--- suites")
    for outcome in outcomes:
        state = "FAILED" if outcome.failed else "ok"
        skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
        note = f" ({outcome.note})" if outcome.note else ""
        print(f"{outcome.name:<12} {outcome.seconds:7.1f} s  {state}, {outcome.passed} passed, {outcome.failed} failed{skipped}{note}")
    print(f"{'total':<12} {time.monotonic() - started:7.1f} s")
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
