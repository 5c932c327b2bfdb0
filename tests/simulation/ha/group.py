"""Brokers of which one is to be active.  What tells the kinds of groups apart is below :class:`Group`: so far those that share a store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mqbroker.messaging.ports import Clock
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.ha.folder import FolderView, FolderWatch, JudgedWriter
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.lock_service import LockService
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.plan import HaPlan
from tests.simulation.ha.router import LOOKED_AT_EVERY, Router, problems
from tests.simulation.policies import Plan
from tests.simulation.world import Process, World
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns

CALM_SECONDS = 4.0
"""After that nobody takes a former holder for the active broker any more."""
UNNOTICED_SECONDS = 2.5
"""So long a broker may acknowledge work although its lock is lost, while nobody else has it: it looks once a second."""


class Group:
    """What all kinds have: brokers with their network, and one of them that clients are served by.

    ``settings`` are those of all brokers that have nothing to do with high availability.  ``fabric`` joins the group with others.
    """

    goes_on_at_once = True
    """Does another broker notice at once that the active one has ended?"""

    def __init__(self, world: World, plan: HaPlan, ledger: HaLedger, settings: Plan, fabric: GroupFabric | None = None) -> None:
        self.world = world
        self.plan = plan
        self.ledger = ledger
        self.settings = settings
        self.fabric = fabric or GroupFabric(world)
        self.activations = 0
        self._changed = 0.0
        """When a broker last became active, or ended."""
        self.nodes: list[HaNode] = [self.make_node(number) for number in range(plan.brokers)]
        self.voters: list[HaNode] = []
        """Further brokers of the cluster."""
        self.locks: LockService | None = None
        """The service that says who gets the next sequence, where there is one."""
        self.router: Router | None = None
        """What the network checks ask, where there are some."""
        self.fronts = [self.nodes[0]]
        """The broker that became active last."""

    @property
    def machines(self) -> list[HaNode]:
        return [*self.nodes, *self.voters]

    def check_networks(self) -> None:
        """All brokers that take each other's place have a network check."""
        self.router = Router(self.world)
        self.world.watch(self._look_at_networks)

    def _look_at_networks(self) -> int:
        assert self.router is not None
        for problem in problems(self.router, self.nodes, self.world.now):
            self.world.violation(problem)
        return LOOKED_AT_EVERY

    def start(self) -> None:
        for node in self.world.generator("starts").sample(self.machines, len(self.machines)):
            self.world.schedule(self.world.generator(f"start of {node.name}").uniform(0, 0.1), node.start)

    def heal(self) -> None:
        self.fabric.heal()
        if self.locks is not None:
            self.locks.heal()
        if self.router is not None:
            self.router.heal()
        self.limit(None)
        for node in self.machines:
            node.heal()

    # --- what a kind decides

    def make_node(self, number: int) -> HaNode:
        return HaNode(self, number, self.ledger)

    def disk_of(self, node: HaNode) -> SimulatedDisk:
        """The disk that the broker is on."""
        raise NotImplementedError

    def make_disk(self, node: HaNode, process: Process) -> SimulatedDisk:
        """The disk as the process that begins now sees it."""
        raise NotImplementedError

    def make_writer(self, node: HaNode, in_turn: Callable[..., object], clock: Clock, delay: Callable[[], float]) -> WriterInTurns:
        raise NotImplementedError

    def lose_power(self) -> None:
        """All machines stop at once; who runs them starts all brokers again."""
        raise NotImplementedError

    def lose_locks(self, node: HaNode) -> None:
        raise NotImplementedError

    def limit(self, room: int | None) -> None:
        """So many further bytes find place; None = enough."""
        raise NotImplementedError

    def limit_of(self, node: HaNode, room: int | None) -> None:
        """The same for the disk of one broker; where all share one that is :meth:`limit`."""
        self.limit(room)

    def waits(self, node: HaNode, store: FileStore) -> None:
        """The broker begins to wait, with this store."""
        raise NotImplementedError

    def holds(self, node: HaNode) -> bool:
        """Has this process the right to be active, as far as it can know?"""
        raise NotImplementedError

    def may_fail(self, node: HaNode, reason: str) -> bool:
        """Is there a cause for which the broker may lose its store, although its disk is well?"""
        raise NotImplementedError

    def is_gone(self, node: HaNode) -> None:
        """The process of the broker has ended in the middle of an operation."""
        raise NotImplementedError

    # --- what brokers tell

    def became_active(self, node: HaNode) -> None:
        self.activations += 1
        self.fronts[:] = [node]
        self._changed = self.world.now

    def process_died(self, node: HaNode) -> None:
        self._changed = self.world.now

    # --- what clients and checks see

    def connector(self, node: HaNode) -> TransportConfiguration:
        return TransportConfiguration(node.name, "netty", (("host", node.name), ("port", "61616")))

    @property
    def front(self) -> HaNode:
        """The broker that became active last."""
        return self.fronts[0]

    @property
    def serving(self) -> list[HaNode]:
        return [node for node in self.nodes if node.serves]

    @property
    def waiting(self) -> list[HaNode]:
        return [node for node in self.nodes if node.waits]

    @property
    def held_up_until(self) -> float:
        """Before that any call may have gone without an answer."""
        if len(self.serving) != 1:
            return self.world.now
        return max(self._changed, self.fabric.last_trouble, *(node.stands_still_until for node in self.machines))

    @property
    def is_calm(self) -> bool:
        """Has one broker been active for a while, and nobody else taken himself for that?"""
        return self.held_up_until <= self.world.now - CALM_SECONDS

    def flush(self) -> None:
        """Let go out what waits for something else to happen."""

    def problems(self) -> list[str]:
        """What is wrong when nothing happens any more."""
        return []

    def differences(self) -> list[str]:
        """What is not as it must be when nothing fails any more."""
        found = [f"{node.name} is {node.doing}" for node in self.nodes if not (node.serves or node.waits)]
        serving = self.serving
        if len(serving) != 1:
            return [*found, f"{[node.name for node in serving]} are active"]
        (holder,) = serving
        if holder.number and self.plan.policies[holder.number].allow_failback:
            found.append(f"{holder.name} is active, and the primary does not get its place back")
        connection = holder.life.active.others.clustering
        assert connection is not None and connection.manager is not None
        member = connection.manager.default.topology.get(holder.node_id)
        if member is None or member.backup is None:
            found.append(f"{holder.name} knows of no backup: {member}")
        return found


