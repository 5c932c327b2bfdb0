"""How the clusters of different runs differ, and the configuration of each node."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    ScaleDownConfiguration,
)
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqclient.protocol.discovery import UdpEndpoint
from mqclient.urls import TransportUri
from tests.simulation.cluster.bridging import BridgePlan
from tests.simulation.policies import DEAD_LETTERS, DIVERT, EXPIRED, RETURNS
from tests.simulation.settings import ANYCAST, DISK_SCAN_MS, MULTICAST

ANYCAST_QUEUES = ("orders", "jobs", "shipped", "audit")
SHARED = "news.shared"
"""A subscription that all nodes have: each message goes to one of them."""
SORTED, SORTED_QUEUE = "paints", "paints.red"
"""An address with one queue, which takes red messages only."""
TEAMS = "teams"
"""The address and queue of messages with groups, where there are grouping handlers."""
ENDPOINT = UdpEndpoint("231.7.7.7", 9876)
TTL_MS = 1500
NODES_MAX = 5
GROUPING_TIMEOUT_MS = 200
"""A proposal is made ten times: a sender gets its answer before its call times out."""


def node_name(number: int) -> str:
    return f"node{number}"


def subscription(number: int) -> str:
    """The durable subscription that only one node has."""
    return f"news.{node_name(number)}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """``shape``: every node has connectors to all others (full), all to the first (star), to their neighbours only (chain; ring, where the
    last one is a neighbour of the first), or they discover each other (discovery).  ``away`` is a node that does not come back while the
    others are judged, and when it goes; in a chain that would leave nodes that cannot reach each other.
    """

    nodes: int
    shape: str
    load_balancing: str
    redistribution_delay: int
    skews: tuple[int, ...]
    """ms by which the wall clock of each node is wrong."""
    divert: bool
    min_large: int
    confirmation_window: int
    producer_window: int
    retry_interval: int
    reconnect_attempts: int
    paging: int
    away: tuple[int, float] | None
    grouping: bool
    """Has each node a grouping handler, the first one the LOCAL one?"""
    connections: int
    """How many cluster connections each node has, all to the same nodes."""
    bridge: BridgePlan | None
    attempts: int
    """How often a message of returns is tried before it goes to the dead letters; 0: there is no such address."""
    scales_down: bool
    """Does a node that stops in order give its messages to another one?"""

    @staticmethod
    def draw(rng: random.Random) -> ClusterPlan:
        nodes = rng.choice((2, 2, 3, 3, 4, NODES_MAX))
        skew = rng.choice((0, 2000, 2000, 20_000))
        shape = rng.choice(("full", "full", "star", "chain", "discovery", "discovery"))
        plan = ClusterPlan(
            nodes,
            shape,
            rng.choice(("ON_DEMAND", "ON_DEMAND", "ON_DEMAND", "STRICT", "OFF", "OFF_WITH_REDISTRIBUTION")),
            rng.choice((0, 0, 0, 200, -1)),
            tuple(rng.randrange(-skew, skew + 1) for _ in range(nodes)),
            rng.random() < 0.4,
            rng.choice((1024, 1024, 3000, 102_400)),
            rng.choice((-1, 2000, 10_485_760)),
            rng.choice((4000, 1_048_576, -1)),
            rng.choice((20, 200)),
            rng.choice((-1, -1, -1, 3)),
            rng.choice((-1, -1, -1, 0, 3000)),
            (rng.randrange(1, nodes), rng.uniform(0.5, 5.0)) if rng.random() < 0.15 and shape != "chain" else None,
            rng.random() < 0.4,
            1 if shape == "chain" or rng.random() < 0.88 else 2,
            BridgePlan.draw(rng, nodes),
            rng.choice((0, 0, 2, 3)),
            False,
        ).in_ring(rng)
        return plan.leaving() if rng.random() < 0.25 else plan

    def leaving(self) -> ClusterPlan:
        """With nodes that scale down.  At another node no bridge takes from the queue of one, and a group may then have two owners."""
        return replace(self, scales_down=True, bridge=None, grouping=False)

    def in_ring(self, rng: random.Random) -> ClusterPlan:
        """At times a chain is closed."""
        return replace(self, shape="ring") if self.shape == "chain" and self.nodes > 2 and rng.random() < 0.4 else self

    def later(self, rng: random.Random) -> ClusterPlan:
        """What a node may be told when it is started again: a node that gives messages away still does so, earlier or later."""
        if self.redistribution_delay < 0 or rng.random() < 0.5:
            return self
        return replace(self, redistribution_delay=rng.choice((0, 200, 2000)))

    @property
    def several_hops(self) -> bool:
        return self.shape in ("chain", "ring")

    @property
    def redistributes(self) -> bool:
        return self.redistribution_delay >= 0 and self.load_balancing in ("ON_DEMAND", "OFF_WITH_REDISTRIBUTION")

    @property
    def max_skew(self) -> float:
        """Seconds between the clocks of two nodes."""
        return (max(self.skews) - min(self.skews)) / 1000

    def neighbours(self, number: int) -> tuple[int, ...]:
        """To which nodes this one has links."""
        if self.shape == "ring":
            return tuple(sorted({(number - 1) % self.nodes, (number + 1) % self.nodes}))
        if self.shape == "chain":
            return tuple(other for other in (number - 1, number + 1) if 0 <= other < self.nodes)
        return tuple(other for other in range(self.nodes) if other != number)

    def _static(self, number: int) -> tuple[str, ...] | None:
        if self.shape == "discovery":
            return None
        if self.shape == "star":
            return (node_name(0),) if number else ()
        return tuple(node_name(other) for other in self.neighbours(number))

    def configuration(self, number: int) -> Configuration:
        """Of one node."""
        discovery = self.shape == "discovery"
        cluster = ClusterConnectionConfiguration(
            "cluster",
            node_name(number),
            check_period=500,
            connection_ttl=TTL_MS,
            min_large_message_size=self.min_large,
            call_timeout=3000,
            retry_interval=self.retry_interval,
            retry_interval_multiplier=1.5,
            max_retry_interval=500,
            reconnect_attempts=self.reconnect_attempts,
            message_load_balancing=self.load_balancing,
            max_hops=self.nodes - 1 if self.several_hops else 1,
            confirmation_window_size=self.confirmation_window,
            producer_window_size=self.producer_window,
            notification_interval=200,
            static_connectors=self._static(number),
            allow_direct_connections_only=self.several_hops,
            discovery_group="discovery" if discovery else None,
        )
        settings: dict[str, dict[str, Any]] = {
            "#": {
                "max_delivery_attempts": -1,
                "redistribution_delay": self.redistribution_delay,
            }
        }
        if self.attempts:
            settings[RETURNS] = {
                "max_delivery_attempts": self.attempts,
                "dead_letter_address": DEAD_LETTERS,
                "expiry_address": EXPIRED,
                "redistribution_delay": self.redistribution_delay,
            }
        for address in ("jobs", "news"):
            settings[address] = {"address_full_policy": "PAGE", "max_size_bytes": self.paging, "page_size_bytes": 1500}
        return Configuration(
            name=node_name(number),
            cluster_user="cluster",
            cluster_password="secret",
            security_enabled=False,
            addresses=list(self._addresses(number)),
            address_settings=settings,
            connectors={node_name(each): TransportUri("tcp", node_name(each), 61616, {}, node_name(each)) for each in range(self.nodes)},
            broadcast_groups=[BroadcastGroupConfiguration("broadcast", ENDPOINT, 500, (node_name(number),))] if discovery else [],
            discovery_groups={"discovery": DiscoveryGroupConfiguration("discovery", ENDPOINT, 2500)} if discovery else {},
            cluster_connections=[cluster, replace(cluster, name="second")][: self.connections],
            bridges=self._bridges(number),
            scale_down=ScaleDownConfiguration() if self.scales_down else None,
            diverts=[DivertConfiguration(DIVERT, "orders", ("audit",), routing_type="PASS")] if self.divert else [],
            grouping_handler=GroupingHandlerConfiguration("groups", not number, timeout=GROUPING_TIMEOUT_MS) if self.grouping else None,
            message_expiry_scan_period=500 if self.attempts else 5000,
            address_queue_scan_period=5000,
            connection_ttl_check_interval=500,
            disk_scan_period=DISK_SCAN_MS,
        )

    def _bridges(self, number: int) -> list[BridgeConfiguration]:
        if self.bridge is None or number != self.bridge.source:
            return []
        return [self.bridge.configuration(node_name(self.bridge.target), TTL_MS, self.min_large, self.retry_interval)]

    def _addresses(self, number: int) -> list[AddressConfiguration]:
        def address(name: str, kind: int, queues: tuple[str, ...], selector: str | None = None) -> AddressConfiguration:
            entries = [QueueConfiguration(queue, name, kind, filter_string=selector, configuration_managed=True) for queue in queues]
            return AddressConfiguration(name, frozenset((kind,)), entries)

        return [
            *(address(name, ANYCAST, (name,)) for name in (*self._anycast, *self.bridged(number))),
            address(SORTED, ANYCAST, (SORTED_QUEUE,), "color = 'red'"),
            address("news", MULTICAST, (SHARED, subscription(number))),
        ]

    def queues(self, number: int) -> tuple[str, ...]:
        """All queues of a node from its configuration."""
        return (*self._anycast, SORTED_QUEUE, SHARED, subscription(number), *self.bridged(number))

    def bridged(self, number: int) -> tuple[str, ...]:
        """The queues that a node has for the bridge."""
        return () if self.bridge is None else self.bridge.queues(number)

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The queues that all nodes have, and whose messages go where a consumer is: those of groups stay."""
        return (*ANYCAST_QUEUES, *self.returns, SORTED_QUEUE, SHARED)

    @property
    def returns(self) -> tuple[str, ...]:
        """The queue whose messages are rolled back and expire, and where they go then."""
        return (RETURNS, DEAD_LETTERS, EXPIRED) if self.attempts else ()

    @property
    def stays(self) -> tuple[str, ...]:
        """The queues that all nodes have, and whose messages stay where they are."""
        return (TEAMS,) if self.grouping else ()

    @property
    def _anycast(self) -> tuple[str, ...]:
        return (*ANYCAST_QUEUES, *self.returns, *self.stays)
