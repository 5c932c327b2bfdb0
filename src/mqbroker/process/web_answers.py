"""Does a web server answer?  The first bytes of its answer tell it; nothing more is read."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

_BEGINNING = b"HTTP/"


class _Asking(Protocol):
    def __init__(self, request: bytes, answered: Deferred[None]) -> None:
        self._request = request
        self._answered = answered
        self._data = b""

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        self._data += data[: len(_BEGINNING)]
        if len(self._data) >= len(_BEGINNING):
            is_http = self._data.startswith(_BEGINNING)
            self._end(None if is_http else OSError("the answer is not HTTP"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._end(reason.value)

    def _end(self, reason: BaseException | None) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()
        if not self._answered.called:
            if reason is None:
                self._answered.callback(None)
            else:
                self._answered.errback(reason)


def web_answer(reactor: Any, host: str, port: int, request: bytes, *, secure: bool) -> Deferred[None]:
    """Send ``request``; results in None when an answer of HTTP begins, whatever its status.  Cancelling it ends the connection."""
    protocols: list[_Asking] = []

    def cancel(_: object) -> None:
        connecting.cancel()
        for each in protocols:
            if each.transport is not None:
                each.transport.abortConnection()  # type: ignore[attr-defined]

    answered: Deferred[None] = Deferred(cancel)

    class Connecting(Factory):
        noisy = False

        def buildProtocol(self, address: IAddress | None) -> _Asking:
            protocols.append(_Asking(request, answered))
            return protocols[0]

    factory: Any = Connecting()
    if secure:
        from twisted.internet.ssl import optionsForClientTLS
        from twisted.protocols.tls import TLSMemoryBIOFactory

        factory = TLSMemoryBIOFactory(optionsForClientTLS(host), True, factory)
        factory.noisy = False
    connecting: Deferred[Any] = HostnameEndpoint(reactor, host, port).connect(factory)
    connecting.addErrback(lambda failure: None if answered.called else answered.errback(failure))
    return answered
