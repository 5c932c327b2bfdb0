"""Clients of home brokers: those of other clusters, with the certainty that each subscription is at each broker."""

from __future__ import annotations

from tests.simulation.branches import BranchWorker
from tests.simulation.cluster.actors import AtNode, ClusterAsynchronousSender, ClusterSender, ClusterTransactedSender
from tests.simulation.workload import BlockingSender


class HomeSender(ClusterSender):
    """Each of its messages gets to all subscriptions of the configuration: its own broker has them."""

    def elsewhere(self) -> set[str]:
        return set()


class HomeBlockingSender(HomeSender, BlockingSender):
    pass


class HomeAsynchronousSender(HomeSender, ClusterAsynchronousSender):
    pass


class HomeTransactedSender(HomeSender, ClusterTransactedSender):
    pass


class HomeBranchWorker(AtNode, BranchWorker):
    """Its transaction manager knows the one broker, whose homes are none of its business."""

    targets = ("orders", "jobs")
