"""Clients of home brokers: those of other clusters, with the certainty that each subscription is at each broker."""

from __future__ import annotations

from typing import Any

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from tests.simulation.branches import BranchWorker
from tests.simulation.cluster.actors import (
    AtNode,
    ClusterAsynchronousSender,
    ClusterReceiver,
    ClusterSender,
    ClusterSubscriber,
    ClusterTransactedSender,
)
from tests.simulation.imq.node import HomeNode
from tests.simulation.model import Copy
from tests.simulation.workload import BlockingSender


class HomeSender(ClusterSender):
    """Each of its messages gets to all subscriptions of the configuration: its own broker has them."""

    in_order = False
    """Are its messages stored in the order of their numbers?"""

    def message(self, identity: str) -> ClientMessage:
        message = super().message(identity)
        sent = self.ledger.sent[identity]
        sent.ordered = self.in_order and not sent.due
        return message

    def elsewhere(self) -> set[str]:
        return set()


class HomeBlockingSender(HomeSender, BlockingSender):
    in_order = True


class HomeAsynchronousSender(HomeSender, ClusterAsynchronousSender):
    pass


class HomeTransactedSender(HomeSender, ClusterTransactedSender):
    pass


class BetweenLosses(ClusterReceiver):
    """Gets what a producer has sent in its order from one loss of a link to the next: what a home has taken back then comes again."""

    _losses = 0

    async def next(self, consumer: Consumer) -> tuple[ClientMessage, Copy] | None:
        entry = await super().next(consumer)
        node, sequence = self.node, self._sequence
        assert isinstance(node, HomeNode)
        if entry is None or sequence is None:
            return entry
        message, (_, identity) = entry
        if (node.name, message.message_id) in self.ledger.taken_back:
            sequence.pop()  # it comes again
        elif node.losses[self.queue] != self._losses:
            self._losses = node.losses[self.queue]
            sequence.pop()
            self.begin_sequence()
            if self._sequence is not None:
                self._sequence.append(identity)
        return entry


class OrderedReceiver(BetweenLosses):
    """Is alone on its queue in the whole cluster."""

    def __init__(self, simulation: Any, name: str, queue: str) -> None:
        super().__init__(simulation, name, queue, True)


class HomeSubscriber(BetweenLosses, ClusterSubscriber):
    """Its subscriptions are at all members."""


class HomeBranchWorker(AtNode, BranchWorker):
    """Its transaction manager knows the one broker, whose homes are none of its business."""

    targets = ("orders", "jobs")
