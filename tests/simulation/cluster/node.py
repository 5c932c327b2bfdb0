"""A broker of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.grouping.grouping import UNPROPOSAL, GroupingHandler, Proposal
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.routing import Route
from mqbroker.node.clustering import Clustering
from mqbroker.storage.files.filestore import FileStore
from mqclient.core.runtime import Runtime
from mqclient.wire.properties import TypedValue
from tests.simulation.broker import BrokerNode
from tests.simulation.cluster import handover
from tests.simulation.cluster.bridging import OUT
from tests.simulation.cluster.fabric import Fabric, FabricRuntime, HostProcess
from tests.simulation.cluster.handover import Handover
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.plan import NODES_MAX, ClusterPlan, node_name, subscription
from tests.simulation.model import Copy
from tests.simulation.workload import IDENTITY
from tests.simulation.world import Process, World

INTERNAL = ("$.artemis.internal", "activemq.notifications", "notif.", "activemq.management")
"""Beginnings of the addresses and queues by which brokers talk to each other."""
SF = ("$.artemis.internal.sf.cluster.", "$.artemis.internal.sf.second.")
BRIDGES = tuple(f"{node_name(number)} life " for number in range(NODES_MAX))
"""Beginnings of what clients are called that are brokers."""


class ClusterNode(BrokerNode):
    """``away``: it does not start by itself."""

    def __init__(
        self, world: World, fabric: Fabric, ledger: ClusterLedger, plan: ClusterPlan, number: int, store_class: type[FileStore]
    ) -> None:
        super().__init__(world, fabric.add(node_name(number)), ledger, store_class, node_name(number))
        self.cluster_ledger = ledger
        self.peers: Sequence[ClusterNode] = ()
        self.handover: Handover | None = None
        """The last scale-down, until the next start."""
        self.handovers = 0
        """How often it has given everything away."""
        self.on_handover: Callable[[], object] = _nothing
        """Called when it has."""
        self._meets: Callable[[str], object] = _nothing
        """Told of the target when the next scale-down begins."""
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
        self._look_for_more()
        super()._start_life()

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        self.server.notifications.told.subscribe(self._notified)
        if self.clustering is not None and self.clustering.grouping is not None:
            self._watch(self.clustering.grouping)
        handover.watch(self, self._handover_begins, self.on_handover)

    def _handover_begins(self, target_id: str) -> None:
        meets, self._meets = self._meets, _nothing
        meets(target_id)

    def _look_for_more(self) -> None:
        """What was sent to the target of a scale-down, and is here again, may be there twice if that was interrupted."""
        last, self.handover = self.handover, None
        again = set() if last is None else last.found_again()
        if last is not None and last.ended and again:
            self.world.violation(f"{self.name} has given everything away, and starts again with {sorted(again)}")
        for copy in again:
            if copy[0].startswith(SF):
                self.cluster_ledger.twice_for_a_third.add(copy[1])
            else:
                self.cluster_ledger.twice.add(copy)

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

    def go_away(self, machine: bool, in_order: bool) -> None:
        """Leave, and stay away until :meth:`come_back`."""
        self.away = True
        if in_order:
            self.stop(0.0)
        else:
            self.crash(machine, 0.0)

    def leave(self, downtime: float, meets: Callable[[str], object]) -> None:
        """Stop in order; ``meets`` is told of the target when messages are sent to one."""
        if self.running and not self.process.stopping:
            self._meets = meets
            handover.note_unanswered(self)
            self.stop(downtime)

    def _stopped(self, process: Process, downtime: float) -> None:
        if self.handover is not None and process is self.process:
            self.handover.ended = self.handover.complete and not self.store.failed
        super()._stopped(process, downtime)

    def come_back(self) -> None:
        self.away = False
        self.start()

    def heal(self) -> None:
        super().heal()
        self.step_clock(self.skew_ms - self.process.wall_offset_ms)

    def _dies(self, machine: bool) -> None:
        self._meets = _nothing
        process = self.process
        super()._dies(machine)
        self.fabric.process_died(process, machine)

    # --- what the checks look at

    @property
    def moving(self) -> Collection[Copy]:
        return () if self.handover is None else self.handover.sent

    @property
    def taken_over(self) -> list[str]:
        """The subscriptions of other nodes that it has got from them."""
        names = [subscription(number) for number in range(self.cluster_plan.nodes) if number != self.number]
        return [name for name in names if name in self.messaging.core.queues]

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


def _nothing(target_id: str = "") -> None:
    pass
