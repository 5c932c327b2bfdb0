"""`python -m tests.bench.instructions`: machine instructions of the message path per message, counted by valgrind.

The scenarios are those of `tests.bench.path`.  The count is the same on a busy machine as on a quiet one, to about a hundredth, where
times differ by a tenth and more.  The scenarios' own clients are counted, too.  With an earlier state of the checkout in the folder
`.before` (`git worktree add .before COMMIT`) both are counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.brokers import BEFORE_TREE
from tests.bench.path import SCENARIOS
from tests.compiled import ROOT, python_path

MESSAGES = 1000, 3000
"""The start, and the first messages, are in both counts: their difference is that of the further messages."""
SECONDS_MAX = 600
HEADER = ("| instructions per message | before | now | now divided by before |", "|---|---:|---:|---:|")
_PROGRAM = """
import sys
from tests.bench import path
path._Clock.monotonic = lambda clock: 0.0
path.SCENARIOS = tuple(each for each in path.SCENARIOS if each.name == sys.argv[1])
sys.exit(path.main(["--rounds", "1", "--messages", sys.argv[2]]))
"""
"""Names of scenarios are parts of others, for which ``--only`` would count them, too.

The clock stands still, since a consumer with a selector looks for messages for a limited time before others have their turn, and
everything takes longer under valgrind.
"""
_COUNT = re.compile(r"I\s+refs:\s+([\d,]+)")


def counted(told: str) -> int:
    """The instructions of which valgrind has told.  Raises ValueError."""
    found = _COUNT.search(told)
    if found is None:
        raise ValueError(f"valgrind has counted nothing: {told[-500:]}")
    return int(found[1].replace(",", ""))


def count(tree: Path, scenario: str, messages: int) -> int:
    """The instructions of a whole process.  Raises ValueError, TimeoutExpired."""
    program = [sys.executable, "-c", _PROGRAM, scenario, str(messages)]
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((python_path(tree), str(tree))), "PYTHONHASHSEED": "0"}
    command = [*counting, *program]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        raise ValueError(f"{scenario}: ended with {done.returncode}: {done.stderr[-2000:]}")
    return counted(done.stderr)


def per_message(tree: Path, scenario: str) -> int:
    few, many = MESSAGES
    return round((count(tree, scenario, many) - count(tree, scenario, few)) / (many - few))


def line(scenario: str, before: int | None, now: int) -> str:
    if before is None:
        return f"| {scenario} | | {now:,} | |"
    return f"| {scenario} | {before:,} | {now:,} | {now / before:.3f} |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios with this text in their name")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed (Debian: apt-get install valgrind)")
    print("\n".join(HEADER), flush=True)
    for scenario in SCENARIOS:
        if options.only in scenario.name:
            before = per_message(BEFORE_TREE, scenario.name) if BEFORE_TREE.is_dir() else None
            print(line(scenario.name, before, per_message(ROOT, scenario.name)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
