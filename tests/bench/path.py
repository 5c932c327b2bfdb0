"""`python -m tests.bench.path`: CPU of the broker's message path per message and stage, without sockets.

The real server classes get frames as the Java client writes them (its properties, confirmation window and acknowledgement of every
message), a few per chunk as a busy socket gives them, and write to transports in memory and to a journal on the disk.  Times are those
of the process' CPU clock, best of several short rounds, so that other processes hardly disturb.  What the client does is not counted.

Stages: *in* the producers' bytes, to the end of their turn; *disk* what the disk thread does, on this thread; *stored* what follows a
finished write: delivery and answers; *ack* the consumers' bytes, to the end of their turn.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqbroker.config.model.configuration import Configuration
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.settings import StoreSettings
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL, frame
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_CID, KEY_ROUTE_TO, KEY_ROUTING_TYPE, TYPE_BYTES, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, BYTES, INT, LONG, STRING
from tests.support.broker import PERMISSIONS, Peer, Session, World

WINDOW = 1 << 20
CREDITS = 1 << 30
IDS_KEPT = 2000
"""Duplicate ids of an address: few enough that one leaves for each that comes."""
CONFIRM_EVERY = 500
"""Packets that a client receives before it confirms them."""
_HEAD = struct.Struct(">ibq")
_RECEIVED = struct.Struct(">qi")
_ID = struct.Struct(">q")
_END = struct.Struct(">i")
_ACKNOWLEDGE = struct.Struct(">ibqqqB")
STAGES = ("in", "disk", "stored", "ack")


@dataclass(frozen=True)
class Scenario:
    """`pairs` producers and consumers on one queue (with `topic`: one producer, `topic` subscribers); `chunk` frames per read.

    `wants` is how a send is confirmed: "answer" to every send, or "commit" after `chunk` sends of a transaction.
    """

    name: str
    durable: bool = True
    size: int = 1024
    pairs: int = 1
    chunk: int = 16
    topic: int = 0
    selectors: bool = False
    wants: str = "answer"
    window: int = WINDOW
    paged: bool = False
    """The address is full from the beginning: everything goes through pages."""
    arrivals: bool = False
    """The messages come from another broker of the cluster: each states its queue and has a duplicate id of the bridge."""


SCENARIOS = (
    Scenario("durable 1 KiB, 1 x 1"),
    Scenario("durable 1 KiB, 4 x 4", pairs=4),
    Scenario("durable 100 B, 1 x 1", size=100),
    Scenario("durable 10 KiB, 1 x 1", size=10240, chunk=6),
    Scenario("non-durable 1 KiB, 1 x 1", durable=False),
    Scenario("non-durable 1 KiB, 4 x 4", durable=False, pairs=4),
    Scenario("non-durable 100 B, 1 x 1", durable=False, size=100),
    Scenario("non-durable 100 B, 64 per read", durable=False, size=100, chunk=64),
    Scenario("durable 1 KiB, blocking sends", chunk=1),
    Scenario("durable 1 KiB, commit of 100", chunk=100, wants="commit", window=-1),
    Scenario("topic 1 to 10, non-durable 1 KiB", durable=False, topic=10),
    Scenario("paged durable 1 KiB", paged=True),
    Scenario("forwarded durable 1 KiB, at the target", arrivals=True),
    Scenario("10 selectors, non-durable 1 KiB", durable=False, selectors=True, chunk=20),
)


class _Clock:
    """The real clocks; delayed calls wait until the bench runs them."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Call:
        call = _Call(seconds, function, args)
        self.calls.append(call)
        return call

    def run_due(self) -> None:
        due = [call for call in self.calls if call.seconds <= 0]
        self.calls = [call for call in self.calls if call.seconds > 0 and call.function is not None]
        for call in due:
            if call.function is not None:
                call.function(*call.args)


