"""`python -m tests.bench.stages`: where the broker's CPU goes for one message, by stage, for the rows that need it.

The classes and loads are those of :mod:`tests.bench.path`, with TCP sockets of the loopback interface in place of its transports.  The
functions that begin a stage are wrapped; a stage has the CPU time of its own functions without that of the stages that they call.  What
clients do is not counted, nor is the reactor.  The wrapping costs about 1 µs for each call, which is why only functions are wrapped that
are called once for many messages or for many bytes.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqbroker.tap import COLLECTION_THRESHOLDS
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import TYPE_BYTES, CoreMessage, encode_headers
from tests.bench.path import Bench, Scenario, _Client, _Transport

READ_BYTES = 64 * 1024
"""What a reactor reads at a time."""
LARGE_BYTES = 10 << 20
CHUNK_BYTES = 100 * 1024

STAGE_OF: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cut into frames", ("mqclient.wire.frames:FrameSplitter.feed",)),
    ("sends: headers, id, Message", ("mqbroker.server.runs.send_runs:SendRuns.take",)),
    ("large: decode a packet", ("mqbroker.server.session.session:ServerSession.handle",)),
    ("large: hand over a chunk", ("mqbroker.storage.files.largebodies:FileLargeBody.append",)),
    ("transaction: commit", ("mqbroker.messaging.delivery.settlement:Settlement.commit",)),
    (
        "store: records, index",
        (
            "mqbroker.storage.files.journal.batch:FileBatch.add_messages",
            "mqbroker.storage.files.filestore:FileStore.commit",
            "mqbroker.storage.files.journal.live:LiveIndex.apply",
        ),
    ),
    ("disk thread: join, checksum", ("mqbroker.storage.files.journal.segments:Segment.write_frame",)),
    ("disk thread: write", ("mqbroker.process.localfs:LocalFile.write",)),
    ("disk thread: sync", ("mqbroker.process.localfs:LocalFile.sync",)),
    ("into the queue", ("mqbroker.server.runs.send_runs:SendRuns._arrive", "mqbroker.messaging.delivery.sending:Sending.deliver")),
    ("deliver", ("mqbroker.messaging.queues.queue:Queue.deliver",)),
    ("large: encode a chunk", ("mqbroker.server.session.large_delivery:LargeDelivery.advance",)),
    ("large: read a chunk", ("mqbroker.process.localfs:LocalFileSystem.read",)),
    ("answer sends", ("mqbroker.server.session_state:SessionState.finish_run",)),
    ("acknowledgements", ("mqbroker.server.session.acknowledgements:SessionAcknowledgements.take",)),
    ("settle", ("mqbroker.messaging.delivery.settlement:Settlement.acknowledge",)),
    ("join output", ("mqbroker.server.transport.connection:ServerConnection.flush",)),
)
"""Labels in the order of a message's way, and what begins each stage."""
RECEIVE, SEND, COLLECT, REST = "recv", "send", "garbage collector", "everything else"
ORDER = (RECEIVE, *(label for label, _ in STAGE_OF), SEND, COLLECT, REST)


class Stages:
    """CPU seconds by stage, without those of the stages inside."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(ORDER, 0.0)
        self._open: list[str] = []
        self._since = 0.0

    def enter(self, label: str) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._open.append(label)
        self._since = now

    def leave(self) -> None:
        now = time.process_time()
        self.seconds[self._open.pop()] += now - self._since
        self._since = now

    def timed(self, label: str, function: Callable[..., Any], *args: Any) -> Any:
        self.enter(label)
        try:
            return function(*args)
        finally:
            self.leave()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The functions of :data:`STAGE_OF` count, and the collector."""
        wrapped: list[tuple[Any, str, Any]] = []

        def collector(phase: str, info: dict[str, int]) -> None:
            if not self._open:
                return
            if phase == "start":
                self.enter(COLLECT)
            elif self._open[-1] == COLLECT:
                self.leave()

        gc.callbacks.append(collector)
        try:
            for label, places in STAGE_OF:
                for place in places:
                    module, _, path = place.partition(":")
                    owner, _, name = path.partition(".")
                    holder = getattr(importlib.import_module(module), owner)
                    function = getattr(holder, name)
                    wrapped.append((holder, name, function))
                    setattr(holder, name, self._counted(label, function))
            yield
        finally:
            gc.callbacks.remove(collector)
            for holder, name, function in reversed(wrapped):
                setattr(holder, name, function)

    def _counted(self, label: str, function: Any) -> Any:
        def counted(*args: Any, **named: Any) -> Any:
            self.enter(label)
            try:
                return function(*args, **named)
            finally:
                self.leave()

        return counted


