"""The way into a broker of the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed

from mqbroker.server.server import Server
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.broker import BrokerNode


class Listeners:
    """The way into a broker: its network."""

    acceptors = ()

    def __init__(self, server: Server, node: BrokerNode, process: Process) -> None:
        self._server = server
        self._node = node
        self._network = node.network
        self._process = process

    def find(self, name: str) -> None:
        """There are no acceptors to be managed."""

    def open(self) -> None:
        self._node.meet_trouble()
        self._network.listen(self._process, self._server.connect)

    def serve(self, server: Server) -> None:
        self._server = server
        self._network.listen(self._process, server.connect)

    def close(self) -> Deferred[Any]:
        self._network.stop_listening()
        return succeed(None)
