"""One run of an enhanced cluster: ``--enhanced``.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from mqbroker.storage.shared.brokers import State
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.cluster.actors import ClusterReceiver, ClusterSubscriber, ClusterTransactedReceiver, Place
from tests.simulation.cluster.fabric import Fabric, FabricRuntime
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.plan import ANYCAST_QUEUES, SHARED, SORTED, SORTED_QUEUE, subscription
from tests.simulation.copies import Copies
from tests.simulation.database.members import MemberLedger, MemberNode, note_taking
from tests.simulation.database.peers_run import HomesAtDatabase
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.ha.run import RECONNECT_ATTEMPTS
from tests.simulation.imq.actors import HomeAsynchronousSender, HomeBlockingSender, HomeSender, HomeTransactedSender
from tests.simulation.imq.plan import HomePlan
from tests.simulation.run import Result
from tests.simulation.workload import Actor
from tests.simulation.world import Process

OPERATIONS = 40
"""About as many operations at the database a member does while something may go wrong."""


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


class _SendsOnce(HomeSender):
    """Its next attempt may come to another member, which knows nothing of the duplicate ids of the first one."""

    def may_repeat(self, identity: str) -> bool:
        return False


class MemberBlockingSender(_SendsOnce, HomeBlockingSender):
    pass


class MemberAsynchronousSender(_SendsOnce, HomeAsynchronousSender):
    pass


class MemberTransactedSender(_SendsOnce, HomeTransactedSender):
    pass


class MemberSubscriber(ClusterSubscriber):
    """Goes on at any member."""

    def is_gone(self) -> None:
        self.world.note(f"{self.name}: this member has not heard of {self.queue} yet")


class _NoCopies(Copies):
    """What one member had may be with another one by then: kills and takeovers in the run itself show what is durable."""

    def look(self) -> None: ...


class EnhancedSimulation(HomesAtDatabase):
    """Members that take over each other."""

    command = "python -m tests.simulation --enhanced"
    member_class = MemberNode
    operations = OPERATIONS
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
        return _NoCopies(self.world, self.ledger, self.nodes)

    def _differences(self) -> list[str]:
        """Beside what home brokers agree on: has each member its row and its data, and are those of the others with one of them?"""
        found = super()._differences()
        live = [node for node in self.nodes if not node.away]
        for node in live:
            membership = node.homes.membership
            if membership is None or membership.state is not State.OPERATING or not node.owns_data:
                found.append(f"{node.name} is {membership and membership.state}, and {'has' if node.owns_data else 'has lost'} its data")
        names = {node.name for node in live}
        owners = [row[0] for row in self.server.ask("SELECT DISTINCT broker FROM {session} ORDER BY broker")]
        return found + [f"nobody takes over {broker}" for broker in owners if broker not in names]

    def _people(self) -> None:
        names = set(self.plan.queue_names)

        def there() -> bool:
            return all(node.serves and names <= node.messaging.core.queues.keys() for node in self.nodes)

        self._wait(30.0, there, "queues are missing")
        rng = self.world.generator("people")

        def place() -> Place:
            return MemberPlace(self, rng.choice(self.nodes))

        senders: Sequence[Any] = (MemberBlockingSender, MemberBlockingSender, MemberAsynchronousSender, MemberTransactedSender)
        for number in range(rng.choice((2, 3, 4))):
            at = place()
            address = rng.choice(("orders", "orders", "jobs", "news", "news", SORTED))
            kind = MemberBlockingSender if address == SORTED else rng.choice(senders)
            self.actors.append(kind(at, f"sender{number}@{at.broker.name}", address))
        queues = (*((name, 2) for name in ANYCAST_QUEUES), (SORTED_QUEUE, 1), (SHARED, 2), (subscription(0), 1), (subscription(1), 2))
        for queue, most in queues:
            for number in range(rng.randrange(most + 1)):
                self.actors.append(self._member_receiver(rng, place(), queue, number))
        for number in range(rng.choice((0, 1, 1, 2))):
            at = place()
            subscriber = MemberSubscriber(at, f"subscriber{number}@{at.broker.name}", "news")
            subscriber.has_company()  # its messages may be with several members
            self.actors.append(subscriber)
        for actor in self.actors:
            actor.settings.initial_connect_attempts = rng.choice((1, 5))
            if actor.settings.reconnect_attempts < 0:
                actor.settings.reconnect_attempts = RECONNECT_ATTEMPTS
        self._deaths()

    def _member_receiver(self, rng: random.Random, at: Place, queue: str, number: int) -> Actor:
        name = f"{queue}-receiver{number}@{at.broker.name}"
        kind = rng.randrange(4)
        if kind < 2:
            return ClusterReceiver(at, name, queue, False)
        return ClusterTransactedReceiver(at, name, queue, False, "shipped" if kind == 2 and queue == "orders" else None)


def simulate_enhanced(seed: int) -> Result:
    """Run one seed."""
    result = EnhancedSimulation(seed).run()
    gc.collect()  # what processes that died have left behind must not be taken apart in the next run
    return result
