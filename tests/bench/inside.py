"""Rows that are measured in a network namespace, since a real Open Message Queue refuses loopback addresses.

The module of the rows runs again in the namespace as a program; its lines of output are the runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.load_program import classes
from tests.bench.results import Run
from tests.bench.runner import FAILURES
from tests.interop.imq import namespace
from tests.interop.imq.clusters import distribution

MEMBERS = 2
PORT = 7676
Note = Callable[[Run], None]


@dataclass(frozen=True)
class FlowSizes:
    """Seconds of each measurement, of the same load before, and of load for each fresh cluster."""

    seconds: int = 4
    warm: int = 2
    warm_brokers: int = 8


def measure_inside(module: str, rows: Sequence[str], broker: str, arguments: Sequence[str], note: Note) -> None:
    """`note` hears of each measurement; where no namespace can be made each row says so, for this broker."""
    distribution()  # while there is a network
    classes("jakarta")
    try:
        way = namespace.way_in()
    except namespace.NoNamespace as error:
        for row in rows:
            note(Run(broker, row, 0, error=f"there is no network namespace: {error}"))
        return
    command = [*way, sys.executable, "-m", module, *arguments]
    environment = os.environ | {namespace.INSIDE: "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            note(Run(**json.loads(line)))


def run_inside(measure: Callable[[Path, Note], None]) -> None:
    """What runs in the namespace, with a folder of its own."""
    namespace.prepare(namespace.REAL, namespace.OURS, count=MEMBERS)
    with tempfile.TemporaryDirectory(prefix="mqbroker-bench-") as folder:
        measure(Path(folder), lambda run: print(json.dumps(asdict(run)), flush=True))


def places(prefix: str, port: int = PORT) -> list[str]:
    return [f"{address}:{port}" for address in namespace.addresses(prefix, MEMBERS)]


def tell(note: Note, broker: str, row: str, turn: int, measure: Callable[[], Mapping[str, float]]) -> None:
    """Measure, and tell it.  A failed row is told, and passed over; of the warming up, whose turn is -1, only a failure."""
    try:
        run = Run(broker, row, turn, measure())
    except FAILURES as error:
        run = Run(broker, row, max(turn, 0), error=f"{type(error).__name__}: {error}")
    if run.round >= 0:
        note(run)
