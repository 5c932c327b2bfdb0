"""Child processes of the interop suite: started in a folder of their own, watched through their output, ended by process id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from mqclient.wire import packets as wire
from mqclient.wire.frames import PREAMBLE, SESSION_CHANNEL, FrameSplitter, frame
from mqclient.wire.packets import VERSION_MAX
from tests.interop.instance import PASSWORD, USER

STOP_SECONDS = 20.0  # an orderly stop that takes longer is a defect of the broker under test
TAIL_LINES = 60
SESSION_OF_A_LOOK = 10
"""The channel of the session by which somebody looks whether a broker is active."""


class ProcessFailed(Exception):
    """A child process ended, or did not say what was expected in time; the message carries the end of its output."""


_HOLDERS: list[socket.socket] = []
"""They last as long as this process: brokers start seconds later, and again after a kill."""


def free_port() -> int:
    """A loopback port that the system gives to nobody else from now on; a broker may listen on it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _HOLDERS.append(holder)
    return int(holder.getsockname()[1])


# the preamble and one PING with a time to live of 60 s; a broker that is ready echoes the PING
PREAMBLE_AND_PING = PREAMBLE + bytes.fromhex("000000110a0000000000000000000000000000ea60")


def answers(port: int, seconds: float = 1.0) -> bool:
    """Does a broker on 127.0.0.1:port answer a PING within `seconds`?  So does one of a pair that only seeks to be active."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(PREAMBLE_AND_PING)
        return bool(connection.recv(64))
    return False


def serves(port: int, seconds: float = 1.0) -> bool:
    """Is a broker on 127.0.0.1:port active, so that it answers a request for a session within `seconds`, if only by refusing the login?"""
    request = wire.CreateSession(uuid.uuid4().hex, SESSION_OF_A_LOOK, VERSION_MAX, USER, PASSWORD)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.settimeout(seconds)
        connection.sendall(PREAMBLE + _framed(request, SESSION_CHANNEL))
        answer = _answer(connection, SESSION_CHANNEL)
        if answer == wire.CreateSessionResponse.TYPE:
            # A session that is left behind would be a warning in the log of a Java broker.
            connection.sendall(_framed(wire.SessionClose(), SESSION_OF_A_LOOK))
            _answer(connection, SESSION_OF_A_LOOK)
        return answer in (wire.CreateSessionResponse.TYPE, wire.ExceptionResponse.TYPE)
    return False


def _framed(packet: wire.Packet, channel: int) -> bytes:
    return frame(packet.TYPE, channel, wire.encode_packet(packet, VERSION_MAX))


def _answer(connection: socket.socket, channel: int) -> int | None:
    """The type of the next packet on `channel`; None when the connection ends before."""
    splitter = FrameSplitter()
    while data := connection.recv(4096):
        for received in splitter.feed(data):
            kind, at = struct.unpack_from(">bq", received, 4)
            if at == channel:
                return int(kind)
    return None


def wait_for_port(port: int, seconds: float, alive: ManagedProcess) -> None:
    """Return when 127.0.0.1:port accepts; raises ProcessFailed when the process died or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        alive.raise_if_dead()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise ProcessFailed(f"port {port} did not open within {seconds} s\n{alive.tail()}")


class ManagedProcess:
    """One child process whose output (both streams) is kept in memory, line by line."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.started_at = time.monotonic()
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        for line in stream:
            with self._news:
                self._lines.append(line.rstrip("\n"))
                self._news.notify_all()
        stream.close()
        with self._news:
            self._news.notify_all()

    def output(self) -> list[str]:
        with self._news:
            return list(self._lines)

    def tail(self) -> str:
        return "\n".join(self.output()[-TAIL_LINES:])

    def raise_if_dead(self) -> None:
        status = self._process.poll()
        if status is not None:
            self._reader.join(2)
            raise ProcessFailed(f"process ended with status {status}\n{self.tail()}")

    def wait_for_line(self, text: str, seconds: float, seen: int = 0) -> str:
        """The first output line after `seen` ones that contains `text`; raises ProcessFailed when it does not come within `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            with self._news:
                for line in self._lines[seen:]:
                    if text in line:
                        return line
                seen = len(self._lines)
                remaining = deadline - time.monotonic()
                if remaining > 0:
                    self._news.wait(min(remaining, 0.2))
            if time.monotonic() >= deadline:
                raise ProcessFailed(f"no line with {text!r} within {seconds} s\n{self.tail()}")
            if seen == len(self.output()) and self.has_ended():
                self._reader.join(2)  # the last lines come just before the end, and may not be read yet
                if seen == len(self.output()):
                    self.raise_if_dead()

    def wait(self, seconds: float) -> int:
        """Exit status; raises ProcessFailed when the process still runs after `seconds` (it is killed then)."""
        try:
            status = self._process.wait(seconds)
            self._reader.join(5)
            return status
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ProcessFailed(f"still running after {seconds} s, killed\n{self.tail()}") from error

    def stop(self) -> int:
        """Ask for an orderly stop (SIGTERM) and return the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(STOP_SECONDS)

    def hold_up(self) -> None:
        """Let the process do nothing until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(5)
