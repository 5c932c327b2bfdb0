"""What is measured by amount and not by time: start-up, idle connections, queues, a million messages, ten million; and the bare disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.brokers import AS_CREATED, PeakMemory, Started, start_peer, usage
from tests.bench.load_program import LoadProgram
from tests.bench.results import LoadFailed
from tests.interop.instance import Additions
from tests.interop.peers import Peer

PUT_THREADS = 2
MESSAGE_SIZE = 100
SLOWEST_PER_SECOND = 4_000  # a broker below this rate fails the row, so that it ends
BARE_FILE_BYTES = 10 << 20
BARE_WRITE_BYTES = 4096

PAGING = Additions(
    address_settings="""         <address-setting match="bench.amount">
            <address-full-policy>PAGE</address-full-policy>
            <max-size-bytes>20971520</max-size-bytes>
            <page-size-bytes>10485760</page-size-bytes>
            <max-read-page-bytes>20971520</max-read-page-bytes>
         </address-setting>""",
    expiry_scan_ms=AS_CREATED.expiry_scan_ms,
)
"""For ten million messages: the queue keeps 20 MiB in memory, the rest in pages."""


@dataclass(frozen=True)
class Sizes:
    """How many of each; the quick form has small ones."""

    connections: int = 2_000
    queues: int = 1_000
    messages: int = 1_000_000


def ignore(event: str, line: Mapping[str, Any]) -> None:
    """For workloads whose events matter to nobody."""


def limit_of(count: int) -> int:
    """Seconds that a load of so many messages may take."""
    return 30 + count // SLOWEST_PER_SECOND


def held(program: LoadProgram, started: Started, workload: str, count: int) -> tuple[dict[str, Any], float]:
    """Result of a workload that holds `count` of something, and what each cost the broker in KiB of resident memory."""
    before = usage(started.peer.pid).resident_mib
    costs: list[float] = []

    def measure(event: str, line: Mapping[str, Any]) -> None:
        if event == "holding":
            costs.append((usage(started.peer.pid).resident_mib - before) * 1024 / count)

    limit = 30 + count // 50
    result = program.run(started.peer.url, workload, {"count": count, "limit": limit}, limit, measure)
    if not costs:
        raise LoadFailed(f"{workload}: nothing was held")
    return result, costs[0]


def idle(program: LoadProgram, started: Started, sizes: Sizes) -> dict[str, float]:
    result, each = held(program, started, "idle", sizes.connections)
    return {"kib_each": each, "connects_per_second": sizes.connections / result["seconds"]}


def queues(program: LoadProgram, started: Started, sizes: Sizes) -> dict[str, float]:
    result, each = held(program, started, "queues", sizes.queues)
    return {"kib_each": each, "queues_per_second": sizes.queues / result["seconds"]}


def move(program: LoadProgram, peer: Peer, workload: str, count: int, threads: int = PUT_THREADS, size: int = MESSAGE_SIZE) -> float:
    """Messages per second of putting or draining so many."""
    limit = limit_of(count)
    options = {"count": count, "threads": threads, "size": size, "limit": limit}
    result = program.run(peer.url, workload, options, limit, ignore)
    return float(result["messages"] / result["seconds"])


def million(program: LoadProgram, started: Started, sizes: Sizes, restarted: Callable[[Started], None]) -> dict[str, float]:
    """Put and drained while the broker is warm; then put again, kill -9, start. `restarted` hears of the new process."""
    peer, count = started.peer, sizes.messages
    put = move(program, peer, "put", count)
    full = usage(peer.pid).resident_mib
    drain = move(program, peer, "drain", count)
    move(program, peer, "put", count)
    peer.kill()
    again = start_peer(peer)
    restarted(again)
    some = min(count, 1000)
    move(program, peer, "drain", some, threads=1)
    return {
        "put_per_second": put,
        "drain_per_second": drain,
        "bytes_each": (full - started.resident_mib) * 1048576 / count,
        "resident_mib": full,
        "restart_s": again.start_seconds,
        "restart_resident_mib": again.resident_mib,
    }


def ten_million(program: LoadProgram, peer: Peer, count: int) -> dict[str, float]:
    """All put first, then all drained, with the greatest memory of the broker meanwhile."""
    with PeakMemory(peer.pid) as peak:
        put = move(program, peer, "put", count)
        drain = move(program, peer, "drain", count)
    return {"put_per_second": put, "drain_per_second": drain, "peak_mib": peak.mib}


def bare_loop(folder: Path, seconds: float) -> dict[str, float]:
    """What the disk alone does: 4 KiB written over a file that exists, then fdatasync, one after the other."""
    block = b"\xa5" * BARE_WRITE_BYTES
    handle = os.open(folder / "bare", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(handle, b"\0" * BARE_FILE_BYTES)
        os.fsync(handle)
        times = []
        begin = now = time.monotonic()
        while now - begin < seconds:
            os.pwrite(handle, block, (len(times) * BARE_WRITE_BYTES) % BARE_FILE_BYTES)
            os.fdatasync(handle)
            before, now = now, time.monotonic()
            times.append(now - before)
    finally:
        os.close(handle)
        (folder / "bare").unlink()
    times.sort()
    return {
        "per_second": len(times) / (now - begin),
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[len(times) * 99 // 100] * 1000,
    }