class _SocketTransport(_Transport):
    """Writes to a socket whose other end is read at once."""

    def __init__(self, stages: Stages) -> None:
        super().__init__()
        self._stages = stages
        self.near, self._far = _pair()

    def writeSequence(self, data: list[bytes]) -> None:
        whole = memoryview(b"".join(data))
        while whole:
            sent = self._stages.timed(SEND, self.near.send, whole)
            whole = whole[sent:]
            while sent:
                # Not counted: the receiver is another process.
                received = self._out_of_time(self._far.recv, sent)
                self.out.append(received)
                sent -= len(received)

    def arrive(self, data: bytes) -> Iterator[bytes]:
        """What the broker reads of this, piece by piece."""
        for at in range(0, len(data), READ_BYTES):
            piece = data[at : at + READ_BYTES]
            self._out_of_time(self._far.sendall, piece)
            left = len(piece)
            while left:
                got = self._stages.timed(RECEIVE, self.near.recv, READ_BYTES)
                left -= len(got)
                yield got

    def _out_of_time(self, function: Callable[..., Any], *args: Any) -> Any:
        stages = self._stages
        stages.enter("client")
        try:
            return function(*args)
        finally:
            stages.leave()

    def close(self) -> None:
        self.near.close()
        self._far.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return near, far


class StagedBench(Bench):
    """A bench over sockets whose time is counted by stage; ``large`` sends messages of :data:`LARGE_BYTES` instead."""

    def __init__(self, scenario: Scenario, folder: Path, stages: Stages, large: bool) -> None:
        self.stages = stages
        self.large = large
        stages.seconds["client"] = 0.0
        super().__init__(scenario, folder)
        for client in (*self.producers, *self.consumers):
            transport = _SocketTransport(stages)
            client.transport = transport
            client.peer.connection._transport = transport
        if large:
            self.chunks = [self.large_sends()]

    def large_sends(self) -> bytes:
        headers = encode_headers(CoreMessage(address="bench", type=TYPE_BYTES, durable=True, timestamp=1))
        packets: list[wire.Packet] = [wire.SessionSendLarge(headers)]
        piece = bytes(CHUNK_BYTES)
        for at in range(0, LARGE_BYTES, CHUNK_BYTES):
            chunk = piece[: LARGE_BYTES - at]
            last = at + CHUNK_BYTES >= LARGE_BYTES
            packets.append(wire.SessionSendContinuation(chunk, not last, LARGE_BYTES if last else -1, last, 1))
        return b"".join(frame(each.TYPE, 11, wire.encode_packet(each, 136)) for each in packets)

    def timed(self, stage: str, function: Callable[..., object], *args: Any) -> None:
        transport = getattr(getattr(function, "__self__", None), "connection", None)
        transport = None if transport is None else transport._transport
        if isinstance(transport, _SocketTransport):
            for piece in transport.arrive(args[0]):
                self.stages.timed(REST, function, piece)
        else:
            self.stages.timed(REST, function, *args)

    def acknowledge(self, client: _Client) -> None:
        if not self.large:
            super().acknowledge(client)
            return
        for data in client.frames():
            if data[4] == wire.SessionReceiveLarge.TYPE:
                self.deliveries += 1
        consumer = client.session.server_session.consumers.by_id[0]
        for message_id in list(consumer.unacknowledged):
            packet = wire.Acknowledge(0, message_id, False)
            self.timed("ack", client.peer.feed, frame(packet.TYPE, 11, wire.encode_packet(packet, 136)))

    def end(self) -> None:
        for client in (*self.producers, *self.consumers):
            client.transport.close()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Row:
    name: str
    scenario: Scenario
    messages: int
    large: bool = False
    consumed: bool = True


ROWS = (
    Row("durable 10 KiB", Scenario("", size=10240, chunk=6), 6000),
    Row("durable 1 KiB, commits of 100", Scenario("", chunk=100, wants="commit", window=-1), 20000),
    Row("10 MiB, streamed", Scenario("", chunk=1, window=-1), 20, large=True),
    Row("a million put, 100 B", Scenario("", size=100, chunk=40), 200_000, consumed=False),
)


def measure(row: Row, folder: Path) -> dict[str, float]:
    """µs per message and stage."""
    stages = Stages()
    bench = StagedBench(row.scenario, folder, stages, row.large)
    if not row.consumed:
        for client in bench.consumers:
            client.peer.connection.lost("")
        del bench.consumers[:]
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    bench.round(max(row.messages // 20, 1))
    with stages.watching():
        stages.seconds = dict.fromkeys((*ORDER, "client"), 0.0)
        bench.round(row.messages)
    bench.end()
    return {label: stages.seconds[label] * 1e6 / row.messages for label in ORDER}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stages", description=__doc__)
    parser.add_argument("--only", default="", help="rows with this text in their name")
    parser.add_argument("--rounds", type=int, default=3, help="the best is told (default %(default)s)")
    parser.add_argument("--folder", help="where the journal goes; the default is a temporary folder")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if options.only in row.name]
    best: list[dict[str, float]] = []
    for row in rows:
        rounds = []
        for _ in range(options.rounds):
            folder = Path(tempfile.mkdtemp(dir=options.folder))
            try:
                rounds.append(measure(row, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        best.append(min(rounds, key=lambda each: sum(each.values())))
    print(f"| µs of CPU per message | {' | '.join(row.name for row in rows)} |\n|---|{'---:|' * len(rows)}")
    for label in ORDER:
        if any(found[label] >= 0.05 for found in best):
            print(f"| {label} | {' | '.join(f'{found[label]:,.1f}' for found in best)} |")
    print(f"| all | {' | '.join(f'{sum(found.values()):,.1f}' for found in best)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
