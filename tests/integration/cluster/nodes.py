"""Several brokers on the test's own reactor, joined by cluster connections over loopback."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import connectionDone
from twisted.internet.task import deferLater
from twisted.protocols.portforward import ProxyFactory, ProxyServer
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

import mqclient.twisted
from mqbroker.app import Broker, BrokerSettings
from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.membership.store_and_forward import StoreAndForwardLoads
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.routing.remote import RemoteBinding
from mqclient.core.api import QueueConfiguration
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.urls import parse_transport_uri
from mqclient.wire.properties import BYTE

reactor: Any = _reactor
ANYCAST, MULTICAST = 1, 0
SECONDS = 30.0
"""How long a test waits for what must come."""


class ReservedPort:
    """A loopback port that nobody else gets as long as this is not closed, while a broker may listen on it, stop and listen again.

    ``number`` is 0 for one that the system chooses.  Raises OSError when somebody has it.
    """

    def __init__(self, number: int = 0) -> None:
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._holder.bind(("127.0.0.1", number))
        except OSError:
            self._holder.close()
            raise
        self.number = int(self._holder.getsockname()[1])

    def close(self) -> None:
        self._holder.close()


class _Forwarded(ProxyServer):
    def connectionMade(self) -> None:
        gate: Gate = self.factory
        if gate.shut:
            self.transport.abortConnection()
            return
        gate.connections.append(self)
        super().connectionMade()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        gate: Gate = self.factory
        if self in gate.connections:
            gate.connections.remove(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class Gate(ProxyFactory):
    """What a broker announces instead of its own port, when a test is going to cut its links."""

    protocol = _Forwarded
    noisy = False

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)  # type: ignore[no-untyped-call]
        self.connections: list[_Forwarded] = []
        self.shut = False
        self.listening = reactor.listenTCP(0, self, interface="127.0.0.1")
        self.announced = int(self.listening.getHost().port)

    def cut(self) -> None:
        for connection in list(self.connections):
            connection.transport.abortConnection()
            if connection.peer is not None:
                connection.peer.transport.abortConnection()


class Node:
    """A broker that is started, stopped and started again with the same data and port."""

    def __init__(self, number: int, folder: Path, gated: bool) -> None:
        self.number = number
        self.folder = folder
        self.reserved = ReservedPort()
        self.port = self.reserved.number
        self.gate = Gate(self.port) if gated else None
        self.announced = self.port if self.gate is None else self.gate.announced
        self.configuration: Configuration
        self.broker: Broker
        self.running = False

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def node_id(self) -> str:
        return self.broker.node_id

    @property
    def cluster(self) -> ClusterConnection:
        assert self.broker.clustering is not None and self.broker.clustering.manager is not None
        return self.broker.clustering.manager.default

    @property
    def bindings(self) -> dict[str, RemoteBinding]:
        """The queues that the members have made known, by cluster name."""
        loads = self.cluster.loads
        assert isinstance(loads, StoreAndForwardLoads)
        return dict(loads.bindings)

    def start(self) -> Node:
        self.broker = Broker(BrokerSettings(self.configuration, self.folder), reactor)
        self.broker.start()
        self.running = True
        return self

    async def stop(self) -> None:
        if self.running:
            self.running = False
            await self.broker.stop()

    def link_state(self, other: Node) -> str:
        member = self.cluster.members.get(other.node_id)
        return "unknown" if member is None else member.state

    def waiting_for(self, other: Node) -> int:
        """Messages in the store-and-forward queue."""
        queue = self.broker.messaging.core.queues.get(f"$.artemis.internal.sf.cluster.{other.node_id}")
        return 0 if queue is None else queue.message_count

    def knows(self, other: Node, queue: str, consumers: int | None = None) -> bool:
        """Is the queue of ``other`` known here, with so many consumers?"""
        binding = self.broker.messaging.core.routing.remote(queue + other.node_id)
        return binding is not None and binding.connected and (consumers is None or binding.consumer_count == consumers)

    def count(self, queue: str) -> int:
        found = self.broker.messaging.core.queues.get(queue)
        return 0 if found is None else found.message_count


class ClusterCase(TestCase):
    """Makes clusters, and ends everything."""

    timeout = 120  # s: for a busy machine

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-cluster-"))
        self.nodes: list[Node] = []
        self.locators: list[Any] = []

    async def tearDown(self) -> None:  # type: ignore[override]
        try:
            for locator in self.locators:
                await locator.close()
            for node in self.nodes:
                if node.gate is not None:
                    node.gate.shut = True
                    node.gate.cut()
                    await node.gate.listening.stopListening()
                await node.stop()
                node.reserved.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)  # trial makes cleanups before this

    def make(
        self,
        count: int,
        links: Sequence[Sequence[int]] | None = None,
        *,
        gated: bool = False,
        change: Callable[[int, ClusterConnectionConfiguration], ClusterConnectionConfiguration] = lambda number, cluster: cluster,
        address_settings: dict[str, dict[str, Any]] | None = None,
        **options: Any,
    ) -> list[Node]:
        """Brokers that are not started yet.  ``links``: to whom each has static connectors (None: all others)."""
        nodes = [Node(number, self.folder / f"node-{number}", gated) for number in range(count)]
        for node in nodes:
            node.folder.mkdir()
            others = [other.number for other in nodes if other is not node]
            cluster = ClusterConnectionConfiguration(
                "cluster",
                f"node-{node.number}",
                retry_interval=50,
                max_retry_interval=100,
                notification_interval=200,
                static_connectors=tuple(f"node-{other}" for other in (others if links is None else links[node.number])),
            )
            node.configuration = Configuration(
                name=f"broker-{node.number}",
                cluster_user="cluster",
                cluster_password="secret",
                security_enabled=False,
                journal_datasync=False,
                acceptors=[parse_transport_uri(f"tcp://127.0.0.1:{node.port}", "artemis")],
                connectors={
                    f"node-{other.number}": parse_transport_uri(f"tcp://127.0.0.1:{other.announced}", f"node-{other.number}")
                    for other in nodes
                },
                cluster_connections=[change(node.number, replace(cluster, **options))],
                address_settings={} if address_settings is None else address_settings,
            )
        self.nodes.extend(nodes)
        return nodes

    async def cluster(self, count: int, *more: Any, **options: Any) -> list[Node]:
        """Brokers that know each other, each with a link to every other one that it is told of."""
        nodes = self.make(count, *more, **options)
        for node in nodes:
            node.start()
        await self.formed(nodes)
        return nodes

    async def formed(self, nodes: Sequence[Node]) -> None:
        def complete() -> bool:
            return all(node.link_state(other) == "connected" for node in nodes for other in nodes if other is not node)

        await self.until(complete, "the cluster forms")

    async def until(self, condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
        for _ in range(int(seconds / 0.01)):
            if condition():
                return
            await deferLater(reactor, 0.01)
        states = [
            [node.link_state(other) for other in self.nodes if other is not node and other.running] for node in self.nodes if node.running
        ]
        self.fail(f"in {seconds:g} s it did not come to this: {what}; links: {states}")

    # --- clients

    async def session(self, node: Node, **options: Any) -> Session:
        locator = mqclient.twisted.server_locator(f"{node.url}?useTopologyForLoadBalancing=false")
        self.locators.append(locator)
        factory = await locator.create_session_factory()
        return await factory.create_session(**options)

    async def queue(self, session: Session, name: str, address: str | None = None, routing_type: int = ANYCAST, **more: Any) -> None:
        await session.create_queue(QueueConfiguration(name=name, address=address, routing_type=routing_type, **more))

    async def consumer(self, node: Node, queue: str, filter_string: str | None = None) -> Consumer:
        session = await self.session(node)
        consumer = await session.create_consumer(queue, filter_string)
        await session.start()
        return consumer

    async def send(self, node: Node, address: str, texts: Sequence[str], routing_type: int | None = ANYCAST, **properties: Any) -> None:
        session = await self.session(node)
        producer = await session.create_producer(address)
        for text in texts:
            message = session.create_message()
            message.body = text.encode()
            if routing_type is not None:
                message.put("_AMQ_ROUTING_TYPE", routing_type, BYTE)
            for key, value in properties.items():
                message.put(key, value)
            await producer.send(message)

    async def receive(self, consumer: Consumer, count: int) -> list[str]:
        """So many messages, in order, acknowledged."""
        found = []
        for number in range(count):
            message = await consumer.receive(int(SECONDS * 1000))
            assert message is not None, f"only {number} of {count} messages came: {found}"
            await consumer.individual_acknowledge(message)
            found.append(message.body.decode())
        return found
