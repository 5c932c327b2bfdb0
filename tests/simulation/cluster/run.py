"""One run of a simulated cluster.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

from mqbroker.cluster.links.connectors import announced_form
from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.membership.store_and_forward import StoreAndForwardLoad
from mqbroker.server.session.consumers import ServerConsumer
from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.message import KEY_GROUP_ID
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import Xid
from tests.simulation.cluster import faults
from tests.simulation.cluster.actors import (
    ClusterAsynchronousSender,
    ClusterBlockingSender,
    ClusterMixedReceiver,
    ClusterReceiver,
    ClusterSubscriber,
    ClusterTransactedReceiver,
    ClusterTransactedSender,
    Drain,
    GroupReceiver,
    Place,
    Wanderer,
    Watcher,
)
from tests.simulation.cluster.branches import ClusterBranchWorker
from tests.simulation.cluster.bridging import IN, OUT, BridgePlan
from tests.simulation.cluster.fabric import Fabric
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import ANYCAST_QUEUES, SHARED, SORTED, SORTED_QUEUE, TEAMS, ClusterPlan, subscription
from tests.simulation.copies import Copies
from tests.simulation.policies import RETURNS
from tests.simulation.run import Result, judged_run
from tests.simulation.workload import IDENTITY, Actor
from tests.simulation.world import World

EVENTS_MAX = 1_500_000
PATIENCE = 60.0
"""Seconds of virtual time that clients have to end their work when nothing fails any more."""
CONVERGENCE_SECONDS = 30.0
"""Seconds, beyond the difference of their clocks, in which all members and clients must agree on who is there."""
STRANDED_SECONDS = 90.0
"""Seconds in which what waits must reach a consumer elsewhere: a message that was moved before may wait for some of them."""
ASKED_EVERY = 0.005
"""Seconds between two questions whether something that is waited for has come."""
COUNTED_SECONDS = 5.0
"""Seconds in which all nodes must know of each other's consumers."""
RELINKED_SECONDS = 2.0
"""Within which links are there again after a partition."""
SCHEDULED_MAX = 100.0
QUIET_SECONDS = 1.0
"""Within which there is a moment in which no node asks another one."""
DRAINS_MAX = 8


