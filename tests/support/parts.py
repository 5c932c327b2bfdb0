"""The outside world of a broker, in memory and without chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed

from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.administration.registrar import LocalRegistrar
from mqbroker.messaging.ports import Clock
from mqbroker.node.activation import ActiveAtOnce
from mqbroker.node.parts import Observed, Parts
from mqbroker.node.stores import make_store
from mqbroker.server.transport.acceptor import ConnectingServer
from mqbroker.storage.disk.filesystem import FileSystem
from tests.support.diskwriter import WriterInTurns


class KnownListeners:
    """Ways into a server that nobody takes; ``problem`` is raised when they are opened."""

    acceptors = ()

    def __init__(self, server: ConnectingServer, problem: Exception | None = None) -> None:
        self.server = server
        self.is_open = False
        self._problem = problem

    def find(self, name: str) -> None:
        """There are no acceptors to be managed."""

    def open(self) -> None:
        if self._problem is not None:
            raise self._problem
        self.is_open = True

    def serve(self, server: ConnectingServer) -> None:
        self.server = server

    def close(self) -> Deferred[Any]:
        self.is_open = False
        return succeed(None)


class KnownPages:
    """Pages that show nothing, but know whether they are open."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed
        self.is_open = False

    def open(self) -> None:
        self.is_open = True

    def close(self) -> Deferred[Any]:
        self.is_open = False
        return succeed(None)


def no_file(path: str, data: bytes = b"") -> bytes:
    raise FileNotFoundError(path)


def at_once(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """A thread pool that has done its work when it is asked."""
    return maybeDeferred(function, *args)


def make_parts(clock: Clock, file_system: FileSystem, **others: Any) -> Parts:
    """Parts on this clock and disk; ``others`` take the place of what stands here."""
    parts = Parts(
        clock=clock,
        file_system=file_system,
        make_writer=WriterInTurns,
        entropy=bytes,
        random=lambda: 0.5,
        defer_to_thread=at_once,
        read_file=no_file,
        write_file=no_file,
        disk_space=lambda folders: [DiskSpace(folder, 1 << 40, 1 << 40) for folder in folders],
        disk_usage=lambda folder: 0.5,
        make_runtime=_nobody,
        make_store=make_store,
        make_listeners=KnownListeners,
        make_pages=KnownPages,
        activation=ActiveAtOnce(),
        registrar=LocalRegistrar(),
        loop_lag_ms=lambda: None,
        memory_default=lambda: -1,
        version="1.0",
    )
    return replace(parts, **others)


def _nobody() -> Any:
    raise AssertionError("this broker has no links to others")
