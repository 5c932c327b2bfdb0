"""A pair in memory: two brokers with a life, a disk and a process each, on one clock and one network."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import (
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
)
from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.ha.locks.coordination import coordinated_name
from mqbroker.ha.locks.proof import LockProof
from mqbroker.ha.proof.copy_record import CopyRecord, read_record
from mqbroker.ha.replication.kept_voters import kept_voters
from mqbroker.ha.replication.process_voters import ProcessVoters
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.life import BrokerLife
from mqbroker.node.parts import StartError
from mqbroker.node.presence import open_side
from mqbroker.storage.disk.nodelock import NodeLock
from mqclient.core.discovery.network import Received
from mqclient.protocol.discovery import Endpoint
from mqclient.urls import parse_transport_uri
from mqclient.wire import packets as wire
from mqclient.wire.primitives import Decoder, Encoder
from tests.support.broker import Peer, Session
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns
from tests.support.locks import LockService, LockWorker, MemoryLockManager
from tests.support.parts import make_parts
from tests.unit.cluster import bridge_support
from tests.unit.cluster.bridge_support import MemoryLink, MemoryRuntime
from tests.unit.mqclient.core.discovery.support import GROUP, Ether, EtherLink

FOLDER = "/data/journal"


class Network:
    """Who listens on which port, and the connections between brokers."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.listening: dict[str, Any] = {}
        self.inside: dict[str, str] = {}
        """Ports that lead to others, as ``vm://`` leads to a broker of the process."""
        self.links: list[MemoryLink] = []
        self.ether = Ether()
        self.started: list[Node] = []
        self.cut = False
        """No byte arrives anywhere, and nobody hears of it."""
        self.still: list[Node] = []
        """Nodes that take connections, and read nothing: their processes stand still."""

    def move(self) -> bool:
        if self.cut:
            return False
        self.links = [link for link in self.links if link.open]
        busy = False
        for link in self.links:
            if not any(node.is_at(link) for node in self.still):
                busy = link.move(1 << 20) or busy
        return busy


