"""Enhanced clusters beside a real Open Message Queue, both on one PostgreSQL server: throughput, and what a takeover costs clients."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from mqclient.jms import ConnectionFactory
from tests.bench.amounts import MESSAGE_SIZE, PUT_THREADS, ignore, limit_of
from tests.bench.brokers import PeakMemory, usage
from tests.bench.enhanced_rows import KILL, LOCAL, MILLION, REMOTE, ROWS
from tests.bench.ha import follow
from tests.bench.homes import homes_flow
from tests.bench.homes_rows import OPENMQ
from tests.bench.inside import FlowSizes, Note, measure_inside, places, run_inside, tell
from tests.bench.judging import PURE
from tests.bench.load_program import LoadProgram, classes
from tests.bench.results import LoadFailed
from tests.interop.imq import namespace
from tests.interop.imq.clusters import AS_SHIPPED, CLIENT, Cluster, HomeBrokers, RealBrokers, client_libraries
from tests.interop.imq.models import enhanced
from tests.support.postgresql import PostgresqlServer

MODULE = "tests.bench.enhanced"
STAMP_SECONDS = 1
"""As in config/imq-enhanced."""
LIMIT_SECONDS = 120
QUEUE = "queue://bench.amount"
"""Where the load program puts many messages."""
SOME = 1000
SWITCH = "takes over b0"
"""In the log of the taker."""
LOGIN = {"user": CLIENT, "password": CLIENT}


@dataclass(frozen=True)
class Sizes(FlowSizes):
    """As of home brokers, and how many messages are taken over."""

    messages: int = 1_000_000


QUICK = Sizes(1, 1, 1, 2_000)


def measure(rounds: int, sizes: Sizes, note: Note) -> None:
    """So many rounds in a namespace; `note` hears of each measurement."""
    measure_inside(MODULE, ROWS, OPENMQ, [str(rounds), json.dumps(asdict(sizes))], note)


class Measurement:
    """Both clusters are up at the same time, each has had some load, and they are measured in turn."""

    def __init__(self, folder: Path, sizes: Sizes, note: Note) -> None:
        self._folder = folder
        self._sizes = sizes
        self._note = note

    def run(self, rounds: int) -> None:
        with ExitStack() as stack:
            server = PostgresqlServer(syncs=True)
            stack.callback(server.close)
            model = enhanced(server, STAMP_SECONDS)
            ours = HomeBrokers(self._folder / PURE, places(namespace.OURS), model)
            real = RealBrokers(self._folder / OPENMQ, places(namespace.REAL), model, java=AS_SHIPPED)
            programs = {PURE: LoadProgram(), OPENMQ: LoadProgram(f"{classes('jakarta') / 'classes'}:{client_libraries()}")}
            for program in programs.values():
                stack.callback(program.stop)
            clusters: dict[str, Cluster] = {PURE: ours, OPENMQ: real}
            for cluster in clusters.values():
                stack.callback(cluster.close)
                cluster.mend()
            flows: dict[tuple[str, str], Callable[[Sizes], Mapping[str, float]]] = {
                (row, name): lambda sizes, n=name, to=last: homes_flow(programs[n], clusters[n], to, False, sizes)  # type: ignore[misc]
                for row, last in ((LOCAL, 0), (REMOTE, 1))
                for name in clusters
            }
            warming = Sizes(self._sizes.warm_brokers, 1)
            for (row, name), flow in flows.items():
                tell(self._note, name, row, -1, lambda act=flow: act(warming))  # type: ignore[misc]
            for turn in range(rounds):
                for (row, name), flow in sorted(flows.items(), reverse=turn % 2 == 1):
                    tell(self._note, name, row, turn, lambda act=flow: act(self._sizes))  # type: ignore[misc]
            for turn in range(rounds):
                for name, cluster in clusters.items():
                    tell(self._note, name, KILL, turn, lambda n=name, c=cluster: killed(programs[n], c))  # type: ignore[misc]
            tell(self._note, PURE, MILLION, 0, lambda: taken_over(programs[PURE], ours, self._sizes.messages))


def killed(program: LoadProgram, cluster: Cluster) -> dict[str, float]:
    """From the death of a member until a client that follows gets the next message; the member is back afterwards."""
    cluster.mend()
    gap = follow(program, cluster.following_url(0), lambda: cluster.kill(0), LOGIN)["gap_ms"] / 1000
    cluster.mend()
    return {"gap_s": gap}


def taken_over(program: LoadProgram, cluster: HomeBrokers, count: int) -> dict[str, float]:
    """The first member dies with so many messages: from the switch until a consumer of the other one gets the first of them.

    The memory of the taker is looked at until some of them have been consumed.
    """
    cluster.mend()
    options: dict[str, int | str] = {"count": count, "threads": PUT_THREADS, "size": MESSAGE_SIZE, "limit": limit_of(count), **LOGIN}
    program.run(cluster.url(0), "put", options, limit_of(count), ignore)
    taker = cluster.pid(1)
    with ConnectionFactory(cluster.url(1)) as factory, factory.create_connection(CLIENT, CLIENT) as connection:
        connection.start()
        session = connection.create_session()
        before = usage(taker).resident_mib
        with PeakMemory(taker) as peak:
            switches = cluster.written(1).count(SWITCH)
            cluster.kill(0)
            begin = next_switch(cluster, 1, switches + 1)
            consumer = session.create_consumer(QUEUE)
            if consumer.receive(LIMIT_SECONDS * 1000) is None:
                raise LoadFailed("no message came")
            first = time.monotonic() - begin
            for _ in range(min(SOME, count) - 1):
                if consumer.receive(LIMIT_SECONDS * 1000) is None:
                    raise LoadFailed("not all messages came")
    return {"first_s": first, "growth_mib": peak.mib - before}


def next_switch(cluster: HomeBrokers, number: int, switches: int) -> float:
    """The time of the monotonic clock at which a member has said so many times that it takes over another one.  Raises LoadFailed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while (now := time.monotonic()) < deadline:
        if cluster.written(number).count(SWITCH) >= switches:
            return now
        time.sleep(0.01)
    raise LoadFailed(f"nobody was taken over within {LIMIT_SECONDS} s")


def main(rounds: str, sizes: str) -> None:
    """What runs in the namespace."""
    run_inside(lambda folder, note: Measurement(folder, Sizes(**json.loads(sizes)), note).run(int(rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
