"""How the groups of different runs differ, and the configuration of each of their brokers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mqbroker.config.model.cluster import ClusterConnectionConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import TransportUri
from tests.simulation import settings
from tests.simulation.policies import Plan

TTL_MS = 1500


def broker_name(number: int) -> str:
    return "primary" if number == 0 else f"backup{number}"


@dataclass(frozen=True, slots=True)
class HaPlan:
    """A primary, which is broker 0, and its backups.  ``policies`` are their settings of high availability, by number."""

    policies: tuple[SharedStoreConfiguration, ...]
    skews: tuple[int, ...]
    """ms by which the wall clock of each broker is wrong."""
    retry_interval: int

    @staticmethod
    def draw(rng: random.Random) -> HaPlan:
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
        skew = rng.choice((0, 2000, 2000, 20_000))
        return HaPlan(tuple(policies), tuple(rng.randrange(-skew, skew + 1) for _ in policies), rng.choice((20, 200)))

    @property
    def brokers(self) -> int:
        return len(self.policies)

    def configuration(self, number: int, plan: Plan) -> Configuration:
        """Of one broker; ``plan`` holds for all that has nothing to do with high availability."""
        names = [broker_name(each) for each in range(self.brokers)]
        cluster = ClusterConnectionConfiguration(
            "pair",
            names[number],
            check_period=500,
            connection_ttl=TTL_MS,
            call_timeout=3000,
            retry_interval=self.retry_interval,
            retry_interval_multiplier=1.5,
            max_retry_interval=500,
            static_connectors=tuple(name for name in names if name != names[number]),
        )
        return replace(
            settings.configuration(plan),
            name=names[number],
            cluster_user="cluster",
            cluster_password="secret",
            connectors={name: TransportUri("tcp", name, 61616, {}, name) for name in names},
            cluster_connections=[cluster],
            shared_store=self.policies[number],
            connection_ttl_check_interval=500,
        )
