"""Distributed transactions: connections, sessions and contexts whose work a transaction manager commits.

::

    with XAConnectionFactory("tcp://localhost:61616").create_xa_context() as context:
        resource = context.xa_resource
        resource.start(xid)
        context.create_producer().send("queue://orders", "an order")
        resource.end(xid)
        resource.prepare(xid)
        resource.commit(xid)

Flags, codes, ``Xid`` and ``XAError`` are in :mod:`mqclient.xa`.  Calls of an :class:`XAResource` raise ``XAError``, never a JMSException.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from mqclient.blocking import Runner
from mqclient.core.api import XAResource as CoreXAResource
from mqclient.errors import MQError
from mqclient.jms.connection import Connection
from mqclient.jms.context import JMSContext
from mqclient.jms.exceptions import IllegalStateException, TransactionInProgressException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.modes import AcknowledgeMode, session_flags
from mqclient.jms.session import Session
from mqclient.shells.blocking_sends import Sender
from mqclient.xa import TMENDRSCAN, TMNOFLAGS, TMSTARTRSCAN, TMSUCCESS, XAER_RMFAIL, XAError, Xid

T = TypeVar("T")


class XAResource:
    """A session as a transaction manager calls it; made by :attr:`XASession.xa_resource`.

    The calls and their failures are those of :class:`mqclient.core.api.XAResource`; each waits for the broker.
    """

    def __init__(self, runner: Runner, core: CoreXAResource, sender: Sender) -> None:
        self._runner = runner
        self._core = core
        self._sender = sender

    @property
    def current(self) -> Xid | None:
        """The branch that the session works on."""
        return self._core.current

    def start(self, xid: Xid, flags: int = TMNOFLAGS) -> None:
        """Work on a branch: TMNOFLAGS a new one, TMJOIN one of another session, TMRESUME a suspended one."""
        self._call(self._core.start, xid, flags)

    def end(self, xid: Xid, flags: int = TMSUCCESS) -> None:
        """Stop to work on the branch: TMSUCCESS, TMFAIL (it has to be rolled back) or TMSUSPEND.

        ``XA_RBOTHER``: a message that was sent without waiting for the broker could not be sent.
        """
        self._guarded(lambda: self._sender.end_branch(self._core, xid, flags))

    def prepare(self, xid: Xid) -> int:
        """Have the broker promise that it can commit; gives ``XA_OK``."""
        return self._call(self._core.prepare, xid)

    def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch, or with ``one_phase`` one that was only ended."""
        self._call(self._core.commit, xid, one_phase)

    def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not."""
        self._guarded(lambda: self._sender.rollback_branch(self._core, xid))

    def forget(self, xid: Xid) -> None:
        """Let the broker forget an administrator's decision about the branch."""
        self._call(self._core.forget, xid)

    def recover(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> list[Xid]:
        """The branches that wait for their outcome, or that an administrator has decided."""
        return self._call(self._core.recover, flags)

    def set_transaction_timeout(self, seconds: int) -> bool:
        """Set the time limit of branches that are not prepared, in s; 0: the broker's default."""
        return self._call(self._core.set_transaction_timeout, seconds)

    def get_transaction_timeout(self) -> int:
        """The time limit in s, as the broker says."""
        return self._call(self._core.get_transaction_timeout)

    def is_same_rm(self, other: object) -> bool:
        """Does ``other`` belong to the same broker, so that it can join branches of this one?"""
        return isinstance(other, XAResource) and self._core.is_same_rm(other._core)

    def _call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        found: T = self._guarded(lambda: self._runner.call(function, *args))
        return found

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except MQError as error:  # of the shell: the reactor has stopped, or the process was forked
            raise XAError(XAER_RMFAIL, str(error)) from error


class XASession(Session):
    """A session that works on branches; made by :meth:`XAConnection.create_xa_session`.  ``commit`` and ``rollback`` are refused."""

    _resource: XAResource | None = None

    @property
    def xa_resource(self) -> XAResource:
        """For the transaction manager."""
        self.work.check_open()
        if self._resource is None:
            self._resource = XAResource(self.work.connection.runner, self.work.core.xa_resource, self.work.sender)
        return self._resource

    def commit(self) -> NoReturn:
        """Raises TransactionInProgressException: the transaction manager commits."""
        raise TransactionInProgressException("an XASession is committed by its xa_resource")

    def rollback(self) -> NoReturn:
        """Raises TransactionInProgressException: the transaction manager rolls back."""
        raise TransactionInProgressException("an XASession is rolled back by its xa_resource")


class XAConnection(Connection):
    """A connection with XA sessions, and plain ones; made by :meth:`XAConnectionFactory.create_xa_connection`."""

    def create_xa_session(self) -> XASession:
        """Open a session whose work belongs to branches of distributed transactions."""
        flags = session_flags(AcknowledgeMode.SESSION_TRANSACTED, self._work.settings)
        return self._open_session(XASession, AcknowledgeMode.SESSION_TRANSACTED, flags, xa=True)


class XAJMSContext(JMSContext):
    """A connection and one XA session of it; made by :meth:`XAConnectionFactory.create_xa_context`."""

    def __init__(self, connection: XAConnection) -> None:
        super().__init__(connection, session=connection.create_xa_session)

    @property
    def xa_resource(self) -> XAResource:
        """For the transaction manager."""
        assert isinstance(self._session, XASession)
        return self._session.xa_resource

    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> NoReturn:
        """Raises IllegalStateException: a context for another thread needs a connection of its own."""
        raise IllegalStateException("an XAJMSContext makes no other contexts; use create_xa_context of the factory")


class XAConnectionFactory(ConnectionFactory):
    """Makes connections for distributed transactions, and plain ones (see :class:`mqclient.jms.ConnectionFactory`)."""

    def create_xa_connection(self, user: str | None = None, password: str | None = None) -> XAConnection:
        """Connect (see :meth:`mqclient.jms.ConnectionFactory.create_connection`)."""
        return self._connect(XAConnection, user, password)

    def create_xa_context(self, user: str | None = None, password: str | None = None) -> XAJMSContext:
        """Connect and open an XA session, as one object."""
        return XAJMSContext(self.create_xa_connection(user, password))