class SharedStoreGroup(Group):
    """Brokers that share a folder."""

    def __init__(self, world: World, plan: HaPlan, ledger: HaLedger, settings: Plan, fabric: GroupFabric | None = None) -> None:
        self.watch = FolderWatch(world)
        self.disk = SimulatedDisk(world.generator("disk"))
        self.views: dict[int, FolderView] = {}
        """Of the present processes, by number."""
        super().__init__(world, plan, ledger, settings, fabric)
        ledger.turn_at = self.watch.at

    def disk_of(self, node: HaNode) -> SimulatedDisk:
        return self.disk

    def make_disk(self, node: HaNode, process: Process) -> SimulatedDisk:
        generator = node.generator(f"disk of life {node.starts}")
        view = self.views[node.number] = FolderView(self.disk, generator, node.name, process.name, self.watch, partial(node.meet, process))
        view.capacity = self.disk.capacity
        return view

    def view(self, node: HaNode) -> FolderView:
        return self.views[node.number]

    def make_writer(self, node: HaNode, in_turn: Callable[..., object], clock: Clock, delay: Callable[[], float]) -> WriterInTurns:
        known = 0

        def reported() -> None:
            nonlocal known
            store, view = node.store, self.view(node)
            if store.synced > known and not store.failed:
                known = store.synced
                self.watch.acknowledged(view)
                self._check_lock(node, view)

        return JudgedWriter(self.view(node), reported, in_turn, clock, delay)

    def _check_lock(self, node: HaNode, view: FolderView) -> None:
        """A lock that is lost, and that nobody else has, is missed soon."""
        since = view.lost_locks_at
        if since is None or max(node.stands_still_until, node.slow_until) > since:
            return
        if self.world.now - since > UNNOTICED_SECONDS:
            self.world.violation(f"{view.name} acknowledges work {self.world.now - since:.1f} s after its lock was lost")

    def lose_power(self) -> None:
        for node in self.nodes:
            if node.running:
                node._dies(True)
        self.disk.crash()
        for view in self.views.values():
            view.end_process()
        rng = self.world.generator(f"power {self.world.now}")
        for node in self.nodes:
            self.world.schedule(rng.uniform(0, 1.0), node.start)

    def limit(self, room: int | None) -> None:
        for disk in (self.disk, *self.views.values()):
            disk.capacity = None if room is None else disk.used + room
            disk.was_limited = True

    def lose_locks(self, node: HaNode) -> None:
        self.view(node).lose_locks()

    def waits(self, node: HaNode, store: FileStore) -> None:
        self.view(node).begins_anew()

    def holds(self, node: HaNode) -> bool:
        return self.view(node).turn > 0

    def may_fail(self, node: HaNode, reason: str) -> bool:
        view = self.view(node)
        held = view.met_held_state and not node.has_served
        return held or self.watch.is_former(view) or view.lost_locks_at is not None

    def is_gone(self, node: HaNode) -> None:
        self.view(node).gone = True

    def became_active(self, node: HaNode) -> None:
        view = self.view(node)
        if not self.watch.is_former(view):  # who has stood still may become active late, and notices with its next look at the folder
            super().became_active(node)
        node.process.life = view.turn
        if not view.turn:
            self.world.violation(f"{node.name} is active, and has not told former holders of the folder")

    def differences(self) -> list[str]:
        found = super().differences()
        if not found and self.watch.turns[-1].view is not self.view(self.front):
            found.append(f"{self.front.name} is active, and {self.watch.turns[-1].view.name} has the folder")
        return found
