"""Connections: client id, start and stop, listeners for failures, and the hidden session for requests of the connection itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self, TypeVar

from mqclient.blocking import Runner
from mqclient.core.api import ClientSession, ClientSessionFactory, FailoverEvent, FailoverEventListener
from mqclient.core.runtime import Runtime
from mqclient.errors import DuplicateMetadataError, MQError
from mqclient.jms.closing import Closing
from mqclient.jms.destinations import Destination
from mqclient.jms.exceptions import (
    JMS_ERRORS,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
)
from mqclient.jms.modes import AcknowledgeMode, SessionFlags, session_flags
from mqclient.jms.session import Session
from mqclient.jms.settings import FactorySettings
from mqclient.jms.work import ConnectionWork, SessionWork, close_quietly
from mqclient.shells.threads import Dispatcher

T = TypeVar("T")
D = TypeVar("D", bound=Destination)
S = TypeVar("S", bound=Session)
ExceptionListener = Callable[[JMSException], object]


class ConnectionMetaData(NamedTuple):
    """Versions and names of this client, as JMS asks for them."""

    jms_version: str = "2.0"
    jms_provider_name: str = "mqclient"
    jmsx_property_names: tuple[str, ...] = ("JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount", "JMSXUserID")


class _FailureListener:
    """Hands failures of the connection to the application's listeners, in their thread."""

    def __init__(self) -> None:
        self.exception_listener: ExceptionListener | None = None
        self.failover_listener: FailoverEventListener | None = None
        self.thread: Dispatcher | None = None

    def before_reconnect(self, error: MQError) -> None:
        pass

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        if self.thread is not None and self.exception_listener is not None:
            exception = JMSException(str(error), "FAILOVER" if failed_over else "DISCONNECT")
            exception.__cause__ = error
            self.thread.submit(self.exception_listener, exception)

    def failover(self, event: FailoverEvent) -> None:
        if self.thread is not None and self.failover_listener is not None:
            self.thread.submit(self.failover_listener, event)


