"""Brokers of which each has a disk of its own."""

from __future__ import annotations

from functools import partial

from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.ha.group import Group
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.plan import HaPlan
from tests.simulation.ha.process_disk import ProcessDisk
from tests.simulation.policies import Plan
from tests.simulation.world import Process, World
from tests.support.disk import SimulatedDisk


class OwnDisk(ProcessDisk):
    """The disk of one machine as one life of its process sees it."""

    def __init__(self, disk: SimulatedDisk, node: HaNode, process: Process) -> None:
        super().__init__(node.generator(f"disk of life {node.starts}"), shared=disk, machine=node.name)
        self.meets = partial(node.meet, process)
        self.capacity, self.was_limited = disk.capacity, disk.was_limited


class OwnDisksGroup(Group):
    """A group whose brokers use no files of each other."""

    goes_on_at_once = False

    def __init__(self, world: World, plan: HaPlan, ledger: HaLedger, settings: Plan, fabric: GroupFabric | None = None) -> None:
        self.disks = [SimulatedDisk(world.generator(f"disk of {name}")) for name in plan.names]
        super().__init__(world, plan, ledger, settings, fabric)
        self.fabric.kernels_accept = True

    def disk_of(self, node: HaNode) -> SimulatedDisk:
        return self.disks[node.number]

    def make_disk(self, node: HaNode, process: Process) -> SimulatedDisk:
        return OwnDisk(self.disk_of(node), node, process)

    def lose_power(self) -> None:
        rng = self.world.generator(f"power {self.world.now}")
        for node in self.machines:
            node.crash(True, rng.uniform(0, 1.0))

    def limit(self, room: int | None) -> None:
        for node in self.machines:
            self.limit_of(node, room)

    def limit_of(self, node: HaNode, room: int | None) -> None:
        """See :meth:`limit`, for one machine."""
        for disk in (self.disk_of(node), node.disk):
            disk.capacity = None if room is None else disk.used + room
            disk.was_limited = True

    def is_gone(self, node: HaNode) -> None:
        assert isinstance(node.disk, ProcessDisk)
        node.disk.gone = True
