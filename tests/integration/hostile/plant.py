"""A broker process, a client that behaves beside it, and what is watched of both.

``MQBROKER_HOSTILE=full`` runs the attacks in full size and with Artemis's times; without it they are small.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, SESSION_CHANNEL, FrameSplitter, frame
from tests.integration.brokers import Broker, environment

FULL = os.environ.get("MQBROKER_HOSTILE") == "full"
ROOT = Path(__file__).resolve().parents[3]
TTL_MS = 60_000 if FULL else 1000
"""What an attacker asks for in its first ping."""
HANDSHAKE_SECONDS = 10 if FULL else 2
PATIENCE_SECONDS = 30.0
"""Beside the time that the broker may take: the machine may be slow."""
MIB = 1024 * 1024

# Recorded conversations of other brokers leave queues of notifications behind, which gather messages until the TTL is over: that is what
# the limit of an address is for.
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>hostile</name>
<security-enabled>false</security-enabled>
<journal-type>NIO</journal-type>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<journal-file-size>2M</journal-file-size>
<connection-ttl-check-interval>{check}</connection-ttl-check-interval>
<address-settings><address-setting match="activemq.notifications">
<max-size-bytes>2M</max-size-bytes><address-full-policy>DROP</address-full-policy>
</address-setting></address-settings>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:0?protocols=CORE;handshake-timeout={handshake}</acceptor></acceptors>
</core></configuration>
"""


class Plant:
    """The broker under attack.  ``baseline`` is its resident memory in bytes before the first attack."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-hostile-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        configuration = self.folder / "broker.xml"
        check = 2000 if FULL else 200
        configuration.write_text(CONFIGURATION.format(folder=self.folder / "data", check=check, handshake=HANDSHAKE_SECONDS))
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        self._broker = Broker([*twistd, "mqbroker", "--config", str(configuration)], self.folder)
        self.port = int(self._broker.url.rpartition(":")[2])
        self.pid: int = self._broker._process.pid
        path = {**environment(), "PYTHONPATH": os.pathsep.join((str(ROOT), environment()["PYTHONPATH"]))}
        self._bystander = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.hostile.bystander", self._broker.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=path,
        )
        atexit.register(self.stop)
        self._hosts = itertools.count(2)
        deadline = time.monotonic() + PATIENCE_SECONDS
        warm = 0
        while warm < 50:
            warm += int(self.report()["count"])
            assert time.monotonic() < deadline, "the client that behaves makes no round trips"
            time.sleep(0.1)
        self.baseline = self.memory()

    def stop(self) -> None:
        """End both processes."""
        self._bystander.kill()
        self._bystander.wait(10)
        self._broker.stop()

    # --- what is watched

    def report(self) -> dict[str, Any]:
        """What the client that behaves has met since the last call."""
        assert self._bystander.stdin is not None and self._bystander.stdout is not None
        self._bystander.stdin.write("\n")
        self._bystander.stdin.flush()
        report: dict[str, Any] = json.loads(self._bystander.stdout.readline())
        return report

    def memory(self) -> int:
        """Resident memory of the broker, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def forget_peak(self) -> None:
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak(self) -> int:
        """The greatest resident memory since :meth:`forget_peak`, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024

    def files(self) -> int:
        """Open files of the broker."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log(self, start: int = 0) -> str:
        return self._broker._log.read_bytes()[start:].decode("utf-8", "replace")

    def log_size(self) -> int:
        return self._broker._log.stat().st_size

    def next_host(self) -> str:
        """An address of this machine that no other attack has: the broker counts reasons by host."""
        number = next(self._hosts)
        return f"127.0.{number // 250}.{number % 250 + 1}"


@functools.cache
def plant() -> Plant:
    """The one broker of the test process."""
    return Plant()


class Attacker:
    """A socket of a peer that does as it likes; ``host`` is where it comes from."""

    def __init__(self, port: int, host: str, *, preamble: bool = True, ttl_ms: int | None = None) -> None:
        self.socket = socket.socket()
        with contextlib.suppress(OSError):
            self.socket.bind((host, 0))
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter(1 << 30)
        self._inbox: list[bytes] = []
        if preamble:
            self.send(PREAMBLE)
        if ttl_ms is not None:
            self.send_packet(wire.Ping(ttl_ms), PING_CHANNEL)

    def send(self, data: bytes, seconds: float = PATIENCE_SECONDS) -> bool:
        """Send; False when the broker has closed the connection, or takes no more within the time."""
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def send_packet(self, packet: wire.Packet, channel: int = 10) -> bool:
        return self.send(frame(packet.TYPE, channel, wire.encode_packet(packet, 136)))

    def login(self, channel: int = 10, *, name: str = "", **request: Any) -> bytes:
        """Open a session; returns the frame of the answer."""
        values: dict[str, Any] = {"auto_commit_sends": True, "auto_commit_acks": True, **request}
        packet = wire.CreateSession(name or f"{id(self)}-{channel}-{time.monotonic_ns()}", channel, 136, None, None, **values)
        self.send_packet(packet, SESSION_CHANNEL)
        return self.receive(SESSION_CHANNEL)

    def receive(self, channel: int) -> bytes:
        """The next frame on a channel; those on others are thrown away.  Empty when the connection is closed."""
        self.socket.settimeout(PATIENCE_SECONDS)
        while True:
            while self._inbox:
                data = self._inbox.pop(0)
                if int.from_bytes(data[5:13], "big", signed=True) == channel:
                    return data
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                raise AssertionError("no answer") from None
            except OSError:
                return b""
            if not data:
                return b""
            self._inbox += self._splitter.feed(data)

    def call(self, packet: wire.Packet, channel: int = 10) -> bytes:
        self.send_packet(packet, channel)
        return self.receive(channel)

    def dropped(self, seconds: float) -> bool:
        """Has the broker closed the connection, or does it within this time?  What it sends meanwhile is thrown away."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(1 << 20):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True
        return False

    def close(self) -> None:
        self.socket.close()
