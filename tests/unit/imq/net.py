"""Brokers of a home cluster on one clock, in memory; their links are cut and made by hand, and every request over them is counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import HomeCluster, SharedRecord
from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.links.requests import Peer
from mqbroker.imq.master.shared import SharedDefinitions
from mqbroker.imq.peers.looking import Looking
from mqbroker.imq.peers.table_peer import TablePeer
from mqbroker.imq.record.changes import Definition
from mqbroker.messaging.event import Event
from mqbroker.messaging.ports import AddressRecord, QueueRecord, Recovered
from mqclient.errors import MQError, NotConnectedError
from mqclient.management import ManagementError
from tests.support.broker import Session, World
from tests.support.clock import FakeClock
from tests.support.diskwriter import WriterInTurns
from tests.support.held_store import HeldStore, RecordedBatch
from tests.unit.imq.peers.support import MemoryDatabase

ONE, TWO, THREE = "b1:7676", "b2:7676", "b3:7676"


class _KeptBatch(RecordedBatch):
    def __init__(self) -> None:
        super().__init__()
        self.work: list[Any] = []

    def put_address(self, record: AddressRecord) -> None:
        super().put_address(record)
        self.work.append(lambda kept: kept.addresses.__setitem__(record.address_id, record))

    def delete_address(self, address_id: int) -> None:
        super().delete_address(address_id)
        self.work.append(lambda kept: kept.addresses.pop(address_id, None))

    def put_queue(self, record: QueueRecord) -> None:
        super().put_queue(record)
        self.work.append(lambda kept: kept.queues.__setitem__(record.queue_id, record))

    def delete_queue(self, queue_id: int) -> None:
        super().delete_queue(queue_id)
        self.work.append(lambda kept: kept.queues.pop(queue_id, None))

    def put_setting(self, kind: str, key: str, value: str) -> None:
        super().put_setting(kind, key, value)
        self.work.append(lambda kept: kept.settings.__setitem__((kind, key), value))

    def delete_setting(self, kind: str, key: str) -> None:
        super().delete_setting(kind, key)
        self.work.append(lambda kept: kept.settings.pop((kind, key), None))


class KeptStore(HeldStore):
    """Definitions and settings of what was committed survive; messages do not."""

    def __init__(self, node_id: str, before: KeptStore | None = None) -> None:
        super().__init__()
        self.node_id = node_id
        self.addresses: dict[int, AddressRecord] = {} if before is None else dict(before.addresses)
        self.queues: dict[int, QueueRecord] = {} if before is None else dict(before.queues)
        self.settings: dict[tuple[str, str], str] = {} if before is None else dict(before.settings)
        self.fenced: list[str] = []
        if before is not None:
            self._ids = before._ids + 1000

    def begin(self) -> _KeptBatch:
        return _KeptBatch()

    def commit(self, batch: Any) -> int:
        for work in batch.work:
            work(self)
        return super().commit(batch)

    def recovered(self) -> Recovered:
        return Recovered(addresses=list(self.addresses.values()), queues=list(self.queues.values()), settings=dict(self.settings))


class MemoryPeer:
    """A linked member: requests and answers take no time, but a call of the clock each."""

    def __init__(self, net: Net, here: Node, there: Node) -> None:
        self.node_id = there.world.server.node_id
        self.name = there.place
        self.lost = False
        self._net = net
        self._here = here
        self._there = there
        self._waiting: list[Deferred[Any]] = []

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        answered: Deferred[Any] = Deferred()
        self._waiting.append(answered)
        self._net.requests[operation] += 1
        self._net.log.append((self._here.place, self.name, operation))
        self._net.clock.call_later(0, self._arrived, operation, json.loads(json.dumps(parameters)), answered)
        return answered

    def end(self) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered.errback(NotConnectedError(f"the link to {self.name} was lost"))

    def _arrived(self, operation: str, parameters: list[Any], answered: Deferred[Any]) -> None:
        there = self._there
        if self.lost or operation in there.deaf:
            return

        def answer() -> None:
            try:
                text = json.dumps(there.answer(operation, parameters))
                failure = None
            except MQError as error:
                text, failure = "", ManagementError(str(error))
            store = there.world.store
            store.when_synced(store.ticket(), self._net.clock.call_later, 0, self._returned, answered, text, failure)

        there.world.server.turn.run(answer)

    def _returned(self, answered: Deferred[Any], text: str, failure: MQError | None) -> None:
        if self.lost or self._here.down:
            return
        self._waiting.remove(answered)
        if failure is None:
            self._here.world.server.turn.run(answered.callback, json.loads(text))
        else:
            self._here.world.server.turn.run(answered.errback, failure)


class MemoryPeers:
    def __init__(self) -> None:
        self.linked: Event[Peer] = Event()
        self.unlinked: Event[Peer] = Event()
        self.members: dict[str, MemoryPeer] = {}

    @property
    def by_id(self) -> Mapping[str, Peer]:
        return self.members

    def at(self, place: str) -> Peer | None:
        return next((peer for peer in self.members.values() if peer.name == place), None)


class Node:
    """A broker of the cluster, which may be restarted on what its store has kept."""

    def __init__(self, net: Net, place: str, queues: tuple[QueueConfiguration, ...] = (), **settings: Any) -> None:
        self.net = net
        self.place = place
        self.node_id = f"node-{place.partition(':')[0]}"
        self.cluster = replace(net.cluster, address=place, **settings)
        self.configured = queues
        self.deaf: set[str] = set()
        """Operations whose requests are not answered."""
        self.down = True
        self._ids = 0
        self.store: KeptStore | None = None
        self.left: list[str] = []
        """Why the broker was ended."""
        self.table: TablePeer | None = None
        self.looking: Looking | None = None
        self.prepare: Callable[[SharedDefinitions], object] = lambda shared: None
        """What is done before the shared part starts."""
        self.start()

    def start(self) -> None:
        """Start, on what there is; the links are made by the test."""
        configuration = Configuration(security_enabled=self.net.security, address_settings={"#": {"dead_letter_address": "DLQ"}})
        for queue in self.configured:
            address = AddressConfiguration(queue.address, frozenset((queue.routing_type or 0,)), [queue])
            configuration.addresses.append(address)
        self.store = KeptStore(self.node_id, self.store)
        self.registrar = HomeRegistrar()
        self.world = World(
            configuration, store=self.store, clock=self.net.clock, recovered=self.store.recovered(), registrar=self.registrar
        )
        self.peers = MemoryPeers()
        self.down = False
        self.shared = SharedDefinitions(
            self.world.server,
            self.cluster,
            self.peers,
            self.registrar,
            dict(self.store.settings),
            self._new_id,
            self.left.append,
            {},
            None if self.cluster.record is None else self._make_table,
        )
        self.answer = partial(_answer, self.shared)
        self.world.server.turn.run(self.prepare, self.shared)
        self.world.server.turn.run(self.shared.start)
        if self.table is not None:
            server = self.world.server
            self.looking = Looking(self.table, server.clock, server.turn, self.recording.answer_record_has, None)
            self.looking.start()

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.node_id}-{self._ids}"

    def _make_table(self, own: Callable[[], list[Definition]]) -> TablePeer:
        assert self.cluster.record is not None and self.net.database is not None
        writer = WriterInTurns(self.world.server.turn.run, self.net.clock)
        self.table = TablePeer(self.cluster.record, self.net.database, writer, self.net.clock, self.place, own, self._new_id)
        return self.table

    def stop(self, *, crash: bool = False) -> None:
        self.net.cut_off(self)
        self.down = True
        self.shared.stop()
        if self.looking is not None and self.table is not None:
            self.looking.stop()
            self.world.server.turn.run(self.table.stop)
        if not crash:
            self.world.broker.end()
        else:
            self.world.messaging.stop()

    def restart(self, *, crash: bool = False) -> None:
        self.stop(crash=crash)
        self.start()

    @property
    def recording(self) -> Any:
        return self.shared.recording

    @property
    def queues(self) -> list[str]:
        return sorted(self.world.messaging.core.queues)

    @property
    def addresses(self) -> list[str]:
        return sorted(self.world.messaging.core.addresses)

    def session(self) -> Session:
        return self.world.peer().open()


def _answer(shared: SharedDefinitions, operation: str, parameters: list[Any]) -> Any:
    """As a request of management does it."""
    found = type(shared.operations).OPERATIONS[operation]
    assert found.least <= len(parameters) <= found.most, (operation, parameters)
    return found.call(shared.operations, *parameters)


class Net:
    """The brokers by their places; ``requests`` counts those between them by operation, ``log`` has them as (from, to, operation)."""

    def __init__(self, master: str | None = ONE, *, security: bool = False, **settings: Any) -> None:
        self.clock = FakeClock()
        self.security = security
        self.cluster = HomeCluster((), master, ONE, **settings)
        self.database: MemoryDatabase | None = None
        self.nodes: dict[str, Node] = {}
        self.requests: Counter[str] = Counter()
        self.log: list[tuple[str, str, str]] = []

    def add(self, place: str, *queues: QueueConfiguration, link: bool = True, **settings: Any) -> Node:
        node = self.nodes[place] = Node(self, place, queues, **settings)
        if link:
            self.link_all(node)
            self.settle()
        return node

    def link(self, one: Node, other: Node) -> None:
        """Make both links, unless they are there."""
        for here, there in ((one, other), (other, one)):
            if there.node_id not in here.peers.members:
                peer = MemoryPeer(self, here, there)
                here.peers.members[there.node_id] = peer
                here.world.server.turn.run(here.peers.linked, peer)

    def link_all(self, node: Node) -> None:
        for other in self.nodes.values():
            if other is not node and not other.down:
                self.link(node, other)

    def cut(self, one: Node, other: Node) -> None:
        for here, there in ((one, other), (other, one)):
            peer = here.peers.members.pop(there.node_id, None)
            if peer is not None:
                here.world.server.turn.run(peer.end)
                here.world.server.turn.run(here.peers.unlinked, peer)

    def cut_off(self, node: Node) -> None:
        for other in self.nodes.values():
            self.cut(node, other)

    def settle(self, seconds: float = 0) -> None:
        """Let time pass, and everything happen that takes no time."""
        self.clock.advance(seconds)
        for _ in range(10_000):
            if not self.clock.run_due():
                return
        raise AssertionError("no end")


def three(**settings: Any) -> tuple[Net, Node, Node, Node]:
    """A master and two others, all linked."""
    net = Net(**settings)
    return net, net.add(ONE), net.add(TWO), net.add(THREE)


def peers(count: int = 3, *, queues: tuple[QueueConfiguration, ...] = (), **shared: Any) -> Net:
    """A cluster without a master: its record is in the database of the net.  With ``count`` brokers, all linked."""
    record = SharedRecord(DatabaseStoreConfiguration("jdbc:sqlite:/the.db"), "c", **shared)
    net = Net(None, record=record)
    net.database = MemoryDatabase()
    for place in (ONE, TWO, THREE)[:count]:
        net.add(place, *queues)
    return net
