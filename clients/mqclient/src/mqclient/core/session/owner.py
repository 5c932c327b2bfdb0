"""The factory of a session: what applications use of it, and what its sessions need.

Its class is in a higher room, so that a session knows it by these protocols only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from mqclient.core.closing import Closing
from mqclient.core.connection.connection import Connection
from mqclient.core.listeners import FailoverEventListener, SessionFailureListener
from mqclient.core.once.sends import OneNode
from mqclient.core.runtime import Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.wire.packets import CreateSession, IdCacheState
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqclient.core.session.session import Session


class Listened(Protocol):
    """See :class:`mqclient.core.connection.listeners.ListenerMethods`."""

    def add_failure_listener(self, listener: SessionFailureListener) -> None: ...

    def remove_failure_listener(self, listener: SessionFailureListener) -> bool: ...

    def add_failover_listener(self, listener: FailoverEventListener) -> None: ...

    def remove_failover_listener(self, listener: FailoverEventListener) -> bool: ...


class ClientSessionFactory(Closing, Listened, Protocol):
    """One connection to a broker, kept alive and re-established, and the sessions on it."""

    @property
    def closed(self) -> bool: ...

    @property
    def settings(self) -> LocatorSettings:
        """The settings of the locator that made it."""

    @property
    def connector(self) -> TransportConfiguration:
        """The connector in use, or the one used last."""

    @property
    def node_id(self) -> str | None:
        """Node id of the broker, once it is known from the topology."""

    @property
    def server_version(self) -> int:
        """Protocol version of the broker; 0 before it is known."""

    @property
    def sessions(self) -> Sequence[Session]: ...

    def create_session(
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
    ) -> Awaitable[Session]:
        """Open a session; None takes the locator's setting.

        With ``xa`` it works on branches of distributed transactions (:attr:`ClientSession.xa_resource`) and commits nothing by itself.
        Cancelling the result leaves no session on the broker.
        Raises ``SecurityError`` (credentials), ``SessionCreationRejectedError`` (broker not ready, limits), ``IncompatibleVersionsError``.
        """

    def close(self) -> Awaitable[None]:
        """Close the sessions in an orderly way, then the connection.  Never raises for reasons of the network; safe to call twice."""


class SessionOwner(ClientSessionFactory, Protocol):
    """The session factory, as its sessions see it."""

    runtime: Runtime
    connection: Connection | None

    def session_closed(self, session: Session) -> None:
        """A session has ended."""

    async def open_plain(self, like: CreateSession, transacted: bool) -> Session:
        """A session without ``exactly_once`` for the same user, for a question to the broker."""

    @property
    def node(self) -> OneNode:
        """The node that the connection belongs to."""

    async def id_cache(self, session: Session, address: str) -> IdCacheState:
        """The duplicate ids that the broker keeps of an address."""
