"""A core bridge of a simulated cluster: takes what is sent to ``parcels.out`` on one node to ``parcels.in`` on another one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mqbroker.config.model.cluster import BridgeConfiguration

OUT, IN = "parcels.out", "parcels.in"
"""Addresses with a queue each: the sender knows the one, the receiver the other."""


@dataclass(frozen=True, slots=True)
class BridgePlan:
    """``source`` and ``target`` are numbers of nodes."""

    source: int
    target: int
    concurrency: int
    confirmation_window: int
    producer_window: int
    pending_ack_timeout: int

    @staticmethod
    def draw(rng: random.Random, nodes: int) -> BridgePlan | None:
        source, target = rng.sample(range(nodes), 2)
        plan = BridgePlan(
            source, target, rng.choice((1, 1, 2)), rng.choice((2000, 10_485_760)), rng.choice((4000, -1)), rng.choice((500, 60_000))
        )
        return plan if rng.random() < 0.35 else None

    def queues(self, number: int) -> tuple[str, ...]:
        """The queues that a node has for it."""
        return (*((OUT,) if number == self.source else ()), *((IN,) if number == self.target else ()))

    def configuration(self, connector: str, ttl_ms: int, min_large: int, retry_interval: int) -> BridgeConfiguration:
        return BridgeConfiguration(
            "parcels",
            OUT,
            IN,
            static_connectors=(connector,),
            user="cluster",
            min_large_message_size=min_large,
            check_period=500,
            connection_ttl=ttl_ms,
            call_timeout=3000,
            retry_interval=retry_interval,
            max_retry_interval=500,
            confirmation_window_size=self.confirmation_window,
            producer_window_size=self.producer_window,
            pending_ack_timeout=self.pending_ack_timeout,
            concurrency=self.concurrency,
        )
