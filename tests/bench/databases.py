"""Brokers that keep their messages in a database: mqbroker and Artemis on one PostgreSQL server, beside mqbroker on files, in turn."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.brokers import Started, as_installed, new_broker, start_peer, usage
from tests.bench.judging import PURE, figures, judged, ratios, spread
from tests.bench.load_program import LoadProgram, load_of
from tests.bench.results import Run, figures_of
from tests.bench.runner import FAILURES
from tests.interop.artemis import ArtemisBroker
from tests.interop.instance import Additions
from tests.interop.maven import postgresql_driver
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer
from tests.support.postgresql import PostgresqlServer

PREFIX = "database-"
FILES, ARTEMIS = "mqbroker-files", "artemis"
"""What mqbroker on PostgreSQL is measured beside, as brokers of runs."""
NAMES = (PURE, FILES, ARTEMIS)
SIZE = 1024
STORE = "<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url>{more}</database-store></store>"
JAVA_TABLES = ("message", "bindings", "large-message", "page-store", "node-manager-store")
JAVA_STORE = "<jdbc-driver-class-name>org.postgresql.Driver</jdbc-driver-class-name>" + "".join(
    f"<{name}-table-name>{name.upper().replace('-', '_')}</{name}-table-name>" for name in JAVA_TABLES
)
"""Artemis demands a name for each table."""
PERSISTENT = "<persistence-enabled>true</persistence-enabled>"
DATABASES_NOTE = (
    "mqbroker and Artemis with `<database-store>` on the same PostgreSQL server, each with a database of its own, and mqbroker on files. "
    "The server has its default settings, and its data on the same disk; all of it shares the processors. "
    "`python -m tests.bench --database` measures this table alone."
)


@dataclass(frozen=True)
class Sizes:
    """Seconds of each measurement, of the same load before, and of load for each fresh broker."""

    seconds: int = 5
    warm: int = 2
    warm_broker: int = 10


QUICK = Sizes(1, 1, 1)


@dataclass(frozen=True)
class Line:
    """One row.  The target is for the ratio to Artemis."""

    row: str
    title: str
    workload: str
    options: Mapping[str, int] = field(default_factory=dict)
    least: float | None = None


LINES = (
    Line("database-blocking-1", "blocking durable send 1 KiB, 1 thread, msg/s", "blocking", {"threads": 1}, 1.0),
    Line("database-blocking-16", "the same, 16 threads, msg/s", "blocking", {"threads": 16}, 2.0),
    Line("database-transacted", "transacted, 100 a commit, durable 1 KiB, msg/s", "transacted"),
)


class MadeDatabases:
    """The server, and the brokers on it; a broker that cannot be made is left out, and ``errors`` says why."""

    def __init__(self, folder: Path, names: Sequence[str], stack: ExitStack) -> None:
        self.errors: dict[str, str] = {}
        self.running: dict[str, Started] = {}
        server = PostgresqlServer(syncs=True)
        stack.callback(server.close)
        for name in names:
            url = f"jdbc:{server.database().name}?user=tests"
            try:
                peer = new_peer(name, folder / name, url)
                stack.callback(peer.kill)
                self.running[name] = start_peer(peer)
            except FAILURES as error:
                self.errors[name] = f"{type(error).__name__}: {error}"


def new_peer(name: str, folder: Path, url: str) -> Peer:
    """A broker that is not started, with the messages in this database, except the one on files."""
    if name == FILES:
        return new_broker(PURE, folder)
    if name == PURE:
        return MqbrokerProcess(folder, Additions(core=STORE.format(url=url, more="")), environment=as_installed(folder.parent))
    artemis = ArtemisBroker(folder, as_created=True)
    settings = folder / "etc" / "broker.xml"
    text = settings.read_text()
    if PERSISTENT not in text:
        raise AssertionError(f"{settings} has no {PERSISTENT}")
    settings.write_text(text.replace(PERSISTENT, PERSISTENT + STORE.format(url=url, more=JAVA_STORE)))
    shutil.copy(postgresql_driver(), folder / "lib")
    return artemis


def load(program: LoadProgram, started: Started, line: Line, seconds: int, warm: int) -> dict[str, float]:
    pid = started.peer.pid
    marks: dict[str, Any] = {}

    def mark(event: str, told: Mapping[str, Any]) -> None:
        marks[event] = usage(pid)

    options = {"size": SIZE, "warm": warm, "seconds": seconds, **line.options}
    found = load_of(program.run(started.peer.url, line.workload, options, warm + seconds, mark))
    return figures_of(found, marks["measured"].cpu_seconds - marks["measuring"].cpu_seconds, marks["measured"].resident_mib)


def measure(folder: Path, rounds: int, sizes: Sizes, on_run: Callable[[Run], None], names: Sequence[str] = NAMES) -> None:
    """So many rounds, in which the brokers take turns; ``on_run`` hears of each measurement."""
    with ExitStack() as stack:
        made = MadeDatabases(folder, names, stack)
        program = LoadProgram()
        stack.callback(program.stop)
        for name, error in made.errors.items():
            on_run(Run(name, LINES[0].row, 0, error=error))
        for started in made.running.values():
            for line in LINES:
                try:
                    load(program, started, line, 1, sizes.warm_broker // len(LINES))
                except FAILURES:
                    continue  # the rounds say it again
        for turn in range(rounds):
            for line in LINES:
                for name in list(made.running)[:: 1 if turn % 2 == 0 else -1]:
                    try:
                        run = Run(name, line.row, turn, load(program, made.running[name], line, sizes.seconds, sizes.warm))
                    except FAILURES as error:
                        run = Run(name, line.row, turn, error=f"{type(error).__name__}: {error}")
                    on_run(run)


def databases_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = [
        "| measurement | mqbroker on PostgreSQL | artemis on PostgreSQL | ratio | target | mqbroker on files | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in LINES:
        values = {name: list(figures(runs, line.row, name, "per_second").values()) for name in NAMES}
        if not any(values.values()):
            continue
        own, artemis, files = (spread(values[name]) if values[name] else "" for name in (PURE, ARTEMIS, FILES))
        beside = judged(ratios(runs, line.row, "per_second"), least=line.least).text()
        target = "" if line.least is None else f"≥ {line.least}"
        to_files = judged(ratios(runs, line.row, "per_second", other=FILES)).text()
        table.append("| " + " | ".join((line.title, own, artemis, beside, target, files, to_files)) + " |")
    return table if len(table) > 2 else []
