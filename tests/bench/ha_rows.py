"""The rows about pairs of brokers: what is measured, what it has to reach, and how the table shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.judging import PURE, figures, judged, ratios, spread, target
from tests.bench.results import Run

PREFIX = "ha-"
FLOW = {"replication": "ha-replicated", "shared-store": "ha-shared"}
"""Rows by kind of pair, as the two following."""
ALONE = {"replication": "ha-alone-replicated", "shared-store": "ha-alone-shared"}
KILL = {"replication": "ha-kill-replicated", "shared-store": "ha-kill-shared"}
ZOOKEEPER_PREFIX = "ha-zookeeper-"
KILL_ZOOKEEPER, STOP_ZOOKEEPER = f"{ZOOKEEPER_PREFIX}kill", f"{ZOOKEEPER_PREFIX}stop"
BLOCKING, MILLION, SILENT, COPY = "ha-blocking", "ha-kill-million", "ha-silent", "ha-copy"
HA_NOTE = (
    "Both brokers of a pair and the client share the processors; the pairs have the same broker.xml, that of `artemis create` with the "
    "elements of our samples. *Alone*: mqbroker with the same broker.xml without a pair. `python -m tests.bench --ha` measures this table. "
    "*ZooKeeper*: three servers, and sessions of 4 s for the brokers of both kinds; `--zookeeper` measures these rows alone."
)


@dataclass(frozen=True)
class Line:
    """One line of the table: `most` is for the figure itself, the others for ratios, to Artemis and to mqbroker alone."""

    title: str
    row: str
    figure: str
    digits: int = 0
    artemis_least: float | None = None
    artemis_most: float | None = None
    alone: str | None = None
    """Row of mqbroker alone."""
    alone_least: float | None = None
    most: float | None = None


_REPLICATED, _SHARED = "replication", "shared-store"
LINES = (
    Line(
        "replicated, durable 1 KiB, 1 × 1, msg/s",
        FLOW[_REPLICATED],
        "per_second",
        artemis_least=1.5,
        alone=ALONE[_REPLICATED],
        alone_least=0.7,
    ),
    Line("the same, CPU of the active broker, µs per message", FLOW[_REPLICATED], "active_us", 1, alone=ALONE[_REPLICATED]),
    Line("the same, CPU of the replica, µs per message", FLOW[_REPLICATED], "passive_us", 1),
    Line("replicated, blocking durable send 1 KiB, 1 thread, msg/s", BLOCKING, "per_second", artemis_least=1.0),
    Line("the same, p99 of a send, ms", BLOCKING, "p99_ms", 2),
    Line("shared store, durable 1 KiB, 1 × 1, msg/s", FLOW[_SHARED], "per_second", alone=ALONE[_SHARED], alone_least=0.9),
    Line("the same, CPU of the active broker, µs per message", FLOW[_SHARED], "active_us", 1, alone=ALONE[_SHARED]),
    Line("replicated, from kill -9 to the next message, s", KILL[_REPLICATED], "gap_s", 2, artemis_most=0.5),
    Line("the same with a million messages of 100 B, s", MILLION, "gap_s", 2, artemis_most=0.7),
    Line("shared store, from kill -9 to the next message, s", KILL[_SHARED], "gap_s", 2, artemis_most=0.5),
    Line("replicated with ZooKeeper, from kill -9 to the next message, s", KILL_ZOOKEEPER, "gap_s", 2, artemis_most=1.0),
    Line("the same, from an orderly stop, s", STOP_ZOOKEEPER, "gap_s", 2, artemis_most=0.5),
    Line("replicated, from silent death (SIGSTOP) to the next message, s", SILENT, "gap_s", 2, most=5.0),
    Line("of these, until the backup is active, s", SILENT, "active_s", 2),
    Line("1 GiB copied to a new replica under load, s", COPY, "copy_s", 1),
    Line("longest send meanwhile, beyond the longest without a copy, ms", COPY, "more_ms", 0, most=200.0),
)


def ha_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = [
        "| measurement | mqbroker | artemis | ratio | target | mqbroker alone | ratio | target |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in LINES:
        own = figures(runs, line.row, PURE, line.figure)
        others = figures(runs, line.row, "artemis", line.figure)
        alone = figures(runs, line.alone, PURE, line.figure) if line.alone is not None else {}
        if not own and not others:
            continue
        to_alone = [own[turn] / alone[turn] for turn in sorted(own.keys() & alone.keys()) if alone[turn]]
        cells = [
            line.title,
            *(spread(list(values.values()), line.digits) if values else "" for values in (own, others)),
            judged(ratios(runs, line.row, line.figure), least=line.artemis_least, most=line.artemis_most).text(),
            target(list(own.values()), least=line.artemis_least, most=line.artemis_most, own_most=line.most),
            spread(list(alone.values()), line.digits) if alone else "",
            judged(to_alone, least=line.alone_least).text(),
            f"≥ {line.alone_least}" if line.alone_least is not None else "",
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []
