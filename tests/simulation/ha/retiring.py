"""Clusters whose brokers have backups that scale down: when a primary has died its backup gives everything to another broker.

Primary and backup share a store, and are at the same place, one after the other.  In some runs the backup is in the process of another
broker, to which it gives everything, and has the fate of that.  All is judged as in any cluster.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults

from mqbroker.config.model.cluster import ScaleDownConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.life_machine import active
from mqbroker.node.parts import Parts
from mqbroker.node.presence import ClusterPresence, open_side
from mqclient.urls import TransportUri
from tests.simulation import faults
from tests.simulation.cluster import handover
from tests.simulation.cluster.fabric import HostProcess
from tests.simulation.cluster.faults import FAULTS_FROM, FAULTS_UNTIL, ClusterFault, ClusterSchedule, OfNode, draw
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.cluster.run import ClusterSimulation
from tests.simulation.world import Process, World

BACKUPS = 0.7
"""The part of the deaths after which the backup comes before the primary."""
TO_HOST = "to the host"
"""The connector from a backup to the broker in whose process it is."""
WAITS_SECONDS = 6.0
"""A backup that has not taken over by then goes: there is nothing for it, since the primary has handed nothing over."""


class RetiringNode(ClusterNode):
    """The present process is the primary or the backup."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_backup = False
        self._died = False
        """Has the last process ended in the middle of its work?"""
        self._has_served = False
        """Has the present one been active?"""
        self._chance = self.generator("backups")
        self.host: RetiringNode | None = None
        """In whose process the present backup is."""
        self._ended: list[Deferred[None]] = []
        """Results that complete when the stop that is under way is over."""
        self.fabric.in_process[str(self.number)] = self.name

    def start(self) -> None:
        if not self.away and not self.running:
            self.is_backup = self._died and self.world.now < FAULTS_UNTIL and self._chance.random() < BACKUPS
            self.host = self._find_host() if self.is_backup else None
            self._died = self._has_served = False
        super().start()

    def _find_host(self) -> RetiringNode | None:
        if not are_hosted(self.world.seed):
            return None
        others = [each for each in self.peers if isinstance(each, RetiringNode) and each is not self]
        return next((each for each in others if each.serves and not (each.is_backup or each.process.stopping)), None)

    @property
    def guests(self) -> list[RetiringNode]:
        """The backups in its process."""
        return [each for each in self.peers if isinstance(each, RetiringNode) and each.host is self and each.running]

    def make_process(self) -> Process:
        if self.host is None:
            return super().make_process()
        return HostProcess(self.world, f"{self.name} life {self.starts}", self._clock_rng, self.host.name, self.host.skew_ms)

    def configuration(self) -> Configuration:
        found = super().configuration()
        if self.host is not None:
            target = TransportUri("vm", str(self.host.number), 0, {}, TO_HOST)
            scale_down = ScaleDownConfiguration(connectors=(TO_HOST,))
            found = replace(found, connectors={**found.connectors, TO_HOST: target}, scale_down=scale_down)
        if self.is_backup:
            return replace(found, shared_store=SharedStoreConfiguration(True, allow_failback=False, restart_backup=False))
        return replace(found, shared_store=SharedStoreConfiguration(False), scale_down=None)

    def _parts(self, process: Process) -> Parts:
        configuration = self.configuration()
        outside = Surroundings(
            process,
            self._random_bytes,
            ClusterPresence(configuration, Path("/"), self.make_runtime, lambda: self.clustering if self.serves else None),
            lambda name: open_side(configuration, name, Path("/"), self.make_runtime()),
            nullcontext(),
            lambda function: process.call_later(0.0, function),
        )
        return replace(super()._parts(process), activation=make_activation(configuration, outside))

    def _start_life(self) -> None:
        super()._start_life()
        if self.is_backup:
            self.world.note(f"{self.process.name} is a backup{'' if self.host is None else f' in {self.host.process.name}'}")
            self.world.schedule(WAITS_SECONDS, self._wait_no_more, self.process)

    def _wait_no_more(self, process: Process) -> None:
        if process is not self.process or not process.alive or self.serves:
            return
        if self.host is None:
            self.crash(False, 0.1)
            self._died = False
        else:
            self.stop(0.1)

    def became_active(self, process: Process) -> None:
        self._has_served = True
        super().became_active(process)

    def stop(self, downtime: float) -> None:
        if self.running and self.is_backup and self._has_served and not self.process.stopping:
            # It looks for a target by itself, and stops when it has found one.
            handover.watch(self, self._handover_begins, self.on_handover)
        super().stop(downtime)

    @property
    def serves(self) -> bool:
        return self.running and self.life.state == active.name

    # --- a process of several brokers

    def _end_life(self) -> Deferred[None]:
        guests = [each.end() for each in self.guests]
        return gatherResults(guests).addCallback(lambda _: self.life.stop())

    def end(self) -> Deferred[None]:
        """Stop in order, with the host."""
        ended: Deferred[None] = Deferred()
        self._ended.append(ended)
        if not self.process.stopping:
            self.stop(self._chance.uniform(0.05, 1.0))
        return ended

    def _stopped(self, process: Process, downtime: float) -> None:
        super()._stopped(process, downtime)
        ended, self._ended = self._ended, []
        for each in ended:
            each.callback(None)

    def crash(self, machine: bool, downtime: float) -> None:
        if self.host is not None and self.running:
            self.host.crash(machine, downtime)
        super().crash(machine, downtime)

    def _power_lost(self) -> None:
        super()._power_lost()
        if self.host is not None:
            self.host.crash(True, self._downtime)

    def _dies(self, machine: bool) -> None:
        self._died = self._has_served and not self.process.stopping
        ended, self._ended = self._ended, []
        super()._dies(machine)
        for each in ended if self.host is not None and self.host.process.alive else ():
            each.callback(None)
        for guest in self.guests:
            ClusterNode.crash(guest, machine, self._chance.uniform(0.05, 1.0))


def are_hosted(seed: int) -> bool:
    """Are backups in the processes of other brokers?"""
    return random.Random(f"{seed}/backups in other processes").random() < 0.5


def retiring_cluster(seed: int) -> ClusterSimulation:
    """A small cluster in which brokers die, and some faults more."""
    rng = random.Random(f"{seed}/backups that scale down")
    world = World(seed)
    plan = ClusterPlan.draw(world.generator("cluster plan"))
    # The time that a run takes grows with the square of its nodes.
    plan = replace(plan, nodes=min(plan.nodes, 3), skews=plan.skews[:3], away=None, connections=1).leaving()
    others = draw(world.generator("cluster faults"), plan)
    timed: list[ClusterFault] = [OfNode(rng.randrange(plan.nodes), _death(rng)) for _ in range(rng.choice((1, 2, 2, 3)))]
    timed += rng.sample(others.timed, min(len(others.timed), 2))
    return ClusterSimulation(seed, plan, ClusterSchedule(sorted(timed, key=lambda fault: fault.at), others.cuts), node_class=RetiringNode)


def _death(rng: random.Random) -> faults.Fault:
    at, downtime = rng.uniform(FAULTS_FROM, FAULTS_UNTIL), rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 2.0)))
    return rng.choice((faults.Crash(at, False, downtime), faults.Crash(at, True, downtime), faults.crash_in_write(rng, downtime)))
