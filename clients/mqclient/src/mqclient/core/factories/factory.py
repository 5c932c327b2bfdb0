"""A session factory: one connection to a broker, the sessions on it, and the listeners that hear when it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from mqclient.core.closing import Closing
from mqclient.core.connection import lifecycle
from mqclient.core.connection.channel import closed_error
from mqclient.core.connection.connection import Connection, describe
from mqclient.core.connection.listeners import ListenerMethods
from mqclient.core.connection.reconnect import Attempts
from mqclient.core.factories.creation import SessionCreation
from mqclient.core.factories.one_node import OneNode
from mqclient.core.listeners import FailoverEvent, FailoverEventListener, SessionFailureListener
from mqclient.core.runtime import Runtime, Timer, Waiters, sleep, starts
from mqclient.core.session.session import Session
from mqclient.core.settings import LocatorSettings
from mqclient.errors import (
    ConnectionTimedOutError,
    DisconnectedError,
    MQError,
    NodeLostError,
    NotConnectedError,
    SessionCreationRejectedError,
    UnblockedError,
)
from mqclient.protocol.connection import DisconnectReceived, TopologyPacket
from mqclient.wire.packets import CreateSession, IdCacheState, SessionClose
from mqclient.wire.primitives import TransportConfiguration

PAUSE_MIN = 0.01
"""Seconds between attempts also when retryInterval is 0."""
_OF_THE_CONNECTION = (ConnectionTimedOutError, DisconnectedError, NotConnectedError, UnblockedError)
_REJECTED_PAUSE = 0.01
"""Seconds between attempts to recreate a session that the broker is not ready for yet."""


class FactoryOwner(Protocol):
    """The locator, as its session factories see it."""

    runtime: Runtime
    greet: Callable[[Connection], Awaitable[None]] | None
    cluster_connection: bool
    id_cache: Callable[[Session, str], Awaitable[IdCacheState]]
    follow: bool
    """Does the client go where a broker sends it?"""

    @property
    def settings(self) -> LocatorSettings: ...

    def topology_begins(self) -> None:
        """A connection is about to announce the members."""

    def topology_received(self, packet: TopologyPacket, connector: TransportConfiguration) -> None:
        """An announcement came over a connection to ``connector``."""

    def node_left(self, node_id: str | None) -> None:
        """A broker has said goodbye."""

    def factory_closed(self, factory: SessionFactory) -> None: ...


class SessionFactory(ListenerMethods, Closing):
    """Implements :class:`mqclient.core.session.owner.ClientSessionFactory`, and the effects of its life (``core.connection.lifecycle``)."""

    def __init__(self, locator: FactoryOwner, attempts: Attempts) -> None:
        super().__init__()
        self.runtime: Runtime = locator.runtime
        self.settings: LocatorSettings = locator.settings
        self.connection: Connection | None = None
        self.disconnect: DisconnectReceived | None = None
        """The last goodbye of a broker, when it ended the connection in an orderly way; None before the first."""
        self._locator = locator
        self._attempts = attempts
        self._sessions: list[Session] = []
        self._opening: Any = None
        self._round = 0
        self._attempt: Connection | None = None
        """The connection that is being opened."""
        self._told_by: Connection | None = None
        """The connection that has told of the topology last."""
        self._restored_at: float | None = None
        self._hasty = False
        self._failure: MQError | None = None
        self._finished: MQError | None = None
        self._creation = SessionCreation(self)
        self.node = OneNode()
        """Of use with ``exactly_once``."""
        self._usable = Waiters(self.runtime)
        self._machine = lifecycle.make_lifecycle(lifecycle.LifecycleData(self))

    # --- API ---

    @property
    def closed(self) -> bool:
        return self._finished is not None

    @property
    def connector(self) -> TransportConfiguration:
        return self._attempts.current

    @property
    def node_id(self) -> str | None:
        return self._attempts.node_id

    @property
    def nodes_there(self) -> Sequence[str]:
        """The node ids that the broker has announced at its own place (for links between brokers)."""
        return self._attempts.nodes_there()

    @property
    def server_version(self) -> int:
        return self.connection.protocol.version if self.connection is not None else 0

    @property
    def sessions(self) -> Sequence[Session]:
        return tuple(self._sessions)

    def open(self) -> Awaitable[None]:
        """Make the first connection (for the locator)."""
        self._opening = self.runtime.create_future()
        future: Awaitable[None] = self._opening
        self._machine.open()
        return future

    @starts
    async def create_session(
        self,
        username: str | None = None,
        password: str | None = None,
        *,
        xa: bool = False,
        auto_commit_sends: bool = True,
        auto_commit_acks: bool = True,
        pre_acknowledge: bool | None = None,
        ack_batch_size: int | None = None,
        client_id: str | None = None,
        name: str | None = None,
    ) -> Session:
        settings = self.settings
        request = CreateSession(
            name=name or "",
            session_channel_id=0,
            version=0,
            username=username if username is not None else settings.user,
            password=password if username is not None else settings.password,
            min_large_message_size=settings.min_large_message_size,
            xa=xa,
            auto_commit_sends=auto_commit_sends and not xa,
            auto_commit_acks=auto_commit_acks and not xa,
            window_size=settings.confirmation_window_size,
            pre_acknowledge=settings.pre_acknowledge if pre_acknowledge is None else pre_acknowledge,
            client_id=client_id if client_id is not None else settings.client_id,
        )
        batch = settings.ack_batch_size if ack_batch_size is None else ack_batch_size
        return await self._creation.create(request, batch, settings.exactly_once and not xa)

    async def open_plain(self, like: CreateSession, transacted: bool) -> Session:
        request = replace(
            like,
            name="",
            auto_commit_sends=not transacted,
            auto_commit_acks=not transacted,
            pre_acknowledge=False,
        )
        return await self._creation.create(request, self.settings.ack_batch_size, False)

    @starts
    async def close(self) -> None:
        # All at once: each may have to wait for its sends.
        try:
            for closing in [session.close() for session in self.sessions]:
                await closing
        finally:  # also when the call is cancelled
            self._machine.close()

    def abandon(self) -> None:
        """Close at once, since the caller has cancelled the opening or closing (for the locator)."""
        self._machine.close()

    def leave(self) -> None:
        """Close without waiting for the broker to read the closing packets (for links between brokers)."""
        if self.connection is not None and self.connection.error is None:
            for session in self._sessions:
                session.channel.send(SessionClose())
        self._machine.close()

    async def id_cache(self, session: Session, address: str) -> IdCacheState:
        return await self._locator.id_cache(session, address)

    def session_opened(self, session: Session) -> None:
        """The broker has created a session (from :class:`SessionCreation`)."""
        self._sessions.append(session)

    def session_closed(self, session: Session) -> None:
        """A session has ended (from the session)."""
        if session in self._sessions:
            self._sessions.remove(session)
        if self.connection is not None:
            self.connection.remove_session(session.channel_id)

    # --- events of the connection ---

    def topology_received(self, connection: Connection, packet: TopologyPacket) -> None:
        if connection is not self._told_by:
            self._told_by = connection
            self._locator.topology_begins()
        if self.settings.exactly_once and connection in (self._attempt, self.connection):
            self.node.heard(packet)
        self._locator.topology_received(packet, connection.connector)
        self._attempts.topology_received(packet, connection.connector)

    def connection_lost(self, connection: Connection, error: MQError, disconnect: DisconnectReceived | None) -> None:
        if disconnect is not None:
            self._locator.node_left(disconnect.node_id)
            self.disconnect = disconnect
            if self._locator.follow:
                self._attempts.redirected(disconnect.connector)
                self._attempts.scaled_down(disconnect.target_node_id)
        if connection is not self.connection:
            return
        if self._attempts.wants_reconnect():
            self._machine.connection_lost(error)
        else:
            self._machine.connection_lost_for_good(error)

    # --- effects of the machine ---

    def begin_round(self) -> None:
        self._round += 1
        self._watch(self._round, self._try_round(self._round))

    def cancel_round(self) -> None:
        self._round += 1
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.give_up()

    def schedule_retry(self, pause: float) -> Timer:
        return self.runtime.call_later(pause, self._machine.retry_due)

    def adopt(self, connection: Connection) -> None:
        self.connection = connection
        self._attempts.succeeded(connection.connector)

    def drop(self, connection: Connection) -> None:
        connection.close()

    def opened(self) -> None:
        self._attempts.settled()
        self._usable.wake()
        self.runtime.resolve(self._opening, None)

    def could_not_open(self, error: MQError) -> None:
        self._end(error)
        self.runtime.reject(self._opening, error)

    def failure_detected(self, error: MQError) -> None:
        self._failure = error
        self._attempts.begin_reconnect()
        restored = self._restored_at
        self._hasty = restored is not None and self.runtime.now() - restored < max(self.settings.retry_interval / 1000, PAUSE_MIN)
        for session in self._sessions:
            session.channel.lock()
        if self._attempts.wants_reconnect():
            self._log(f"{error}; the client connects again")
        self._notify_failover(FailoverEvent.FAILURE_DETECTED)
        self._notify_failure(lambda listener: listener.before_reconnect(error))

    def restore_sessions(self) -> None:
        self._round += 1
        self._watch(self._round, self._restore(self._round))

    def recovered(self) -> None:
        error, self._failure = self._failure, None
        assert error is not None
        self._attempts.settled()
        self._restored_at = self.runtime.now()
        for session in list(self._sessions):
            session.restoration.finish()
        self._log(f"connected again, to {describe(self.connector)}")
        self._usable.wake()
        self._notify_failover(FailoverEvent.FAILOVER_COMPLETED)
        self._notify_failure(lambda listener: listener.connection_failed(error, True))

    def given_up(self, error: MQError) -> None:
        cause = self._failure or error
        sessions = list(self._sessions)
        listeners = self._all_failure_listeners()
        failover_listeners = self._all_failover_listeners()
        self._end(error)
        self._log(f"{cause}; its sessions are closed" + (f" ({error})" if error is not cause else ""))
        for session in sessions:
            session.abandon(error)
        for event_listener in failover_listeners:
            self._guarded(event_listener, FailoverEvent.FAILOVER_FAILED)
        for listener in listeners:
            self._guarded(listener.connection_failed, cause, False)

    def closed_by_request(self) -> None:
        error = closed_error("connection")
        connection = self.connection
        self._end(error)
        for session in list(self._sessions):
            session.closed_with_connection(error)
        if connection is not None:
            connection.close()
        if self._opening is not None:
            self.runtime.reject(self._opening, error)

    # --- inside ---

    async def _try_round(self, number: int) -> None:
        if self._hasty and self._failure is not None:
            # The connection was lost again right after it had been restored: the cause may be there each time.
            self._hasty = False
            self._machine.attempt_failed(self._failure, max(self.settings.retry_interval / 1000, PAUSE_MIN))
            return
        error: MQError = NotConnectedError("there is no broker to connect to")
        first = self.connection is None
        for connector in self._attempts.candidates():
            if number != self._round:
                return
            connection = self._attempt = self._connection_to(connector)
            self.node.begins(connector)
            self._attempts.begins()
            try:
                await connection.open(None if first else self._attempts.node_id, wait_for_topology=first or self.settings.exactly_once)
                if self.settings.exactly_once:
                    self.node.check(any(session.holding for session in self._sessions))
            except NodeLostError as failure:
                connection.close()
                error = failure
                continue
            except MQError as failure:
                error = failure
                continue
            except (ValueError, OSError) as failure:
                error = NotConnectedError(f"{describe(connector)}: {failure}")
                continue
            if number != self._round:
                connection.close()
                return
            self._attempt = None
            self._machine.connected(connection)
            return
        if number == self._round:
            self._attempt_failed(error)

    def _connection_to(self, connector: TransportConfiguration) -> Connection:
        locator = self._locator
        return Connection(
            self.runtime,
            self.settings,
            connector,
            self,
            self.connection,
            greet=locator.greet,
            cluster_connection=locator.cluster_connection,
        )

    def _attempt_failed(self, error: MQError) -> None:
        pause = self._attempts.failed()
        if pause is None:
            self._machine.attempts_exhausted(error)
        else:
            self._machine.attempt_failed(error, max(pause, PAUSE_MIN))

    async def _restore(self, number: int) -> None:
        connection = self.connection
        assert connection is not None
        try:
            for session in list(self._sessions):
                await self._restore_session(session, connection)
            if connection.error is not None:
                raise connection.error
        except MQError as error:
            if number == self._round:
                connection.close()
                self._attempt_failed(error)
            return
        if number == self._round:
            self._machine.sessions_restored()

    async def _restore_session(self, session: Session, connection: Connection) -> None:
        deadline = self.runtime.now() + self.settings.call_timeout / 1000
        while True:
            try:
                await session.restoration.restore(connection)
                return
            except SessionCreationRejectedError:
                if self.runtime.now() >= deadline:
                    raise
                await sleep(self.runtime, _REJECTED_PAUSE)
            except MQError as error:
                if connection.error is not None or isinstance(error, _OF_THE_CONNECTION):
                    raise
                # The broker does not want this session.  Trying again does not help it, and must not keep the others waiting.
                self._lose_session(session, error)
                return

    def _lose_session(self, session: Session, error: MQError) -> None:
        listeners, failover_listeners = list(session.failure_listeners), list(session.failover_listeners)
        session.abandon(error)
        for event_listener in failover_listeners:
            self._guarded(event_listener, FailoverEvent.FAILOVER_FAILED)
        for listener in listeners:
            self._guarded(listener.connection_failed, error, False)

    async def usable_connection(self) -> Connection:
        """The connection, once it is there and its sessions are restored; raises why it will not come."""
        while True:
            if self._finished is not None:
                raise self._finished if not isinstance(self._finished, DisconnectedError) else closed_error("connection")
            connection = self.connection
            if connection is not None and connection.error is None and self._failure is None:
                return connection
            limit = self.settings.call_failover_timeout
            late = ConnectionTimedOutError(f"the connection did not come back within {limit} ms (callFailoverTimeout sets the limit)")
            await self._usable.wait(None if limit < 0 else limit / 1000, late)

    def _end(self, error: MQError) -> None:
        self._finished = self._finished or error
        self._locator.factory_closed(self)
        self._usable.wake()

    def _watch(self, number: int, coroutine: Any) -> None:
        self.runtime.spawn(self._guard(number, coroutine))

    async def _guard(self, number: int, coroutine: Any) -> None:
        try:
            await coroutine
        except Exception as error:  # a defect here must not leave every session locked for ever
            if number != self._round:
                return  # the round was given up, so its attempt was cancelled
            self.runtime.log_failure("the connection could not be restored", error)
            self._machine.attempts_exhausted(NotConnectedError(f"internal error while connecting: {error!r}"))

    def _log(self, text: str) -> None:
        if self._locator.follow:  # owners of links tell of these in words of their own
            self.runtime.log_warning(text)

    def _all_failure_listeners(self) -> list[SessionFailureListener]:
        return [*self.failure_listeners, *(entry for session in self._sessions for entry in session.failure_listeners)]

    def _all_failover_listeners(self) -> list[FailoverEventListener]:
        return [*self.failover_listeners, *(entry for session in self._sessions for entry in session.failover_listeners)]

    def _notify_failure(self, tell: Callable[[SessionFailureListener], None]) -> None:
        for listener in self._all_failure_listeners():
            self._guarded(tell, listener)

    def _notify_failover(self, event: FailoverEvent) -> None:
        for listener in self._all_failover_listeners():
            self._guarded(listener, event)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            function(*args)
        except Exception as error:  # a listener's failure is the application's, and must not stop the failover
            self.runtime.log_failure("a listener failed", error)