class ProcessClock:
    """The clock as one process has it: with the process its calls end.  ``stopped``: the process stands still, and its calls wait."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.alive = True
        self.stopped = False
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Any:
        return self._clock.call_later(seconds, self._call, function, args)

    def advance(self, seconds: float) -> None:
        """For :class:`MemoryRuntime`."""
        self._clock.advance(seconds)

    def _call(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.stopped:
            self._held.append((function, args))
        elif self.alive:
            function(*args)

    def go_on(self) -> None:
        self.stopped = False
        held, self._held = self._held, []
        for function, args in held:
            self._clock.call_later(0, self._call, function, args)


class Runtime(MemoryRuntime):
    """The network as one process sees it."""

    def __init__(self, network: Network, clock: ProcessClock) -> None:
        super().__init__(clock)  # type: ignore[arg-type]
        self._network = network
        self._process = clock
        # Each process has ids of its own.
        self.random_bytes = random.Random(f"process {len(network.started)}").randbytes  # type: ignore[method-assign]

    def connect(self, connector: Any, handler: Any, timeout: float) -> Any:
        port = str(dict(connector.parameters)["port"])
        if port in self._network.inside:
            port = self._network.inside[port]
            connector = bridge_support.connector(int(port))
        server = self._network.listening.get(port)
        self.targets = {} if server is None or self._network.cut else {port: SimpleNamespace(server=server)}  # type: ignore[dict-item]
        before = len(self.links)
        result = super().connect(connector, handler, timeout)
        self._network.links += self.links[before:]
        return result

    def open_broadcast(self, endpoint: Endpoint, received: Received | None) -> EtherLink:
        def hear(data: bytes, source: str) -> None:
            if received is not None and self._process.alive and not self._network.cut:
                received(data, source)

        return EtherLink(self._network.ether, endpoint, hear)


class Acceptors:
    """The way into a broker: its port."""

    acceptors = ()

    def __init__(self, server: Any, network: Network, port: str) -> None:
        self._server = server
        self._network = network
        self._port = port

    def find(self, name: str) -> None:
        """There are no acceptors to be managed."""

    def open(self) -> None:
        if self._port in self._network.listening:
            raise StartError(f"port {self._port} is taken")
        self._network.listening[self._port] = self._server

    def serve(self, server: Any) -> None:
        self._server = self._network.listening[self._port] = server

    def close(self) -> Deferred[Any]:
        if self._network.listening.get(self._port) is self._server:
            del self._network.listening[self._port]
        return succeed(None)


class Node:
    """One broker on a disk of its own, which may lose its process and come back.  ``settings`` are further ones of its configuration."""

    def __init__(
        self,
        network: Network,
        name: str,
        port: str,
        others: dict[str, str],
        policy: ReplicationConfiguration | None,
        scale_down: ScaleDownConfiguration | None = None,
        persistent: bool = True,
        **settings: Any,
    ) -> None:
        self.network = network
        self.clock = network.clock
        self.name = name
        self.port = port
        self.disk = SimulatedDisk(random.Random(name))
        self.disk_size = 1 << 40
        """With the files of others."""
        self.failures: list[str] = []
        self.stops_wanted = 0
        self.activations = 0
        self.others = others
        self.policy = policy
        self.scale_down = scale_down
        self.persistent = persistent
        self.settings = settings
        self.write_seconds = 0.0
        """How long the disk takes for one step."""
        self._entropy = random.Random(f"entropy of {name}")
        self.life: BrokerLife
        self.writers: list[WriterInTurns] = []
        self.runtime: Runtime
        self.process: ProcessClock

    def configuration(self) -> Configuration:
        if not self.others:
            return self._discovering()
        ports = {"own": self.announced or self.port, **self.others}
        connectors = {name: parse_transport_uri(f"tcp://broker:{port}", name) for name, port in ports.items()}
        connection = ClusterConnectionConfiguration("c", "own", static_connectors=tuple(self.others), retry_interval=100, call_timeout=5000)
        return Configuration(
            security_enabled=False,
            persistence_enabled=self.persistent,
            name=self.name,
            replication=self.policy,
            scale_down=self.scale_down,
            connectors=connectors,
            cluster_connections=[connection],
            addresses=[],
            **self.settings,
        )

    def _discovering(self) -> Configuration:
        """Without connectors of others it finds them by discovery."""
        return Configuration(
            security_enabled=False,
            name=self.name,
            replication=self.policy,
            connectors={"own": parse_transport_uri(f"tcp://broker:{self.port}", "own")},
            cluster_connections=[ClusterConnectionConfiguration("c", "own", discovery_group="d", retry_interval=100, call_timeout=5000)],
            broadcast_groups=[BroadcastGroupConfiguration("b", GROUP, connectors=("own",))],
            discovery_groups={"d": DiscoveryGroupConfiguration("d", GROUP)},
            addresses=[],
        )

    announced = ""
    """The port of its connector; empty: its own one."""

    lock_service: LockService | None = None
    """The lock manager of the next start."""
    lock_manager: MemoryLockManager
    """Its connection."""

    def _locks(self) -> LockProof | None:
        if self.lock_service is None:
            return None
        self.lock_manager = MemoryLockManager(self.lock_service)
        process = self.process
        name = self.policy.coordination_id
        shared = None if name is None else coordinated_name(name)
        return LockProof(self.lock_manager, LockWorker(process), lambda function: process.call_later(0, function), process, shared)

    network_watch: Any = None
    """The network check of the next start."""
    neighbours: ProcessVoters | None = None
    """The voters of the process of the next start."""

    def start(self) -> Node:
        configuration = self.configuration()
        self.network.started.append(self)
        self.process = process = ProcessClock(self.clock)
        self.runtime = runtime = Runtime(self.network, process)
        self.writers = []
        outside = Surroundings(
            process,
            self._entropy.randbytes,
            None,  # type: ignore[arg-type]
            lambda name: open_side(configuration, name, Path(), runtime),
            nullcontext(),
            lambda function: process.call_later(0, function),
            self.network_watch and self.network_watch.look,
            self._locks(),
            neighbours=self.neighbours,
        )
        self.activation: Any = make_activation(configuration, outside)
        parts = make_parts(
            process,
            self.disk,
            make_writer=self._make_writer,
            disk_space=self._disk_space,
            activation=self.activation,
            entropy=self._entropy.randbytes,
            make_runtime=lambda: runtime,
            make_listeners=lambda server: Acceptors(server, self.network, self.port),
            network=self.network_watch,
        )
        settings = BrokerSettings(configuration, Path("/"))
        self.life = BrokerLife(settings, parts, self.failures.append, self._stop_wanted, self._activated)
        self.life.start()
        return self

    def _make_writer(self, in_turn: Any) -> WriterInTurns:
        self.writers.append(WriterInTurns(in_turn, self.process, lambda: self.write_seconds))
        return self.writers[-1]

    def _disk_space(self, folders: Sequence[str]) -> list[DiskSpace]:
        return [DiskSpace(folder, self.disk.free_space(folder), self.disk_size) for folder in folders]

    def _stop_wanted(self) -> None:
        self.stops_wanted += 1

    def _activated(self) -> None:
        self.activations += 1

    # --- what it is

    @property
    def state(self) -> str:
        return self.life.state if self.process.alive else "dead"

    @property
    def record(self) -> CopyRecord:
        found = read_record(self.disk, FOLDER)
        assert found is not None
        return found

    @property
    def record_or_none(self) -> CopyRecord | None:
        return read_record(self.disk, FOLDER)

    @property
    def record_node(self) -> str | None:
        """The node id on the disk."""
        return NodeLock(self.disk, FOLDER).node_id()

    @property
    def kept_voters(self) -> tuple[str, ...]:
        """The list on the disk."""
        return kept_voters(self.disk, self.activation._own.settings)

    @property
    def replica_state(self) -> str:
        primary = self.activation.primary
        return "" if primary is None or primary.replica is None else str(primary.replica.state)

    def queues(self) -> set[str]:
        return {name for name in self.life.active.messaging.core.queues if not name.startswith("$")}

    def messages(self, name: str = "q") -> int:
        return self.life.active.messaging.core.queues[name].message_count

    # --- what is done with it

    def is_at(self, link: MemoryLink) -> bool:
        return link in self.runtime.links or link.port == self.port

    def stand_still(self) -> None:
        self.process.stopped = True
        self.network.still.append(self)

    def go_on(self) -> None:
        self.network.still.remove(self)
        self.process.go_on()

    def kill(self, power: bool = False) -> None:
        """The process is gone, or with it the machine; whoever had a connection to it hears of that."""
        self.process.alive = False
        self.network.listening.pop(self.port, None)
        for link in [each for each in self.network.links if each.open and self.is_at(each)]:
            link.open = False
            self.network.clock.call_later(0, self._cut, link)
        if power:
            self.disk.crash()
        else:
            self.disk.end_process()

    def _cut(self, link: MemoryLink) -> None:
        """The other end hears of the loss, unless it is dead, too."""
        if any(node.is_at(link) and not node.process.alive for node in self.network.started if node is not self):
            return
        if link.port == self.port:
            link.handler.link_lost("reset")
        else:
            link.connection.lost("reset")

    def stop(self) -> Deferred[None]:
        return self.life.stop()

    def client(self, **request: Any) -> Session:
        world: Any = SimpleNamespace(server=self.life.active.server)
        return Peer(world).open(**request)

    def speak_java(self, votes: list[str]) -> None:
        """Be as a replicated Java broker is, once this one is active: it asks for no product, and knows the votes of its own kind only.

        ``votes`` gets the names of those it is asked for.
        """
        channel = self.life.active.server.cluster_channel
        connect, asked = channel._connect, channel._asked_to_vote
        channel._votes.clear()
        channel.register_vote(FAILOVER_VOTE, lambda connection, vote: yes_to(vote))

        def vote(connection: Any, packet: wire.QuorumVote) -> Any:
            votes.append(packet.handler)
            return asked(connection, packet)

        channel._connect = lambda connection, packet: connect(connection, replace(packet, product=None))  # type: ignore[method-assign]
        channel.register(wire.QuorumVote, vote)

    def queue(self, name: str) -> None:
        queue = QueueConfiguration(name=name, address=name, routing_type=1, durable=True)
        messaging = self.life.active.messaging
        messaging.core.turn.run(messaging.administration.create_queue, queue)


class PairCase(SynchronousTestCase):
    """A primary on port 1, a backup on port 2, and whoever a test adds."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.network = Network(self.clock)
        self.nodes: list[Node] = []

    def tearDown(self) -> None:
        """What processes that were killed were waiting for ends here, and not in the middle of another test."""
        self.assertEqual(self.flushLoggedErrors(), [])
        self.nodes.clear()
        del self.network
        gc.collect()
        self.flushLoggedErrors()

    def node(self, name: str, port: int, *others: int, **settings: Any) -> Node:
        """``settings`` are those of :class:`Node`: ``policy``, ``scale_down``, ``persistent``, and those of its configuration."""
        settings.setdefault("policy", None)
        node = Node(self.network, name, str(port), {f"to{each}": str(each) for each in others}, **settings)
        self.nodes.append(node)
        return node

    def pair(self, **backup: Any) -> tuple[Node, Node]:
        """A primary with a replica in sync."""
        primary = self.node("primary", 1, 2, policy=ReplicationConfiguration(False)).start()
        replica = self.node("backup", 2, 1, policy=ReplicationConfiguration(True, **backup)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        return primary, replica

    def run_for(self, seconds: float) -> None:
        end = self.clock.seconds + seconds
        while True:
            for _ in range(10_000):
                busy = self.clock.run_due()
                if not (self.network.move() or busy):
                    break
            else:
                raise AssertionError("the brokers talk without end")
            if self.clock.seconds >= end - 1e-9:
                return
            self.clock.advance(min(0.05, end - self.clock.seconds))

    def run_until(self, reached: Callable[[], bool], seconds: float = 30.0) -> float:
        """Returns the seconds that it took."""
        start = self.clock.seconds
        while not reached():
            if self.clock.seconds > start + seconds:
                states = [(each.name, each.state, each.activation.state) for each in self.nodes]
                raise AssertionError(f"not reached within {seconds} s: {states}")
            self.run_for(0.05)
        return self.clock.seconds - start


def yes_to(vote: bytes) -> bytes:
    """The yes of a Java broker to a replica that asks whether its primary is gone."""
    decoder, encoder = Decoder(vote, "vote"), Encoder()
    decoder.boolean()
    encoder.boolean(True)
    encoder.string(decoder.string())
    encoder.nullable_string(None)
    return bytes(encoder.data)


def created(name: str) -> wire.CreateQueueV2:
    return wire.CreateQueueV2(name, name, durable=True, routing_type=1)


def alone(case: PairCase) -> Node:
    """An active primary without a replica."""
    primary = case.node("primary", 1, 2, policy=ReplicationConfiguration(False)).start()
    case.run_until(lambda: primary.state == "active")
    return primary
