"""A bridge: a link to another broker, made again whenever it is lost; most bridges take the messages of one queue there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.links import bridge_machine as states
from mqbroker.cluster.links.bridge_machine import BridgeData, make_bridge_machine
from mqbroker.cluster.links.opening import LINK_SETTINGS, LossListener
from mqbroker.config.model.cluster import BridgeConfiguration
from mqbroker.messaging.ports import Cancellable
from mqclient.core.connection.connection import Connection, describe
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime
from mqclient.core.session.session import Session
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError, NotConnectedError, SessionCreationRejectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.topology import Topology, same_connector
from mqclient.wire.packets import REASON_SCALE_DOWN
from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.cluster")

STOP_SECONDS = 60.0
"""Seconds for which a stop waits for outstanding acknowledgements."""
PAUSE_MIN = 0.01
"""Seconds between attempts also where the retry interval is 0."""


def locator_settings(settings: BridgeConfiguration) -> LocatorSettings:
    """The settings of the connections of a bridge."""
    return replace(
        LINK_SETTINGS,
        user=settings.user,
        password=settings.password,
        client_id=settings.client_id,
        call_timeout=settings.call_timeout,
        call_failover_timeout=settings.call_timeout,
        client_failure_check_period=settings.check_period,
        connection_ttl=settings.connection_ttl,
        retry_interval=settings.retry_interval,
        max_retry_interval=settings.max_retry_interval,
        confirmation_window_size=settings.confirmation_window_size,
        producer_window_size=settings.producer_window_size,
        min_large_message_size=settings.min_large_message_size,
    )


class BridgeEvents(Protocol):
    """The user of a bridge.  Each method may stop the bridge at once."""

    def connected(self, factory: SessionFactory) -> Awaitable[None]:
        """The connection is up, and the session for the messages is made.

        No message is forwarded before this is done; an MQError fails the attempt.
        """

    def started(self, session: Session) -> None:
        """Messages are forwarded over ``session`` now (or will be, when the bridge is resumed)."""

    def attempt_failed(self, error: MQError) -> None:
        """The attempt has failed; another one follows."""

    def lost(self, reason: MQError, disconnect: DisconnectReceived | None) -> None:
        """The established link is gone; ``disconnect`` is the peer's notice, None without one.  The bridge tries again."""

    def gave_up(self) -> None:
        """The attempts are used up."""


class Cargo(Protocol):
    """The load that a bridge carries over its links, such as a :class:`~mqbroker.cluster.links.forwarder.Forwarder`."""

    def prepare(self, session: Session) -> None:
        """The session is made; :meth:`attach` follows unless the attempt fails."""

    def attach(self, session: Session) -> None:
        """Begin to use ``session``, which ends with its connection."""

    def detach(self) -> None:
        """The session is gone; nothing happens when there was none."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close_when_settled(self, seconds: float) -> Deferred[None]:
        """Begin nothing more, wait at most ``seconds`` for the answers that are due, and detach."""

    def figures(self) -> dict[str, Any]:
        """The cargo in figures, for management."""


class Bridge:
    """Keeps up a link to another broker for ``cargo``, and makes the link again whenever it is lost.

    ``connectors`` gives the places to try, in order, each time that a link is made.  The ``settings`` of the link count: credentials,
    intervals, timeouts, attempts, sizes.  After a loss ``reconnect_attempts_same_node`` attempts go to the lost broker before others are
    tried, with ``ha`` also to its announced backup.  With ``follows`` and a target that leaves by scale-down, the bridge first tries the
    broker that took over the messages of the target.
    ``topology`` and ``greet``: see :class:`mqclient.core.factories.locator.Locator`.
    """

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        connectors: Callable[[], Sequence[TransportConfiguration]],
        settings: BridgeConfiguration,
        cargo: Cargo,
        events: BridgeEvents,
        *,
        follows: bool = False,
        topology: Topology | None = None,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.cargo = cargo
        self.state = states.stopped.name
        """The name of the machine's state."""
        self._runtime = runtime
        self._connectors = connectors
        self._settings = settings
        self._events = events
        self._follows = follows
        self._topology = topology
        self._greet = greet
        self._attempt = 0
        self._locator: Locator | None = None
        self._factory: SessionFactory | None = None
        self._session: Session | None = None
        self._paused = False
        self._established = False
        self._failures = 0
        """The number of failed attempts since the last success."""
        self._hurries_from = 0.0
        """The time from which :meth:`try_now` may shorten a wait again (seconds of the runtime's clock)."""
        self._last: list[TransportConfiguration] = []
        """The connectors of the last target, or of the broker that took its place, and of its backup."""
        self._stopping: list[Deferred[None]] = []
        self._restart = False
        self._machine = make_bridge_machine(BridgeData(self))

    # --- requests

    def start(self) -> None:
        """Begin to connect; nothing happens while the bridge runs.  A bridge that has given up has all its attempts again."""
        if self.state == states.failed.name:
            self._failures = 0
        self._machine.start()

    def try_now(self) -> None:
        """The target was heard of: an attempt that the bridge waits for is made in the next turn.

        A wait is shortened once in the time between two attempts, however often the target is heard of.  Nothing changes in other states.
        """
        now = self._runtime.now()
        if self.state == states.waiting.name and now >= self._hurries_from:
            # Otherwise two brokers whose attempts at each other arrive and fail would never wait.
            self._hurries_from = now + self._pause()
            self._machine.target_appeared()

    def stop(self) -> Deferred[None]:
        """Take no more messages, wait up to a minute for outstanding acknowledgements and close the link.

        Cancelling the Deferred ends the wait.
        """
        stopped: Deferred[None] = Deferred(lambda _: self.cargo.detach())
        self._stopping.append(stopped)
        self._restart = False
        self._machine.stop()
        return stopped

    def pause(self) -> None:
        """Keep the link, but take no messages from the queue until :meth:`resume`, also over later links."""
        self._machine.pause()

    def resume(self) -> None:
        self._machine.resume()

    @property
    def connected_to(self) -> TransportConfiguration | None:
        """The connector of the link; None while there is no link."""
        return self._factory.connector if self._factory is not None else None

    def figures(self) -> dict[str, Any]:
        """The figures of the link for management."""
        return {
            "link": self.state,
            "target": describe(self._factory.connector) if self._factory is not None else None,
            "retries": self._failures,
            **self.cargo.figures(),
        }

    # --- effects of the machine

    def entered(self, state: str) -> None:
        self.state = state

    def begin_attempt(self) -> None:
        self._attempt += 1
        self._runtime.spawn(self._try(self._attempt))

    def cancel_attempt(self) -> None:
        self._attempt += 1
        self._drop_locator()

    def schedule_retry(self, pause: float) -> Cancellable:
        return self._runtime.call_later(pause, self._machine.retry_due)

    def forward(self) -> None:
        self._established = True
        self._failures = 0
        session = self._session
        assert session is not None
        self.cargo.attach(session)

    def hold(self) -> None:
        self._paused = True
        self.cargo.pause()

    def release(self) -> None:
        self._paused = False
        self.cargo.resume()

    def tell_started(self) -> None:
        session, factory = self._session, self._factory
        if session is None or factory is None:
            return  # the link is lost already
        log.info("bridge {name} is connected to {target}", name=self.name, target=describe(factory.connector))
        self._guarded(self._events.started, session)

    def tell_failed_attempt(self, error: MQError) -> None:
        # Only the first failure is a warning: the others say the same, and there may be two a second for days.
        level = log.warn if self._failures <= 1 else log.debug
        level("bridge {name} cannot connect: {error}; the bridge keeps trying", name=self.name, error=str(error))
        self._guarded(self._events.attempt_failed, error)

    def tell_lost(self, error: MQError) -> None:
        factory, self._factory, self._session = self._factory, None, None
        disconnect = None if factory is None else factory.disconnect
        self.cargo.detach()
        if factory is not None and self._locator is not None:
            self._remember(factory, self._locator.topology)  # the backup may have been announced after the link was made
            if self._follows and disconnect is not None:
                self._follow(disconnect, self._locator.topology)
        self._drop_locator()
        log.warn("bridge {name} has lost its link: {error}", name=self.name, error=str(error))
        self._guarded(self._events.lost, error, disconnect)

    def tell_gave_up(self, error: MQError) -> None:
        log.error("bridge {name} gives up after {count} attempts: {error}", name=self.name, count=self._failures, error=str(error))
        self._guarded(self._events.gave_up)

    def settle(self) -> None:
        self.cargo.close_when_settled(STOP_SECONDS).addCallback(lambda _: self._machine.settled())

    def close_link(self) -> None:
        self._factory = self._session = None
        self._drop_locator()

    def tell_stopped(self) -> None:
        self._established = False
        self._failures = 0
        self._factory = self._session = None
        self.cargo.detach()
        stopping, self._stopping = self._stopping, []
        for stopped in stopping:
            stopped.callback(None)
        if self._restart:
            self._restart = False
            self._machine.start()

    def start_again(self) -> None:
        self._restart = True

    # --- inside

    async def _try(self, number: int) -> None:
        try:
            await self._open(number)
        except (MQError, ValueError) as error:
            if number == self._attempt:
                self._drop_locator()
                self._failed(error if isinstance(error, MQError) else NotConnectedError(str(error)))
        except Exception as error:
            log.failure("bridge {name} cannot connect", name=self.name)
            if number == self._attempt:
                self._drop_locator()
                self._failed(NotConnectedError(f"internal error while connecting: {error!r}"))

    async def _open(self, number: int) -> None:
        connectors = self._candidates()
        if not connectors:
            raise NotConnectedError("no connector to the target is known")
        settings = locator_settings(self._settings)
        locator = Locator(self._runtime, connectors, settings, topology=self._topology, greet=self._greet, follow=False)
        self._locator = locator
        factory = await locator.create_session_factory()
        session = await factory.create_session()
        self.cargo.prepare(session)
        await self._events.connected(factory)
        if number != self._attempt:
            return
        if factory.closed or session.closed:
            raise NotConnectedError("the connection was lost right after it was made")
        self._factory, self._session = factory, session
        self._remember(factory, locator.topology)
        factory.add_failure_listener(LossListener(lambda error: self._machine.lost(error, self._pause())))
        if self._paused:
            self._machine.connected_while_paused()
        else:
            self._machine.connected()

    def _candidates(self) -> list[TransportConfiguration]:
        """The connectors to try now: for a while only the lost broker's, then all in turn."""
        same_node = self._settings.reconnect_attempts_same_node
        if self._established and self._last and (same_node < 0 or self._failures < same_node):
            return self._last
        found = list(self._connectors())
        if not found:
            return self._last
        start = self._failures % len(found) if not self._established else 0
        return found[start:] + found[:start]

    def _remember(self, factory: SessionFactory, topology: Topology) -> None:
        member = topology.get(factory.node_id) if self._settings.ha and factory.node_id is not None else None
        # Without newer news, the known connectors of the same broker stay.
        if member is not None or factory.connector not in self._last[:1]:
            self._last = [factory.connector]
        if member is not None:
            for connector in member.connectors:
                if not any(same_connector(connector, known) for known in self._last):
                    self._last.append(connector)

    def _follow(self, disconnect: DisconnectReceived, topology: Topology) -> None:
        """The target has left by scale-down: later messages belong where its messages went."""
        target = disconnect.target_node_id if disconnect.reason & ~1 == REASON_SCALE_DOWN else None
        member = None if target is None else topology.get(target)
        if member is not None and member.connectors:
            self._last = member.connectors
            log.info(
                "bridge {name}: its target has scaled down to node {target}; the bridge connects to that node",
                name=self.name,
                target=target,
            )

    def _failed(self, error: MQError) -> None:
        if isinstance(error, SessionCreationRejectedError):
            # The target is still starting: the attempt does not count.
            self._machine.attempt_failed(error, max(self._settings.retry_interval / 1000, PAUSE_MIN))
            return
        self._failures += 1
        settings = self._settings
        attempts = settings.reconnect_attempts if self._established else settings.initial_connect_attempts
        if 0 <= attempts < self._failures:
            self._machine.attempts_exhausted(error)
        else:
            self._machine.attempt_failed(error, self._pause())

    def _pause(self) -> float:
        """Seconds before the next attempt, grown by each that has failed since the last success."""
        settings = self._settings
        longest = float(max(settings.max_retry_interval, 0))
        pause = min(float(settings.retry_interval), longest)
        multiplier = settings.retry_interval_multiplier
        for _ in range(self._failures):
            if multiplier <= 1.0 or pause >= longest:
                break
            pause = min(pause * multiplier, longest)
        return max(pause / 1000, PAUSE_MIN)

    def _drop_locator(self) -> None:
        locator, self._locator = self._locator, None
        if locator is not None:
            locator.leave()

    def _guarded(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            function(*args)
        except Exception:  # a defect of the user must not stop the bridge
            log.failure("a user of bridge {name} failed", name=self.name)
