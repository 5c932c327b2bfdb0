"""The rows about home brokers: what is measured, what it has to reach, and how the table shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.judging import PURE, figures, judged, ratios, spread
from tests.bench.results import Run

PREFIX = "imq-"
LOCAL, REMOTE = "imq-local", "imq-remote"
WAITING = LOCAL_WAITING, REMOTE_WAITING = "imq-local-waiting", "imq-remote-waiting"
"""The rows in which each send, and each acknowledgement, waits for its answer."""
OPENMQ, OPENMQ_SYNCED, FORWARDING = "openmq", "openmq-synced", "store-and-forward"
"""What home brokers are measured beside, as brokers of runs."""
HOMES_NOTE = (
    "Two brokers of each kind: home brokers as `mqbroker imq brokerd` makes them, Open Message Queue 6.5.1 as shipped, the same with "
    "`imq.persist.file.sync.enabled=true`, and mqbrokers of a store-and-forward cluster. One producer, one consumer, at most 2,000 "
    "messages on their way, with the client library of each as it is by default. As shipped, Open Message Queue answers before "
    "anything is on the disk; home brokers answer a durable message, and an acknowledgement whose answer is waited for, when it is, "
    "as Open Message Queue does with that property. And a client of Open Message Queue waits for the answer to each acknowledgement, "
    "one of ours only with `blockOnAcknowledge=true`: in the rows *each answer waited for* the producer waits for each message, and "
    "the consumer for each acknowledgement, with all of them. There a ratio to what does not wait for the disk has no target. `python "
    "-m tests.bench --imq` measures this table alone, in a network namespace."
)


@dataclass(frozen=True)
class Line:
    """One line of the table.  The targets are for ratios, to Open Message Queue in both forms and to the store-and-forward cluster."""

    title: str
    row: str
    figure: str
    digits: int = 0
    openmq_least: float | None = None
    synced_least: float | None = None
    forwarding_least: float | None = None


LINES = (
    Line("durable 1 KiB, consumer at the same broker, msg/s", LOCAL, "per_second", openmq_least=4.0, synced_least=4.0),
    Line("the same, CPU of the broker, µs per message", LOCAL, "source_us", 1),
    Line(
        "durable 1 KiB, consumer at the other broker, msg/s", REMOTE, "per_second", openmq_least=4.0, synced_least=4.0, forwarding_least=0.8
    ),
    Line("the same, CPU of the producer's broker, µs per message", REMOTE, "source_us", 1),
    Line("the same, CPU of the consumer's broker, µs per message", REMOTE, "target_us", 1),
    Line("the same, p99 from sending to receiving, ms", REMOTE, "p99_ms", 1),
    Line("durable 1 KiB, consumer at the same broker, each answer waited for, msg/s", LOCAL_WAITING, "per_second"),
    Line("durable 1 KiB, consumer at the other broker, each answer waited for, msg/s", REMOTE_WAITING, "per_second"),
)


def homes_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = [
        "| measurement | home brokers | Open Message Queue | ratio | target | the same, synced | ratio | target "
        "| store-and-forward | ratio | target |",
        "|" + "---|" * 11,
    ]
    for line in LINES:
        cells = [line.title]
        targets = {OPENMQ: line.openmq_least, OPENMQ_SYNCED: line.synced_least, FORWARDING: line.forwarding_least}
        for broker in (PURE, *targets):
            values = list(figures(runs, line.row, broker, line.figure).values())
            cells.append(spread(values, line.digits) if values else "")
            if broker != PURE:
                least = targets[broker]
                cells.append(judged(ratios(runs, line.row, line.figure, other=broker), least=least).text())
                cells.append("" if least is None else f"≥ {least}")
        if any(run.row == line.row and line.figure in run.figures for run in runs):
            table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []
