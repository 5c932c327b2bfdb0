"""The core client under Twisted: awaitables are Deferreds.

::

    from mqclient.core.api import QueueConfiguration

    async with server_locator("tcp://localhost:61616") as locator:  # closes all that was made with it
        factory = await locator.create_session_factory()
        session = await factory.create_session("user", "password")
        await session.create_queue(QueueConfiguration(name="orders"), if_missing=True)
        producer = await session.create_producer("orders", require_queue=True)
        await producer.send(session.create_text_message("an order"))
        consumer = await session.create_consumer("orders")
        await session.start()
        async for message in consumer:
            print(message.text)
            await message.acknowledge()

:mod:`mqclient.core.api` documents each of these calls.  Times are milliseconds.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import txaio.tx
from cryptography.x509 import load_pem_x509_crl
from OpenSSL import SSL, crypto
from twisted.internet._sslverify import IOpenSSLTrustRoot  # the only place that has the interface
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IDelayedCall, IHandshakeListener, IOpenSSLClientConnectionCreator
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.ssl import (
    AcceptableCiphers,
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from mqclient.core.connection.configuration import IN_VM_CONNECTOR, one_kind
from mqclient.core.connection.connection import describe
from mqclient.core.discovery.broadcasting import Broadcasts
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Link, LinkHandler, wait_at_most
from mqclient.core.settings import LocatorSettings
from mqclient.errors import NotConnectedError
from mqclient.invm import SERVERS, server_number
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.shells.host import HostRuntime, make_locator, tcp_target
from mqclient.shells.twisted_network import LinkProtocol, TwistedLink, TwistedNetwork
from mqclient.tls.tls import TlsSettings, handshake_hint
from mqclient.wire.primitives import TransportConfiguration

T = TypeVar("T")
_EARLY = 0.005
"""Seconds by which a timer may fire before its time without being set again."""


def server_locator(
    brokers: str | Sequence[TransportConfiguration] | DiscoveryGroupConfiguration,
    settings: LocatorSettings | None = None,
    *,
    reactor: Any = None,
) -> Locator:
    """A locator for a connection URL, or for connectors or a discovery group and settings.  ``reactor``: None takes the process's reactor.

    Raises ``ValueError`` for a URL or a setting that cannot be used; a URL together with settings is refused.
    """
    if reactor is None:
        from twisted.internet import reactor  # the choice of a reactor is made by importing it: not before it is needed
    return make_locator(TwistedRuntime(reactor), brokers, settings)


def server_locator_with_ha(
    *brokers: TransportConfiguration | DiscoveryGroupConfiguration, settings: LocatorSettings | None = None, reactor: Any = None
) -> Locator:
    """A locator for some connectors or one discovery group whose connections also try the backup of their broker (``ha`` is set)."""
    return server_locator(one_kind(brokers), replace(settings or LocatorSettings(), ha=True), reactor=reactor)


def server_locator_without_ha(
    *brokers: TransportConfiguration | DiscoveryGroupConfiguration, settings: LocatorSettings | None = None, reactor: Any = None
) -> Locator:
    """As :func:`server_locator_with_ha`, with ``ha`` not set."""
    return server_locator(one_kind(brokers), replace(settings or LocatorSettings(), ha=False), reactor=reactor)


class TwistedRuntime(HostRuntime):
    """Implements :class:`mqclient.core.runtime.Runtime`.

    ``now`` is the monotonic clock (None: the system's; a test passes its fake reactor's ``seconds``).
    """

    def __init__(self, reactor: Any, now: Callable[[], float] | None = None) -> None:
        self.reactor = reactor
        self._log = Logger()
        self._now = now if now is not None else time.monotonic
        self._framework = txaio.tx.with_config(loop=reactor)  # type: ignore[no-untyped-call]
        self._broadcasts = Broadcasts(self, TwistedNetwork(self, reactor))

    def now(self) -> float:
        return self._now()

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> _Timer:
        return _Timer(self, seconds, functools.partial(function, *args))

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self.reactor.callLater(0, function, *args)

    def create_future(self) -> Any:
        return self._framework.create_future()

    def resolve(self, future: Any, value: Any) -> None:
        if not self._framework.is_called(future):
            self._framework.resolve(future, value)

    def reject(self, future: Any, error: BaseException) -> None:
        if not self._framework.is_called(future):
            self._framework.reject(future, error)

    def is_done(self, future: Any) -> bool:
        return bool(self._framework.is_called(future))

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(coroutine)

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Link]:
        return self.spawn(self._connect(connector, handler, timeout))

    def log_failure(self, text: str, error: BaseException) -> None:
        self._log.failure("{text}", Failure(error), text=text)  # type: ignore[no-untyped-call]

    def log_warning(self, text: str) -> None:
        self._log.warn("{text}", text=text)

    async def _connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Link:
        if connector.factory_class_name == IN_VM_CONNECTOR:
            return SERVERS.connect(server_number(connector.parameters), self.reactor.callFromThread, handler)
        target = tcp_target(connector, timeout)
        tls = target.tls
        deadline = self.now() + target.seconds
        endpoint: Any = HostnameEndpoint(self.reactor, target.host, target.port, timeout=target.seconds, bindAddress=target.local)
        kind = LinkProtocol if tls is None else _TlsLinkProtocol
        factory: Any = Factory.forProtocol(lambda: kind(handler, target.no_delay))
        factory.noisy = False  # while a broker is away each attempt would write two lines to the log
        if tls is not None:
            try:
                # Without a clock it would write by the process's reactor, which need not be this one, nor run.
                factory = TLSMemoryBIOFactory(tls_connection_creator(tls), True, factory, clock=self.reactor)
                factory.noisy = False
            except SSL.Error as error:
                raise ValueError(f"the TLS parameters cannot be used together: {error}") from error
        try:
            protocol = await endpoint.connect(factory)
            if tls is not None:
                protocol = protocol.wrappedProtocol
                await self._shake_hands(protocol, describe(connector), deadline)
        except (CancelledError, NotConnectedError):
            raise
        except (ConnectError, OSError) as error:
            raise NotConnectedError(f"{describe(connector)} cannot be reached: {error}") from error
        except Exception as error:
            raise NotConnectedError(f"{describe(connector)} cannot be reached: {type(error).__name__}: {error}") from error
        return TwistedLink(protocol, describe(connector))

    async def _shake_hands(self, protocol: _TlsLinkProtocol, place: str, deadline: float) -> None:
        try:
            await wait_at_most(self, protocol.handshake, max(deadline - self.now(), 0.0), TimeoutError("no answer in time"))
        except CancelledError:
            raise
        except Exception as error:
            text = ", ".join(reason for *_, reason in error.args[0]) if isinstance(error, SSL.Error) and error.args else str(error)
            raise NotConnectedError(f"{place} cannot be reached: {text or 'closed by the peer'}{handshake_hint(error)}") from error
        finally:
            if not protocol.encrypted:  # also when no caller waits any more
                TwistedLink(protocol, place).abort()


class _Timer:
    """A delayed call on the monotonic clock, although the reactor counts on the wall clock.

    When the wall clock steps forward the reactor fires early; then the rest is waited for.
    """

    __slots__ = ("_call", "_due", "_function", "_runtime")

    def __init__(self, runtime: TwistedRuntime, seconds: float, function: Callable[[], Any]) -> None:
        self._runtime = runtime
        self._function = function
        self._due = runtime.now() + seconds
        self._call: IDelayedCall = runtime.reactor.callLater(max(seconds, 0.0), self._fire)

    def cancel(self) -> None:
        self._call.cancel()

    def _fire(self) -> None:
        left = self._due - self._runtime.now()
        if left > _EARLY:
            self._call = self._runtime.reactor.callLater(left, self._fire)
        else:
            self._function()


@implementer(IHandshakeListener)
class _TlsLinkProtocol(LinkProtocol):
    """Tells when the handshake is over; the handler hears of nothing before."""

    def __init__(self, handler: LinkHandler, no_delay: bool) -> None:
        super().__init__(handler, no_delay)
        self.handshake: Deferred[None] = Deferred()
        self.encrypted = False

    def handshakeCompleted(self) -> None:
        self.encrypted = True
        if not self.handshake.called:
            self.handshake.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.encrypted:
            super().connectionLost(reason)
            return
        self.lost = True
        if not self.handshake.called:
            self.handshake.errback(reason)


def tls_connection_creator(settings: TlsSettings) -> IOpenSSLClientConnectionCreator:
    """The creator of TLS connections with these settings."""
    own: Any = None
    extra: dict[str, Any] = {}
    load: Any = Certificate.loadPEM
    if settings.private_key is not None:
        own = PrivateCertificate.loadPEM(settings.certificates[0] + settings.private_key)  # type: ignore[no-untyped-call]
        if settings.certificates[1:]:
            extra["extraCertChain"] = [crypto.load_certificate(crypto.FILETYPE_PEM, each) for each in settings.certificates[1:]]
    if settings.trusted:
        trust: Any = trustRootFromCertificates([load(each) for each in settings.trusted])  # type: ignore[no-untyped-call]
    else:
        trust = platformTrust()  # type: ignore[no-untyped-call]
    policy = settings.policy
    if policy.oldest is not None:
        extra["insecurelyLowerMinimumTo"] = _TLS_VERSIONS[policy.oldest]
    if policy.newest is not None:
        extra["lowerMaximumSecurityTo"] = _TLS_VERSIONS[policy.newest]
    if policy.suites:
        choose: Any = AcceptableCiphers.fromOpenSSLCipherString
        extra["acceptableCiphers"] = choose(":".join(policy.suites))
    trust = _TrustRoot(trust, settings)
    if settings.verify_host and not settings.trust_all:
        creator: IOpenSSLClientConnectionCreator = optionsForClientTLS(settings.host, trust, own, extraCertificateOptions=extra)
        return creator
    if own is not None:
        extra.update(privateKey=own.privateKey.original, certificate=own.original)
    return _Unverified(settings, CertificateOptions(trustRoot=trust, **extra).getContext())


_TLS_VERSIONS = {"TLSv1": TLSVersion.TLSv1_0, "TLSv1.1": TLSVersion.TLSv1_1, "TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}


@implementer(IOpenSSLTrustRoot)
class _TrustRoot:
    """The authorities, and further settings of a context before its use: revocations, suites of TLS 1.3."""

    def __init__(self, authorities: Any, settings: TlsSettings) -> None:
        self._authorities = authorities
        self._settings = settings

    def _addCACertsToContext(self, context: SSL.Context) -> None:
        IOpenSSLTrustRoot(self._authorities)._addCACertsToContext(context)  # type: ignore[no-untyped-call]
        if self._settings.policy.suites_13:
            context.set_tls13_ciphersuites(":".join(self._settings.policy.suites_13).encode())
        store = context.get_cert_store()
        if self._settings.revoked and store is not None:
            for revoked in self._settings.revoked:
                store.add_crl(load_pem_x509_crl(revoked))
            store.set_flags(crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL)


@implementer(IOpenSSLClientConnectionCreator)
class _Unverified:
    """Does not check whose the certificate is (``verifyHost=false``); with ``trustAll=true`` checks nothing at all."""

    def __init__(self, settings: TlsSettings, context: SSL.Context) -> None:
        self._host = settings.host
        self._trust_all = settings.trust_all
        self._context = context

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        connection.set_app_data(tlsProtocol)
        if self._trust_all:
            connection.set_verify(SSL.VERIFY_NONE)
        if not self._host.replace(".", "").isdigit() and ":" not in self._host:
            connection.set_tlsext_host_name(self._host.encode("idna"))
        return connection
