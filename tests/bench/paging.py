"""`python -m tests.bench.paging`: many small messages through one queue that pages, and what the broker's memory does meanwhile.

The broker's own messaging core and store write to a real disk, with its disk thread; clients and sockets are left out, so that the memory
is that of the messages.  First everything is sent, then everything is received and acknowledged, in order.  `--compress` does it again
with packed pages.  Prints a row per run: rates, highest resident memory, bytes of pages on the disk, time of a restart in between.
"""

from __future__ import annotations

import argparse
import heapq
import os
import queue
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.node.messaging import messaging_of
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.threads import ThreadedDiskWriter
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.settings import StoreSettings
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, LONG, STRING

SENT_PER_TURN = 200
BACKLOG_MAX = 16 * 1024 * 1024
"""Bytes on their way to the disk at which the sender waits, as credits would make it."""
WORDS = ("order", "invoice", "customer", "delivery", "berlin", "paris", "open", "closed", "pending", "item", "quantity", "price")


class Loop:
    """Calls that are due, and those that the disk thread hands back."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._later: list[tuple[float, int, _Call, tuple[Any, ...]]] = []

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Any:
        call = _Call()
        if seconds <= 0:
            self._calls.put((call.run, (function, *args)))
        else:
            heapq.heappush(self._later, (time.monotonic() + seconds, id(call), call, (function, *args)))
        return call

    def from_thread(self, function: Callable[..., object], *args: Any) -> None:
        self._calls.put((function, args))

    def run(self, wait: bool) -> None:
        """Everything that is due; with ``wait`` at least one, unless something comes due later."""
        while self._later and self._later[0][0] <= time.monotonic():
            _, _, call, args = heapq.heappop(self._later)
            call.run(*args)
            wait = False
        if wait:
            left = self._later[0][0] - time.monotonic() if self._later else 60
            with suppress(queue.Empty):
                function, args = self._calls.get(timeout=max(left, 0))
                function(*args)
        while not self._calls.empty():
            function, args = self._calls.get()
            function(*args)


class _Call:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def run(self, function: Callable[..., object], *args: Any) -> None:
        if not self.cancelled:
            function(*args)


class Broker:
    """A messaging core over a file store in ``folder``."""

    def __init__(self, folder: Path, compress: bool) -> None:
        self.loop = Loop()
        self.writer = ThreadedDiskWriter(self.loop.from_thread)
        paths = [str(folder / name) for name in ("journal", "bindings", "large", "paging")]
        settings = StoreSettings(*paths, compress_pages=compress)
        self.store = FileStore(settings, LocalFileSystem(), self.writer, self.loop, os.urandom, sys.exit)
        self.store.open()
        configuration = Configuration(address_settings={"#": {"max_size_bytes": 10 * 1024 * 1024}})
        self.messaging = messaging_of(configuration, self.store, self.store.load(), self.loop, random.random)
        q = QueueConfiguration(name="q", address="q", routing_type=1, durable=True)
        self.queue = self.messaging.core.queues.get(q.name) or self.messaging.administration.create_queue(q)

    def turn(self, function: Callable[..., object], *args: Any, wait: bool = False) -> None:
        self.messaging.core.turn.run(function, *args)
        self.messaging.core.turn.run(self.loop.run, wait)

    def stop(self) -> None:
        done: list[bool] = []
        self.messaging.stop()
        self.store.stop(lambda: done.append(True))
        while not done:
            self.loop.run(wait=True)
        self.writer.stop()


class Taker:
    """A consumer that acknowledges what a turn has brought."""

    filter = None
    priority = 0
    cursor: Cursor | None = None
    ready = True

    def __init__(self) -> None:
        self.held: list[Reference] = []
        self.count = 0
        self.last_id = 0

    def handle(self, reference: Reference) -> None:
        self.held.append(reference)
        self.ready = len(self.held) < 1000

    def queue_deleted(self) -> None: ...

    def settle(self, broker: Broker) -> None:
        held, self.held = self.held, []
        self.ready = True
        if held:
            if not all(a.message.message_id < b.message.message_id for a, b in pairwise(held)):
                sys.exit("out of order")
            if held[0].message.message_id <= self.last_id:
                sys.exit("out of order")
            self.last_id = held[-1].message.message_id
            self.count += len(held)
            broker.messaging.settlement.acknowledge(held)
        broker.messaging.core.turn.mark_queue(broker.queue)


def templates(size: int) -> list[bytes]:
    """Messages as a JMS client sends them, whose bodies are text of the kind that messages have."""
    rng = random.Random(1)
    buffers = []
    for number in range(5000):
        body = b""
        while len(body) < size:
            body += f'{{"{rng.choice(WORDS)}":"{rng.choice(WORDS)}","{rng.choice(WORDS)}":{rng.randrange(100000)}}}'.encode()
        properties = {KEY_ROUTING_TYPE: (BYTE, 1), "kind": (STRING, rng.choice(WORDS)), "number": (LONG, number)}
        timestamp = 1_700_000_000_000 + rng.randrange(10_000)
        buffers.append(encode_message(CoreMessage(address="q", durable=True, timestamp=timestamp, properties=properties, body=body[:size])))
    return buffers


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024**2


def send_all(broker: Broker, count: int, size: int, peak: list[float]) -> float:
    buffers = templates(size)
    context = OperationContext(broker.store)
    send, next_id = broker.messaging.sending.send, broker.store.next_id
    sent = 0

    def some() -> None:
        for number in range(sent, min(sent + SENT_PER_TURN, count)):
            send(Message.received(buffers[number % len(buffers)], next_id()), "q", None, 1, context)

    began = time.monotonic()
    while sent < count:
        broker.turn(some)
        sent = min(sent + SENT_PER_TURN, count)
        while broker.store.backlog > BACKLOG_MAX:
            broker.turn(lambda: None, wait=True)
        if sent % 100_000 == 0:
            peak.append(resident_mib())
    while broker.store.synced < broker.store.ticket():
        broker.turn(lambda: None, wait=True)
    return time.monotonic() - began


def take_all(broker: Broker, count: int, peak: list[float]) -> float:
    taker = Taker()
    began = time.monotonic()
    broker.queue.add_consumer(taker)
    turns = 0
    while taker.count < count:
        broker.turn(taker.settle, broker, wait=not taker.held and broker.store.synced < broker.store.ticket())
        turns += 1
        if turns % 100 == 0:
            peak.append(resident_mib())
    while broker.store.synced < broker.store.ticket():
        broker.turn(lambda: None, wait=True)
    return time.monotonic() - began


def run(count: int, size: int, compress: bool, folder: Path) -> str:
    peak = [resident_mib()]
    broker = Broker(folder, compress)
    sending = send_all(broker, count, size, peak)
    pages = list((folder / "paging").rglob("*.page"))
    stored = sum(file.stat().st_size for file in pages)
    if broker.queue.message_count != count:
        sys.exit(f"{broker.queue.message_count} messages instead of {count}")
    broker.stop()
    began = time.monotonic()
    broker = Broker(folder, compress)
    restarting = time.monotonic() - began
    taking = take_all(broker, count, peak)
    broker.turn(lambda: None)
    broker.stop()
    left = list((folder / "paging").rglob("*.page"))
    if left:
        sys.exit(f"{len(left)} pages are left")
    return (
        f"| {count:,} x {size} B | {'lz4' if compress else 'plain'} | {count / sending:,.0f} | {count / taking:,.0f} | "
        f"{max(peak):.0f} MiB | {len(pages)} | {stored / 1024**2:,.0f} MiB | {restarting:.2f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of the body")
    parser.add_argument("--compress", action="store_true", help="run again with packed pages")
    parser.add_argument("--folder", type=Path, help="where the data goes; default: a temporary folder")
    options = parser.parse_args()
    print("| messages | pages | in/s | out/s | resident | files | on disk | restart |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for compress in (False, True) if options.compress else (False,):
        folder = Path(tempfile.mkdtemp(prefix="paging-", dir=options.folder))
        try:
            print(run(options.messages, options.size, compress, folder), flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
