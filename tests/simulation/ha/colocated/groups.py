"""Colocated brokers: each node is a group of its own, of its primary and the backups that other brokers host of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.colocated.hosted_configuration import FOLDERS, hosted_name
from mqbroker.ha.proof.copy_record import CopyRecord
from mqbroker.ha.replication.activation import ReplicationActivation
from mqbroker.messaging.ports import Clock
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.ha.colocated.fabric import ColocatedFabric
from tests.simulation.ha.colocated.nodes import HostedNode, HostNode
from tests.simulation.ha.colocated.plan import OFFSET, ColocatedPlan, SidePlan, folder
from tests.simulation.ha.fabric import GroupNetwork
from tests.simulation.ha.group import Group, SharedStoreGroup
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.own_disks import OwnDisk
from tests.simulation.ha.pair import PairGroup, PairStore, Voter
from tests.simulation.ha.plan import PORT
from tests.simulation.ha.process_disk import ProcessDisk
from tests.simulation.policies import Plan
from tests.simulation.world import Process, World
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns

DATA = "/data/"
"""Where the folders of a store are on its disk, see :data:`tests.simulation.settings.STORE`."""


class Side(Group):
    """One node: its primary, which is broker 0, and its backup wherever that may be hosted."""

    plan: SidePlan
    store_class: type[FileStore] = FileStore

    def __init__(self, colony: Colony, side: int, *arguments: Any) -> None:
        self.colony = colony
        self.side = side
        super().__init__(colony.world, colony.plan.side(side), HaLedger(), colony.settings, *arguments, fabric=colony.fabric)
        colony.fabric.followed[self.backup_host] = self._backup_network

    @property
    def backup_host(self) -> str:
        """Stands for the host of the backup in what clients are told."""
        return f"backup of {self.plan.hosts[0]}"

    def _backup_network(self) -> GroupNetwork:
        found = next((node.network for node in self.nodes[1:] if node.running), None)
        # Where nobody hosts it, others may be hosted: clients do not go there.
        return found if isinstance(found, GroupNetwork) else self.colony.fabric.at(self.backup_host)

    def make_node(self, number: int) -> HaNode:
        kind = HostedNode if number else HostNode
        return kind(self, number, self.ledger, self.store_class)

    @property
    def machines(self) -> list[HaNode]:
        return self.colony.everyone

    @property
    def home(self) -> HaNode:
        return self.nodes[0]

    def connector(self, node: HaNode) -> TransportConfiguration:
        return _connector(node.name if node is self.home else self.backup_host, PORT)

    @property
    def backup_places(self) -> list[TransportConfiguration]:
        """The connectors under which the backups that are hosted now are announced."""
        hosted = [node for node in self.nodes if isinstance(node, HostedNode) and node.running]
        return [_connector(node.machine_name, PORT + OFFSET * node.place) for node in hosted]

    def differences(self) -> list[str]:
        serving = self.serving
        if len(serving) != 1:
            return [f"{[node.name for node in serving]} of {[node.name for node in self.nodes]} are active"]
        (holder,) = serving
        if holder is not self.home:
            found = [] if self.home.waits else [f"{self.home.name} neither serves nor waits"]
            return [*found, f"{self.home.name} does not get its place back"] if self.plan.policies[1].allow_failback else found
        return self._lacks(holder) if self.is_to_be_hosted else []

    @property
    def is_to_be_hosted(self) -> bool:
        """Is there a broker that hosts, or could host, the backup?"""
        plan = self.colony.plan
        hosts = [self.colony.host(name) for name in self.plan.hosts[1:]]
        return plan.asks[self.side] and any(
            host.serves and (len(host.companions) < plan.max_backups or self in [each.group for each in host.companions]) for host in hosts
        )

    def _lacks(self, holder: HaNode) -> list[str]:
        """Why the primary is not backed up."""
        if not any(node.waits for node in self.nodes[1:]):
            return [f"nobody hosts the backup of {holder.name}"]
        connection = holder.life.active.others.clustering
        assert connection is not None and connection.manager is not None
        member = connection.manager.default.topology.get(holder.node_id)
        return [f"{holder.name} knows of no backup: {member}"] if member is None or member.backup is None else []


class SharedSide(Side, SharedStoreGroup):
    """Its backup has the folders of its primary."""


class CopiedSide(Side, PairGroup):
    """Its backup has a copy."""

    store_class = PairStore

    def disk_of(self, node: HaNode) -> SimulatedDisk:
        return self.colony.place(node.machine_name, node.place) if isinstance(node, HostedNode) else self.disks[0]

    def record_of(self, node: HaNode) -> CopyRecord | None:
        return None if isinstance(node, HostedNode) and not self.colony.is_in_place(node) else super().record_of(node)

    def limit(self, room: int | None) -> None:
        for node in self.nodes:
            self.limit_of(node, room)

    @property
    def owners(self) -> list[HaNode]:
        """The primary to which the backup has given way, if the place of the backup has another copy before the primary serves."""
        front = self.front
        return [self.home] if isinstance(front, HostedNode) and not self.colony.is_in_place(front) else self.fronts

    @property
    def replica(self) -> HaNode | None:
        front = self.front
        if not front.running or front.store.failed or len(front.store.conditions) == 1:
            return None
        own = self.record_of(front)
        for other in self.nodes:
            record = self.record_of(other)
            if other is not front and other.node_id and own and record and record.complete and record.sequence == own.sequence:
                return other
        return None

    def _lacks(self, holder: HaNode) -> list[str]:
        if found := super()._lacks(holder):
            return found
        activation = holder.activation
        assert isinstance(activation, ReplicationActivation) and activation.primary is not None
        return [] if activation.primary.is_replica_in_sync else [f"{holder.name} has no replica in sync"]

    @property
    def _pair(self) -> tuple[HaNode, HaNode]:
        """The same broker twice where there is no backup.  A host that is back may host a former copy for a while, beside the replica."""
        return self.front, self.replica or self.front


class Colony(Group):
    """All brokers of a cluster.  ``nodes`` are the primaries, by whose machines faults are counted."""

    plan: ColocatedPlan
    fabric: ColocatedFabric
    nodes: list[HostNode]  # type: ignore[assignment]

    def __init__(self, world: World, plan: ColocatedPlan, settings: Plan, may_split: bool) -> None:
        self.world, self.plan, self.settings = world, plan, settings
        self.fabric = ColocatedFabric(world)
        self.fabric.kernels_accept = plan.replicated
        self.sides: list[Side] = []
        self._places: dict[tuple[str, int], SimulatedDisk] = {}
        self._tenants: dict[tuple[str, int], HostedNode] = {}
        """Whose copy is in a place."""
        for number in range(plan.brokers):
            self.sides.append(CopiedSide(self, number, may_split) if plan.replicated else SharedSide(self, number))
        super().__init__(world, plan, HaLedger(), settings, self.fabric)
        self._voter_disks = [SimulatedDisk(world.generator(f"disk of {name}")) for name in plan.names[plan.brokers :]]
        self.voters = [Voter(self, plan.brokers + number, HaLedger()) for number in range(plan.voters)]
        self._rng = world.generator("whom it hits")

    # --- who there is

    def make_node(self, number: int) -> HaNode:
        return self.sides[number].home

    @property
    def everyone(self) -> list[HaNode]:
        return [*(node for side in self.sides for node in side.nodes), *self.voters]

    def host(self, name: str) -> HostNode:
        return self.nodes[self.plan.names.index(name)]

    @property
    def serving(self) -> list[HaNode]:
        """In any order: a fault that hits the active broker hits the first one."""
        found = [node for side in self.sides for node in side.serving]
        return self._rng.sample(found, len(found))

    @property
    def waiting(self) -> list[HaNode]:
        return [node for side in self.sides for node in side.nodes if node.waits]

    def hosted(self, configuration: Configuration, host: HostNode) -> HostedNode:
        """The broker that a configuration is made for."""
        policy = configuration.replication
        for side in self.sides:
            own = side.home.node_id == policy.node_id if policy is not None else configuration.journal_directory == _journal(side)
            if own:
                node = side.nodes[side.plan.hosts.index(host.name)]
                assert isinstance(node, HostedNode)
                return node
        raise AssertionError(f"{configuration.name} is of no node")

    # --- where what is

    def files_of(self, host: HostNode) -> Any:
        return MachineFiles(lambda path: self._find(host, path))

    def _find(self, host: HostNode, path: str) -> tuple[SimulatedDisk, str]:
        """The disk where a file of a machine is, and how it is called there."""
        for side in self.sides:
            root = f"/{side.home.name}/"
            if path.startswith(root):
                return side.disk_of(side.home), DATA + path.removeprefix(root)
        for number in range(1, self.plan.brokers):
            if hosted_name(number) in path:
                return self.place(host.name, number), path.replace(hosted_name(number), "")
        return host.group.disk_of(host), path

    def place(self, machine: str, number: int) -> SimulatedDisk:
        """Where the copy of the hosted backup with this number is."""
        if (machine, number) not in self._places:
            self._places[machine, number] = SimulatedDisk(self.world.generator(f"disk of place {number} of {machine}"))
        return self._places[machine, number]

    def is_in_place(self, node: HostedNode) -> bool:
        return self._tenants.get((node.machine_name, node.place)) is node

    def moves_in(self, node: HostedNode, configuration: Configuration) -> None:
        """A broker begins to host a backup."""
        self._tenants[node.machine_name, node.place] = node
        root, name = (node.group.home.name, "") if not self.plan.replicated else ("data", hosted_name(node.place))
        for each in FOLDERS:
            if getattr(configuration, each) != folder(root, each) + name:
                self.world.violation(f"{node.name} has {getattr(configuration, each)} for its {each}")
        guests = [guest.name for guest in node.host.companions]
        if len(guests) + 1 > self.plan.max_backups:
            self.world.violation(f"{node.host.name} hosts {[*guests, node.name]}, and its max-backups is {self.plan.max_backups}")

    def accept_in_process(self, machine: str) -> int:
        number = self.plan.names.index(machine)
        self.fabric.in_process[str(number)] = f"{machine}:{PORT}"
        return number

    # --- what a kind decides, here of voters

    def disk_of(self, node: HaNode) -> SimulatedDisk:
        return self._voter_disks[node.number - self.plan.brokers]

    def make_disk(self, node: HaNode, process: Process) -> SimulatedDisk:
        return OwnDisk(self.disk_of(node), node, process)

    def make_writer(self, node: HaNode, in_turn: Callable[..., object], clock: Clock, delay: Callable[[], float]) -> WriterInTurns:
        return WriterInTurns(in_turn, clock, delay)

    def waits(self, node: HaNode, store: FileStore) -> None:
        """Voters never do."""

    def holds(self, node: HaNode) -> bool:
        return True

    def may_fail(self, node: HaNode, reason: str) -> bool:
        return False

    def is_gone(self, node: HaNode) -> None:
        assert isinstance(node.disk, ProcessDisk)
        node.disk.gone = True

    def lose_power(self) -> None:
        rng = self.world.generator(f"power {self.world.now}")
        for node in self.machines:
            node.crash(True, rng.uniform(0, 1.0))

    def lose_locks(self, node: HaNode) -> None:
        if node.group is not self:
            node.group.lose_locks(node)

    def limit(self, room: int | None) -> None:
        for side in self.sides:
            side.limit(room)

    def limit_of(self, node: HaNode, room: int | None) -> None:
        if node.group is not self:
            node.group.limit_of(node, room)

    def heal(self) -> None:
        self.fabric.heal()
        self.limit(None)
        for node in self.everyone:
            node.heal()

    def process_died(self, node: HaNode) -> None:
        """Of a voter: nobody waits for it."""

    def differences(self) -> list[str]:
        found = [text for side in self.sides for text in side.differences()]
        return found + [f"{voter.name} does not serve" for voter in self.voters if not voter.serves]


class MachineFiles:
    """What :class:`mqbroker.colocation.Colocation` looks at of the files of its machine."""

    def __init__(self, find: Callable[[str], tuple[SimulatedDisk, str]]) -> None:
        self._find = find

    def exists(self, path: str) -> bool:
        disk, path = self._find(path)
        return disk.exists(path)

    def read(self, path: str) -> bytes:
        disk, path = self._find(path)
        return disk.read(path)

    def lock(self, path: str, patience: float = 0.0) -> Any:
        disk, path = self._find(path)
        return disk.lock(path, patience)


def _connector(host: str, port: int) -> TransportConfiguration:
    return TransportConfiguration(host, "netty", (("host", host), ("port", str(port))))


def _journal(side: Side) -> str:
    return folder(side.home.name, "journal_directory")