class ClusterSimulation:
    """Nodes and their clients in one virtual world.  ``plan`` and ``schedule`` come from the seed unless they are given."""

    command = "python -m tests.simulation --cluster"

    def __init__(
        self,
        seed: int,
        plan: ClusterPlan | None = None,
        schedule: faults.ClusterSchedule | None = None,
        store_class: type[FileStore] = FileStore,
        node_class: type[ClusterNode] = ClusterNode,
    ) -> None:
        self.world = World(seed, EVENTS_MAX)
        self.fabric = self._make_fabric()
        self.plan = plan or ClusterPlan.draw(self.world.generator("cluster plan"))
        self.ledger = self._make_ledger()
        self.nodes = [self._make_node(node_class, number, store_class) for number in range(self.plan.nodes)]
        self.schedule = schedule or self._draw_faults(self.world.generator("cluster faults"))
        self.copies = self._make_copies()
        for node in self.nodes:
            node.peers, node.on_handover = self.nodes, self.copies.look
        self.actors: list[Actor] = []
        self.watchers: list[Watcher] = []
        self.decisions: dict[Xid, bool] = {}
        """What transaction managers have decided: True to commit."""

    def _make_fabric(self) -> Fabric:
        return Fabric(self.world)

    def _make_node(self, kind: type[ClusterNode], number: int, store_class: type[FileStore]) -> ClusterNode:
        return kind(self.world, self.fabric, self.ledger, self.plan, number, store_class)

    def _draw_faults(self, rng: random.Random) -> faults.ClusterSchedule:
        return faults.draw(rng, self.plan)

    def _make_ledger(self) -> ClusterLedger:
        return ClusterLedger(self.plan.several_hops)

    def _make_copies(self) -> Copies:
        return Copies(self.world, self.ledger, self.nodes)

    def run(self) -> Result:
        """Work under faults, heal, converge, drain, check."""
        return judged_run(self, self._run, self._result)

    def _result(self) -> Result:
        world = self.world
        return Result(
            world.seed,
            world.violations,
            self.schedule,
            world.log,
            world.events,
            len(self.ledger.sent),
            len(self.ledger.receipts),
            max(node.starts for node in self.nodes),
            f"{self.plan}",
            self.command,
            sum(node.handovers for node in self.nodes),
        )

    def connector(self, node: ClusterNode) -> TransportConfiguration:
        return announced_form(self.plan.configuration(node.number).connectors[node.name])

    @property
    def live(self) -> list[ClusterNode]:
        return [node for node in self.nodes if not node.away]

    # --- the course of a run

    def _run(self) -> None:
        world = self.world
        world.note(f"{self.plan}")
        for node in world.generator("starts").sample(self.nodes, len(self.nodes)):
            node.start()
        self._people()
        self.schedule.apply(world, self.fabric, self.nodes, [actor.process for actor in self.actors])
        for actor in (*self.actors, *self.watchers):
            actor.start()
        world.run(faults.HEALED_AT)
        self.fabric.heal()
        self._heal_nodes()
        world.note("everything is healed")
        steps: tuple[Callable[[], bool], ...] = (
            lambda: self._wait(PATIENCE, self._all_run, "a node does not start again"),
            self._converge,
            lambda: self._all_end([actor for actor in self.actors if not self._at_away(actor)]),
            lambda: self._wait(SCHEDULED_MAX, self._nothing_scheduled, "scheduled messages never become due"),
            self._nothing_is_stranded,
            self._come_back,
            self._last_crash,
            self._drain,
            self._judge,
        )
        for step in steps:
            if not step():
                return

    def _heal_nodes(self) -> None:
        for node in self.nodes:
            node.heal()

    def _wait(self, seconds: float, condition: Callable[[], bool], text: str | Callable[[], str]) -> bool:
        """To ask for the condition after each event would take a tenth of the time of a run."""
        world, asked = self.world, -1.0

        def now_and_then() -> bool:
            nonlocal asked
            if world.now - asked < ASKED_EVERY:
                return False
            asked = world.now
            return condition()

        if world.run(seconds, now_and_then) or condition():
            return True
        if not self.world.violations:
            self.world.violation(text if isinstance(text, str) else text())
        return False

    def _all_run(self) -> bool:
        return all(node.serves and not node.process.stopping for node in self.live)

    def _at_away(self, actor: Actor) -> bool:
        """A transaction manager has something to say to every node."""
        return bool(actor.simulation.broker.away) or (isinstance(actor, ClusterBranchWorker) and any(node.away for node in self.nodes))

    def _all_end(self, actors: Sequence[Actor]) -> bool:
        def text() -> str:
            return "; ".join(f"{actor.name} does not end: {actor.doing}" for actor in actors if not actor.finished)

        return self._wait(PATIENCE, lambda: all(actor.finished for actor in actors), text)

    # --- who is there

    def _converge(self) -> bool:
        """All know of all who are there, and of nobody else, and of each other's queues."""

        def differences() -> list[str]:
            return [] if not self._all_run() else self._differences()

        seconds = CONVERGENCE_SECONDS + self.plan.max_skew
        if self._wait(seconds, lambda: self._all_run() and not differences(), lambda: f"after {seconds:.0f} s: {'; '.join(differences())}"):
            self.world.note("the nodes agree")
            return True
        return False

    def _differences(self) -> list[str]:
        live = self.live
        ids = {node.node_id: node.name for node in live}
        found = []
        for who, sees in (
            *((node.name, {member.node_id for member in node.connection.topology}) for node in live),
            *((watcher.name, watcher.sees) for watcher in self.watchers),
        ):
            if sees != set(ids):
                names = {node.node_id: node.name for node in self.nodes}
                found.append(f"{who} sees {sorted(names.get(each, each) for each in sees)} and not {sorted(ids.values())}")
        for node in live:
            for number in self.plan.neighbours(node.number):
                other = self.nodes[number]
                member = node.connection.members.get(other.node_id)
                if other.away:
                    continue
                if member is None or member.state != "connected" or not _complete(member):
                    found.append(f"the link from {node.name} to {other.name} is {'unknown' if member is None else member.state}")
            found += self._unknown_queues(node)
        return found

    def _unknown_queues(self, node: ClusterNode) -> list[str]:
        """Are the queues that ``node`` knows of others those that they have?"""
        there = {
            f"{name}{other.node_id}": f"{name} of {other.name}"
            for other in self.live
            if other is not node
            for name, queue in other.messaging.core.queues.items()
            if not other.serves_brokers(queue) and not queue.definition.temporary
        }
        known = node.known_queues()
        missing = [text for name, text in there.items() if name not in known]
        away = tuple(other.node_id for other in self.nodes if other.away)
        wrong = [name for name in known if name not in there and not (away and name.endswith(away))]
        found = [f"{node.name} does not know the queue {text}" for text in missing]
        return found + [f"{node.name} knows the queue {name}, which is not there" for name in wrong]

    # --- what is left

    def _nothing_scheduled(self) -> bool:
        return self._all_run() and all(node.nothing_scheduled for node in self.live)

    def _nothing_is_stranded(self) -> bool:
        """With one consumer for each queue, somewhere, nothing waits anywhere else, unless the configuration says so."""
        rng, live, plan = self.world.generator("collectors"), self.live, self.plan
        chosen = {queue: rng.choice(live) for queue in plan.everywhere}
        drains = []
        for node in live:
            queues = [queue for queue, at in chosen.items() if at is node]
            drains.append(
                Drain(
                    Place(self, node),
                    [*queues, *plan.stays, *self._arrives(node), subscription(node.number), *node.taken_over, *self._subscriptions(node)],
                    False,
                )
            )
        for drain in drains:
            drain.start()

        def waiting() -> list[str]:
            found = [f"{node.backlog(other)} on {node.name} for {other.name}" for node in live for other in live if node.backlog(other)]
            bridge = plan.bridge
            if bridge is not None and not (self.nodes[bridge.source].away or self.nodes[bridge.target].away):
                count = self.nodes[bridge.source].count(OUT)
                found += [f"{count} in {OUT}, and the bridge does not take them"] if count else []
            for queue, at in chosen.items():
                places = live if plan.redistributes else [at]
                found += [
                    f"{node.count(queue)} in {queue} of {node.name}, with a consumer at {at.name}" for node in places if node.count(queue)
                ]
            return found

        if not self._wait(
            STRANDED_SECONDS, lambda: not waiting(), lambda: f"messages are stranded for {STRANDED_SECONDS:.0f} s: {'; '.join(waiting())}"
        ):
            return False
        self.world.note("nothing is stranded")
        if not self._wait(COUNTED_SECONDS, lambda: not self._wrong_counts(), lambda: "; ".join(self._wrong_counts())):
            return False
        for drain in drains:
            drain.stop = True
        return self._all_end(drains)

    def _wrong_counts(self) -> list[str]:
        """Do the nodes know how many consumers the queues of the others have?"""
        there = {
            f"{name}{node.node_id}": (queue.consumer_count, f"{name} of {node.name}")
            for node in self.live
            for name, queue in node.messaging.core.queues.items()
            if name != OUT  # its consumer is a core bridge, of which nobody is told
        }
        found = []
        for node in self.live:
            for binding in node.messaging.core.routing.remote_bindings():
                count, name = there.get(binding.cluster_name, (binding.consumer_count, ""))
                if count != binding.consumer_count:
                    found.append(f"{node.name} counts {binding.consumer_count} consumers of {name}, which has {count}")
        return found

    def _arrives(self, node: ClusterNode) -> list[str]:
        return [name for name in self.plan.bridged(node.number) if name != OUT]

    def _subscriptions(self, node: ClusterNode) -> list[str]:
        names = dict.fromkeys(each.queue for each in self.ledger.subscriptions.values())
        return [name for name in names if self.ledger.homes[name] == node.name and name in node.messaging.core.queues]

    def _come_back(self) -> bool:
        """Who was away is back, and what waited for it goes there."""
        away = [node for node in self.nodes if node.away]
        if not away:
            return True
        for node in away:
            waiting = sum(other.backlog(node) for other in self.live)
            self.world.note(f"{waiting} messages wait for {node.name}")
            node.come_back()
        if not self._wait(PATIENCE, self._all_run, "a node does not come back") or not self._converge():
            return False
        if not self._all_end(self.actors):
            return False
        if not self._wait(SCHEDULED_MAX, self._nothing_scheduled, "scheduled messages never become due"):
            return False
        return self._nothing_is_stranded()

    def _last_crash(self) -> bool:
        if self.world.generator("last crash").random() < 0.5:
            return True
        for node in self.nodes:
            node.crash(True, 0.1)
        return self._wait(PATIENCE, self._all_run, "a node does not start again") and self._converge()

    def _drain(self) -> bool:
        """Take out what is left on every node, also what moves meanwhile."""
        for _ in range(DRAINS_MAX):
            for node in self.nodes:
                names = [*self.plan.queues(node.number), *node.taken_over, *self._subscriptions(node)]
                if any(node.count(name) for name in names):
                    drain = Drain(Place(self, node), names, True)
                    drain.start()
                    if not self._all_end([drain]):
                        return False
            self.world.run(1.0)
            # What is due on one node may not be due yet on the node where it has moved: their clocks differ.
            if not self._wait(SCHEDULED_MAX, self._nothing_scheduled, "scheduled messages never become due"):
                return False
            if not any(queue.message_count for node in self.nodes for queue in node.messaging.core.queues.values()):
                break
        for watcher in self.watchers:
            watcher.stop = True
        if not self._all_end(self.watchers):
            return False
        seconds = CONNECTION_TTL_MS / 1000 + 6
        return self._wait(
            seconds,
            lambda: not any(node.strangers for node in self.nodes),
            lambda: f"nodes keep connections whose clients are gone: {[node.strangers for node in self.nodes]}",
        )

    def _judge(self) -> bool:
        world = self.world
        world.run(2.0)
        world.run(QUIET_SECONDS, self._is_quiet)
        for problem in self.ledger.problems():
            world.violation(problem)
        for node in self.nodes:
            for problem in node.idle_problems():
                world.violation(problem)
        if world.violations:
            return False
        for node in self.nodes:
            node.crash(True, 0.1)
        world.run(1.0)
        for node in self.nodes:
            if node.serves and node.messages_recovered:
                world.violation(f"{node.messages_recovered} messages are back on {node.name} after all were acknowledged")
        return True

    def _is_quiet(self) -> bool:
        """Does no node ask another one just now?"""
        return True

    # --- who works in it

    def _people(self) -> None:
        rng = self.world.generator("people")

        def place() -> Place:
            return Place(self, rng.choice(self.nodes))

        senders: Sequence[Any] = (ClusterBlockingSender, ClusterBlockingSender, ClusterAsynchronousSender, ClusterTransactedSender)
        for number in range(rng.choice((2, 3, 4))):
            address = rng.choice(("orders", "orders", "jobs", "news", "news", SORTED))
            kind = ClusterBlockingSender if address == SORTED else rng.choice(senders)
            at = place()
            self.actors.append(kind(at, f"sender{number}@{at.broker.name}", address))
        for queue, most in (*((name, 2) for name in ANYCAST_QUEUES), (SORTED_QUEUE, 1), (SHARED, 2)):
            for number in range(rng.randrange(most + 1)):
                self.actors.append(self._receiver(rng, place(), queue, number))
        for node in self.nodes:
            if rng.random() < 0.4:
                self.actors.append(self._receiver(rng, Place(self, node), subscription(node.number), 0))
        for number in range(0 if self.plan.scales_down else rng.choice((0, 1, 1, 2))):
            at = place()
            self.actors.append(ClusterSubscriber(at, f"subscriber{number}@{at.broker.name}", "news"))
        for number in range(rng.choice((0, 0, 1))):
            at = place()
            self.actors.append(Wanderer(at, f"wanderer{number}@{at.broker.name}", rng.choice(("orders", "jobs"))))
        if self.plan.attempts:
            for number in range(rng.choice((1, 2))):
                at = place()
                self.actors.append(rng.choice(senders)(at, f"returner{number}@{at.broker.name}", RETURNS))
                at = place()
                self.actors.append(ClusterMixedReceiver(at, f"{RETURNS}-receiver{number}@{at.broker.name}", RETURNS, False, True))
        if rng.random() < 0.4:
            at = place()
            self.actors.append(ClusterBranchWorker(at, f"branches@{at.broker.name}"))
        if self.plan.grouping:
            self._teams()
        if self.plan.bridge is not None:
            self._parcels(self.plan.bridge)
        self.watchers = [Watcher(place(), f"watcher{number}") for number in range(rng.choice((1, 2)))]
        self._deaths()

    def _deaths(self) -> None:
        """Some clients end in the middle of their work."""
        rng = self.world.generator("deaths")
        for actor in self.actors:
            if actor.mortal and rng.random() < 0.05:
                self.world.schedule(rng.uniform(0.5, 6.0), actor.die, rng.random() < 0.5)

    def _teams(self) -> None:
        rng = self.world.generator("teams")
        for number in range(rng.choice((2, 2, 3))):
            at = Place(self, rng.choice(self.nodes))
            self.actors.append(ClusterBlockingSender(at, f"grouper{number}@{at.broker.name}", TEAMS))
        for node in self.nodes:
            self.actors.append(GroupReceiver(Place(self, node), f"{TEAMS}-receiver@{node.name}", TEAMS, False))

    def _parcels(self, bridge: BridgePlan) -> None:
        rng = self.world.generator("parcels")
        source, target = Place(self, self.nodes[bridge.source]), Place(self, self.nodes[bridge.target])
        for number in range(rng.choice((1, 2))):
            kind: Any = rng.choice((ClusterBlockingSender, ClusterAsynchronousSender, ClusterTransactedSender))
            self.actors.append(kind(source, f"packer{number}@{source.broker.name}", OUT))
        if rng.random() < 0.6:
            self.actors.append(self._receiver(rng, target, IN, 0))

    def check_group(self, group: str) -> None:
        """Do several consumers have messages of one group that they have not acknowledged?

        The handlers promise nothing for messages that went because there was no decision in time.  What was sent before a decision was
        forgotten stays with the queue that had it.
        """
        holders = []
        for node in self.nodes:
            queue = node.messaging.core.queues.get(TEAMS) if node.serves else None
            for consumer in () if queue is None else queue.consumers():
                assert isinstance(consumer, ServerConsumer)
                messages = [each.message for each in consumer.unacknowledged.values() if each.message.property(KEY_GROUP_ID) == group]
                if any(not self._excused(group, node, str(message.property(IDENTITY))) for message in messages):
                    holders.append(f"a consumer of {node.name}")
        if len(holders) > 1:
            self.world.violation(f"group {group} is served by {' and '.join(holders)} at a time")

    def _excused(self, group: str, node: ClusterNode, identity: str) -> bool:
        """Did a message go without a decision, or was it sent before the LOCAL handler forgot the decision for the queue of this node?"""
        if any(identity in each.undecided for each in self.nodes):
            return True
        forgotten = self.nodes[0].forgotten.get((f"{group}.{TEAMS}", f"{TEAMS}{node.node_id}"))
        return forgotten is not None and self.ledger.sent[identity].asked <= self._heard_of(forgotten)

    def _heard_of(self, time: float) -> float:
        """When every node has heard of what happened then.

        After a partition its links have to be made again, and so they have to when a node between two others was away.
        """
        timed = self.schedule.timed
        cuts = [(each.at, each.at + each.seconds) for each in timed if isinstance(each, faults.Partition)]
        of_nodes = [each.fault for each in timed if isinstance(each, faults.OfNode) and self.plan.several_hops]
        cuts += [(fault.at, fault.at + fault.downtime) for fault in of_nodes if hasattr(fault, "downtime")]
        return max((end + RELINKED_SECONDS for begin, end in cuts if begin <= time <= end), default=time)

    def _receiver(self, rng: random.Random, at: Place, queue: str, number: int) -> Actor:
        name = f"{queue}-receiver{number}@{at.broker.name}"
        kind = rng.randrange(3)
        if kind == 0:
            return ClusterReceiver(at, name, queue, False)
        return ClusterTransactedReceiver(at, name, queue, False, "shipped" if kind == 1 and queue == "orders" else None)


def simulate_cluster(seed: int) -> Result:
    """Run one seed."""
    result = ClusterSimulation(seed).run()
    gc.collect()  # what processes that died have left behind must not be taken apart in the next run
    return result


def _complete(member: Member) -> bool:
    """Are all queues of the member known?"""
    return isinstance(member.load, StoreAndForwardLoad) and member.load.flow.complete
