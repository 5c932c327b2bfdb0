"""What joins the brokers of a group and their clients, which may be connected to any of them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mqclient.core.runtime import LinkHandler
from tests.simulation.cluster.fabric import Fabric, NodeNetwork
from tests.simulation.network import TO_BROKER, BrokerTransport, Pipe, SimulatedConnection
from tests.simulation.world import Process, World


class GroupFabric(Fabric):
    """Is also what a client takes for its network: it knows who has sent what is being handed over, over whichever connection."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sent_at = 0.0
        self.sent_by: Process | None = None
        self.kernels_accept = False
        """Does a connection to a process that stands still come about, as the kernel of its machine accepts it?"""

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

    def _arrive(self, client: Process, handler: LinkHandler, result: Deferred[Any]) -> None:
        listener = self._listener
        alive = client.alive and listener is not None and listener[0].alive and listener[0].stands_still
        if not self.fabric.kernels_accept or not alive or result.called or self.held(client, TO_BROKER) > 0:
            super()._arrive(client, handler, result)
            return
        assert listener is not None
        connection = UnseenConnection(self, len(self.connections), client, listener[0], handler)
        self.connections.append(connection)
        self.world.note(f"{connection.name} is accepted by the kernel")
        self._wake(connection)
        self.world.schedule(self.latency(), self._established, client, connection, result)

    def _wake(self, connection: UnseenConnection) -> None:
        if not connection.broker.puts_off(self._wake, connection):
            connection.take_up()

    def taken_up(self, connection: SimulatedConnection) -> None:
        """The process of the broker sees a connection that the kernel has accepted; one that listens no more has ended it by that."""
        listener, transport = self._listener, BrokerTransport(connection)
        if listener is None or listener[0] is not connection.broker:
            transport.abortConnection()
        else:
            connection.server = listener[1](transport, f"{connection.client.name}:{40000 + len(self.connections)}")


class UnseenConnection(SimulatedConnection):
    """A connection that the process of the broker has not seen yet."""

    network: GroupNetwork

    def take_up(self) -> None:
        if self.server is None and self._open[TO_BROKER] and self.broker.alive:
            self.network.taken_up(self)

    def hand_over(self, pipe: Pipe, data: bytes) -> None:
        self.take_up()
        super().hand_over(pipe, data)
