"""The two brokers side by side: start-up time until the first answer, memory and CPU seconds read from /proc."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from tests.interop.artemis import ArtemisBroker
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer

ANSWER_SECONDS = 60.0
# the preamble and one PING with a time to live of 60 s; a broker that is ready echoes the PING
PREAMBLE_AND_PING = b"ARTEMIS" + bytes.fromhex("000000110a0000000000000000000000000000ea60")


@dataclass(frozen=True)
class Usage:
    """What a process used up to now: resident memory and its peak in MiB, CPU time in seconds (all threads, user and system)."""

    resident_mib: float
    peak_mib: float
    cpu_seconds: float


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    sizes = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(("VmRSS:", "VmHWM:")):
            sizes[line[:5]] = int(line.split()[1]) / 1024
    return Usage(sizes["VmRSS"], sizes["VmHWM"], ticks / os.sysconf("SC_CLK_TCK"))


def wait_for_answer(port: int) -> None:
    """Return when the broker on 127.0.0.1:port has answered a PING; raises TimeoutError after a minute."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(PREAMBLE_AND_PING)
                if connection.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.01)
    raise TimeoutError(f"no answer on port {port}")


@dataclass(frozen=True)
class Started:
    """A running broker, how long it took from exec to its first answer (s), and its memory then (MiB)."""

    peer: Peer
    start_seconds: float
    resident_mib: float


def start(name: str, folder: Path) -> Started:
    peer: Peer = MqbrokerProcess(folder) if name == "mqbroker" else ArtemisBroker(folder, as_created=True)
    begin = time.monotonic()
    peer.start()
    wait_for_answer(peer.port)
    return Started(peer, time.monotonic() - begin, usage(peer.pid).resident_mib)
