"""What joins the nodes of a simulated cluster: byte streams between named hosts, datagrams, and what keeps either from arriving.

As with TCP, bytes that cannot get through now come later, unless an end gives the connection up meanwhile; datagrams are lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mqclient.core.connection.configuration import IN_VM_CONNECTOR
from mqclient.core.runtime import LinkHandler
from mqclient.protocol.discovery import Endpoint, check_endpoint
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.client import SimulatedRuntime
from tests.simulation.network import TO_BROKER, Network
from tests.simulation.world import Process, World

LOST, DOUBLED, LATE = 0.02, 0.03, 0.02
"""Parts of the datagrams to which that happens when nothing special is wrong."""
LATE_SECONDS = 3.0


class HostProcess(Process):
    """A process on a machine with a name."""

    def __init__(self, world: World, name: str, rng: Any, host: str, skew_ms: int) -> None:
        super().__init__(world, name, rng)
        self.host = host
        self.wall_offset_ms = skew_ms


def host_of(process: Process) -> str:
    return process.host if isinstance(process, HostProcess) else process.name


class Fabric:
    """All networks by the name of the host to which they lead."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.networks: dict[str, NodeNetwork] = {}
        self.in_process: dict[str, str] = {}
        """Names of networks, by the numbers at which their brokers take connections from their own processes."""
        self.links: list[DatagramLink] = []
        self.datagrams = 0
        self.bad_datagrams = 1.0
        """How much more often than usual datagrams are lost, come twice or late."""
        self.last_trouble = 0.0
        """When the last thing ended that kept bytes from arriving."""
        self._rng = world.generator("datagrams")
        self._until: dict[tuple[str, str], float] = {}

    def add(self, host: str) -> NodeNetwork:
        network = self.networks[host] = NodeNetwork(self, host)
        return network

    def network_of(self, connector: TransportConfiguration) -> NodeNetwork:
        """The network to which a connector leads."""
        parameters = dict(connector.parameters)
        if connector.factory_class_name == IN_VM_CONNECTOR:
            return self.networks[self.in_process[str(parameters["serverId"])]]
        return self.networks[str(parameters["host"])]

    # --- faults

    def block(self, sender: str, receiver: str, seconds: float) -> None:
        """Nothing that one host sends reaches the other for a while."""
        end = self.world.now + seconds
        self._until[sender, receiver] = max(self._until.get((sender, receiver), 0.0), end)
        self.last_trouble = max(self.last_trouble, end)

    def held(self, sender: str, receiver: str) -> float:
        """For how many more seconds that lasts."""
        return max(self._until.get((sender, receiver), 0.0) - self.world.now, 0.0)

    def heal(self) -> None:
        self.bad_datagrams = 1.0
        for network in self.networks.values():
            network.heal()

    def process_died(self, process: Process, machine: bool) -> None:
        """What a process had opened ends with it."""
        self.links = [link for link in self.links if link.process is not process]
        for network in self.networks.values():
            network.client_died(process, machine)

    # --- datagrams

    def send(self, sender: DatagramLink, data: bytes) -> None:
        rng, bad = self._rng, self.bad_datagrams
        for link in list(self.links):
            if link.endpoint != sender.endpoint or link.received is None:
                continue
            self.datagrams += 1
            if self.held(sender.host, link.host) > 0 or rng.random() < LOST * bad:
                continue
            for _ in range(2 if rng.random() < DOUBLED * bad else 1):
                late = rng.uniform(0, LATE_SECONDS) if rng.random() < LATE * bad else 0.0
                self.world.schedule(rng.uniform(0.0001, 0.002) + late, link.deliver, data, sender.host, process=link.process)


class DatagramLink:
    """See :class:`mqclient.core.runtime.BroadcastLink`."""

    def __init__(self, fabric: Fabric, process: Process, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> None:
        self.fabric = fabric
        self.process = process
        self.host = host_of(process)
        self.endpoint = endpoint
        self.received = received
        fabric.links.append(self)

    def send(self, data: bytes) -> None:
        if self.process.alive:
            self.fabric.send(self, data)

    def deliver(self, data: bytes, source: str) -> None:
        if self.received is not None and self in self.fabric.links:
            self.received(data, f"{source}:3001")

    def close(self) -> None:
        if self in self.fabric.links:
            self.fabric.links.remove(self)


class NodeNetwork(Network):
    """The way to one node."""

    def __init__(self, fabric: Fabric, host: str) -> None:
        super().__init__(fabric.world)
        self.fabric = fabric
        self.host = host
        self.label = f" to {host}"
        self.rng = fabric.world.generator(f"network to {host}")

    def held(self, client: Process, direction: str) -> float:
        other = host_of(client)
        return self.fabric.held(other, self.host) if direction == TO_BROKER else self.fabric.held(self.host, other)


class FabricRuntime(SimulatedRuntime):
    """Finds brokers by the host of their connector, and has datagrams."""

    def __init__(self, process: Process, fabric: Fabric) -> None:
        self.process = process
        self.fabric = fabric

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Any]:
        return self.fabric.network_of(connector).connect(self.process, handler, timeout)

    def open_broadcast(self, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> DatagramLink:
        check_endpoint(endpoint)
        return DatagramLink(self.fabric, self.process, endpoint, received)
