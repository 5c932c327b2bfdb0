"""How clusters of colocated brokers differ, and the configuration of each of their brokers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from mqbroker.config.model.cluster import ColocatedConfiguration, ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.colocated.hosted_configuration import FOLDERS
from tests.simulation.ha.plan import HaPlan, draw_skews, voter_name
from tests.simulation.policies import Plan
from tests.simulation.settings import STORE

REQUESTS_MS = 300
"""Between two requests of a broker whose backup nobody hosts."""
OFFSET = 100
"""Of the ports of the first hosted backup."""


def host_name(number: int) -> str:
    return f"bay{number}"


@dataclass(frozen=True, slots=True)
class SidePlan(HaPlan):
    """One node, and where it may be: in the process of its primary, or as a hosted backup in any other.

    ``hosts`` are the names of the machines, that of the primary first.
    """

    hosts: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        own, *others = self.hosts
        return [own, *(f"{own} at {other}" for other in others)]


@dataclass(frozen=True, slots=True)
class ColocatedPlan(HaPlan):
    """Brokers that host each other's backups.  ``policies`` are those of the primaries, one for each broker; ``backup`` is that of all
    hosted backups.  ``asks`` says of each broker whether it has a backup of its own.
    """

    backup: SharedStoreConfiguration | ReplicationConfiguration = field(default_factory=lambda: SharedStoreConfiguration(True))
    max_backups: int = 1
    asks: tuple[bool, ...] = ()

    @staticmethod
    def draw(rng: random.Random, brokers: int = 2) -> ColocatedPlan:
        """Of brokers that share their stores."""
        primary = SharedStoreConfiguration(False, failover_on_shutdown=rng.random() < 0.5)
        backup = SharedStoreConfiguration(True, failover_on_shutdown=rng.random() < 0.5, allow_failback=rng.random() < 0.8)
        return _plan(rng, (primary,) * brokers, backup, 0)

    @staticmethod
    def draw_pair(rng: random.Random, brokers: int = 2) -> ColocatedPlan:
        """Of brokers that replicate, and brokers that only vote."""
        primary = ReplicationConfiguration(
            False,
            max_saved_replicated_journals_size=rng.choice((2, 2, 0, -1)),
            initial_replication_sync_timeout=rng.choice((30_000, 30_000, 1000)),
            retry_replication_wait=rng.choice((100, 500)),
        )
        backup = replace(primary, backup=True, allow_failback=rng.random() < 0.7)
        return _plan(rng, (primary,) * brokers, backup, rng.choice((0, 1, 2, 2, 2)))

    @property
    def names(self) -> list[str]:
        return [*map(host_name, range(self.brokers)), *map(voter_name, range(self.voters))]

    def side(self, number: int) -> SidePlan:
        """The node of one broker."""
        order = [number, *(each for each in range(self.brokers) if each != number)]
        skews, hosts = (tuple(found[each] for each in order) for found in (self.skews, self.names))
        policies = (self.policies[number], *(self.backup,) * (self.brokers - 1))
        return SidePlan(policies, skews, self.retry_interval, hosts=hosts)  # type: ignore[arg-type]

    def configuration(self, number: int, plan: Plan) -> Configuration:
        # The call of super() without arguments does not work in a class with slots.
        found = HaPlan.configuration(self, number, plan)
        if number >= self.brokers:
            return found
        names = self.names
        colocated = ColocatedConfiguration(
            self.backup,
            request_backup=self.asks[number],
            backup_request_retry_interval=REQUESTS_MS,
            max_backups=self.max_backups,
            backup_port_offset=OFFSET,
            excludes=tuple(name for name in names if name != names[number]),
        )
        connections = [replace(each, message_load_balancing="OFF") for each in found.cluster_connections]
        folders = {name: folder(names[number] if not self.replicated else "data", name) for name in FOLDERS}
        return replace(found, colocated=colocated, cluster_connections=connections, **folders)  # type: ignore[arg-type]


def folder(root: str, name: str) -> str:
    """The folder ``name`` of the configuration below ``root``, called as in the settings of the store."""
    return f"/{root}/{getattr(STORE, name).rpartition('/')[2]}"


def _plan(
    rng: random.Random,
    primaries: tuple[SharedStoreConfiguration, ...] | tuple[ReplicationConfiguration, ...],
    backup: SharedStoreConfiguration | ReplicationConfiguration,
    voters: int,
) -> ColocatedPlan:
    brokers = len(primaries)
    asks = [True] * brokers
    if rng.random() < 0.15:
        asks[rng.randrange(brokers)] = False
    return ColocatedPlan(
        primaries,
        draw_skews(rng, brokers + voters),
        rng.choice((20, 200)),
        voters,
        backup=backup,
        max_backups=rng.choice((1, 1, brokers - 1)),
        asks=tuple(asks),
    )
