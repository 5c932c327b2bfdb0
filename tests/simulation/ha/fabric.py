"""What joins the brokers of a group and their clients, which may be connected to any of them."""

from __future__ import annotations

from tests.simulation.cluster.fabric import Fabric, NodeNetwork
from tests.simulation.world import Process, World


class GroupFabric(Fabric):
    """Is also what a client takes for its network: it knows who has sent what is being handed over, over whichever connection."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sent_at = 0.0
        self.sent_by: Process | None = None

    def add(self, host: str) -> NodeNetwork:
        network = self.networks[host] = GroupNetwork(self, host)
        return network

    def client_died(self, process: Process, machine: bool) -> None:
        self.process_died(process, machine)


class GroupNetwork(NodeNetwork):
    """The way to one broker of the group."""

    fabric: GroupFabric

    def delivers(self, sent_at: float, sent_by: Process) -> None:
        super().delivers(sent_at, sent_by)
        self.fabric.sent_at, self.fabric.sent_by = sent_at, sent_by
