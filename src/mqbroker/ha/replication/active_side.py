"""An active broker of a pair: it takes a replica, knows the voters, and lets the other broker take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger

from mqbroker.ha.one_copy import vote_for_others
from mqbroker.ha.proof.meeting import MEETING
from mqbroker.ha.proof.newcomers import Newcomers
from mqbroker.ha.proof.ports import Purpose
from mqbroker.ha.proof.rules import ProofRules, warnings_at_start
from mqbroker.ha.proof.seeking import not_met
from mqbroker.ha.proof.voters import Voters
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.primary import MirroredStore, ReplicatedPrimary

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.ports import Introduction
    from mqbroker.ha.replication.own_copy import OwnCopy
    from mqbroker.ha.replication.process_voters import ProcessVoters
    from mqbroker.messaging.ports import Clock, Store
    from mqbroker.server.server import Server
    from mqbroker.storage.tickets import Tickets
    from mqclient.protocol.topology import Topology, TopologyMember
    from mqclient.wire.primitives import TransportConfiguration

WARN_SECONDS = 10.0
"""After an activation, before it is said what the proof lacks: by then the other brokers of the cluster are known."""

log = Logger(namespace="mqbroker.ha")


class ActiveSide:
    """``answer`` answers questions of the proof, and ``fail_back`` is called when the replica is to be active again.  ``meet`` asks
    another broker what it is as a voter, and fails when it does not answer.  ``call`` lets another thread call on the loop.
    ``end_clients`` is called when a broker that stops can answer durable work no more.  ``neighbours`` are the voters of this process.
    """

    def __init__(
        self,
        policy: ReplicationConfiguration,
        own: OwnCopy,
        clock: Clock,
        call: Callable[[Callable[[], object]], object],
        answer: Callable[[str, bytes], Deferred[bytes]],
        fail_back: Callable[[], object],
        meet: Callable[[str], Deferred[Introduction]],
        end_clients: Callable[[], object],
        neighbours: ProcessVoters,
    ) -> None:
        self.primary: ReplicatedPrimary | None = None
        """None while this broker is passive."""
        self.voters: Voters | None = None
        """None while this broker is passive, and when it stops; also with a lock manager."""
        self.topology: Topology
        """The members of the cluster; it is there with :attr:`primary`."""
        self.holds_back = False
        """Does the orderly stop that comes leave it to the replica to notice it?"""
        self._policy = policy
        self._own = own
        self._clock = clock
        self._call = call
        self._answer = answer
        self._fail_back = fail_back
        self._meet = meet
        self._end_clients = end_clients
        self._neighbours = neighbours
        self._vote_no_more: Callable[[], object] = lambda: None
        """Ends the votes for the brokers of this process."""
        self._newcomers: Newcomers | None = None
        """The newcomers that this activity has to ask; None before the first one."""
        self._said: Sequence[str] | None = None
        """The warnings as they were written last; None before that."""
        self._silent: set[str] = set()
        """Voters that gave no answer when the warnings were written."""
        self._visiting: Deferred[Any] = succeed(None)
        """The visit to another broker that is active as this node."""

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        """The broker is active: take replicas, answer the other copies, and vote for other nodes."""
        answers = vote_for_others(server, store, kept, paired=True)
        keeper, seeker, writer = self._own.keeper, self._own.seeker, self._own.writer
        assert keeper is not None and seeker is not None and writer is not None and server.cluster is not None
        connections = server.cluster.connections
        connection = cast("ClusterConnection", connections[self._policy.cluster_name or next(iter(connections))])
        turn = server.turn

        def call(function: Callable[[], object]) -> None:
            self._call(partial(turn.run, function))

        mirrored = MirroredStore(cast("Tickets", store), self._own.mirrored, writer, self._own.settings.journal_datasync, call)
        self.primary = ReplicatedPrimary(
            self._policy,
            server,
            mirrored,
            connection,
            keeper,
            seeker,
            self._answer,
            partial(seeker.seek, Purpose.GO_ON),
            self._fail_back,
            self._end_clients,
        )
        self.topology = connection.topology
        self.primary.start()
        self._vote_no_more = self._neighbours.join(server, answers)
        server.cluster_channel.register_vote(MEETING, lambda connection, question: self._answer(MEETING, question))
        if self._policy.manager is not None:
            # Nobody else is asked.
            return
        self.voters = voters = Voters(store, server.node_id, kept)
        self._said, self._silent = None, set()
        self._newcomers = newcomers = Newcomers(self._clock, self._meet, partial(turn.run, self._voter_met, voters))
        voters.changed.subscribe(partial(self._warn_again, voters))
        self.topology.add_listener(partial(self._member_seen, voters, newcomers))
        self.topology.contested.subscribe(self._contested)
        self.topology.scaled_down.subscribe(partial(self._member_scaled_down, voters))
        self._clock.call_later(WARN_SECONDS, self._warn, voters)

    def _member_seen(self, voters: Voters, newcomers: Newcomers, member: TopologyMember, up: bool) -> None:
        node_id = member.node_id
        if not up:
            newcomers.gone(node_id)
        elif voters is self.voters and node_id != self._own.folder.node_id and node_id not in set(voters.members) - self._silent:
            newcomers.seen(node_id)

    def _voter_met(self, voters: Voters, node_id: str) -> None:
        if node_id in voters.members:
            self._warn_again(voters)
        else:
            voters.join(node_id)

    def _warn_again(self, voters: Voters) -> None:
        """Others vote now: say what was not said yet."""
        if self._said is not None:
            self._warn(voters)

    def _contested(self, place: TransportConfiguration) -> None:
        """Another broker is active as this node, as when a pair that was cut hears of itself again: one of the two is to give way."""
        if self._visiting.called and self._own.seeker is not None:
            self._visiting = self._own.seeker.visit(connector_text(place)).addErrback(not_met)

    def _member_scaled_down(self, voters: Voters, node_id: str) -> None:
        if voters is self.voters:
            voters.leave(node_id)

    def _warn(self, voters: Voters) -> None:
        """Say what weakens the guarantee that two copies are never active, now that the other brokers had time to be seen."""
        if voters is self.voters:
            members = voters.members
            met = DeferredList([self._meet(each) for each in members], consumeErrors=True)
            met.addCallback(lambda answers: self._warn_of(voters, dict(zip(members, answers, strict=True))))

    def _warn_of(self, voters: Voters, met: Mapping[str, tuple[bool, Any]]) -> None:
        if voters is self.voters:
            said = {node_id: answer if answered else None for node_id, (answered, answer) in met.items()}
            self._silent = {node_id for node_id, answer in said.items() if answer is None}
            former, self._said = self._said or (), tuple(warnings_at_start(ProofRules.of(self._policy), said))
            for text in self._said:
                if text not in former:
                    log.warn("{text}", text=text)

    def leave(self) -> None:
        """The broker begins an orderly stop."""
        self._stop_asking()
        if self.primary is not None and not self.holds_back:
            self.primary.stop_called()

    def let_go(self, done: Callable[[], object]) -> None:
        """All work is written: let a replica in sync take over, unless the broker holds back; then call ``done``."""
        if self.primary is None or self.holds_back:
            done()
        else:
            self.primary.hand_over(done)

    def stop(self) -> None:
        """The broker is no longer active."""
        self.holds_back = False
        if self.primary is not None:
            self.primary.stop()
            self.primary = None
        self._stop_asking()

    def _stop_asking(self) -> None:
        self.voters = None
        self._vote_no_more()
        if self._newcomers is not None:
            self._newcomers.stop()
