"""`python -m tests.bench.memory`: what a queued message, an idle connection and a queue cost the broker in memory.

The real server classes run in a fresh process for each row: messages and queues come over transports in memory as in `path`, connections
over real sockets and Twisted's reactor from another process.  Figures are the growth of resident memory, divided; needs no other broker.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.tap import COLLECTION_THRESHOLDS
from mqclient.urls import TransportUri
from mqclient.wire import packets as wire
from mqclient.wire.frames import PREAMBLE, SESSION_CHANNEL, frame
from tests.bench.path import Bench, Scenario, _Client
from tests.bench.restart import resident

WARM = 100
"""Of each kind, made before anything is measured."""
VERSION = 136
CHANNEL = 11
TRACED_LINES = 45


@dataclass(frozen=True)
class Row:
    name: str
    count: int
    grow: Callable[[int, Callable[[], object]], None]
    """Make some that do not count, call the function, make so many, and call it again."""


def messages(durable: bool) -> Callable[[int, Callable[[], object]], None]:
    """Messages of 100 bytes as a JMS client sends them, answered, in one queue that nobody reads."""

    def grow(count: int, mark: Callable[[], object]) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            scenario = Scenario("", durable=durable, size=100, chunk=64)
            bench = Bench(scenario, folder)
            for client in bench.consumers:
                client.peer.connection.lost("")
            producer, chunk = bench.producers[0], bench.chunks[0]
            put(bench, producer, chunk, 20 * WARM)
            mark()
            put(bench, producer, chunk, count)
            mark()
        finally:
            shutil.rmtree(folder)

    return grow


def put(bench: Bench, producer: _Client, chunk: bytes, count: int) -> None:
    for _ in range(0, count, bench.scenario.chunk):
        producer.peer.feed(chunk)
        bench.settle()
        data = producer.confirmation(len(producer.frames()))
        if data:
            producer.peer.feed(data)


def queues(count: int, mark: Callable[[], object]) -> None:
    """Durable queues, each with an address of its own."""
    folder = Path(tempfile.mkdtemp())
    try:
        bench = Bench(Scenario(""), folder)
        client = bench.producers[0]

        def create(first: int, number: int) -> None:
            for each in range(first, first + number):
                name = f"bench.queue.{each}"
                client.session.send(wire.CreateQueueV2(name, name, durable=True, routing_type=1))
                bench.settle()
                client.transport.out.clear()

        create(0, WARM)
        mark()
        create(WARM, count)
        mark()
    finally:
        shutil.rmtree(folder)


def connections(consumer: bool) -> Callable[[int, Callable[[], object]], None]:
    """Idle connections of JMS clients (and a consumer on one queue), over sockets."""

    def grow(count: int, mark: Callable[[], object]) -> None:
        from twisted.internet import reactor as installed

        from mqbroker.server.transport.acceptor import Acceptor
        from tests.support.broker import World

        reactor: Any = installed
        address = AddressConfiguration("bench", frozenset((1,)), [QueueConfiguration("bench", "bench", 1)])
        configuration = Configuration(security_enabled=False, addresses=[address])
        world = World(configuration, clock=_ReactorClock(reactor))
        acceptor = Acceptor(world.server, TransportUri("tcp", "127.0.0.1", 0), reactor, lambda path: b"")
        acceptor.start()
        port = acceptor.addresses[0].port
        client = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.memory", "--connect", f"{port}", "--count", f"{count}"]
            + (["--consumer"] if consumer else []),
            stdin=subprocess.PIPE,
        )
        stages = [WARM, WARM + count]

        def look() -> None:
            done = world.queue("bench").consumer_count if consumer else len(world.server.sessions.by_name) // 2
            if done >= stages[0]:
                mark()
                del stages[0]
                assert client.stdin is not None
                client.stdin.write(b"\n")
                client.stdin.flush()
            if stages:
                reactor.callLater(0.01, look)
            else:
                reactor.stop()

        reactor.callLater(0, look)
        reactor.run(installSignalHandlers=False)
        client.wait(60)

    return grow


class _ReactorClock:
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.call_later = reactor.callLater

    def monotonic(self) -> float:
        return float(self._reactor.seconds())

    def wall_ms(self) -> int:
        return int(self._reactor.seconds() * 1000)


def hold(port: int, count: int, consumer: bool) -> None:
    """What the other process does: connections by hand, the first ones and, after a line of input, the rest."""
    held = [_opened(port, number, consumer) for number in range(WARM)]
    sys.stdin.readline()
    held += [_opened(port, WARM + number, consumer) for number in range(count)]
    sys.stdin.readline()
    for each in held:
        each.close()


def _opened(port: int, number: int, consumer: bool) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port))

    def send(packet: wire.Packet, channel: int) -> None:
        peer.sendall(frame(packet.TYPE, channel, wire.encode_packet(packet, VERSION)))
        if not peer.recv(65536):
            raise ConnectionError("the broker has closed the connection")

    peer.sendall(PREAMBLE)
    for channel in (CHANNEL, CHANNEL + 1):  # a JMS connection has a session of its own beside that of the application
        request = wire.CreateSession(
            name=f"0b9c6a1e-5d5e-11ee-9a{channel}-{number:012}",
            session_channel_id=channel,
            version=VERSION,
            username="admin",
            password="secret",
            min_large_message_size=102400,
            xa=False,
            auto_commit_sends=True,
            auto_commit_acks=True,
            pre_acknowledge=False,
            window_size=-1,
        )
        send(request, SESSION_CHANNEL)
        send(wire.AddMetadataV2("jms-session", "", True), channel)
    if consumer:
        send(wire.CreateConsumer(0, "bench"), channel)
        credit = wire.FlowToken(0, 1024 * 1024)
        peer.sendall(frame(credit.TYPE, channel, wire.encode_packet(credit, VERSION)))
    return peer


ROWS = (
    Row("durable message of 100 B, waiting", 200_000, messages(True)),
    Row("non-durable message of 100 B, waiting", 200_000, messages(False)),
    Row("connection of a JMS client with session", 1_000, connections(False)),
    Row("the same with a consumer", 1_000, connections(True)),
    Row("durable queue with its address", 2_000, queues),
)


def measure(row: Row, where: bool) -> None:
    """Print the figure of one row; with ``where``, the lines of code whose objects it is."""
    sizes: list[int] = []

    def mark() -> None:
        gc.collect()
        if not where:
            sizes.append(resident())
        elif not tracemalloc.is_tracing():
            tracemalloc.start()
        else:
            report(row)

    gc.set_threshold(*COLLECTION_THRESHOLDS)
    row.grow(row.count, mark)
    if not where:
        print(f"| {row.name} | {(sizes[1] - sizes[0]) / row.count:,.0f} |", flush=True)


def report(row: Row) -> None:
    found = tracemalloc.take_snapshot().statistics("lineno")
    print(f"{row.name}: {sum(each.size for each in found) / row.count:,.0f} bytes each; by line: bytes, objects")
    for each in found[:TRACED_LINES]:
        place = each.traceback[0]
        name = "/".join(place.filename.split(os.sep)[-2:])
        print(f"  {each.size / row.count:9.1f} {each.count / row.count:8.2f}  {name}:{place.lineno}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--only", default="", help="rows with this text in their name")
    parser.add_argument("--count", type=int, default=0, help="how many of each; the default is large enough")
    parser.add_argument("--where", action="store_true", help="tell which lines of code made what is kept (slow; no resident memory)")
    parser.add_argument("--row", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--connect", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--consumer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.connect:
        hold(options.connect, options.count, options.consumer)
        return 0
    if options.row >= 0:
        row = ROWS[options.row]
        measure(replace(row, count=options.count or row.count), options.where)
        return 0
    print("| resident memory, bytes | each |\n|---|---:|", flush=True)
    status = 0
    for number, row in enumerate(ROWS):
        if options.only in row.name:
            command = [sys.executable, "-m", "tests.bench.memory", "--row", f"{number}", "--count", f"{options.count}"]
            status |= subprocess.call(command + (["--where"] if options.where else []), timeout=600)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
