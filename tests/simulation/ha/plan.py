"""How the groups of different runs differ, and the configuration of each of their brokers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mqbroker.config.model.cluster import (
    ClusterConnectionConfiguration,
    LockManagerConfiguration,
    ReplicationConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import TransportUri
from tests.simulation import settings
from tests.simulation.policies import Plan

TTL_MS = 1500
COORDINATION_ID = "bay 7"
PORT = 61616


PAIR_VOTERS = (0, 0, 0, 1, 1, 1, 1, 2, 2, 4)
"""How many voters pairs have, that more often which stands here more often."""


def broker_name(number: int) -> str:
    return "primary" if number == 0 else f"backup{number}"


def voter_name(number: int) -> str:
    return f"voter{number}"


@dataclass(frozen=True, slots=True)
class HaPlan:
    """A primary, which is broker 0, and its backups.  ``policies`` are their settings of high availability, by number."""

    policies: tuple[SharedStoreConfiguration, ...] | tuple[ReplicationConfiguration, ...]
    skews: tuple[int, ...]
    """ms by which the wall clock of each broker is wrong, of voters, too."""
    retry_interval: int
    voters: int = 0
    """How many further brokers are in the cluster."""
    java_voters: int = 0
    """How many of these vote as Java brokers do."""

    @staticmethod
    def draw(rng: random.Random) -> HaPlan:
        """Brokers that share a store."""
        brokers = rng.choice((2, 2, 2, 3))
        policies = [SharedStoreConfiguration(False, failover_on_shutdown=rng.random() < 0.5)]
        policies += [
            SharedStoreConfiguration(
                True,
                failover_on_shutdown=rng.random() < 0.5,
                allow_failback=rng.random() < 0.7,
                restart_backup=rng.random() < 0.8,
            )
            for _ in range(1, brokers)
        ]
        return HaPlan(tuple(policies), draw_skews(rng, brokers), rng.choice((20, 200)))

    @staticmethod
    def draw_pair(rng: random.Random) -> HaPlan:
        """A primary and a backup, each with a copy."""
        voters = rng.choice(PAIR_VOTERS)
        wait, timeout = rng.choice((100, 500)), rng.choice((30_000, 30_000, 1000))
        primary = ReplicationConfiguration(
            False,
            max_saved_replicated_journals_size=rng.choice((2, 2, 0, -1)),
            initial_replication_sync_timeout=timeout,
            retry_replication_wait=wait,
        )
        backup = replace(primary, backup=True, allow_failback=rng.random() < 0.5, restart_backup=rng.random() < 0.8)
        skews, retry_interval = draw_skews(rng, 2 + voters), rng.choice((20, 200))
        java = rng.choice((1, voters)) if voters and rng.random() < 0.2 else 0
        return HaPlan((primary, backup), skews, retry_interval, voters, java)

    def with_locks(self) -> HaPlan:
        """The same pair, with the lock service of :mod:`tests.simulation.ha.lock_service` instead of voters."""
        manager = LockManagerConfiguration("the simulated one")
        policies = tuple(replace(each, manager=manager) for each in self.policies if isinstance(each, ReplicationConfiguration))
        return replace(self, policies=policies, skews=self.skews[: self.brokers], voters=0, java_voters=0)

    def competing(self) -> HaPlan:
        """A pair :meth:`with_locks` whose brokers are both primaries, and compete for the node of their ``coordination-id``."""
        policies = tuple(
            replace(each, backup=False, allow_failback=False, coordination_id=COORDINATION_ID)
            for each in self.policies
            if isinstance(each, ReplicationConfiguration)
        )
        return replace(self, policies=policies)

    @property
    def replicated(self) -> bool:
        return isinstance(self.policies[0], ReplicationConfiguration)

    @property
    def locks(self) -> bool:
        """Does a lock manager say who gets the next sequence?"""
        policy = self.policies[0]
        return isinstance(policy, ReplicationConfiguration) and policy.manager is not None

    @property
    def coordination_id(self) -> str | None:
        """That of competing primaries."""
        policy = self.policies[0]
        return policy.coordination_id if isinstance(policy, ReplicationConfiguration) else None

    @property
    def brokers(self) -> int:
        """Those that are active in turn."""
        return len(self.policies)

    @property
    def names(self) -> list[str]:
        """Those of voters come last."""
        return [*map(broker_name, range(self.brokers)), *map(voter_name, range(self.voters))]

    def configuration(self, number: int, plan: Plan) -> Configuration:
        """Of one broker; ``plan`` holds for all that has nothing to do with high availability."""
        common = self._member(number, plan)
        if number >= self.brokers:
            return replace(common, addresses=[], diverts=[])
        policy = self.policies[number]
        if isinstance(policy, SharedStoreConfiguration):
            return replace(common, shared_store=policy)
        return replace(common, replication=policy)

    def _member(self, number: int, plan: Plan) -> Configuration:
        """What each broker of the cluster has."""
        names = self.names
        cluster = ClusterConnectionConfiguration(
            "pair",
            names[number],
            check_period=500,
            connection_ttl=TTL_MS,
            call_timeout=3000,
            retry_interval=self.retry_interval,
            retry_interval_multiplier=1.5,
            max_retry_interval=500,
            message_load_balancing="OFF" if self.replicated else "ON_DEMAND",
            static_connectors=tuple(name for name in names if name != names[number]),
        )
        return replace(
            settings.configuration(plan),
            name=names[number],
            cluster_user="cluster",
            cluster_password="secret",
            connectors={name: TransportUri("tcp", name, PORT, {}, name) for name in names},
            cluster_connections=[cluster],
            connection_ttl_check_interval=500,
        )


def draw_skews(rng: random.Random, brokers: int) -> tuple[int, ...]:
    skew = rng.choice((0, 2000, 2000, 20_000))
    return tuple(rng.randrange(-skew, skew + 1) for _ in range(brokers))
