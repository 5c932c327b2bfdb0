"""`python -m tests.bench.scaling`: what queues, consumers and members of a large cluster cost one broker, in one process without sockets.

Times are those of the process' CPU clock, memory is what the process has grown by.  *learn* is a queue of another broker that is made
known, *consumer* a consumer there; *link lost*, *back* and *left* are what the link of one member with so many queues costs in one go.
*snapshot* is what a member is told of so many queues of this broker; *notification* is one change here, told to so many members.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mqbroker.cluster.remote_queues.flow import Flow, FlowSettings
from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.routing.remote import LoadBalancing
from tests.support.broker import World
from tests.unit.cluster.flow_support import OWN, PEER, binding, complete, consumer, reset

SIZES = (1_000, 10_000, 100_000)
MEMBERS = (1, 9, 99)
CHANGES = 200
"""Notifications that are told to members, of which the mean is taken."""
ADDRESS = "activemq.notifications"
INTERESTS = Interests("", 1, ADDRESS, ("$.artemis.internal.sf.", "activemq.management"))


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def remote(size: int) -> dict[str, float]:
    """One member with so many queues, each with a consumer."""
    world = World()
    core = world.messaging.core
    waiting = world.messaging.administration.create_store_and_forward(f"$.artemis.internal.sf.bench.{PEER}")

    def nothing(*told: Any) -> None: ...

    ways = Ways(core, nothing)
    flow = Flow(FlowSettings(OWN, INTERESTS, LoadBalancing.ON_DEMAND), ways, waiting, nothing, nothing, nothing)
    queues = [binding(queue=f"queue.{number}", remote_id=number) for number in range(size)]
    consumers = [consumer("CREATED", f"queue.{number}") for number in range(size)]
    before = resident()
    flow.handle(reset())
    learn = cpu(lambda: [flow.handle(each) for each in queues])
    consume = cpu(lambda: [flow.handle(each) for each in consumers])
    grown = resident() - before
    flow.handle(complete())
    assert len(flow.bindings) == size
    lost = cpu(flow.disconnected)
    flow.begin()
    flow.handle(reset())
    back = cpu(lambda: [flow.handle(each) for each in queues])
    left = [cpu(flow.end)]
    while len(ways):
        left.append(cpu(ways._remove_some))
    return {
        "learn, µs": learn * 1e6 / size,
        "consumer, µs": consume * 1e6 / size,
        "memory, bytes": grown / size,
        "link lost, ms": lost * 1e3,
        "back, µs": back * 1e6 / size,
        "left, ms": sum(left) * 1e3,
        "longest step, ms": max(left) * 1e3,
    }


def snapshot(size: int) -> dict[str, float]:
    """So many queues here, told to a member that asks."""
    world = World()
    administration = world.messaging.administration
    before = resident()
    for number in range(size):
        administration.create_queue(local(number))
    grown = resident() - before
    listener = listening(world, "asker")
    before = resident()
    turns: list[float] = []

    def run() -> None:
        steps = world.server.notifications.queue_info.send_to(listener)
        while True:
            begin = time.process_time()
            try:
                next(steps)
            except StopIteration:
                return
            turns.append(time.process_time() - begin)

    seconds = cpu(run)
    assert listener.message_count >= size
    return {
        "queue here, bytes": grown / size,
        "snapshot, µs": seconds * 1e6 / size,
        "waiting, bytes": (resident() - before) / size,
        "longest step, ms": max(turns) * 1e3,
    }


def local(number: int) -> QueueConfiguration:
    return QueueConfiguration(f"queue.{number}", routing_type=1, durable=False)


def listening(world: World, name: str) -> Any:
    """The queue of a member that listens to notifications."""
    asked = QueueConfiguration(name, ADDRESS, 0, filter_string=INTERESTS.filter_string(), durable=False)
    return world.messaging.administration.create_queue(asked)


def notifications(members: int) -> dict[str, float]:
    """A queue that comes and goes again, while so many members listen."""
    world = World()
    for number in range(members):
        listening(world, f"member.{number}")
    administration = world.messaging.administration

    def change() -> None:
        for number in range(CHANGES):
            queue = administration.create_queue(local(number))
            administration.delete_queue(queue)

    seconds = cpu(change)
    return {"notification, µs": seconds * 1e6 / (2 * CHANGES)}


def table(first: str, rows: Sequence[tuple[int, dict[str, float]]]) -> str:
    names = list(rows[0][1])
    lines = [f"| {first} | " + " | ".join(names) + " |", "|---:" * (len(names) + 1) + "|"]
    for size, found in rows:
        lines.append(f"| {size:,} | " + " | ".join(f"{found[name]:,.1f}" for name in names) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scaling", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), metavar="N,…", help="numbers of queues (default %(default)s)")
    parser.add_argument("--members", default=",".join(map(str, MEMBERS)), metavar="N,…", help="numbers of members (default %(default)s)")
    options = parser.parse_args(arguments)
    sizes = [int(each) for each in options.sizes.split(",")]
    members = [int(each) for each in options.members.split(",")]
    print(table("queues of a member", [(size, remote(size)) for size in sizes]), end="\n\n")
    print(table("queues here", [(size, snapshot(size)) for size in sizes]), end="\n\n")
    print(table("members", [(count, notifications(count)) for count in members]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