class Connection(Closing):
    """A connection to a broker; made by :meth:`ConnectionFactory.create_connection`.

    Messages arrive once the connection is started: by :meth:`start`, or by ``with connection:``, which also closes it.  All methods may be
    called from any thread.
    """

    def __init__(
        self,
        runner: Runner,
        runtime: Runtime,
        factory: ClientSessionFactory,
        settings: FactorySettings,
        credentials: tuple[str | None, str | None],
    ) -> None:
        self._work = ConnectionWork(runner, runtime, settings)
        self._factory = factory
        self._credentials = credentials
        self._failures = _FailureListener()
        self._used = False
        self._started = False
        self._closed = False
        self._hidden = self._open_hidden_session()

    def _open_hidden_session(self) -> ClientSession:
        """The session that authenticates the connection and holds its client id; it is never started."""
        hidden = self._core_session(auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False, ack_batch_size=0)
        self._work.runner.post(hidden.add_failure_listener, self._failures)
        self._work.runner.post(hidden.add_failover_listener, self._failures.failover)
        if self._work.client_id is None:
            self._work.call(hidden.add_metadata, "jms-session", "")
        else:
            self._reserve(hidden, self._work.client_id)
        return hidden

    def _reserve(self, hidden: ClientSession, client_id: str) -> None:
        reserve = hidden.add_metadata if self._work.settings.enable_shared_client_id else hidden.add_unique_metadata
        try:
            self._work.call(reserve, "jms-client-id", client_id)
        except JMSException as error:
            if isinstance(error.__cause__, DuplicateMetadataError):
                raise InvalidClientIDException(f"the client id {client_id} is used by another connection", error.error_code) from error
            raise
        self._work.call(hidden.add_metadata, "jms-session", "")
        self._work.call(hidden.add_metadata, "jms-client-id", client_id)

    def _core_session(self, **flags: Any) -> ClientSession:
        user, password = self._credentials
        return self._work.call(self._factory.create_session, user, password, client_id=self._work.client_id, **flags)

    # --- identity ----------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str | None:
        """The name under which the broker keeps durable subscriptions.

        The client id can be set once, before the connection is used, and only when the factory has none.  Raises InvalidClientIDException
        when another connection uses the same id.
        """
        return self._work.client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        self._check_open()
        if self._work.client_id is not None:
            raise IllegalStateException(f"the client id is set already: {self._work.client_id}")
        if self._used:
            raise IllegalStateException("the client id must be set before the connection is used")
        if not client_id:
            raise InvalidClientIDException("a client id is not empty")
        self._reserve(self._hidden, client_id)
        self._work.client_id = client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        return ConnectionMetaData()

    @property
    def closed(self) -> bool:
        """Closed by the application, or by a failure that was not repaired."""
        return self._closed or self._factory.closed

    @property
    def node_id(self) -> str | None:
        """Node id of the broker in use."""
        return self._factory.node_id

    # --- listeners ---------------------------------------------------------------------------------------------------

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Called after every failure of the connection with a JMSException.

        The exception's ``error_code`` is ``FAILOVER`` when the connection goes on and ``DISCONNECT`` when it has ended.  The listener runs
        in a thread of its own, in which the connection may be closed.
        """
        return self._failures.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._listener_thread()
        self._failures.exception_listener = listener

    @property
    def failover_listener(self) -> FailoverEventListener | None:
        """Called with FAILURE_DETECTED, and then FAILOVER_COMPLETED or FAILOVER_FAILED (:class:`mqclient.core.api.FailoverEvent`)."""
        return self._failures.failover_listener

    @failover_listener.setter
    def failover_listener(self, listener: FailoverEventListener | None) -> None:
        self._listener_thread()
        self._failures.failover_listener = listener

    def _listener_thread(self) -> None:
        self._check_open()
        self._used = True
        if self._failures.thread is None:
            with JMS_ERRORS:
                self._failures.thread = self._work.runner.dispatcher(self._hidden)

    # --- sessions and delivery ---------------------------------------------------------------------------------------

    def create_session(self, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE, *, transacted: bool = False) -> Session:
        """Open a session.  ``transacted=True`` is short for the mode SESSION_TRANSACTED.

        Raises JMSException for a number that is no mode.
        """
        mode = AcknowledgeMode.SESSION_TRANSACTED if transacted else acknowledge_mode
        flags = session_flags(mode, self._work.settings)
        return self._open_session(Session, AcknowledgeMode(mode), flags)

    def _open_session(self, kind: type[S], mode: AcknowledgeMode, flags: SessionFlags, *, xa: bool = False) -> S:
        self._check_open()
        self._used = True
        core = self._core_session(xa=xa, **flags._asdict())
        work = SessionWork(self._work, core, mode, flags)
        self._work.sessions.add(work)
        if self._started:
            self._work.call(core.start)
        return kind(work)

    def start(self) -> None:
        """Let messages arrive."""
        self._check_open()
        self._used = self._started = True  # first, for a session that another thread opens meanwhile
        for session in tuple(self._work.sessions):
            self._call_open(session, session.core.start)

    def stop(self) -> None:
        """Pause the arrival of messages; waits for running listeners.  Raises IllegalStateException in a listener."""
        self._check_open()
        self._refuse_in_listener("stopped")
        self._used = True
        self._started = False  # first, as in start()
        for session in tuple(self._work.sessions):
            self._call_open(session, session.core.stop)
            session.await_listener()

    def _call_open(self, session: SessionWork, function: Callable[[], Awaitable[None]]) -> None:
        """Call a function of a session, unless that has ended alone: another thread may just have closed it."""
        try:
            self._work.call(function)
        except IllegalStateException:
            if self._factory.closed or not session.core.closed:
                raise

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the connection is closed")

    def _refuse_in_listener(self, what: str) -> None:
        if any(session.in_listener() for session in tuple(self._work.sessions)):
            raise IllegalStateException(f"a connection cannot be {what} by a listener of one of its sessions")

    def close(self) -> None:
        """Close all sessions and the connection; open transactions are rolled back.  Safe to call twice.

        A listener that runs can finish its work, within ``on_message_close_timeout``; no other message is handed to it.  Never fails
        because of the network.  Calls of other threads that wait in ``receive()`` return None.  Raises IllegalStateException in a listener
        of a session, and in the thread of a Twisted reactor.
        """
        if self._closed:
            return
        self._work.check_thread()
        self._refuse_in_listener("closed")
        self._closed = True
        for session in tuple(self._work.sessions):
            session.await_completions()
            session.end()
        self._work.sessions.clear()
        close_quietly(lambda: self._work.call(self._factory.close))
        if self._failures.thread is not None:
            self._failures.thread.close(0 if self._failures.thread.in_thread() else self._work.settings.on_message_close_timeout)

    def __enter__(self) -> Self:
        self.start()
        return self