class _Call:
    def __init__(self, seconds: float, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.seconds = seconds
        self.function: Callable[..., object] | None = function
        self.args = args

    def cancel(self) -> None:
        self.function = None


class _Writer:
    """Holds batches until the bench runs them."""

    def __init__(self) -> None:
        self.batches: list[tuple[Sequence[Step], Done]] = []

    @property
    def idle(self) -> bool:
        return not self.batches

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self.batches.append((steps, done))


class _Transport:
    """Keeps what the broker writes, as it was handed over."""

    def __init__(self) -> None:
        self.out: list[bytes] = []

    def writeSequence(self, data: list[bytes]) -> None:
        self.out.append(b"".join(data))

    def loseConnection(self) -> None: ...

    def abortConnection(self) -> None: ...

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...


class _Client:
    """One connection with a session; what it does itself costs nothing in the figures."""

    def __init__(self, world: World, scenario: Scenario, durable_name: str | None) -> None:
        self.peer = Peer(world, handshake=False)
        self.transport = _Transport()
        self.peer.connection._transport = self.transport
        self.peer.feed(b"ARTEMIS")
        self.peer.version = 136
        commits = scenario.wants == "commit"
        request = wire.CreateSession(
            name=f"{durable_name}-{id(self)}",
            session_channel_id=11,
            version=136,
            username="admin",
            password="secret",
            min_large_message_size=102400,
            xa=False,
            auto_commit_sends=not commits,
            auto_commit_acks=not commits,
            pre_acknowledge=False,
            window_size=scenario.window,
        )
        self.peer.send(request, SESSION_CHANNEL)
        self.session = Session(self.peer, 11, "bench")
        self.unconfirmed = 0
        self.command = -1

    def frames(self) -> list[bytes]:
        data = b"".join(self.transport.out)
        self.transport.out.clear()
        found = []
        offset = 0
        while offset < len(data):
            end = offset + 4 + _END.unpack_from(data, offset)[0]
            found.append(data[offset:end])
            offset = end
        return found

    def confirmation(self, frames: int) -> bytes:
        """PACKETS_CONFIRMED when it is time for one."""
        self.unconfirmed += frames
        self.command += frames
        if self.unconfirmed < CONFIRM_EVERY:
            return b""
        self.unconfirmed = 0
        return frame(wire.PacketsConfirmed.TYPE, 11, wire.encode_packet(wire.PacketsConfirmed(self.command), 136))


class Bench:
    """One broker with its clients for one scenario."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.clock = _Clock()
        self.writer = _Writer()
        settings = StoreSettings(str(folder / "journal"), str(folder / "bindings"), str(folder / "large"), str(folder / "paging"))
        store = FileStore(settings, LocalFileSystem(), self.writer, self.clock, os.urandom)
        store.open()
        recovered = store.load()
        everybody = {permission: frozenset({"all"}) for permission in PERMISSIONS}
        configuration = Configuration(security_settings={"#": everybody})
        configuration.address_settings["#"] = {"id_cache_size": IDS_KEPT}
        if scenario.paged:
            configuration.address_settings["#"] |= {"max_size_bytes": 0, "address_full_policy": "PAGE"}
        self.world = World(configuration, store=store, clock=self.clock, recovered=recovered)
        self.store = store
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.deliveries = 0
        admin = self.client(Scenario("admin"))
        if scenario.topic:
            admin.session.send(wire.CreateAddress("bench", (0,), True, False))
        for number in range(scenario.topic or 1):
            name = f"bench{number}" if scenario.topic else "bench"
            admin.session.send(wire.CreateQueueV2("bench", name, durable=True, routing_type=0 if scenario.topic else 1))
        self.settle()
        self.producers = [self.client(scenario) for _ in range(scenario.pairs)]
        self.consumers = [self.consumer(scenario, number) for number in range(self.consumer_count)]
        self.settle()
        self.bridge_id = 0
        self.chunks = [self.sends() for _ in self.producers]

    @property
    def consumer_count(self) -> int:
        return self.scenario.topic or (10 if self.scenario.selectors else self.scenario.pairs)

    def client(self, scenario: Scenario) -> _Client:
        client = _Client(self.world, scenario, "session")
        self.settle()
        return client

    def consumer(self, scenario: Scenario, number: int) -> _Client:
        client = self.client(scenario)
        selector = f"color = {number}" if scenario.selectors else None
        queue = f"bench{number}" if scenario.topic else "bench"
        client.session.consume(queue, 0, credits=CREDITS, filter=selector)
        self.settle()
        client.command = len([data for data in client.frames() if data[4] not in (10, 22, 31)]) - 1
        return client

    def sends(self) -> bytes:
        """A chunk as the socket gives it."""
        scenario = self.scenario
        frames = []
        for number in range(scenario.chunk):
            properties: dict[str, Any] = {KEY_CID: (STRING, "5e860d7f-e56f-11f1-9b26-02fc00000001")}
            properties[KEY_ROUTING_TYPE] = (BYTE, 0 if scenario.topic else 1)
            properties["time"] = (LONG, 11952796342 + number)
            if scenario.selectors:
                properties["color"] = (INT, number % 10)
            if scenario.arrivals:
                self.bridge_id += 1
                properties[KEY_ROUTE_TO] = (BYTES, _ID.pack(self.world.queue("bench").queue_id))
                properties[KEY_BRIDGE_DUPLICATE_ID] = (BYTES, bytes(16) + _ID.pack(self.bridge_id))
            message = CoreMessage(
                address="bench", type=TYPE_BYTES, durable=scenario.durable, timestamp=1, properties=properties, body=bytes(scenario.size)
            )
            flag = scenario.wants == "answer"
            packet = wire.SessionSend(encode_message(message), flag, number + 1, 1)
            frames.append(frame(packet.TYPE, 11, wire.encode_packet(packet, 136)))
        if scenario.wants == "commit":
            frames.append(frame(wire.Commit.TYPE, 11, wire.encode_packet(wire.Commit(), 136)))
        return b"".join(frames)

    # --- running

    def timed(self, stage: str, function: Callable[..., object], *args: Any) -> None:
        begin = time.process_time()
        function(*args)
        self.seconds[stage] += time.process_time() - begin

    def settle(self) -> None:
        """Let the disk and the timers do what is due."""
        while True:
            self.clock.run_due()
            if not self.writer.batches:
                return
            (steps, done), *self.writer.batches = self.writer.batches
            self.timed("disk", self.run_steps, steps)
            self.timed("stored", self.world.server.turn.run, done, None)

    @staticmethod
    def run_steps(steps: Sequence[Step]) -> None:
        error = run_steps(steps)
        if error is not None:
            raise error

    def acknowledge(self, client: _Client) -> None:
        """The client reads what has come and acknowledges every message."""
        frames = client.frames()
        answers = []
        received = 0
        for data in frames:
            if data[4] != wire.SessionReceive.TYPE:
                received += data[4] not in (10, 22)
                continue
            received += 1
            message_id = _ID.unpack_from(data, 13 + _END.unpack_from(data, 13)[0] - 9)[0]
            answers.append(_ACKNOWLEDGE.pack(26, wire.Acknowledge.TYPE, 11, _RECEIVED.unpack_from(data, len(data) - 12)[0], message_id, 0))
            self.deliveries += 1
        if self.scenario.wants == "commit" and answers:
            answers.append(frame(wire.Commit.TYPE, 11, wire.encode_packet(wire.Commit(), 136)))
        answers.append(client.confirmation(received))
        data = b"".join(answers)
        if data:
            self.timed("ack", client.peer.feed, data)

    def round(self, messages: int) -> None:
        sent = 0
        while sent < messages:
            for client, chunk in zip(self.producers, self.chunks, strict=True):
                self.timed("in", client.peer.feed, self.sends() if self.scenario.arrivals else chunk)
                sent += self.scenario.chunk
            self.settle()
            for client in self.consumers:
                self.acknowledge(client)
            for client in self.producers:
                frames = client.frames()
                data = client.confirmation(sum(data[4] not in (10, 22) for data in frames))
                if data:
                    self.timed("in", client.peer.feed, data)

    def measure(self, messages: int, rounds: int) -> dict[str, float]:
        """µs per message and stage, of the best round."""
        best: dict[str, float] = {}
        for _ in range(rounds):
            self.seconds = dict.fromkeys(STAGES, 0.0)
            self.deliveries = 0
            gc.collect()
            self.round(messages)
            unit = self.deliveries
            assert unit >= messages - self.scenario.chunk * self.scenario.pairs, (unit, messages)
            found = {stage: seconds * 1e6 / unit for stage, seconds in self.seconds.items()}
            found["all"] = sum(found.values())
            if not best or found["all"] < best["all"]:
                best = found
        return best


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.path", description=__doc__)
    parser.add_argument("--only", default="", help="scenarios with this text in their name")
    parser.add_argument("--messages", type=int, default=4000, help="messages of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the journal goes; the default is a temporary folder")
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead (everything is slower then)")
    options = parser.parse_args(arguments)
    print(f"| µs per delivered message | {' | '.join(STAGES)} | all |\n|---|{'---:|' * (len(STAGES) + 1)}")
    for scenario in SCENARIOS:
        if options.only not in scenario.name:
            continue
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            bench = Bench(scenario, folder)
            bench.round(500)
            if options.profile:
                profile = cProfile.Profile(time.process_time)
                profile.runcall(bench.round, options.messages)
                pstats.Stats(profile).sort_stats("tottime").print_stats(60)
                continue
            best = bench.measure(options.messages, options.rounds)
            print(f"| {scenario.name} | {' | '.join(f'{best[stage]:.1f}' for stage in (*STAGES, 'all'))} |", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
