"""A home cluster in memory: whole brokers on one clock, joined by the production client.  Bytes move when the test stirs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeMember
from mqbroker.messaging.ports import Recovered
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.factories.locator import Locator
from mqclient.core.settings import LocatorSettings
from tests.support.broker import Session, World
from tests.support.clock import FakeClock
from tests.support.held_store import HeldStore
from tests.unit.cluster.bridge_support import MemoryLink, MemoryRuntime, connector

CREDENTIALS = ClusterCredentials("cu", "cp")


def node_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


class _Runtime(MemoryRuntime):
    """Random numbers of the runtimes of several brokers differ: names are made of them."""

    def __init__(self, clock: FakeClock, number: int) -> None:
        super().__init__(clock)
        self._random = number << 32


class Heard:
    """What members have heard of (:class:`mqbroker.imq.delivery.home.QueueLives`): everything, but for the queues in ``unheard``."""

    def __init__(self) -> None:
        self.unheard: set[str] = set()

    def ask(self, home: str, queue: str, answered: Callable[[bool], object]) -> None:
        answered(queue not in self.unheard)


class Taken:
    """What members have taken over from each other (:class:`mqbroker.imq.delivery.decisions.TakenOver`)."""

    def __init__(self, cluster: Cluster, own: str) -> None:
        self.nodes: set[str] = {own}
        self._cluster = cluster

    async def at(self, member: str, nodes: Collection[bytes]) -> Collection[bytes]:
        broker = next(each for each in self._cluster.brokers.values() if each.store.node_id == member)
        return {node_id_bytes(node) for node in broker.taken.nodes}.intersection(nodes)


class Broker:
    """One member."""

    def __init__(self, cluster: Cluster, number: int, recovered: Recovered | None = None, store: HeldStore | None = None) -> None:
        self.number = number
        self.store = store or HeldStore()
        self.store.node_id = node_id(number)
        settings = HomeCluster((), None, f"broker:{number}")
        self.world = World(
            Configuration(security_enabled=False, home_cluster=settings), clock=cluster.clock, store=self.store, recovered=recovered
        )
        self.links = HomeLinks()
        self.runtime = _Runtime(cluster.clock, number)
        self.heard = Heard()
        self.taken = Taken(cluster, self.store.node_id)
        self.delivery = Delivery(self.world.messaging, self.links, self.store.node_id, self.runtime, settings, self.heard, self.taken)
        self.members: dict[int, HomeMember] = {}
        self.connections: dict[int, MemoryLink] = {}

    @property
    def core(self) -> Any:
        return self.world.messaging.core

    def session(self, **request: Any) -> Session:
        """A session of a client of its own, whose answers to the opening are taken."""
        session = self.world.session(**request)
        session.peer.read()
        return session

    def waiting(self, queue: str = "q") -> list[bytes]:
        """Bodies that wait in the queue, in order."""
        return [reference.message.decoded().body for reference in self.world.queue(queue).references]

    def count(self, queue: str = "q") -> int:
        """Messages of the queue, as management shows them."""
        return self.world.queue(queue).message_count

    @property
    def remotes(self) -> list[RemoteConsumer]:
        return list(self.delivery.remote_consumers())


class Cluster:
    """``count`` members with numbers from 1; each has the queue ``q``, and is linked with each other one."""

    def __init__(self, count: int = 2, *, link: bool = True) -> None:
        self.clock = FakeClock()
        self.brokers = {number: Broker(self, number) for number in range(1, count + 1)}
        for broker in self.brokers.values():
            broker.session().create_queue("q")
        if link:
            for broker in self.brokers.values():
                for other in self.brokers.values():
                    if other is not broker:
                        self.link(broker.number, other.number)

    def __getitem__(self, number: int) -> Broker:
        return self.brokers[number]

    def link(self, of: int, to: int) -> None:
        """Make the link by which ``of`` consumes at ``to``."""
        broker, other = self[of], self[to]
        broker.runtime.targets[str(to)] = other.world
        locator = Locator(
            broker.runtime,
            [connector(to)],
            LocatorSettings(user="cu", password="cp", reconnect_attempts=0, initial_connect_attempts=1),
            follow=False,
        )

        async def connect() -> None:
            factory = await locator.create_session_factory()
            member = broker.members[to] = HomeMember(other.store.node_id, factory, CREDENTIALS)
            broker.connections[to] = broker.runtime.links[-1]

            def lost(error: Exception) -> None:
                member.lost()
                broker.world.server.turn.run(broker.links.down, member)

            factory.add_failure_listener(_Loss(lost))
            broker.world.server.turn.run(broker.links.up, member)

        broker.runtime.spawn(connect())
        self.stir()

    def cut(self, of: int, to: int) -> None:
        """Cut the link by which ``of`` consumes at ``to``."""
        self[of].connections[to].cut()
        self.stir()

    def crash(self, number: int) -> None:
        """The broker is gone: nobody hears of it, its links end, and it does nothing any more."""
        for broker in self.brokers.values():
            for to, connection in list(broker.connections.items()):
                if number in (broker.number, to):
                    connection.cut()
        self.stir()

    def stir(self, rounds: int = 10_000) -> None:
        """Let everything happen that needs no time; with fewer ``rounds`` only the beginning of it."""
        for _ in range(rounds):
            self.clock.advance(0)
            links = [link for broker in self.brokers.values() for link in list(broker.runtime.links)]
            busy = [link.move(1 << 20) for link in links]
            if not any(busy) and not self.clock.due:
                failures = [failure for broker in self.brokers.values() for failure in broker.runtime.failures]
                assert not failures, failures
                return
        if rounds == 10_000:
            raise AssertionError("the brokers talk without end")

    def advance(self, seconds: float) -> None:
        end = self.clock.seconds + seconds
        while self.clock.seconds < end - 1e-9:
            self.clock.advance(min(0.25, end - self.clock.seconds))
            self.stir()


class _Loss:
    def __init__(self, lost: Any) -> None:
        self._lost = lost

    def before_reconnect(self, error: Exception) -> None: ...

    def connection_failed(self, error: Exception, failed_over: bool) -> None:
        self._lost(error)


class HomeAndConsumer(SynchronousTestCase):
    """Producers are at A, consumers at B."""

    def setUp(self) -> None:
        self.cluster = Cluster(2)
        self.a, self.b = self.cluster[1], self.cluster[2]
        self.sender = self.a.session()

    def publish(self, *bodies: bytes, **headers: object) -> None:
        for body in bodies:
            self.sender.publish(body, **headers)  # type: ignore[arg-type]
        self.cluster.stir()

    def consumer(self, **more: object) -> Session:
        session = self.b.session()
        session.consume(**more)  # type: ignore[arg-type]
        self.cluster.stir()
        return session
