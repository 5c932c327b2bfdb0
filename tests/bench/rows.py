"""The rows of the benchmark: which load, made by which tool, and what it has to reach beside Artemis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

DURABLE, NON_DURABLE = (1.0, 1.5), (0.7, 0.8)
"""Targets: throughput ratio, and ratio of messages per CPU second of the broker."""
P99_RATIO_MAX = 1.0
MEMORY_RATIO_MAX = 0.25
START_RATIO_MAX = 0.2
RESTART_RATIO_MAX = 0.5
BARE_LOOP_SHARE = 0.7
"""A blocking sender may reach this share of a bare loop of write and fdatasync instead of its ratio."""


@dataclass(frozen=True)
class Perf:
    """A load of `artemis perf client`: messages of `size` bytes, each producer with at most `pending` unanswered sends."""

    size: int
    producers: int
    consumers: int
    topic: bool = False
    pending: int = 200


@dataclass(frozen=True)
class Program:
    """A workload of our own Java program, with its options."""

    workload: str
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """Durable messages from a producer at one node to consumers at the others, through our own Java program."""

    nodes: int
    size: int


@dataclass(frozen=True)
class Row:
    """One line of the table. `name` is what `--rows` takes; `ratio_min` replaces the usual throughput target."""

    name: str
    title: str
    durable: bool
    load: Perf | Program | Cluster
    ratio_min: float | None = None
    beside_bare_loop: bool = False

    @property
    def throughput_target(self) -> float:
        return self.ratio_min if self.ratio_min is not None else (DURABLE if self.durable else NON_DURABLE)[0]

    @property
    def cpu_target(self) -> float:
        return (DURABLE if self.durable else NON_DURABLE)[1]


def _cycles(durable: bool, sizes: Sequence[tuple[str, int]]) -> list[Row]:
    word = "durable" if durable else "non-durable"
    return [
        Row(f"{word}-{label.replace(' ', '')}-{pairs}", f"{word} {label}, {pairs} × {pairs}", durable, Perf(size, pairs, pairs))
        for label, size in sizes
        for pairs in (1, 8)
    ]


FLOWS: tuple[Row, ...] = (
    *_cycles(True, [("100 B", 100), ("1 KiB", 1024), ("10 KiB", 10240)]),
    Row(
        *("blocking-1", "blocking durable send 1 KiB, 1 thread", True, Program("blocking", {"threads": 1, "size": 1024})),
        ratio_min=2.0,
        beside_bare_loop=True,
    ),
    Row("blocking-16", "blocking durable send 1 KiB, 16 threads", True, Program("blocking", {"threads": 16, "size": 1024})),
    Row("transacted", "transacted, 100 a commit, durable 1 KiB", True, Program("transacted", {"size": 1024})),
    Row("large", "10 MiB durable, streamed", True, Program("large", {"size": 10 << 20})),
    *_cycles(False, [("100 B", 100), ("1 KiB", 1024)]),
    Row("topic", "topic 1 → 10, non-durable 1 KiB", False, Perf(1024, 1, 10, topic=True)),
    Row(
        "selectors",
        "10 consumers with 10 selectors on one queue, non-durable 1 KiB",
        False,
        Program("selectors", {"size": 1024, "consumers": 10}),
    ),
    Row("request-reply", "request and reply, temporary queue, non-durable 1 KiB", False, Program("request-reply", {"size": 1024})),
    Row("cluster-2", "cluster of 2, producer and consumer on different nodes, durable 1 KiB", True, Cluster(2, 1024)),
    Row("cluster-3", "cluster of 3, producer on one node, a consumer on each other, durable 1 KiB", True, Cluster(3, 1024)),
)
"""Loads that run for a time."""

AMOUNTS: dict[str, str] = {
    "start": "start-up, memory after the start",
    "idle": "2,000 idle connections with session and consumer",
    "queues": "memory of a queue",
    "membership": "how soon the members of a cluster know that one joins, leaves, or is found by UDP multicast",
    "million": "a million durable messages of 100 B put and drained, restart with them after kill -9",
}
"""What is measured by amount, not by time; each has a function in `amounts`."""

TEN_MILLION = "ten-million"


def row_names() -> list[str]:
    return [*(row.name for row in FLOWS), *AMOUNTS]


def chosen(names: str | None) -> tuple[list[Row], list[str]]:
    """Rows and amounts whose names are in a list with commas (all without one); raises ValueError for an unknown name."""
    if names is None:
        return list(FLOWS), list(AMOUNTS)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in row_names()]
    if unknown:
        raise ValueError(f"no row {', '.join(unknown)}; there are: {', '.join(row_names())}")
    return [row for row in FLOWS if row.name in wanted], [name for name in AMOUNTS if name in wanted]
