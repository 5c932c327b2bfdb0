"""A broker of a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.grouping.grouping import UNPROPOSAL, GroupingHandler, Proposal
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.routing import Route
from mqbroker.node.clustering import Clustering
from mqclient.core.runtime import Runtime
from mqclient.wire.properties import TypedValue
from tests.simulation.broker import BrokerNode
from tests.simulation.cluster.bridging import OUT
from tests.simulation.cluster.fabric import Fabric, FabricRuntime, HostProcess
from tests.simulation.cluster.plan import NODES_MAX, ClusterPlan, node_name
from tests.simulation.model import Ledger
from tests.simulation.workload import IDENTITY
from tests.simulation.world import Process, World

INTERNAL = ("$.artemis.internal", "activemq.notifications", "notif.", "activemq.management")
"""Beginnings of the addresses and queues by which brokers talk to each other."""
SF = ("$.artemis.internal.sf.cluster.", "$.artemis.internal.sf.second.")
BRIDGES = tuple(f"{node_name(number)} life " for number in range(NODES_MAX))
"""Beginnings of what clients are called that are brokers."""


class ClusterNode(BrokerNode):
    """``away``: it does not start by itself."""

    def __init__(self, world: World, fabric: Fabric, ledger: Ledger, plan: ClusterPlan, number: int) -> None:
        super().__init__(world, fabric.add(node_name(number)), ledger, name=node_name(number))
        self.fabric = fabric
        self.cluster_plan = plan
        self.number = number
        self.away = False
        self.undecided: set[str] = set()
        """Messages, by identity, that went without a decision about their group, in all lives."""
        self.forgotten: dict[tuple[str, str], float] = {}
        """When this node said that the decision for a queue was forgotten, by group and routing name, and by queue."""

    # --- life

    def make_process(self) -> Process:
        return HostProcess(self.world, f"{self.name} life {self.starts}", self._clock_rng, self.name, self.skew_ms)

    @property
    def skew_ms(self) -> int:
        return self.cluster_plan.skews[self.number]

    def configuration(self) -> Configuration:
        return self.cluster_plan.configuration(self.number)

    def start(self) -> None:
        if self.away or self.running:
            return
        if self.starts:
            self.cluster_plan = self.cluster_plan.later(self.generator(f"cluster settings of life {self.starts + 1}"))
        super().start()

    def make_runtime(self) -> Runtime:
        return FabricRuntime(self.process, self.fabric)

    @property
    def clustering(self) -> Clustering | None:
        return self.life.active.others.clustering

    def _start_life(self) -> None:
        super()._start_life()
        self.server.notifications.observers.append(self._notified)
        if self.clustering is not None and self.clustering.grouping is not None:
            self._watch(self.clustering.grouping)

    def _watch(self, handler: GroupingHandler) -> None:
        """Notice which messages the handler counts as routed without a decision."""
        select = handler.select

        def watched(route: Route, message: Message, may_wait: bool) -> Sequence[Any]:
            before = handler.messages_ungrouped
            try:
                return select(route, message, may_wait)
            finally:
                if handler.messages_ungrouped != before:
                    self.undecided.add(str(message.property(IDENTITY)))

        handler.select = watched  # type: ignore[method-assign]

    def _notified(self, kind: str, headers: Mapping[str, TypedValue]) -> None:
        if kind == UNPROPOSAL:
            proposal = Proposal(headers)
            self.forgotten[proposal.key, proposal.value] = self.world.now

    def go_away(self, machine: bool) -> None:
        """Leave, and stay away until :meth:`come_back`."""
        self.away = True
        self.crash(machine, 0.0)

    def come_back(self) -> None:
        self.away = False
        self.start()

    def heal(self) -> None:
        super().heal()
        self.step_clock(self.skew_ms - self.process.wall_offset_ms)

    def _dies(self, machine: bool) -> None:
        process = self.process
        super()._dies(machine)
        self.fabric.process_died(process, machine)

    # --- what the checks look at

    @property
    def connection(self) -> ClusterConnection:
        assert self.clustering is not None and self.clustering.manager is not None
        return self.clustering.manager.default

    def count(self, queue: str) -> int:
        found = self.messaging.core.queues.get(queue)
        return 0 if found is None else found.message_count

    def backlog(self, other: ClusterNode) -> int:
        """Messages that wait for another node."""
        return sum(self.count(f"{prefix}{other.node_id}") for prefix in SF)

    def known_queues(self) -> dict[str, int]:
        """The queues of other nodes that messages would go to, by queue and node id; the number tells lives of a binding apart."""
        return {binding.cluster_name: id(binding) for binding in self.messaging.core.routing.remote_bindings()}

    def is_own(self, queue: Queue) -> bool:
        # The bridge is a consumer of its queue for ever.
        return self.serves_brokers(queue) or queue.name == OUT

    def serves_brokers(self, queue: Queue) -> bool:
        return queue.name.startswith(INTERNAL) or queue.address.name.startswith(INTERNAL)

    def idle_problems(self) -> list[str]:
        found = [f"{self.name}: {problem}" for problem in super().idle_problems()]
        for name, queue in self.messaging.core.queues.items():
            counts = (queue.message_count, queue.references.count, queue.delivering, queue.scheduled.count)
            if self.is_own(queue) and any(counts):
                found.append(f"{self.name}: {name}: messages, waiting, delivering, scheduled are {counts}")
        return found

    @property
    def strangers(self) -> list[str]:
        """Connections that are not of other brokers."""
        return [
            connection.remote
            for connection in self.server.connections.values()
            if not (connection.cluster_authorized or connection.remote.startswith(BRIDGES))
        ]

    def connection_problems(self) -> list[str]:
        most = 4 * self.cluster_plan.nodes * self.cluster_plan.connections + 4
        if self.strangers or len(self.server.connections) > most:
            return [f"{len(self.server.connections)} connections are left, of strangers: {self.strangers}"]
        return []
