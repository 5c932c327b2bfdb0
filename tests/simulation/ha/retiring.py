"""Clusters whose brokers have backups that scale down: when a primary has died its backup gives everything to another broker.

Primary and backup share a store, and are at the same place, one after the other.  All is judged as in any cluster.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.life_machine import active
from mqbroker.node.parts import Parts
from mqbroker.node.presence import ClusterPresence, open_side
from tests.simulation import faults
from tests.simulation.cluster import handover
from tests.simulation.cluster.faults import FAULTS_FROM, FAULTS_UNTIL, ClusterFault, ClusterSchedule, OfNode, draw
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.cluster.run import ClusterSimulation
from tests.simulation.world import Process, World

BACKUPS = 0.7
"""The part of the deaths after which the backup comes before the primary."""
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

    def start(self) -> None:
        if not self.away and not self.running:
            self.is_backup = self._died and self.world.now < FAULTS_UNTIL and self._chance.random() < BACKUPS
            self._died = self._has_served = False
        super().start()

    def configuration(self) -> Configuration:
        found = super().configuration()
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
            self.world.note(f"{self.process.name} is a backup")
            self.world.schedule(WAITS_SECONDS, self._wait_no_more, self.process)

    def _wait_no_more(self, process: Process) -> None:
        if process is self.process and process.alive and not self.serves:
            self.crash(False, 0.1)
            self._died = False

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

    def _dies(self, machine: bool) -> None:
        self._died = self._has_served and not self.process.stopping
        super()._dies(machine)


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
