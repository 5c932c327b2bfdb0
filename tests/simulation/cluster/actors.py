"""Clients of a cluster: those of one broker, each at one of the nodes, and those who look after the run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.factories.locator import Locator
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_GROUP_ID, KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY
from mqclient.wire.primitives import TransportConfiguration
from mqclient.wire.properties import BYTE, LONG
from mqclient.xa import Xid
from tests.simulation.client import CONNECTOR, SimulatedRuntime
from tests.simulation.cluster.bridging import IN, OUT
from tests.simulation.cluster.fabric import FabricRuntime
from tests.simulation.cluster.faults import HEALED_AT
from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import SHARED, SORTED, SORTED_QUEUE, TEAMS, subscription
from tests.simulation.model import DRAIN, Copy, Outcome, Sent
from tests.simulation.network import Network
from tests.simulation.others import Subscriber
from tests.simulation.policies import RETURNS
from tests.simulation.receivers import AcknowledgingReceiver, TransactedReceiver, read
from tests.simulation.returning import MixedReceiver
from tests.simulation.settings import MULTICAST
from tests.simulation.workload import (
    CALL_TIMEOUT,
    CHUNK,
    COLOR,
    IDENTITY,
    Actor,
    AsynchronousSender,
    BlockingSender,
    Sender,
    TransactedSender,
    body_of,
)
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.cluster.run import ClusterSimulation

ANSWER_SECONDS = CALL_TIMEOUT / 1000


@dataclass(slots=True)
class Place:
    """A cluster as the client of one of its nodes sees it: takes the place of :class:`tests.simulation.run.Simulation`."""

    cluster: ClusterSimulation
    broker: ClusterNode

    @property
    def world(self) -> World:
        return self.cluster.world

    @property
    def ledger(self) -> ClusterLedger:
        return self.cluster.ledger

    @property
    def network(self) -> Network:
        return self.broker.network

    @property
    def connectors(self) -> list[TransportConfiguration]:
        return [CONNECTOR]

    def runtime(self, process: Process) -> SimulatedRuntime:
        return SimulatedRuntime(process, self.network)

    @property
    def actors(self) -> list[Actor]:
        return self.cluster.actors

    @property
    def decisions(self) -> dict[Xid, bool]:
        return self.cluster.decisions

    @property
    def quiet_from(self) -> float:
        return HEALED_AT


class AtNode(Actor):
    """A client of one node: its connections go there, whatever it hears of others."""

    simulation: Any

    def __init__(self, simulation: Any, name: str, *args: Any) -> None:
        super().__init__(simulation, name, *args)
        self.settings.use_topology_for_load_balancing = False
        simulation.ledger.homes[name] = simulation.broker.name

    @property
    def node(self) -> ClusterNode:
        found: ClusterNode = self.broker
        return found

    def check_timeout(self, error: MQError) -> None:
        if self.simulation.cluster.fabric.last_trouble <= self.world.now - ANSWER_SECONDS:
            super().check_timeout(error)


class ClusterSender(AtNode, Sender):
    """What senders send in a cluster."""

    def message(self, identity: str) -> ClientMessage:
        rng = random.Random(f"{self.world.seed}/{identity}")
        priority = 4 if rng.random() < 0.7 else rng.randrange(10)
        durable = rng.random() >= self.volatile
        large = rng.random() < self.large
        body = body_of(identity, rng.randrange(CHUNK, 6 * CHUNK) if large else rng.randrange(200))
        message = ClientMessage(durable=durable, priority=priority, body=body)
        color = rng.choice(("red", "green", "blue"))
        message.put(IDENTITY, identity)
        message.put(COLOR, color)
        if self.duplicates:
            message.put(KEY_DUPLICATE_ID, identity)
        if self.address == "news":
            message.put(KEY_ROUTING_TYPE, MULTICAST, BYTE)
        due = []
        if self.address == TEAMS:
            message.put(KEY_GROUP_ID, f"team{rng.randrange(6)}")
        elif rng.random() < 0.05:
            due = [self.runtime.wall_clock_ms() + rng.randrange(50, 2000)]
            message.put(KEY_SCHEDULED_DELIVERY, due[0], LONG)
        if self.address == RETURNS and rng.random() < 0.15:
            message.expiration = self.runtime.wall_clock_ms() + rng.randrange(50, 4000)
        number = int(identity.rpartition("-")[2])
        queues = self._queues(color)
        sent = Sent(identity, self.name, number, priority, durable, queues, Outcome.UNKNOWN, self.address, color, False, self.world.now)
        sent.size, sent.remembered, sent.due = len(body), self.duplicates, due
        self.ledger.send(sent)
        return message

    def _queues(self, color: str) -> tuple[str, ...]:
        plan = self.simulation.cluster.plan
        if self.address == "news":
            return (SHARED, *(subscription(number) for number in range(plan.nodes)))
        if self.address == OUT:
            return (IN,)
        if self.address == SORTED:
            return (SORTED_QUEUE,) if color == "red" else ()
        return (self.address, "audit") if self.address == "orders" and plan.divert else (self.address,)

    def elsewhere(self) -> set[str]:
        """The subscriptions that only other nodes have."""
        return {subscription(node.number) for node in self.simulation.cluster.nodes if node is not self.node}

    async def send(self, session: Session, message: ClientMessage, identity: str) -> None:
        if self.address == "news":
            self.ledger.doubtful[identity] |= self.elsewhere()
        await super().send(session, message, identity)


class ClusterBlockingSender(ClusterSender, BlockingSender):
    """Knows for sure what was known at its node while a message was sent."""

    async def send(self, session: Session, message: ClientMessage, identity: str) -> None:
        if self.address != "news":
            await super().send(session, message, identity)
            return
        first = identity not in self.ledger.doubtful
        before, process = self._known(), self.node.process
        await super().send(session, message, identity)
        if first and message.durable and process is self.node.process:
            after = self._known()
            self.ledger.doubtful[identity] -= {queue for queue, binding in before.items() if after.get(queue) == binding}

    def _known(self) -> dict[str, int]:
        """The subscriptions of other nodes that are known at this one."""
        if not self.node.serves:
            return {}
        known = self.node.known_queues()
        names = {subscription(other.number): f"{subscription(other.number)}{other.node_id}" for other in self.simulation.cluster.nodes}
        return {queue: known[name] for queue, name in names.items() if name in known}


class Wanderer(ClusterSender, BlockingSender):
    """Goes to another node when it loses its own.  Other nodes know nothing of duplicate ids: each message is sent once."""

    def __init__(self, simulation: Any, name: str, address: str) -> None:
        super().__init__(simulation, name, address)
        cluster = simulation.cluster
        self.duplicates = False
        self.runtime = FabricRuntime(self.process, cluster.fabric)
        self.settings.ha = True
        self.settings.reconnect_attempts = self.rng.choice((0, 1, 3))
        self.settings.failover_attempts = self.rng.choice((1, 5))
        self.settings.use_topology_for_load_balancing = self.rng.random() < 0.5
        self.locator = Locator(self.runtime, [cluster.connector(node) for node in cluster.nodes], self.settings)

    def check_timeout(self, error: MQError) -> None:
        """Nobody knows at which node it is."""


class ClusterMixedReceiver(AtNode, MixedReceiver):
    pass


class ClusterAsynchronousSender(ClusterSender, AsynchronousSender):
    pass


class ClusterTransactedSender(ClusterSender, TransactedSender):
    pass


class ClusterReceiver(AtNode, AcknowledgingReceiver):
    pass


class GroupReceiver(ClusterReceiver):
    """Takes messages with groups, and looks whether another consumer has messages of the same group at the time."""

    async def next(self, consumer: Consumer) -> tuple[ClientMessage, Copy] | None:
        entry = await super().next(consumer)
        if entry is not None:
            self.simulation.cluster.check_group(str(entry[0].get(KEY_GROUP_ID)))
        return entry


class ClusterTransactedReceiver(AtNode, TransactedReceiver):
    pass


class ClusterSubscriber(AtNode, Subscriber):
    """Its subscriptions come and go on its node, and the others must hear of it."""

    def __init__(self, simulation: Any, name: str, *args: Any) -> None:
        super().__init__(simulation, name, *args)
        simulation.ledger.homes[self.queue] = simulation.broker.name


class Watcher(AtNode):
    """Is connected to some node all the time, and is told of the topology."""

    def __init__(self, simulation: Any, name: str) -> None:
        super().__init__(simulation, name)
        cluster = simulation.cluster
        connectors = [cluster.connector(node) for node in cluster.nodes]
        self.runtime = FabricRuntime(self.process, cluster.fabric)
        self.settings.ha = True
        self.settings.reconnect_attempts = 2
        self.settings.retry_interval = 50
        self.settings.failover_attempts = 3
        self.settings.initial_connect_attempts = -1
        self.locator = Locator(self.runtime, connectors, self.settings)
        self.stop = False

    async def work(self) -> None:
        while not self.stop:
            try:
                await self.session()
                await self.pause(0.2)
            except MQError:
                await self.pause(0.1)

    @property
    def sees(self) -> set[str]:
        return {member.node_id for member in self.locator.topology}


class Drain(AtNode):
    """Takes what is in queues of its node; with ``stop`` until there is nothing, else until it is told to stop."""

    def __init__(self, simulation: Any, queues: Sequence[str], stop: bool) -> None:
        super().__init__(simulation, DRAIN)
        self.settings.reconnect_attempts = 0
        self.settings.consumer_window_size = -1
        self.settings.confirmation_window_size = -1
        self.locator = Locator(self.runtime, [CONNECTOR], self.settings)
        self.queues = list(queues)
        self.stop = stop

    async def work(self) -> None:
        session = await self.session()
        consumers = [await self.consume(session, queue) for queue in self.queues]
        await session.start()
        while True:
            got = [await self._take(consumer) for consumer in consumers]
            if any(got):
                continue
            if self.stop:
                break
            await self.pause(0.1)

    async def _take(self, consumer: Consumer) -> bool:
        found = False
        while (message := await consumer.receive_immediate()) is not None:
            found = True
            await read(self, consumer, message)
            await message.individual_acknowledge()
        return found
