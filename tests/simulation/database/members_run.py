"""One run of an enhanced cluster: ``--enhanced``.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import random
from functools import partial
from typing import Any

from mqbroker.storage.shared.brokers import BEING_TAKEN, State
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation import once
from tests.simulation.cluster.actors import Place
from tests.simulation.cluster.fabric import Fabric, FabricRuntime
from tests.simulation.cluster.faults import HEALED_AT
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.plan import SHARED
from tests.simulation.copies import Copies
from tests.simulation.database.copies import MemberCopies
from tests.simulation.database.member_actors import (
    MemberAsynchronousSender,
    MemberBlockingSender,
    MemberBranchWorker,
    MemberClientIdUser,
    MemberOnceSender,
    MemberOnceTransactedSender,
    MemberOnceWorker,
    MemberReceiver,
    MemberSubscriber,
    MemberTemporaryUser,
    MemberTransactedReceiver,
    MemberTransactedSender,
    StreamReceiver,
)
from tests.simulation.database.member_ledger import MemberLedger
from tests.simulation.database.members import MemberNode, note_taking
from tests.simulation.database.peers_run import HomesAtDatabase
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.imq.plan import HomePlan
from tests.simulation.run import Result, works_once
from tests.simulation.workload import Actor
from tests.simulation.world import Process

OPERATIONS = 40
"""About as many operations at the database a member does while something may go wrong."""
STREAM = "audit"
"""The address and the queue of messages whose order is looked at."""
WORK_ONCE = (("orders", "shipped"), ("jobs", None), (SHARED, "shipped"))
"""From where clients with exactlyOnce receive, and where they send on what they got."""


class MemberPlace(Place):
    """A cluster as a client sees it that begins at one of its members, and follows its data."""

    @property
    def network(self) -> Any:
        return self.cluster.fabric

    @property
    def connectors(self) -> list[TransportConfiguration]:
        nodes = [self.broker, *(node for node in self.cluster.nodes if node is not self.broker)]
        return [self.cluster.connector(node) for node in nodes]

    def runtime(self, process: Process) -> FabricRuntime:
        return FabricRuntime(process, self.cluster.fabric)


class EnhancedSimulation(HomesAtDatabase):
    """Members that take over each other."""

    command = "python -m tests.simulation --enhanced"
    member_class = MemberNode
    operations = OPERATIONS
    senders = (MemberBlockingSender, MemberBlockingSender, MemberAsynchronousSender, MemberTransactedSender)
    once_senders = (MemberOnceSender, MemberOnceSender, MemberOnceTransactedSender)
    subscriber = MemberSubscriber
    branch_worker = MemberBranchWorker
    client_id_user = MemberClientIdUser
    temporary_user = MemberTemporaryUser
    received = tuple((queue, most) for queue, most in HomesAtDatabase.received if queue != STREAM)
    nodes: list[MemberNode]  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server.on_taking = partial(note_taking, nodes=self.nodes, ledger=self.ledger)

    def _draw_plan(self, rng: random.Random) -> HomePlan:
        return HomePlan.draw(rng).with_takeovers(rng)

    def _make_fabric(self) -> Fabric:
        fabric = GroupFabric(self.world)
        fabric.kernels_accept = True
        return fabric

    def _make_ledger(self) -> ClusterLedger:
        return MemberLedger()

    def _make_copies(self) -> Copies:
        return MemberCopies(self.world, self.ledger, self.nodes)

    def _heal_nodes(self) -> None:
        """A member that died in the middle of taking another one over comes back: that one cannot start before (``docs/imq.md``)."""
        super()._heal_nodes()
        takers = {taker for taker, state in self.server.ask("SELECT taker, state FROM {broker} ORDER BY broker") if state in BEING_TAKEN}
        for node in self.nodes:
            if node.away and node.name in takers:
                node.come_back()

    def _differences(self) -> list[str]:
        """Beside what home brokers agree on: has each member its row and its data, and are those of the others with one of them?"""
        found = super()._differences()
        live = [node for node in self.nodes if not node.away]
        for node in live:
            membership = node.homes.membership
            if membership is None or membership.state is not State.OPERATING or not node.owns_data:
                found.append(f"{node.name} is {membership and membership.state}, and {'has' if node.owns_data else 'has lost'} its data")
        names = {node.name for node in live}
        return found + [f"nobody takes over {broker}" for broker in self._with_data() if broker not in names]

    def _with_data(self) -> list[str]:
        """The members that have data.

        A process that comes back after a takeover has a new session before it has its row.  Until then it is no member, and nothing has
        come into that session: nobody has owned it yet.
        """
        rows = self.server.ask(
            "SELECT DISTINCT s.broker FROM {session} s LEFT JOIN {broker} b ON b.broker = s.broker "
            "WHERE b.state IS NULL OR b.state <> ? OR s.epoch <> 0 OR EXISTS (SELECT 1 FROM {message} m WHERE m.session = s.session) "
            "ORDER BY s.broker",
            (int(State.FAILOVER_COMPLETE),),
        )
        return [broker for (broker,) in rows]

    def _at_away(self, actor: Actor) -> bool:
        """Whoever was at a member that stays away goes on at another one."""
        return False

    def _place(self, rng: random.Random) -> Place:
        return MemberPlace(self, rng.choice(self.nodes))

    def _more_people(self) -> None:
        super()._more_people()
        self._stream()
        rng = self.world.generator("people with exactlyOnce")
        if works_once(self.world.seed):
            self.actors += once.people(
                self._place(rng), rng, ("orders", "jobs", "news"), WORK_ONCE, "", self.once_senders, MemberOnceWorker
            )
        for actor in self.actors:
            actor.settings.initial_connect_attempts = rng.choice((1, 5))
            actor.settings.ha = True

    def _stream(self) -> None:
        """Producers that send all the time, most often at the member of the one consumer."""
        rng = self.world.generator("stream")
        at = self._place(rng)
        for number in range(rng.choice((1, 2))):
            kind = rng.choice((MemberBlockingSender, MemberOnceSender))
            sender = kind(at if rng.random() < 0.7 else self._place(rng), f"source{number}", STREAM)
            sender.left, sender.mortal = rng.randrange(20, 40), False
            self.actors.append(sender)
        self.actors.append(StreamReceiver(at, "mouth", STREAM, HEALED_AT))

    def _home_receiver(self, rng: random.Random, at: Place, queue: str, number: int, alone: bool) -> Actor:
        name = f"{queue}-receiver{number}@{at.broker.name}"
        kind = rng.randrange(4)
        if kind < 2:
            return MemberReceiver(at, name, queue, alone)
        return MemberTransactedReceiver(at, name, queue, alone, "shipped" if kind == 2 and queue == "orders" else None)


def simulate_enhanced(seed: int) -> Result:
    """Run one seed."""
    result = EnhancedSimulation(seed).run()
    gc.collect()  # what processes that died have left behind must not be taken apart in the next run
    return result
