"""Home brokers beside a real Open Message Queue, as shipped and with synced files, and beside our own store-and-forward cluster.

There are two brokers of each, which get the same load in turn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import clusters
from tests.bench.brokers import usage
from tests.bench.homes_rows import FORWARDING, LOCAL, LOCAL_WAITING, OPENMQ, OPENMQ_SYNCED, REMOTE, REMOTE_WAITING, WAITING
from tests.bench.inside import MEMBERS, FlowSizes, Note, measure_inside, places, run_inside, tell
from tests.bench.judging import PURE
from tests.bench.load_program import LoadProgram, classes, load_of
from tests.bench.results import figures_of
from tests.bench.rows import Cluster as ClusterLoad
from tests.interop.cluster.nodes import Nodes
from tests.interop.imq import namespace
from tests.interop.imq.clusters import AS_SHIPPED, CLIENT, Cluster, HomeBrokers, RealBrokers, client_libraries

MODULE = "tests.bench.homes"
SYNCED_PORT = 7686
SYNCED = ("imq.persist.file.sync.enabled=true",)
"""Without this a broker of Open Message Queue answers before what it has stored is on the disk."""
SIZE = 1024


Sizes = FlowSizes
QUICK = Sizes(1, 1, 1)


def measure(rounds: int, sizes: Sizes, on_run: Note) -> None:
    """So many rounds in a namespace; `on_run` hears of each measurement."""
    rows = (LOCAL, LOCAL_WAITING, REMOTE, REMOTE_WAITING)
    measure_inside(MODULE, rows, OPENMQ, [str(rounds), json.dumps(asdict(sizes))], on_run)


def flow(
    program: LoadProgram, workload: str, urls: Sequence[str], pids: Sequence[int], sizes: Sizes, login: Mapping[str, str]
) -> dict[str, float]:
    """One producer at the first broker, one consumer at the last one; CPU and memory are those of all."""
    marks: dict[str, list[Any]] = {}

    def mark(event: str, line: Mapping[str, Any]) -> None:
        marks[event] = [usage(pid) for pid in pids]

    options = {"size": SIZE, "warm": sizes.warm, "seconds": sizes.seconds, "consumers": 1, "at0": urls[-1], **login}
    found = load_of(program.run(urls[0], workload, options, sizes.warm + sizes.seconds + 5, mark))
    used = [after.cpu_seconds - before.cpu_seconds for before, after in zip(marks["measuring"], marks["measured"], strict=True)]
    figures = figures_of(found, sum(used), sum(each.resident_mib for each in marks["measured"]))
    figures["source_us"] = used[0] * 1e6 / found.messages
    figures["target_us"] = sum(used[1:]) * 1e6 / found.messages
    return figures


class Measurement:
    """All clusters are up at the same time, each has had some load, and they are measured in turn."""

    def __init__(self, folder: Path, sizes: Sizes, on_run: Note) -> None:
        self._folder = folder
        self._sizes = sizes
        self._on_run = on_run

    def run(self, rounds: int) -> None:
        with ExitStack() as stack:
            artemis, openmq = LoadProgram(), LoadProgram(f"{classes('jakarta') / 'classes'}:{client_libraries()}")
            stack.callback(artemis.stop)
            stack.callback(openmq.stop)
            real = RealBrokers(self._folder / OPENMQ, places(namespace.REAL), java=AS_SHIPPED)
            synced = RealBrokers(self._folder / OPENMQ_SYNCED, places(namespace.REAL, SYNCED_PORT), java=AS_SHIPPED, properties=SYNCED)
            ours = HomeBrokers(self._folder / PURE, places(namespace.OURS))
            for cluster in (real, synced, ours):
                stack.callback(cluster.close)
                cluster.mend()
            forwarding = stack.enter_context(clusters.running("mqbroker", MEMBERS, self._folder / FORWARDING))
            warming = Sizes(self._sizes.warm_brokers, 1)
            measured: dict[tuple[str, str], Callable[[Sizes], Mapping[str, float]]] = {}
            for row, last in ((LOCAL, 0), (LOCAL_WAITING, 0), (REMOTE, 1), (REMOTE_WAITING, 1)):
                for broker, program, cluster in ((PURE, artemis, ours), (OPENMQ, openmq, real), (OPENMQ_SYNCED, openmq, synced)):
                    measured[broker, row] = partial(homes_flow, program, cluster, last, row in WAITING)
            measured[FORWARDING, REMOTE] = lambda sizes: forwarding_flow(artemis, forwarding, sizes)
            for (broker, row), act in measured.items():
                tell(self._on_run, broker, row, -1, lambda act=act: act(warming))  # type: ignore[misc]
            for turn in range(rounds):
                for (broker, row), act in sorted(measured.items(), key=lambda each: each[0], reverse=turn % 2 == 1):
                    tell(self._on_run, broker, row, turn, lambda act=act: act(self._sizes))  # type: ignore[misc]


def homes_flow(program: LoadProgram, cluster: Cluster, last: int, waiting: bool, sizes: Sizes) -> dict[str, float]:
    """From the first broker to a consumer at the broker ``last``; ``waiting``: for the answer to each send and each acknowledgement."""
    url = cluster.confirming_url if waiting else cluster.url
    pids = [cluster.pid(number) for number in sorted({0, last})]
    workload = "forward-waiting" if waiting else "forward"
    return flow(program, workload, [url(0), url(last)], pids, sizes, {"user": CLIENT, "password": CLIENT})


def forwarding_flow(program: LoadProgram, nodes: Nodes, sizes: Sizes) -> dict[str, float]:
    return clusters.flow(program, nodes, ClusterLoad(MEMBERS, SIZE), sizes.seconds, sizes.warm)


def main(rounds: str, sizes: str) -> None:
    """What runs in the namespace."""
    run_inside(lambda folder, note: Measurement(folder, Sizes(**json.loads(sizes)), note).run(int(rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
