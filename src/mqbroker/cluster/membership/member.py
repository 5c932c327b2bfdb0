"""One other member of a cluster, and the link to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from mqbroker.cluster.membership import member_machine as states
from mqbroker.cluster.membership.member_machine import MemberData, make_member_machine
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import MQError, NotConnectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.topology import TopologyMember, same_connector, same_place
from mqclient.wire.packets import REASON_SCALE_DOWN
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.cluster.membership.load import Load
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.session.session import Session

log = Logger(namespace="mqbroker.cluster")

UNREACHABLE_MS = 5_000
"""After so long without a connection a member that was announced and is not reached leaves the topology.

The time doubles with each new announcement of the member, so that brokers with different views do not contradict each other for ever at
this pace.
"""
LONGEST_PATIENCE_MS = 300_000

CONTRADICTION_SECONDS = 2.0
"""How long the link to a member must outlive the news that the member has left before other brokers are told that it is there."""


class MemberOwner(Protocol):
    """The cluster connection, as its members see it."""

    clock: Clock
    turn: Turn
    topology: ClusterTopology

    def member_up(self, member: TopologyMember) -> None:
        """The link to ``member`` is up again."""

    def member_gone(self, member: Member) -> None:
        """The record of a member has ended."""

    def link_stopping(self, stopped: object) -> None:
        """The bridge of a member is being stopped; ``stopped`` completes when it has."""


class Member:
    """One other member, from its announcement to its end.  ``state`` is the name of the machine's state.

    ``load`` is what the link carries; it makes the link, whose events come to the :class:`Member`.
    """

    def __init__(self, owner: MemberOwner, announced: TopologyMember, load: Load) -> None:
        self.node_id = announced.node_id
        self.load = load
        self.state = states.disconnected.name
        self.connections = 0
        """How often the link has come up."""
        self.last_error: str | None = None
        """Why the link was lost, or did not come up, the last time; None while it is up."""
        self.last_error_ms: int | None = None
        """Time of the first failure (ms since 1970) since the link was up; None while it is up."""
        self._owner = owner
        self._announced = announced
        self._place: TransportConfiguration | None = None
        """Where the link is, or was until it was lost; None before, and after an attempt that has failed."""
        self._reported_down = False
        self._unreached_ms: int | None = None
        """Since when the topology has the member although there is no link to it (ms since 1970); None while there is nothing to report."""
        self._patience_ms = UNREACHABLE_MS
        self._contradiction: Cancellable | None = None
        self._machine = make_member_machine(MemberData(self))
        self.link = load.make_link(self)

    def start(self) -> None:
        self._machine.start()

    def stop(self) -> None:
        """Close the link; bindings and messages stay."""
        self._machine.stop()

    def announced(self, member: TopologyMember) -> None:
        """The member has announced its connectors, or others announce the member again after it was reported to be gone."""
        self._announced = member
        if self._reported_down and self._unreached_ms is None:
            self._unreached_ms = self._owner.clock.wall_ms()

    def reported_gone(self, reported: TopologyMember) -> None:
        """Other brokers say that the member has left.  While the link to it stays up, they are contradicted after a while."""
        self._put_off_contradiction()
        if self.state == states.connected.name:
            self._contradiction = self._owner.clock.call_later(CONTRADICTION_SECONDS, self._contradict, reported)

    def _contradict(self, reported: TopologyMember) -> None:
        """Another broker has lost its own link to this member: clients must still find the member."""
        self._contradiction = None
        if self.state == states.connected.name and self._owner.topology.get(self.node_id) is None:
            self._owner.topology.found_again(reported)

    def _put_off_contradiction(self) -> None:
        contradiction, self._contradiction = self._contradiction, None
        if contradiction is not None:
            contradiction.cancel()

    def connectors(self) -> Sequence[TransportConfiguration]:
        """The connectors of the member's last announcement, the primary first."""
        self._announced = self._owner.topology.get(self.node_id) or self._announced
        return self._announced.connectors

    # --- events of the bridge

    async def connected(self, factory: SessionFactory) -> None:
        """The connection is up.  Raises NotConnectedError when another broker is in the place of the member."""
        self._check_identity(factory)
        self._place = factory.connector
        await self.load.connected(factory)

    def started(self, session: Session) -> None:
        """Messages can be forwarded."""
        self._run(self._machine.connected)

    def attempt_failed(self, error: MQError) -> None:
        """The link did not come up this time.

        A member that stops before the first link to it is up does not say goodbye here.
        """
        self._place = None
        self._failed(error)
        self._run(self._machine.connection_lost)
        since = self._unreached_ms
        if since is not None and self._owner.clock.wall_ms() - since >= self._patience_ms:
            self._patience_ms = min(2 * self._patience_ms, LONGEST_PATIENCE_MS)
            log.warn("{node} was announced and cannot be reached: {reason}", node=self.node_id, reason=str(error))
            self._owner.turn.run(self.member_down)

    def lost(self, reason: MQError, disconnect: DisconnectReceived | None) -> None:
        """The link failed; the bridge tries again unless it is stopped."""
        self._failed(reason)
        # The broker that goes may be one that has lost its store, after another one has gone on as this node.
        if disconnect is None or self._has_moved():
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
            count=self.load.waiting,
        )
        self._run(self._machine.retries_exhausted)

    # --- effects of the machine

    def entered(self, state: str) -> None:
        self.state = state

    def open_link(self) -> None:
        self.link.start()

    def close_link(self) -> None:
        self._owner.link_stopping(self.link.stop())

    def member_up(self) -> None:
        self.last_error = self.last_error_ms = None
        self._unreached_ms = None
        self._patience_ms = UNREACHABLE_MS
        self.connections += 1
        self.load.started()
        if self._reported_down or self._owner.topology.get(self.node_id) is None:
            self._reported_down = False
            self._owner.member_up(self._announced)

    def member_down(self) -> None:
        if self._has_moved():
            return  # others hear of the new place, and clients find the member there
        self._reported_down = True
        self._unreached_ms = None
        self._announced = self._owner.topology.get(self.node_id) or self._announced
        self._owner.topology.lost(self.node_id)

    def disconnect_bindings(self) -> None:
        self.load.disconnected()

    def remove_bindings(self) -> None:
        self.load.end()

    def move_messages(self, target_node_id: str) -> None:
        self.load.move_to(target_node_id)

    def forget(self) -> None:
        self._put_off_contradiction()
        self._owner.member_gone(self)

    # --- for management

    def describe(self) -> dict[str, Any]:
        """The link in figures; times are ms since 1970, ``lastError`` and ``since`` are null while the link is up."""
        return {
            "nodeID": self.node_id,
            "state": self.state,
            **self.load.figures(),
            "connections": self.connections,
            "lastError": self.last_error,
            "since": self.last_error_ms,
            **self.link.figures(),
        }

    # --- inside

    def _has_moved(self) -> bool:
        """Is the member known at another place than that of the link?"""
        known = self._owner.topology.get(self.node_id)
        if known is None or known.primary is None or self._place is None:
            return False
        return not same_place(known.primary, self._place)

    def _failed(self, error: MQError) -> None:
        self.last_error = str(error)
        if self.last_error_ms is None:
            self.last_error_ms = self._unreached_ms = self._owner.clock.wall_ms()

    def _check_identity(self, factory: SessionFactory) -> None:
        """The place of a member may be taken by another broker, whose queues have other ids.

        Others may still announce the member there, as long as they have not noticed that their links to it are dead.
        """
        found = factory.node_id
        if found is None or found == self.node_id:
            return
        known, there = self._owner.topology.get(self.node_id), factory.nodes_there
        here_by_others = known is not None and any(same_connector(factory.connector, each) for each in known.connectors)
        if not here_by_others or (there and self.node_id not in there):
            raise NotConnectedError(f"there is now another broker in the place of {self.node_id}: {found}")

    def _run(self, function: Callable[..., object], *args: object) -> None:
        self._owner.turn.run(function, *args)
