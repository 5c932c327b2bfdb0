"""What it costs to start with a full journal: `python -m tests.bench.restart --messages 1000000`.

One process fills a store; fresh ones read it back, as a starting broker does, and take the messages over into queues.  CPU time is told
beside elapsed time, because it hardly depends on what else the machine does.  Needs no other broker.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqbroker.node.messaging import messaging_of
from mqbroker.process.garbage import collection_paused
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.settings import StoreSettings
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import STRING

BATCH = 200
ANYCAST = 1
CLIENT_ID = "0b9c6a1e-5d5e-11ee-9a2b-0242ac120002"


class Calls:
    """Clock and disk writer in one: what was asked for happens when :meth:`run` is called.  Periodic work never comes due."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Calls:
        if not seconds:
            self._due.append(lambda: function(*args))
        return self

    def cancel(self) -> None:
        """Nothing is taken back: what comes due too often does nothing."""

    @property
    def idle(self) -> bool:
        return False

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self._due.append(lambda: done(run_steps(steps)))

    def run(self) -> None:
        while self._due:
            self._due.popleft()()


def opened(folder: Path, calls: Calls) -> FileStore:
    settings = StoreSettings(str(folder / "journal"), str(folder / "bindings"), str(folder / "large-messages"))
    store = FileStore(settings, LocalFileSystem(), calls, calls, os.urandom)
    store.open()
    return store


def fill(folder: Path, messages: int, queues: int, body: int) -> None:
    """Store ``messages`` of ``body`` bytes as a JMS client would send them, over ``queues`` queues in turn."""
    calls = Calls()
    store = opened(folder, calls)
    store.load()
    names = [f"bench.restart.{number}" for number in range(queues)]
    batch = store.begin()
    queue_ids = []
    for name in names:
        batch.put_address(AddressRecord(store.next_id(), name, frozenset({ANYCAST})))
        queue_ids.append(store.next_id())
        batch.put_queue(QueueRecord(queue_ids[-1], name, name, ANYCAST))
    store.commit(batch)
    content = bytes(body)
    for first in range(0, messages, BATCH):
        for number in range(first, min(first + BATCH, messages)):
            properties = {"__AMQ_CID": (STRING, CLIENT_ID)}
            user_id = number.to_bytes(16, "big")
            core = CoreMessage(store.next_id(), names[number % queues], user_id, 4, True, 0, calls.wall_ms(), 4, properties, content)  # type: ignore[arg-type]
            batch = store.begin()
            batch.add_message(Message.of(core), [queue_ids[number % queues]])
            store.commit(batch)
        store.flush()
        calls.run()
    store.abort()
    calls.run()


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def load(folder: Path) -> dict[str, float]:
    """Read the store as a starting broker does; returns the figures."""
    calls = Calls()
    store = opened(folder, calls)
    gc.collect()
    before = resident()
    began = time.perf_counter(), time.process_time()
    with collection_paused():
        recovered = store.load()
        read = time.perf_counter(), time.process_time()
        count = len(recovered.messages)
        messaging = messaging_of(Configuration(), store, recovered, calls, lambda: 0.5)
        del recovered
        gc.freeze()
    ended = time.perf_counter(), time.process_time()
    after = resident()
    store.abort()
    calls.run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    waiting = sum(queue.message_count for queue in messaging.core.queues.values())
    assert waiting == count
    return {
        "messages": count,
        "seconds": ended[0] - began[0],
        "cpu_seconds": ended[1] - began[1],
        "read_cpu_seconds": read[1] - began[1],
        "bytes_per_message": (after - before) / max(count, 1),
        "peak_bytes_per_message": (peak - before) / max(count, 1),
    }


def in_fresh_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.bench.restart", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.restart", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=100, help="of each message's body (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="starts that are measured (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the store is kept for further runs; one that is there is not filled again")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, float]]:
    options = parsed(arguments)
    if options.load is not None:
        figures = load(options.load)
        print(json.dumps(figures))
        return [figures]
    with tempfile.TemporaryDirectory(prefix="mqbroker-restart-") as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "journal").exists():
            fill(folder, options.messages, options.queues, options.bytes)
        rounds: list[dict[str, float]] = [json.loads(in_fresh_process("--load", str(folder))) for _ in range(options.rounds)]
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        print(f"{name:24} {median(values):>12,.2f}  [{min(values):,.2f}–{max(values):,.2f}]")
    return rounds


if __name__ == "__main__":
    main()
