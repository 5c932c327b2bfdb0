"""Pairs that replicate: each broker has a disk of its own, and other brokers of the cluster may vote.

The judgement knows nothing of notes, words and votes.  It knows which broker became active when, and at which sequence one has
acknowledged work without the other; what must be on the disk of each is judged by :class:`tests.simulation.ha.pair_copies.PairCopies`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mqbroker.ha.proof.copy_record import CopyRecord, read_record
from mqbroker.ha.proof.seeking_machine import holding
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE
from mqbroker.ha.replication.activation import ReplicationActivation
from mqbroker.ha.replication.kept_voters import kept_voters
from mqbroker.messaging.ports import Clock, Recovered
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.mirror.roots import Roots
from tests.simulation.broker import BrokerNode
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.lock_service import LockService
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.own_disks import OwnDisksGroup
from tests.simulation.ha.plan import HaPlan
from tests.simulation.policies import Plan
from tests.simulation.settings import STORE
from tests.simulation.world import Process, World
from tests.support.diskwriter import WriterInTurns

LOOKED_AT_EVERY = 20
"""Events after which is looked again whether the active broker waits for its replica or a proof."""
LAG_SECONDS = 0.5
"""A replica may be so far behind before calls of clients count as held up."""


class PairStore(FileStore):
    """``before_load`` is called before the journal is read, ``settled`` when something may have become durable."""

    before_load: Callable[[], object] = staticmethod(lambda: None)
    settled: Callable[[], object] = staticmethod(lambda: None)

    def load(self, first_id: int = 1) -> Recovered:
        self.before_load()
        return super().load(first_id)

    def settle(self) -> None:
        super().settle()
        self.settled()


class Voter(HaNode):
    """An ordinary broker of the cluster; the pair needs nothing of it but its votes."""

    def became_active(self, process: Process) -> None:
        BrokerNode.became_active(self, process)


class JavaVoter(Voter):
    """Votes as a Java broker does: it says what it sees, remembers nothing, and nothing tells that it is of another kind."""

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        channel = self.server.cluster_channel
        del channel._votes[ACTIVATION_VOTE]
        connect = channel._connect
        channel._connect = lambda connection, packet: connect(connection, replace(packet, product=None))  # type: ignore[method-assign]


class PairGroup(OwnDisksGroup):
    """A primary and a backup, each with a copy."""

    def __init__(
        self, world: World, plan: HaPlan, ledger: HaLedger, settings: Plan, may_split: bool, fabric: GroupFabric | None = None
    ) -> None:
        self.became: list[float] = []
        """When a broker became active."""
        self.on_active: Callable[[], object] = lambda: None
        self._may_split = may_split
        """May both be active, since nobody prevents that?"""
        self._acted: dict[int, int] = {}
        """By number: the highest sequence at which a broker became active, or has acknowledged work without the other."""
        self._lagging: dict[int, tuple[int, float]] = {}
        """By number: the ticket that waits for the replica, and since when."""
        super().__init__(world, plan, ledger, settings, fabric)
        self.locks = LockService(world, self.fabric.held) if plan.locks else None
        kinds = [JavaVoter] * plan.java_voters + [Voter] * (plan.voters - plan.java_voters)
        self.voters = [kind(self, plan.brokers + number, HaLedger()) for number, kind in enumerate(kinds)]
        ledger.turn_at = lambda time: sum(each <= time for each in self.became)
        world.watch(self._look)

    # --- what it is made of

    def make_node(self, number: int) -> HaNode:
        return HaNode(self, number, self.ledger, PairStore)

    def make_writer(self, node: HaNode, in_turn: Callable[..., object], clock: Clock, delay: Callable[[], float]) -> WriterInTurns:
        return WriterInTurns(in_turn, clock, delay)

    def waits(self, node: HaNode, store: FileStore) -> None:
        if isinstance(store, PairStore):
            store.before_load = partial(self._load_begins, node)
            store.settled = partial(self._settled, node, store)

    def holds(self, node: HaNode) -> bool:
        activation = node.activation
        return not isinstance(activation, ReplicationActivation) or activation.primary is not None

    def may_fail(self, node: HaNode, reason: str) -> bool:
        """An active broker whose lock is lost stops."""
        return node.lock_manager is not None and node.lock_manager.was_lost and "lock" in reason

    # --- faults

    def lose_locks(self, node: HaNode) -> None:
        """Nobody else uses the folder."""

    def _load_begins(self, node: HaNode) -> None:
        if node.load_seconds:
            node.stand_still(node.load_seconds, True)

    # --- who acts

    def record_of(self, node: HaNode) -> CopyRecord | None:
        """The word of a copy about itself, as it is on its disk."""
        return read_record(self.disk_of(node), STORE.node_directory)

    def became_active(self, node: HaNode) -> None:
        super().became_active(node)
        self.became.append(self.world.now)
        node.process.life = len(self.became)
        for each in self.nodes:
            each.node_id = each.node_id or node.node_id
        self._acts(node)
        self.on_active()

    def _settled(self, node: HaNode, store: PairStore) -> None:
        """Work is durable, and is acknowledged: without the condition that the replica has it that takes a proof."""
        if len(store.conditions) == 1 and store.synced and store._stopped is None and not store._closed:
            self._acts(node)

    def _acts(self, node: HaNode) -> None:
        record = self.record_of(node)
        assert record is not None
        for number, sequence in self._acted.items():
            if number != node.number and sequence >= record.sequence:
                self._two(node, record.sequence, self.nodes[number], sequence)
        self._acted[node.number] = record.sequence

    def _two(self, node: HaNode, sequence: int, other: HaNode, reached: int) -> None:
        text = f"{node.name} acts at sequence {sequence}, and {other.name} has acted at {reached}"
        if not (self._may_split or self._is_alone(node, other)):
            self.world.violation(text)
        elif not self.ledger.is_split:
            self.ledger.is_split = True
            for node in self.nodes:
                # What transaction managers were told is of one copy.
                node.was_damaged = True
            self.world.note(f"the pair is split: {text}")

    def _is_alone(self, *nodes: HaNode) -> bool:
        """Does one of the copies know no voters yet?"""
        return not self.plan.locks and not all(kept_voters(self.disk_of(node), STORE) for node in nodes)

    # --- what clients and checks see

    def _look(self) -> int:
        for node in self.nodes:
            if node.serves and not (self._is_proven(node) and self._keeps_up(node)):
                self._changed = self.world.now
        return LOOKED_AT_EVERY

    def _is_proven(self, node: HaNode) -> bool:
        activation = node.activation
        assert isinstance(activation, ReplicationActivation)
        return activation._own.seeker is not None and activation._own.seeker.state == holding.name

    def _keeps_up(self, node: HaNode) -> bool:
        """Does the replica answer what the own disk has?"""
        store, now = node.store, self.world.now
        if store.own.reached <= store.synced:
            self._lagging.pop(node.number, None)
            return True
        ticket, since = self._lagging.get(node.number, (0, now))
        if ticket <= store.synced:
            self._lagging[node.number] = store.synced + 1, now
        return now - since < LAG_SECONDS

    @property
    def held_up_until(self) -> float:
        return max(super().held_up_until, *(node.slow_until for node in self.nodes))

    @property
    def owners(self) -> list[HaNode]:
        """The broker that has all that was acknowledged, in a list."""
        return self.fronts

    @property
    def replica(self) -> HaNode | None:
        """The broker whose copy has to have all that was acknowledged; None while that of the active one is alone."""
        front = self.front
        (other,) = (node for node in self.nodes if node is not front)
        if not front.running or front.store.failed or len(front.store.conditions) == 1 or not other.node_id:
            return None
        own, record = self.record_of(front), self.record_of(other)
        if own is None or record is None or not record.complete or record.sequence != own.sequence:
            return None
        return other

    def differences(self) -> list[str]:
        found = super().differences()
        found += [f"{voter.name} does not serve" for voter in self.voters if not voter.serves]
        if found:
            return found
        activation = self.serving[0].activation
        assert isinstance(activation, ReplicationActivation) and activation.primary is not None
        if not activation.primary.is_replica_in_sync:
            found.append(f"{self.serving[0].name} has no replica in sync")
        return found

    def flush(self) -> None:
        """What no sync has followed yet, removals above all, waits for the next one to be sent."""
        activation = self.front.activation
        assert isinstance(activation, ReplicationActivation)
        replica = None if activation.primary is None else activation.primary.replica
        if replica is not None and replica._feed is not None:
            replica._feed._flush()

    def problems(self) -> list[str]:
        """Has the replica stayed, and the files of the active broker?"""
        if differences := self.differences():
            return differences
        for node in self.nodes:
            left = node.life._active if node.waits else None
            former = None if left is None or left.others.clustering is None else left.others.clustering.manager
            if former is not None and former.default.running:
                return [f"{node.name} is not active any more, and has not left the cluster"]
        pair = self._pair
        one, other = map(self._mirrored, pair)
        different = [
            f"{path}: {len(one.get(path, b''))} and {len(other.get(path, b''))} bytes"
            for path in sorted({*one, *other})
            if one.get(path) != other.get(path)
        ]
        return [f"the copies of {pair[0].name} and {pair[1].name} differ in {different}"] if different else []

    @property
    def _pair(self) -> tuple[HaNode, HaNode]:
        """The brokers whose copies have to be the same when nothing happens any more."""
        one, other = self.nodes
        return one, other

    def _mirrored(self, node: HaNode) -> dict[str, bytes]:
        roots = Roots.of(STORE)
        return {path: content for path, content in self.disk_of(node).files().items() if roots.mirrored(path) is not None}
