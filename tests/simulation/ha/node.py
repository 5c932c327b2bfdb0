"""A broker of a group: it waits, is active, loses the folder, and is started again by whoever watches its process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.locks.coordination import coordinated_name
from mqbroker.ha.locks.proof import LockProof
from mqbroker.messaging.ports import Clock
from mqbroker.messaging.queues.queue import Queue
from mqbroker.node.activation import Activation, Surroundings, make_activation
from mqbroker.node.clustering import Clustering
from mqbroker.node.life_machine import active, passive
from mqbroker.node.parts import Parts
from mqbroker.node.presence import ClusterPresence, open_side
from mqbroker.storage.disk.claim import Claim
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.files.filestore import FileStore
from mqclient.core.runtime import Runtime
from tests.simulation.broker import BrokerNode
from tests.simulation.cluster.fabric import FabricRuntime, HostProcess, NodeNetwork
from tests.simulation.ha.lock_service import SimulatedLockManager
from tests.simulation.model import Ledger
from tests.simulation.world import Process
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns
from tests.support.locks import LockWorker

if TYPE_CHECKING:
    from tests.simulation.ha.group import Group

INTERNAL = ("$.artemis.internal", "activemq.notifications", "notif.", "activemq.management")
"""Beginnings of the addresses and queues by which brokers talk to each other."""


@dataclass(slots=True)
class Standstill:
    """The process stands still for ``seconds`` before its disk operation number ``after`` of this kind, and may lose its locks then.

    ``stopping``: only one that stops in order does.  ``waiting``: only one that waits does, and not the one that holds the place.
    """

    operation: str
    after: int
    seconds: float
    loses_locks: bool
    stopping: bool
    waiting: bool = False


class HaNode(BrokerNode):
    """``running`` is true while there is a process, active or not."""

    activation: Activation

    def __init__(self, group: Group, number: int, ledger: Ledger, store_class: type[FileStore] = FileStore) -> None:
        self.group = group
        self.number = number
        name = group.plan.names[number]
        super().__init__(group.world, self.make_network(name), ledger, store_class, name)
        self.plan = group.settings
        self.standstills: list[Standstill] = []
        self.stands_still_until = 0.0
        self.slow_until = 0.0
        """Until then it may be slow to look at its lock."""
        self.load_seconds = 0.0
        """How long its process stands still when it reads its journal."""
        self.has_served = False
        """Has its process been active?"""
        self.lock_manager: SimulatedLockManager | None = None
        """Of the present process, where there is a lock service."""

    # --- what it is made of

    @property
    def machine_name(self) -> str:
        return self.name

    @property
    def skew(self) -> int:
        """ms by which its wall clock is wrong."""
        return self.group.plan.skews[self.number]

    def make_network(self, name: str) -> NodeNetwork:
        return self.group.fabric.add(name)

    def make_disk(self) -> SimulatedDisk:
        return self.group.disk_of(self)

    def make_process(self) -> Process:
        """With a view of the disk of its own: what is left of an earlier one does nothing any more."""
        self.has_served = False
        process = HostProcess(self.world, f"{self.name} life {self.starts}", self._clock_rng, self.machine_name, self.skew)
        self.disk = self.group.make_disk(self, process)
        self.disk.on_crash = self._power_lost
        self._failures_known = self.disk.failures
        return process

    def configuration(self) -> Configuration:
        return self.group.plan.configuration(self.number, self.plan)

    def make_runtime(self) -> Runtime:
        return FabricRuntime(self.process, self.group.fabric)

    def _parts(self, process: Process) -> Parts:
        configuration, router = self.configuration(), self.group.router
        network = None if router is None or self.number >= self.group.plan.brokers else router.check_of(process, self.name)
        self.activation = make_activation(configuration, self.surroundings(process, None if network is None else network.look))
        return replace(super()._parts(process), activation=self.activation, network=network)

    def surroundings(self, process: Process, network_answers: Callable[[], Deferred[bool]] | None) -> Surroundings:
        """The outside world of its activation."""
        configuration = self.configuration()
        return Surroundings(
            process,
            self._random_bytes,
            ClusterPresence(configuration, Path("/"), self.make_runtime, self._clustering),
            lambda name: open_side(configuration, name, Path("/"), self.make_runtime()),
            nullcontext(),
            lambda function: process.call_later(0.0, function),
            network_answers,
            self._lock_proof(process),
        )

    def _lock_proof(self, process: Process) -> LockProof | None:
        service = self.group.locks
        if service is None or self.number >= self.group.plan.brokers:
            return None
        self.lock_manager = SimulatedLockManager(service, process, self.name)
        worker = LockWorker(process, lambda: 0.0001)
        peers = self.group.plan.coordination_id
        name = None if peers is None else coordinated_name(peers)
        return LockProof(self.lock_manager, worker, lambda function: process.call_later(0.0, function), process, name)

    def _clustering(self) -> Clustering | None:
        return self.life.active.others.clustering if self.serves else None

    def make_writer(self, in_turn: Callable[..., object]) -> WriterInTurns:
        return self.group.make_writer(self, in_turn, self.process, self._disk_delay)

    def new_store(
        self,
        file_system: FileSystem,
        writer: DiskWriter,
        clock: Clock,
        entropy: Callable[[int], bytes],
        failed: Callable[[str], object],
        claim: Claim | None,
    ) -> FileStore:
        store = super().new_store(file_system, writer, clock, entropy, failed, claim)
        self.group.waits(self, store)
        return store

    # --- life

    @property
    def serves(self) -> bool:
        return self.running and not self.process.in_the_middle and self.life.state == active.name

    @property
    def waits(self) -> bool:
        """Is it passive?"""
        return self.running and not self.process.in_the_middle and self.life.state == passive.name

    @property
    def doing(self) -> str:
        """For messages."""
        if not self.running:
            return "not there"
        return "in the middle of something" if self.process.in_the_middle else self.life.state

    @property
    def companions(self) -> list[HaNode]:
        """The other brokers in its process."""
        return []

    @property
    def held_up_until(self) -> float:
        return self.group.held_up_until

    def became_active(self, process: Process) -> None:
        if process is self.process and process.alive:
            super().became_active(process)
            self.has_served = True
            self.group.became_active(self)

    def _start_life(self) -> None:
        super()._start_life()
        if self.process.alive:
            self.world.note(f"{self.process.name} is {self.life.state}")

    def may_fail(self, reason: str) -> bool:
        return super().may_fail(reason) or self.group.may_fail(self, reason)

    def _dies(self, machine: bool) -> None:
        process = self.process
        super()._dies(machine)
        self.group.fabric.process_died(process, machine)
        self.group.process_died(self)

    def _power_lost(self) -> None:
        super()._power_lost()
        self.group.is_gone(self)

    def stand_still(self, seconds: float, in_the_middle: bool) -> None:
        """Nothing of the process runs for a while; ``in_the_middle`` of an event others go on meanwhile."""
        process = self.process
        self.world.note(f"{process.name} stands still for {seconds:.3f} s")
        others = self.companions
        for each in (self, *others):
            each.stands_still_until = max(each.stands_still_until, self.world.now + seconds)
            each.process.pause(seconds)
        if not in_the_middle:
            return
        process.stand_still(seconds, [each.process for each in others])
        self.world.note(f"{process.name} {'goes on' if process.alive else 'is no more'}")

    def is_slow(self, seconds: float) -> None:
        """Its disk is, and then does what has gathered."""
        self.slow_until = max(self.slow_until, self.world.now + 2 * seconds)

    def meet(self, process: Process, operation: str, path: str) -> None:
        """The process is about to do that on its disk."""
        if process is not self.process or not self.running:
            return
        for each in self.standstills:
            if each.operation in ("", operation) and self._is_meant(each):
                each.after -= 1
                if each.after < 0:
                    self.standstills.remove(each)
                    self.world.note(f"{process.name} comes to {operation} of {path}")
                    if each.loses_locks:
                        self.group.lose_locks(self)
                    self.stand_still(each.seconds, True)
                    return

    def _is_meant(self, standstill: Standstill) -> bool:
        if standstill.waiting == self.group.holds(self):
            return False
        return self.process.stopping or not standstill.stopping

    def heal(self) -> None:
        super().heal()
        self.standstills.clear()
        self.load_seconds = 0.0
        self.step_clock(self.skew - self.process.wall_offset_ms)

    # --- what the checks look at

    def first_waiting(self, queue_name: str, color: str) -> int:
        return super().first_waiting(queue_name, color) if self.group.is_calm else 0

    def is_own(self, queue: Queue) -> bool:
        return queue.name.startswith(INTERNAL) or queue.address.name.startswith(INTERNAL)

    @property
    def strangers(self) -> list[str]:
        """Connections that are not of other brokers."""
        names = tuple(f"{node.name} life " for node in self.group.machines)
        return [
            connection.remote
            for connection in self.server.connections.values()
            if not (connection.cluster_authorized or connection.remote.startswith(names))
        ]

    def connection_problems(self) -> list[str]:
        return [f"connections of strangers are left: {self.strangers}"] if self.strangers else []
