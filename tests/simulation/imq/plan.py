"""How the home clusters of different runs differ, and the configuration of each broker."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mqbroker.config.imq.made import CONNECTION
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import EnhancedCluster, HomeCluster, SharedRecord
from tests.simulation.cluster.plan import ANYCAST_QUEUES, SHARED, SORTED, SORTED_QUEUE, ClusterPlan, node_name, subscription
from tests.simulation.database.connections import URL
from tests.simulation.settings import ANYCAST, MULTICAST

PORT = 61616
CLUSTER = "simulated"
"""The name of the cluster in a database."""
ANSWER_SECONDS = 2.0
"""How long a request to another broker waits for its answer."""


def place(number: int) -> str:
    """A broker as the others name it."""
    return f"{node_name(number)}:{PORT}"


@dataclass(frozen=True, slots=True)
class HomePlan(ClusterPlan):
    """Home brokers that all have links to each other; each has all queues, durable subscriptions too.

    ``master`` is the node that keeps the change record, None: there is no record.  While it stays away, brokers that start again serve
    their clients without it.
    """

    master: int | None
    flow_limit: int
    """Messages that are under way to one remote consumer."""
    changes_master: bool
    """Does an administrator make other brokers the master?"""
    in_database: bool = False
    """Is the change record in a database, so that there is no master?"""
    enhanced: EnhancedCluster | None = None
    """How members that have failed are taken over by others; None: nobody is."""

    @staticmethod
    def draw(rng: random.Random) -> HomePlan:
        nodes = rng.choice((2, 3, 3, 4, 5))
        skew = rng.choice((0, 2000, 20_000))
        return HomePlan(
            nodes=nodes,
            shape="full",
            load_balancing="OFF",
            redistribution_delay=-1,
            skews=tuple(rng.randrange(-skew, skew + 1) for _ in range(nodes)),
            divert=False,
            min_large=rng.choice((1024, 102_400)),
            confirmation_window=-1,
            producer_window=-1,
            retry_interval=rng.choice((20, 200)),
            reconnect_attempts=-1,
            paging=rng.choice((-1, -1, 0, 3000)),
            away=(rng.randrange(nodes), rng.uniform(0.5, 5.0)) if rng.random() < 0.2 else None,
            grouping=False,
            connections=1,
            bridge=None,
            scales_down=False,
            master=rng.choice((0, 0, 0, None)),
            flow_limit=rng.choice((1, 5, 1000)),
            attempts=rng.choice((0, 0, 2, 3)),
            changes_master=rng.random() < 0.3,
        ).with_master()

    def with_master(self) -> HomePlan:
        """Only a master can be changed."""
        return replace(self, changes_master=self.changes_master and self.master is not None)

    @property
    def has_record(self) -> bool:
        return self.in_database or self.master is not None

    def with_peers(self) -> HomePlan:
        """The same brokers, with the change record in a database."""
        return replace(self, master=None, changes_master=False, in_database=True)

    def with_takeovers(self, rng: random.Random) -> HomePlan:
        """The same brokers as an enhanced cluster: one that stays away has been killed, and nobody knows the others by a list."""
        interval = rng.choice((0.25, 0.4))
        enhanced = EnhancedCluster(interval, 2, interval, rng.choice((2, 3)), rng.choice((5, 30)), -1)
        return replace(self.with_peers(), enhanced=enhanced, attempts=0)

    @property
    def record(self) -> SharedRecord | None:
        """Where the change record is that no broker has."""
        database = DatabaseStoreConfiguration(URL)
        return SharedRecord(database, CLUSTER, retries=-1, retry_s=0.2) if self.in_database else None

    def place_of(self, number: int) -> str:
        return place(number)

    @property
    def queue_names(self) -> tuple[str, ...]:
        """All queues, of which each node has one."""
        return (*ANYCAST_QUEUES, *self.returns, SORTED_QUEUE, SHARED, *(subscription(number) for number in range(self.nodes)))

    def queues(self, number: int) -> tuple[str, ...]:
        return self.queue_names

    def configuration(self, number: int) -> Configuration:
        # Not super(): dataclasses with slots are made anew, and the class that it would look for is another one.
        made = ClusterPlan.configuration(self, number)
        if self.enhanced is not None:
            [connection] = made.cluster_connections
            made.cluster_connections = [replace(connection, static_connectors=None)]
            made.connectors[CONNECTION] = made.connectors[node_name(number)]
        return replace(
            made,
            home_cluster=self._home_cluster(number),
        )

    def _home_cluster(self, number: int) -> HomeCluster:
        listed = HomeCluster(
            tuple(place(each) for each in range(self.nodes)),
            None if self.master is None else place(self.master),
            place(number),
            nowait_for_master=self.away is not None and self.away[0] == self.master,
            nowait_for_master_s=ANSWER_SECONDS,
            dynamic_change_master=True,
            change_master_wait_s=ANSWER_SECONDS,
            reconnect_interval_multiplier=1,
            consumer_flow_limit=self.flow_limit,
            wait_reply_s=ANSWER_SECONDS,
            lock_timeout_s=ANSWER_SECONDS,
            pending_transaction_check_s=1,
            record=self.record,
        )
        if self.enhanced is None:
            return listed
        return replace(
            listed, brokers=(place(number),), cluster_id=CLUSTER, broker_id=node_name(number), finds_members=True, enhanced=self.enhanced
        )

    def _addresses(self, number: int) -> list[AddressConfiguration]:
        def address(name: str, kind: int, queues: tuple[str, ...], selector: str | None = None) -> AddressConfiguration:
            return AddressConfiguration(
                name, frozenset((kind,)), [QueueConfiguration(queue, name, kind, filter_string=selector) for queue in queues]
            )

        subscriptions = tuple(subscription(each) for each in range(self.nodes))
        return [
            *(address(name, ANYCAST, (name,)) for name in (*ANYCAST_QUEUES, *self.returns)),
            address(SORTED, ANYCAST, (SORTED_QUEUE,), "color = 'red'"),
            address("news", MULTICAST, (SHARED, *subscriptions)),
        ]
