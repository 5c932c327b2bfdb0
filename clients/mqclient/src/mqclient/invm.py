"""Connections to a broker in the same process (``vm://0``): bytes passed from loop to loop, without a socket.

The two ends may live in different threads: each hands bytes to the other through the other's own way in (``call``), such as
``reactor.callFromThread``.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from mqclient.core.runtime import LinkHandler
from mqclient.errors import NotConnectedError

BUFFERED_MAX = 1024 * 1024
"""Bytes on their way to one end of a ``vm://`` connection beyond which the other end is asked to wait."""

Call = Callable[..., object]
"""Calls a function with arguments in the thread of one end, after all earlier calls."""


class ServerEnd(Protocol):
    """The broker's end of a connection; called in the broker's thread."""

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...

    def pause_output(self) -> None: ...

    def resume_output(self) -> None: ...


class InVMAcceptor:
    """The acceptor of a broker.  ``call`` enters its thread; ``accept`` is called there with the transport of each new connection."""

    def __init__(self, call: Call, accept: Callable[[InVMTransport], ServerEnd]) -> None:
        self.call = call
        self.accept = accept


class InVMServers:
    """The brokers of a process by their number."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._acceptors: dict[int, InVMAcceptor] = {}

    def register(self, acceptor: InVMAcceptor, number: int | None = None) -> int:
        """Make a broker known, under the first free number unless one is given; returns the number.  Raises ValueError when it is taken."""
        with self._lock:
            if number is None:
                number = next(free for free in range(len(self._acceptors) + 1) if free not in self._acceptors)
            elif number in self._acceptors:
                raise ValueError(f"a broker with the number {number} runs in this process already")
            self._acceptors[number] = acceptor
            return number

    def unregister(self, number: int) -> None:
        with self._lock:
            self._acceptors.pop(number, None)

    def connect(self, number: int, call: Call, handler: LinkHandler) -> InVMLink:
        """Connect to a broker; ``call`` enters the thread of the client's loop.  Raises NotConnectedError when there is none."""
        with self._lock:
            acceptor = self._acceptors.get(number)
        if acceptor is None:
            raise NotConnectedError(f"no broker with the number {number} runs in this process")
        pipe = _Pipe(acceptor, call, handler)
        acceptor.call(pipe.open)
        return InVMLink(pipe, f"vm://{number}")


SERVERS = InVMServers()
"""The one meeting point of the process: a ``vm://`` URL is nothing but a number, and finds its broker here."""


class _Pipe:
    """Both directions of one connection."""

    def __init__(self, acceptor: InVMAcceptor, client_call: Call, handler: LinkHandler) -> None:
        self._acceptor = acceptor
        self._client_call = client_call
        self._handler = handler
        self._server: ServerEnd | None = None
        self._closed_at_client = False
        self._closed_at_server = False
        self._to_client = 0
        self._paused = False
        self._to_server = 0
        self._client_paused = False
        self._held: list[tuple[Call, Any]] | None = None
        """Calls that wait while the broker does not want to read, with their arguments; None while it reads."""

    # --- in the broker's thread

    def open(self) -> None:
        self._server = self._acceptor.accept(InVMTransport(self))

    def to_server(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append((self.to_server, data))
            return
        if self._server is not None and not self._closed_at_server:
            self._server.received(data)
        self._client_call(self._received, len(data))

    def hold(self) -> None:
        """The broker does not want to read."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for function, argument in held:
            function(argument)

    def client_ended(self, reason: str) -> None:
        """The client has closed its end, after its written data."""
        if self._held is not None:
            self._held.append((self.client_ended, reason))
        else:
            self.end_at_server(reason)

    def end_at_server(self, reason: str) -> None:
        if not self._closed_at_server:
            self._closed_at_server = True
            if self._server is not None:
                self._server.lost(reason)
            self._client_call(self.end_at_client, reason)

    def write_to_client(self, data: bytes) -> None:
        if self._closed_at_server:
            return
        self._to_client += len(data)
        self._client_call(self._deliver, data)
        if self._to_client > BUFFERED_MAX and not self._paused and self._server is not None:
            self._paused = True
            self._server.pause_output()

    def _drained(self, size: int) -> None:
        self._to_client -= size
        if self._paused and self._to_client <= BUFFERED_MAX // 2 and self._server is not None and not self._closed_at_server:
            self._paused = False
            self._server.resume_output()

    # --- in the client's thread

    def _deliver(self, data: bytes) -> None:
        if not self._closed_at_client:
            self._handler.data_received(data)
        self._acceptor.call(self._drained, len(data))

    def write_to_server(self, data: bytes) -> None:
        if self._closed_at_client:
            return
        self._to_server += len(data)
        self._acceptor.call(self.to_server, data)
        if self._to_server > BUFFERED_MAX and not self._client_paused:
            self._client_paused = True
            self._handler.link_paused()

    def _received(self, size: int) -> None:
        self._to_server -= size
        if self._client_paused and self._to_server <= BUFFERED_MAX // 2 and not self._closed_at_client:
            self._client_paused = False
            self._handler.link_resumed()

    def end_at_client(self, reason: str) -> None:
        if not self._closed_at_client:
            self._closed_at_client = True
            self._handler.link_lost(reason)
            self._acceptor.call(self.client_ended, reason)


class InVMLink:
    """The client's end (a :class:`mqclient.core.runtime.Link`)."""

    def __init__(self, pipe: _Pipe, peer: str) -> None:
        self._pipe = pipe
        self.peer = peer

    def write(self, data: bytes) -> None:
        self._pipe.write_to_server(data)

    def close(self) -> None:
        self._pipe._client_call(self._pipe.end_at_client, "closed")

    def abort(self) -> None:
        self.close()


class InVMTransport:
    """The broker's end, with the methods of a socket that the broker uses."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe

    def writeSequence(self, data: list[bytes]) -> None:
        self._pipe.write_to_client(b"".join(data))

    def loseConnection(self) -> None:
        self._pipe._acceptor.call(self._pipe.end_at_server, "closed by the broker")

    def abortConnection(self) -> None:
        self.loseConnection()

    def pauseProducing(self) -> None:
        self._pipe.hold()

    def resumeProducing(self) -> None:
        self._pipe.release()


def server_number(parameters: Any) -> int:
    """The number in the parameters of an in-VM connector (``serverId``)."""
    return int(dict(parameters).get("serverId", 0))
