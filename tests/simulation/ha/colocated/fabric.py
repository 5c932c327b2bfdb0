"""What joins colocated brokers and their clients: several brokers listen on one machine, each at a port of its own."""

from __future__ import annotations

from collections.abc import Callable

from mqclient.core.connection.configuration import IN_VM_CONNECTOR
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.cluster.fabric import NodeNetwork
from tests.simulation.ha.fabric import GroupFabric, GroupNetwork
from tests.simulation.ha.plan import PORT
from tests.simulation.world import World


class ColocatedFabric(GroupFabric):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.followed: dict[str, Callable[[], GroupNetwork]] = {}
        """Names of hosts that stand for whichever place something is at."""

    def add(self, host: str) -> NodeNetwork:
        """The way to a broker of its own machine, as an idle voter is one."""
        return self.at(host)

    def at(self, machine: str, port: int = PORT) -> GroupNetwork:
        """The way to whoever listens there."""
        place = f"{machine}:{port}"
        if place not in self.networks:
            network = self.networks[place] = GroupNetwork(self, machine)
            network.label = f" to {place}"
            network.rng = self.world.generator(f"network to {place}")
        found = self.networks[place]
        assert isinstance(found, GroupNetwork)
        return found

    def network_of(self, connector: TransportConfiguration) -> NodeNetwork:
        if connector.factory_class_name == IN_VM_CONNECTOR:
            return super().network_of(connector)
        parameters = dict(connector.parameters)
        machine = str(parameters["host"])
        if machine in self.followed:
            return self.followed[machine]()
        return self.at(machine, int(str(parameters["port"])))
