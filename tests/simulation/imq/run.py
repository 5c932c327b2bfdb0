"""One run of simulated home brokers.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import random
from typing import Any

from tests.simulation.branches import SOURCE
from tests.simulation.cluster import faults
from tests.simulation.cluster.actors import (
    ClusterMixedReceiver,
    ClusterReceiver,
    ClusterTransactedReceiver,
    Drain,
    Place,
)
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.plan import ANYCAST_QUEUES, SHARED, SORTED, SORTED_QUEUE, subscription
from tests.simulation.cluster.run import PATIENCE, STRANDED_SECONDS, ClusterSimulation
from tests.simulation.copies import Copies
from tests.simulation.imq.actors import (
    HomeAsynchronousSender,
    HomeBlockingSender,
    HomeBranchWorker,
    HomeSubscriber,
    HomeTransactedSender,
    OrderedReceiver,
)
from tests.simulation.imq.copies import HomeCopies
from tests.simulation.imq.ledger import HomeLedger
from tests.simulation.imq.node import HomeNode
from tests.simulation.imq.plan import HomePlan
from tests.simulation.imq.sharing import ClientIdUser, HomeTemporaryUser, MasterChanges, shared_problems, temporary_left
from tests.simulation.policies import RETURNS
from tests.simulation.receivers import not_alone
from tests.simulation.run import Result
from tests.simulation.workload import Actor

TEMPORARY_SECONDS = 30.0
"""In which the destinations of clients that have gone end: 10 s after the loss of their home, and what it takes to notice that."""


class HomeSimulation(ClusterSimulation):
    """Home brokers and their clients in one virtual world.  ``plan`` and ``schedule`` come from the seed unless they are given."""

    command = "python -m tests.simulation --homes"
    senders: tuple[Any, ...] = (HomeBlockingSender, HomeBlockingSender, HomeAsynchronousSender, HomeTransactedSender)
    """Kinds of senders; the first one waits for each send."""
    subscriber: Any = HomeSubscriber
    branch_worker: Any = HomeBranchWorker
    client_id_user: Any = ClientIdUser
    temporary_user: Any = HomeTemporaryUser
    received = (*((name, 2) for name in ANYCAST_QUEUES), (SORTED_QUEUE, 1), (SHARED, 2), (subscription(0), 1), (subscription(1), 2))
    """Queues, and how many receive from them at most."""
    nodes: list[HomeNode]  # type: ignore[assignment]
    plan: HomePlan
    ledger: HomeLedger

    def __init__(self, seed: int, plan: HomePlan | None = None, schedule: faults.ClusterSchedule | None = None) -> None:
        super().__init__(seed, plan or self._draw_plan(random.Random(f"{seed}/home plan")), schedule, node_class=HomeNode)

    def _draw_plan(self, rng: random.Random) -> HomePlan:
        return HomePlan.draw(rng)

    def _make_ledger(self) -> ClusterLedger:
        return HomeLedger(self.plan.has_record)

    def _make_copies(self) -> Copies:
        return HomeCopies(self.world, self.ledger, self.nodes)

    # --- who is there

    def _differences(self) -> list[str]:
        """Has each one its sessions at each other one, the same queues, and nothing in doubt?"""
        live: list[HomeNode] = [node for node in self.nodes if not node.away]
        found = [text for node in live for text in node.missing_links(live)]
        names = [
            {name for name, queue in node.messaging.core.queues.items() if not (node.is_own(queue) or queue.definition.temporary)}
            for node in live
        ]
        found += shared_problems(live)
        if self.plan.in_database or any(node.homes.shared.recording.is_master for node in live):
            everywhere = set.union(*names)
            found += [f"{node.name} lacks {sorted(everywhere - own)}" for node, own in zip(live, names, strict=True) if everywhere - own]
        return found

    # --- what is left

    def _nothing_is_stranded(self) -> bool:
        """With one consumer for each queue, somewhere, nothing waits at any home; and temporary destinations have ended."""
        rng = self.world.generator("collectors")
        live: list[HomeNode] = [node for node in self.nodes if not node.away]
        if not self._wait(TEMPORARY_SECONDS, lambda: not temporary_left(live), lambda: f"left: {', '.join(temporary_left(live))}"):
            return False
        subscriptions = dict.fromkeys(each.queue for each in self.ledger.subscriptions.values())
        self.ledger.unheard = {name for name in subscriptions if self._is_unheard(name, live)}
        names = dict.fromkeys((*self.plan.queue_names, *subscriptions))
        chosen = {name: at for name in names if (at := self._drainer(name, rng.choice(live), live)) is not None}
        drains = [Drain(Place(self, node), [name for name, at in chosen.items() if at is node], False) for node in live]
        for drain in drains:
            drain.start()

        def waiting() -> list[str]:
            return [
                f"{node.count(name)} in {name} of {node.name}, with a consumer at {at.name}"
                for name, at in chosen.items()
                for node in live
                if node.count(name) > node.in_doubt(name) and not node.has_former_life(name, at)
            ]

        if not self._wait(
            STRANDED_SECONDS, lambda: not waiting(), lambda: f"messages are stranded for {STRANDED_SECONDS:.0f} s: {'; '.join(waiting())}"
        ):
            return False
        self.world.note("nothing is stranded")
        for drain in drains:
            drain.stop = True
        return self._all_end(drains)

    def _is_unheard(self, name: str, live: list[HomeNode]) -> bool:
        """Did a subscription end and begin again as only a master knows that is away?"""
        return any(node.away and all(other.has_former_life(name, node) for other in live) for node in self.nodes)

    def _drainer(self, name: str, at: HomeNode, live: list[HomeNode]) -> HomeNode | None:
        """Who consumes a queue.  Without a record, or its master, one that was not linked has a subscription of which it missed the end."""
        behind = any(at.has_former_life(name, other) for other in live)
        places = [at] if self.plan.has_record and not behind else live
        has_it = [node for node in (at, *places) if name in node.messaging.core.queues]
        return next((node for node in has_it if not any(node.has_former_life(name, other) for other in live)), None)

    # --- who works in it

    def _people(self) -> None:
        """A broker that does not wait for the master may serve clients at its first start before there is anything to send to."""
        names = set(self.plan.queue_names)

        def there() -> bool:
            return all(node.serves and names <= node.messaging.core.queues.keys() for node in self.nodes)

        if not self._wait(PATIENCE, there, "queues are missing"):
            return
        rng = self.world.generator("people")
        for number in range(rng.choice((2, 3, 4))):
            at = self._place(rng)
            address = rng.choice(("orders", "orders", "jobs", "news", "news", SORTED))
            kind = self.senders[0] if address == SORTED else rng.choice(self.senders)
            self.actors.append(kind(at, f"sender{number}@{at.broker.name}", address))
        for queue, most in self.received:
            count = rng.randrange(most + 1)
            for number in range(count):
                self.actors.append(self._home_receiver(rng, self._place(rng), queue, number, count == 1))
        for number in range(rng.choice((0, 1, 1, 2))):
            at = self._place(rng)
            self.actors.append(self.subscriber(at, f"subscriber{number}@{at.broker.name}", "news"))
        if rng.random() < 0.4:
            at = self._place(rng)
            self.actors.append(self.branch_worker(at, f"branches@{at.broker.name}"))
            not_alone(self.actors, SOURCE)
        self._more_people()
        self._deaths()

    def _place(self, rng: random.Random) -> Place:
        """Where a client is."""
        return Place(self, rng.choice(self.nodes))

    def _more_people(self) -> None:
        """Who uses what is shared beside queues, and whose messages expire or are rolled back."""
        rng = self.world.generator("more people")
        for number in range(rng.choice((0, 0, 2, 3))):
            at = self._place(rng)
            self.actors.append(self.client_id_user(at, f"identified{number}@{at.broker.name}"))
        for number in range(rng.choice((0, 0, 1))):
            at = self._place(rng)
            self.actors.append(self.temporary_user(at, f"requester{number}@{at.broker.name}"))
        for number in range(rng.choice((1, 2)) if self.plan.attempts else 0):
            at = self._place(rng)
            kind = rng.choice((HomeBlockingSender, HomeTransactedSender))
            self.actors.append(kind(at, f"returner{number}@{at.broker.name}", RETURNS))
            at = self._place(rng)
            self.actors.append(ClusterMixedReceiver(at, f"{RETURNS}-receiver{number}@{at.broker.name}", RETURNS, False, True))
        if self.plan.changes_master:
            MasterChanges(self, rng)

    def _home_receiver(self, rng: random.Random, at: Place, queue: str, number: int, alone: bool) -> Actor:
        name = f"{queue}-receiver{number}@{at.broker.name}"
        kind = rng.randrange(4)
        if kind < 2 and queue == subscription(0):
            return OrderedReceiver(at, name, queue)
        if kind < 2:
            return ClusterReceiver(at, name, queue, False)
        return ClusterTransactedReceiver(at, name, queue, False, "shipped" if kind == 2 and queue == "orders" else None)


def simulate_homes(seed: int) -> Result:
    """Run one seed."""
    result = HomeSimulation(seed).run()
    gc.collect()  # what processes that died have left behind must not be taken apart in the next run
    return result
