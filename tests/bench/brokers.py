"""The two brokers side by side: start-up time until the first answer, memory and CPU seconds read from /proc."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests import compiled
from tests.interop.artemis import ArtemisBroker
from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer
from tests.interop.processes import answers

NAMES = ("mqbroker", "artemis")
COMPILED = "mqbroker-compiled"
"""mqbroker with its compiled form (tests/compiled.py)."""
BEFORE = "before"
"""mqbroker as it stands in the folder ``.before`` of the checkout."""
BEFORE_TREE = compiled.ROOT / ".before"
ANSWER_SECONDS = 60.0

AS_CREATED = Additions(expiry_scan_ms=30_000)
"""Expired messages are looked for as often as with `artemis create`, and not as often as the tests need it."""


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


class PeakMemory:
    """The greatest resident memory (MiB) of a process while this context is open."""

    def __init__(self, pid: int, every: float = 0.2) -> None:
        self.mib = 0.0
        self._pid = pid
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self._look()

    def _look(self) -> None:
        try:
            self.mib = max(self.mib, usage(self._pid).resident_mib)
        except (OSError, KeyError):  # the process has ended
            self._over.set()

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._look()
        self._over.set()
        self._thread.join()


def wait_for_answer(port: int, seconds: float = ANSWER_SECONDS) -> None:
    """Return when the broker on 127.0.0.1:port has answered a PING; raises TimeoutError after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answers(port):
            return
        time.sleep(0.01)
    raise TimeoutError(f"no answer on port {port}")


@dataclass(frozen=True)
class Started:
    """A running broker, how long it took from exec to its first answer (s), and its memory then (MiB)."""

    peer: Peer
    start_seconds: float
    resident_mib: float


def start_peer(peer: Peer) -> Started:
    """Start a broker whose folder exists, anew or again."""
    begin = time.monotonic()
    peer.start()
    wait_for_answer(peer.port)
    return Started(peer, time.monotonic() - begin, usage(peer.pid).resident_mib)


def as_installed(folder: Path) -> dict[str, str]:
    """The environment for a process that keeps its compiled modules below this folder."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def new_broker(name: str, folder: Path, additions: Additions = AS_CREATED, port: int = 0) -> Peer:
    """A broker that is not started; `additions` and `port` (0: it finds one) are for the broker.xml of mqbroker.

    The modules of mqbroker are compiled once and kept beside its folder, as an installation has them.
    """
    if name == "artemis":
        return ArtemisBroker(folder, as_created=True)
    environment = as_installed(folder.parent)
    if name == COMPILED:
        environment["PYTHONPATH"] = compiled.python_path()
    if name == BEFORE:
        environment["PYTHONPATH"] = compiled.python_path(BEFORE_TREE)
    return MqbrokerProcess(folder, additions, port, environment=environment)


def start(name: str, folder: Path) -> Started:
    return start_peer(new_broker(name, folder))
