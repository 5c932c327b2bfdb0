"""Clusters of mqbrokers and of real Artemis brokers on loopback: messages from one node to another, and how soon nodes know each other."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from mqclient.wire import packets as wire
from mqclient.wire.frames import PREAMBLE, FrameSplitter, frame
from mqclient.wire.packets.connection import Topology
from tests.bench.brokers import AS_CREATED, new_broker, usage, wait_for_answer
from tests.bench.load_program import LoadProgram, load_of
from tests.bench.results import figures_of
from tests.bench.rows import Cluster
from tests.interop.artemis import ArtemisBroker
from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.instance import Additions
from tests.interop.peers import Peer

TOPOLOGY_VERSION = 136
CONTROL_CHANNEL = 0
KNOWN_SECONDS = 30.0
"""Within this time all members must know each other."""


class Watch:
    """What the members of a cluster tell their clients of it; knows for each of them which nodes it names."""

    def __init__(self) -> None:
        self._sockets: dict[socket.socket, tuple[FrameSplitter, set[str]]] = {}

    def add(self, port: int) -> None:
        """Subscribe at the member on 127.0.0.1:port."""
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        request = wire.encode_packet(wire.SubscribeTopologyV2(False, TOPOLOGY_VERSION), TOPOLOGY_VERSION)
        connection.sendall(PREAMBLE + frame(wire.SubscribeTopologyV2.TYPE, CONTROL_CHANNEL, request))
        self._sockets[connection] = (FrameSplitter(1 << 20), set())

    def wait(self, members: int, nodes: int, seconds: float = KNOWN_SECONDS) -> None:
        """Return once so many members all name so many nodes; raises TimeoutError after `seconds`."""
        deadline = time.monotonic() + seconds
        while len(self._sockets) != members or any(len(named) != nodes for _, named in self._sockets.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                found = [len(named) for _, named in self._sockets.values()]
                raise TimeoutError(f"{members} members should name {nodes} nodes each; after {seconds:.0f} s they name {found}")
            for connection in select.select(list(self._sockets), [], [], left)[0]:
                self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        splitter, named = self._sockets[connection]
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        if not data:
            del self._sockets[connection]
            connection.close()
            return
        for received in splitter.feed(data):
            kind = int.from_bytes(received[4:5], "big", signed=True)
            packet = wire.decode_packet(kind, received[13:], TOPOLOGY_VERSION)
            if isinstance(packet, Topology):
                (named.discard if packet.exit else named.add)(packet.node_id)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for connection in self._sockets:
            connection.close()


def _member(kind: str, folder: Path, additions: Additions, port: int) -> Peer:
    """A broker as the other rows have it, with the elements of the cluster."""
    if kind != "artemis":
        return new_broker(kind, folder, replace(additions, expiry_scan_ms=AS_CREATED.expiry_scan_ms), port)
    broker = ArtemisBroker(folder, port=port, as_created=True)
    file = folder / "etc" / "broker.xml"
    file.write_text(file.read_text().replace("</core>", f"{additions.core}\n   </core>", 1))
    return broker


def new_cluster(kind: str, count: int, folder: Path, discovers: bool = False) -> Nodes:
    """Brokers of one cluster that are not started; `discovers`: they find each other by UDP multicast on the loopback interface."""
    return Nodes([kind] * count, folder, Shape(discovered=discovers), _member)


def start_together(brokers: Sequence[Peer]) -> None:
    with ThreadPoolExecutor(len(brokers)) as threads:
        list(threads.map(lambda broker: broker.start(), brokers))
    for broker in brokers:
        wait_for_answer(broker.port)


@contextmanager
def running(kind: str, count: int, folder: Path) -> Iterator[Nodes]:
    """A cluster whose members know each other."""
    with new_cluster(kind, count, folder) as nodes, Watch() as watch:
        start_together(nodes.brokers)
        for broker in nodes.brokers:
            watch.add(broker.port)
        watch.wait(count, count)
        yield nodes


def flow(program: LoadProgram, nodes: Nodes, load: Cluster, seconds: int, warm: int) -> dict[str, float]:
    """The producer is at the first node, a consumer at each of the others; CPU and memory are those of all of them."""
    marks: dict[str, list[Any]] = {}

    def mark(event: str, line: Mapping[str, Any]) -> None:
        marks[event] = [usage(broker.pid) for broker in nodes.brokers]

    others = nodes.brokers[1:]
    options: dict[str, int | str] = {"size": load.size, "warm": warm, "seconds": seconds, "consumers": len(others)}
    options |= {f"at{number}": broker.url for number, broker in enumerate(others)}
    found = load_of(program.run(nodes.brokers[0].url, "forward", options, warm + seconds + 5, mark))
    used = [after.cpu_seconds - before.cpu_seconds for before, after in zip(marks["measuring"], marks["measured"], strict=True)]
    figures = figures_of(found, sum(used), sum(each.resident_mib for each in marks["measured"]))
    figures["source_us"] = used[0] * 1e6 / found.messages
    figures["target_us"] = sum(used[1:]) * 1e6 / found.messages
    return figures


def membership(kind: str, folder: Path, rounds: int, note: Callable[[int, Callable[[], Mapping[str, float]]], None]) -> None:
    """A third node joins two and leaves again, so often; `note` takes each round.

    *join* is from the newcomer's first answer, *leave* from the signal to stop, until all members have told their clients.
    """
    with new_cluster(kind, 3, folder) as nodes, Watch() as watch:
        first, third = nodes.brokers[:2], nodes.brokers[2]
        start_together(first)
        for broker in first:
            watch.add(broker.port)
        watch.wait(2, 2)

        def join_and_leave() -> dict[str, float]:
            third.start()
            wait_for_answer(third.port)
            begin = time.monotonic()
            watch.add(third.port)
            watch.wait(3, 3)
            joined = time.monotonic() - begin
            stopping = threading.Thread(target=third.stop)
            begin = time.monotonic()
            stopping.start()
            watch.wait(2, 2)
            left = time.monotonic() - begin
            stopping.join()
            return {"join_s": joined, "leave_s": left}

        for turn in range(rounds):
            note(turn, join_and_leave)


def discovery(kind: str, folder: Path) -> dict[str, float]:
    """From the start of a second node's process until both have found each other by UDP multicast and have told their clients.

    A broker looks for others before it answers clients, so its start cannot be left out.
    """
    with new_cluster(kind, 2, folder, discovers=True) as nodes, Watch() as watch:
        start_together(nodes.brokers[:1])
        watch.add(nodes[0].port)
        begin = time.monotonic()
        nodes[1].start()
        watch.add(nodes[1].port)
        watch.wait(2, 2)
        return {"discovery_s": time.monotonic() - begin}
