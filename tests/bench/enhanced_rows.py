"""The rows about enhanced clusters: what is measured, what it has to reach, and how the table shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.homes_rows import OPENMQ
from tests.bench.judging import PURE, figures, judged, ratios, spread, target
from tests.bench.results import Run

PREFIX = "enhanced-"
LOCAL, REMOTE, KILL, MILLION = ROWS = ("enhanced-local", "enhanced-remote", "enhanced-kill", "enhanced-million")
ENHANCED_NOTE = (
    "Two members of each kind on one PostgreSQL server, each cluster with a database of its own: `imq.cluster.ha=true`, with the "
    "heartbeats and the monitoring of `config/imq-enhanced`; Open Message Queue 6.5.1 otherwise as shipped. The load is that of *home "
    "brokers*, and "
    "in the last rows a client that follows while its broker ends by `kill -9`. *The switch* begins when the taker says that it takes "
    "over. `python -m tests.bench --enhanced` measures this table alone, in a network namespace."
)


@dataclass(frozen=True)
class Line:
    """One line of the table.  ``least`` and ``most`` are for the ratio to Open Message Queue, ``own_most`` for the figure itself."""

    title: str
    row: str
    figure: str
    digits: int = 0
    least: float | None = None
    most: float | None = None
    own_most: float | None = None


LINES = (
    Line("durable 1 KiB, consumer at the same member, msg/s", LOCAL, "per_second", least=4.0),
    Line("durable 1 KiB, consumer at the other member, msg/s", REMOTE, "per_second", least=4.0),
    Line("from kill -9 to the next message, s", KILL, "gap_s", 2, most=0.5),
    Line("a million messages of 100 B taken over: from the switch to the first one, s", MILLION, "first_s", 2, own_most=2.0),
    Line("the same, growth of the taker's memory, MiB", MILLION, "growth_mib", own_most=64.0),
)


def enhanced_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = ["| measurement | mqbroker | Open Message Queue | ratio | target |", "|---|---|---|---|---|"]
    for line in LINES:
        own, openmq = (list(figures(runs, line.row, broker, line.figure).values()) for broker in (PURE, OPENMQ))
        if not own and not openmq:
            continue
        cells = [
            line.title,
            *(spread(values, line.digits) if values else "" for values in (own, openmq)),
            judged(ratios(runs, line.row, line.figure, other=OPENMQ), least=line.least, most=line.most).text(),
            target(own, least=line.least, most=line.most, own_most=line.own_most),
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []
