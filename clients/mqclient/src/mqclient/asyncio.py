"""The core client under asyncio: awaitables are tasks.

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

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import txaio.aio

from mqclient.core.connection.configuration import IN_VM_CONNECTOR, one_kind
from mqclient.core.connection.connection import describe
from mqclient.core.discovery.broadcasting import Broadcasts
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Link, LinkHandler
from mqclient.core.settings import LocatorSettings
from mqclient.errors import NotConnectedError
from mqclient.invm import SERVERS, server_number
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.shells.asyncio_network import AsyncioLink, AsyncioNetwork, LinkProtocol
from mqclient.shells.host import HostRuntime, make_locator, tcp_target, unreachable
from mqclient.tls.context import ssl_context
from mqclient.wire.primitives import TransportConfiguration

T = TypeVar("T")
_OF_A_HANDSHAKE = (TimeoutError, ssl.SSLError, ConnectionResetError, ConnectionAbortedError)


def server_locator(
    brokers: str | Sequence[TransportConfiguration] | DiscoveryGroupConfiguration,
    settings: LocatorSettings | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Locator:
    """A locator for a connection URL, or for connectors or a discovery group and settings.  ``loop``: None takes the running one.

    Raises ``ValueError`` for a URL or a setting that cannot be used; a URL together with settings is refused.
    """
    return make_locator(AsyncioRuntime(loop if loop is not None else asyncio.get_running_loop()), brokers, settings)


def server_locator_with_ha(
    *brokers: TransportConfiguration | DiscoveryGroupConfiguration,
    settings: LocatorSettings | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Locator:
    """A locator for some connectors or one discovery group whose connections also try the backup of their broker (``ha`` is set)."""
    return server_locator(one_kind(brokers), replace(settings or LocatorSettings(), ha=True), loop=loop)


def server_locator_without_ha(
    *brokers: TransportConfiguration | DiscoveryGroupConfiguration,
    settings: LocatorSettings | None = None,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Locator:
    """As :func:`server_locator_with_ha`, with ``ha`` not set."""
    return server_locator(one_kind(brokers), replace(settings or LocatorSettings(), ha=False), loop=loop)


class AsyncioRuntime(HostRuntime):
    """Implements :class:`mqclient.core.runtime.Runtime`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._framework = txaio.aio.with_config(loop=loop)  # type: ignore[no-untyped-call]
        self._broadcasts = Broadcasts(self, AsyncioNetwork(self, loop))
        # The loop itself keeps weak references only.
        self._tasks: set[asyncio.Task[Any]] = set()

    def now(self) -> float:
        return self.loop.time()

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        return self.loop.call_later(max(seconds, 0.0), function, *args)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self.loop.call_soon(function, *args)

    def create_future(self) -> Any:
        return self._framework.create_future()

    def resolve(self, future: Any, value: Any) -> None:
        if not future.done():
            self._framework.resolve(future, value)

    def reject(self, future: Any, error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def is_done(self, future: Any) -> bool:
        return bool(future.done())

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if self.loop.is_closed():
            coroutine.close()
            raise NotConnectedError("the event loop of this connection is closed")
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Link]:
        return self.spawn(self._connect(connector, handler, timeout))

    def _enter(self, function: Callable[..., object], *args: object) -> None:
        """Call in the loop's thread, from any."""
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    async def _connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Link:
        if connector.factory_class_name == IN_VM_CONNECTOR:
            return SERVERS.connect(server_number(connector.parameters), self._enter, handler)
        target = tcp_target(connector, timeout)
        tls = target.tls
        try:
            async with asyncio.timeout(target.seconds):
                _, protocol = await self.loop.create_connection(
                    lambda: LinkProtocol(self.loop, handler, target.no_delay),
                    target.host,
                    target.port,
                    ssl=ssl_context(tls) if tls is not None else None,
                    server_hostname=tls.host if tls is not None else None,
                    local_addr=target.local,
                )
        except OSError as error:
            in_handshake = tls is not None and isinstance(error, _OF_A_HANDSHAKE)
            raise unreachable(connector, error, in_handshake) from error
        return AsyncioLink(protocol, describe(connector))
