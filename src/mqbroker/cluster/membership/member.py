"""One other member of a cluster: the link to it, what it told about its queues, and the messages that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from mqbroker.cluster.membership.member_machine import MemberData, make_member_machine
from mqbroker.cluster.remote_queues.flow import Flow
from mqbroker.cluster.remote_queues.listening import NotificationRequest, listen
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.turns.turn import Turn
from mqclient.core.message import ClientMessage
from mqclient.errors import MQError, NotConnectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.topology import TopologyMember, same_connector
from mqclient.wire.packets import REASON_SCALE_DOWN
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.session.session import Session

log = Logger(namespace="mqbroker.cluster")

UNREACHABLE_MS = 5_000
"""After so long without a connection a member that was announced and is not reached leaves the topology.

Each time that it is announced again all the same, twice as long is waited: brokers that see different things do not contradict each other
for ever at this pace.
"""
LONGEST_PATIENCE_MS = 300_000


class Link(Protocol):
    """A bridge to the member."""

    def start(self) -> None: ...

    def stop(self) -> object: ...

    def figures(self) -> dict[str, Any]:
        """What management shows of it."""


class MemberOwner(Protocol):
    """The cluster connection, as its members see it."""

    turn: Turn

    def wall_ms(self) -> int:
        """The time, in ms since 1970."""

    def topology_member(self, node_id: str) -> TopologyMember | None: ...

    def member_up(self, member: TopologyMember) -> None:
        """The link to ``member`` is up again."""

    def member_down(self, node_id: str) -> None: ...

    def member_gone(self, member: Member) -> None:
        """The record of a member has ended."""

    def link_stopping(self, stopped: object) -> None:
        """The bridge of a member is being stopped; ``stopped`` completes when it has."""

    def move_messages(self, member: Member, target_node_id: str) -> None: ...

    def notification_request(self) -> NotificationRequest: ...

    async def open_session(self, factory: SessionFactory) -> Session:
        """A session for the notifications of the member."""


class Member:
    """``state`` is one of disconnected, connecting, connected, gone.  ``make_link`` gives the bridge, which is told to whom it reports."""

    def __init__(
        self,
        owner: MemberOwner,
        announced: TopologyMember,
        store_and_forward: Queue,
        flow: Flow,
        make_link: Callable[[Member], Link],
    ) -> None:
        self.node_id = announced.node_id
        self.store_and_forward = store_and_forward
        self.flow = flow
        self.state = "disconnected"
        self.connections = 0
        """How often the link has come up."""
        self.last_error: str | None = None
        """Why it was lost, or did not come up, the last time; None while it is up."""
        self.last_error_ms: int | None = None
        """Since when, if it has not come up again: the time of the first failure."""
        self._owner = owner
        self._announced = announced
        self._reported_down = False
        self._unreached_ms: int | None = None
        """Since when the topology has the member although there is no link to it; None while there is nothing to report."""
        self._patience_ms = UNREACHABLE_MS
        self._machine = make_member_machine(MemberData(self))
        self.link = make_link(self)

    def start(self) -> None:
        self._machine.start()

    def stop(self) -> None:
        """Close the link; bindings and messages stay."""
        self._machine.stop()

    def announced(self, member: TopologyMember) -> None:
        """It has told where it is, or where its backup is; or others say that it is there, after it was reported to be gone."""
        self._announced = member
        if self._reported_down and self._unreached_ms is None:
            self._unreached_ms = self._owner.wall_ms()

    def connectors(self) -> Sequence[TransportConfiguration]:
        """Where the member may be: what it announced last, its primary first."""
        self._announced = self._owner.topology_member(self.node_id) or self._announced
        return [connector for connector in (self._announced.primary, self._announced.backup) if connector is not None]

    # --- what the bridge tells

    async def connected(self, factory: SessionFactory) -> None:
        """There is a connection: ask for what the member knows.  Raises when another broker is there now."""
        self._check_identity(factory)
        session = await self._owner.open_session(factory)
        self.flow.begin()
        await listen(session, self._owner.notification_request(), self._told)

    def started(self, session: Session) -> None:
        """Messages can be forwarded."""
        self._run(self._machine.connected)

    def attempt_failed(self, error: MQError) -> None:
        """The link did not come up this time.

        A member that stops before the first link to it is up says goodbye to nobody here.
        """
        self._failed(error)
        self._run(self._machine.connection_lost)
        since = self._unreached_ms
        if since is not None and self._owner.wall_ms() - since >= self._patience_ms:
            self._patience_ms = min(2 * self._patience_ms, LONGEST_PATIENCE_MS)
            log.warn("{node} was announced and cannot be reached: {reason}", node=self.node_id, reason=str(error))
            self._owner.turn.run(self.member_down)

    def lost(self, reason: MQError, disconnect: DisconnectReceived | None) -> None:
        """The link failed; the bridge tries again unless it is stopped."""
        self._failed(reason)
        if disconnect is None:
            log.warn("the link to {node} was lost: {reason}", node=self.node_id, reason=str(reason))
            self._run(self._machine.connection_lost)
            return
        target = disconnect.target_node_id if disconnect.reason & ~1 == REASON_SCALE_DOWN else None
        log.info(
            "{node} has left the cluster{target}", node=self.node_id, target=f"; {target} has taken over its messages" if target else ""
        )
        self._run(self._machine.left, target)

    def gave_up(self) -> None:
        """The attempts are used up."""
        log.warn(
            "no more attempts are made to reach {node}; {count} messages wait for it",
            node=self.node_id,
            count=self.store_and_forward.message_count,
        )
        self._run(self._machine.retries_exhausted)

    # --- what the machine does

    def open_link(self) -> None:
        self.state = "connecting"
        self.link.start()

    def close_link(self) -> None:
        self._owner.link_stopping(self.link.stop())

    def member_up(self) -> None:
        self.state = "connected"
        self.last_error = self.last_error_ms = None
        self._unreached_ms = None
        self._patience_ms = UNREACHABLE_MS
        self.connections += 1
        if self._reported_down or self._owner.topology_member(self.node_id) is None:
            self._reported_down = False
            self._owner.member_up(self._announced)

    def member_down(self) -> None:
        self._reported_down = True
        self._unreached_ms = None
        self._announced = self._owner.topology_member(self.node_id) or self._announced
        self._owner.member_down(self.node_id)

    def disconnect_bindings(self) -> None:
        self.state = "connecting"
        self.flow.disconnected()

    def remove_bindings(self) -> None:
        self.flow.end()

    def move_messages(self, target_node_id: str) -> None:
        self._owner.move_messages(self, target_node_id)

    def forget(self) -> None:
        self.state = "gone"
        self._owner.member_gone(self)

    # --- for management

    def describe(self) -> dict[str, Any]:
        """The link in figures; times are ms since 1970, ``lastError`` and ``since`` are null while the link is up."""
        queue = self.store_and_forward
        return {
            "nodeID": self.node_id,
            "state": self.state,
            "queue": queue.name,
            "backlog": queue.message_count,
            "remoteBindings": len(self.flow.bindings),
            "notificationsReceived": self.flow.received,
            "connections": self.connections,
            "lastError": self.last_error,
            "since": self.last_error_ms,
            **self.link.figures(),
        }

    # --- inside

    def _failed(self, error: MQError) -> None:
        self.last_error = str(error)
        if self.last_error_ms is None:
            self.last_error_ms = self._unreached_ms = self._owner.wall_ms()

    def _check_identity(self, factory: SessionFactory) -> None:
        """The place of a member may be taken by another broker, whose queues have other ids."""
        found = factory.node_id
        if found is None or found == self.node_id:
            return
        known = self._owner.topology_member(self.node_id)
        if known is None or not any(same_connector(factory.connector, each) for each in (known.primary, known.backup)):
            raise NotConnectedError(f"there is now another broker in the place of {self.node_id}: {found}")

    def _told(self, message: ClientMessage) -> None:
        self._run(self.flow.handle, message.properties)

    def _run(self, function: Callable[..., object], *args: object) -> None:
        self._owner.turn.run(function, *args)
