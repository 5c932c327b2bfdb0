"""Shared state of the objects of a connection, and of the objects of a session; neither imports these objects."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, BinaryIO, Protocol, TypeVar

from mqclient.blocking import Runner
from mqclient.core.api import ClientMessage, ClientSession
from mqclient.core.runtime import Runtime, new_uuid
from mqclient.errors import MQError
from mqclient.jms.destinations import Destination
from mqclient.jms.exceptions import JMS_ERRORS, IllegalStateException, JMSException
from mqclient.jms.lookup import Lookup
from mqclient.jms.modes import AcknowledgeMode, SessionFlags
from mqclient.jms.settings import FactorySettings
from mqclient.shells.blocking_consumers import Consumer
from mqclient.shells.threads import Dispatcher

T = TypeVar("T")
D = TypeVar("D", bound=Destination)


class _LargeBodies:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def read(self, message: ClientMessage) -> bytes:
        with JMS_ERRORS:
            return self._runner.read_body(message)

    def save(self, message: ClientMessage, file: BinaryIO) -> None:
        with JMS_ERRORS:
            self._runner.save_body(message, file)


class ConnectionWork:
    """The settings of a connection, its way into the core client's thread, and the objects of its sessions."""

    def __init__(self, runner: Runner, runtime: Runtime, settings: FactorySettings) -> None:
        self.runner = runner
        self.settings = settings
        self.runtime = runtime
        self.large_bodies = _LargeBodies(runner)
        self.client_id: str | None = settings.client_id
        self.sessions: set[SessionWork] = set()
        self.temporary: set[str] = set()
        """Names of the temporary destinations that this connection has made."""
        self._uid = new_uuid(runtime)
        self._destinations: dict[Destination, Destination] = {}

    @property
    def connection_id(self) -> str:
        """The mark on messages of this connection, for ``no_local``: the client id, or a UUID."""
        return self.client_id or self._uid

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run a call of the core client in its thread and wait; raises JMS exceptions."""
        with JMS_ERRORS:
            result: T = self.runner.call(function, *args, **kwargs)
            return result

    def check_thread(self) -> None:
        """Raises IllegalStateException in the reactor's thread, where nothing can be closed: closing waits for the broker."""
        if self.runner.usable and self.runner.in_reactor_thread():
            with JMS_ERRORS:
                self.runner.check()

    def cached(self, kind: type[D], name: str, find: Callable[[str], D]) -> D:
        """The destination of that name, found once where the factory asks for that."""
        if not self.settings.cache_destinations:
            return find(name)
        key = kind(name)
        found = self._destinations.get(key)
        if not isinstance(found, kind):
            found = self._destinations[key] = find(name)
        return found


class OpenConsumer(Protocol):
    """A consumer, as its session sees it when it is closed."""

    def acknowledge_owed(self) -> None:
        """Acknowledge the message received last, if that has waited for its body to be read."""

    def close(self) -> None: ...


class SessionWork:
    """The core session of a session, its mode, the thread of its listeners, and the sends whose outcome is not known yet."""

    def __init__(self, connection: ConnectionWork, core: ClientSession, mode: AcknowledgeMode, flags: SessionFlags) -> None:
        self.connection = connection
        self.core = core
        self.mode = mode
        self.pre_acknowledges = flags.pre_acknowledge
        self.acknowledges = not flags.pre_acknowledge and mode != AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE
        """Does the client acknowledge received messages, in any way?"""
        self.runtime = connection.runtime
        self.lookup = Lookup(connection.call, core)
        self.sender = connection.runner.sender(core)
        self.consumers: set[OpenConsumer] = set()
        self.closed = False
        self._pending: set[Future[Any]] = set()
        self._dispatcher: Dispatcher | None = None

    def check_open(self) -> None:
        if self.closed:
            raise IllegalStateException("the session is closed")

    def open_consumer(self, queue: str, filter: str | None, *, priority: int = 0, browse_only: bool = False) -> Consumer:
        with JMS_ERRORS:
            return self.connection.runner.create_consumer(self.core, queue, filter, priority=priority, browse_only=browse_only)

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def rollback(self, consider_last_message_as_delivered: bool) -> None:
        """Have the broker deliver unacknowledged messages again."""
        self.connection.call(self.core.rollback, consider_last_message_as_delivered)

    def acknowledge(self) -> None:
        """Client mode: acknowledge all messages that the session has delivered.  Without effect in the other modes."""
        self.check_open()
        if self.mode == AcknowledgeMode.CLIENT_ACKNOWLEDGE and not self.pre_acknowledges:
            self.connection.call(self.core.commit, self.connection.settings.block_on_acknowledge)

    # --- asynchronous sends ------------------------------------------------------------------------------------------

    def track(self, future: Future[Any]) -> None:
        """Commit and close wait for ``future``."""
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)

    def await_completions(self) -> None:
        """Wait until the outcome of every asynchronous send is known and told, as JMS asks of commit and close."""
        if self._pending and not self.in_listener():
            concurrent.futures.wait(set(self._pending), self.connection.settings.call_timeout / 1000)

    # --- listeners ---------------------------------------------------------------------------------------------------

    def listener_thread(self) -> Dispatcher:
        if self._dispatcher is None:
            with JMS_ERRORS:
                self._dispatcher = self.connection.runner.dispatcher(self.core)
        return self._dispatcher

    def in_listener(self) -> bool:
        return self._dispatcher is not None and self._dispatcher.in_thread()

    def await_listener(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.wait_idle(self.connection.settings.on_message_close_timeout)

    # --- closing -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """The core session is about to be closed: finish the work under way, and refuse further work.

        No listener is called any more; a running listener keeps the session until it returns, or for as long as closing waits.
        """
        if self._dispatcher is not None:
            self._dispatcher.close(self.connection.settings.on_message_close_timeout)
        close_quietly(self.sender.settle)
        for consumer in tuple(self.consumers):
            close_quietly(consumer.acknowledge_owed)
        self.closed = True
        self.consumers.clear()


def close_quietly(close: Callable[[], None]) -> None:
    """Call ``close`` and pass over its errors: closing never fails because of the network."""
    try:
        close()
    except (JMSException, MQError):
        pass
