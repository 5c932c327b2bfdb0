"""Real brokers without a master, whose record is in a database: one is down and comes back, the database goes, another record comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import HomeCluster, SharedRecord
from mqbroker.imq.peers.record_table import RecordTable
from mqbroker.imq.record.backup import backup_of, record_of
from mqbroker.process.databases import make_database
from mqbroker.storage.sql.database import Connection
from mqclient.errors import IllegalStateError
from tests.integration.cluster.nodes import Node, reactor
from tests.integration.imq.test_record import MULTICAST, RecordCase, durable, place, queues, recording
from tests.support.postgresql import PostgresqlServer, refuse_without


class PeerNode:
    """A broker that starts again by itself when it is asked to."""

    def __init__(self, case: PeersCase, node: Node) -> None:
        self._case = case
        self._node = node
        self.restarts = 0
        self.failures: list[str] = []

    def start(self) -> None:
        node = self._node
        settings = BrokerSettings(node.configuration, node.folder)
        node.broker = Broker(settings, reactor, self.failures.append, on_restart_wanted=lambda: reactor.callLater(0, self._again))
        node.broker.start()
        node.running = True

    def _again(self) -> None:
        if self._case.over:
            return
        self.restarts += 1
        self._case.restarting.append(Deferred.fromCoroutine(self._stop_and_start()))

    async def _stop_and_start(self) -> None:
        await self._node.stop()
        self.start()


class PeersCase(RecordCase):
    def setUp(self) -> None:
        super().setUp()
        self.restarting: list[Deferred[None]] = []
        self.over = False
        self.database = self.new_database()
        self.peer_nodes: list[PeerNode] = []

    async def tearDown(self) -> None:  # type: ignore[override]
        self.over = True
        for restarting in self.restarting:
            await restarting
        await super().tearDown()
        self.assertEqual([each.failures for each in self.peer_nodes], [[] for _ in self.peer_nodes])

    def new_database(self) -> DatabaseStoreConfiguration:
        return DatabaseStoreConfiguration(f"jdbc:sqlite:{self.folder}/record.db")

    def configured(self, count: int, *, listed: bool = True, own_store: bool = False) -> list[Node]:
        nodes = self.make(count)
        places = tuple(place(each) for each in nodes)
        record = SharedRecord(self.database, "c", retry_s=0.2)
        for number, node in enumerate(nodes):
            brokers = places if listed else places[number : number + 1]
            cluster = HomeCluster(brokers, None, places[number], broker_id=f"b{number}", record=record, finds_members=not listed)
            node.configuration.home_cluster = cluster
            node.configuration.connectors["imq"] = node.configuration.connectors[f"node-{number}"]
            self.link_without_pause(node)
            if not listed:
                [connection] = node.configuration.cluster_connections
                node.configuration.cluster_connections = [replace(connection, static_connectors=None)]
            if own_store:
                node.configuration.database_store = self.database
        return nodes

    async def peers(self, count: int, **options: Any) -> list[Node]:
        nodes = self.configured(count, **options)
        self.peer_nodes = [PeerNode(self, node) for node in nodes]
        for each in self.peer_nodes:
            each.start()
        await self.formed(nodes)
        await self.in_step(nodes)
        return nodes

    def with_table(self, work: Any) -> Any:
        def run() -> Any:
            database = make_database(self.database, self.folder, "")
            connection = database.connect()
            try:
                return work(RecordTable(database, "c"), connection)
            finally:
                connection.close()

        return deferToThread(run)


class SqlitePeersTests(PeersCase):
    async def test_what_is_defined_on_one_broker_is_so_on_all_whoever_is_down(self) -> None:
        nodes = await self.peers(3)
        session = await self.session(nodes[1])
        await session.create_queue(durable("q"))
        await session.create_queue(durable("me.sub", "topic", MULTICAST))
        await self.everywhere(nodes, "me.sub", "q")
        for down in (0, 2):
            await nodes[down].stop()
            await session.create_queue(durable(f"without-{down}"))
            await self.everywhere([node for node in nodes if node.running], "me.sub", "q", *self.made(down))
            self.peer_nodes[down].start()
            await self.everywhere(nodes, "me.sub", "q", *self.made(down))
        other = await self.session(nodes[2])
        await other.delete_queue("q")
        await self.everywhere(nodes, "me.sub", *self.made(2))
        await self.in_step(nodes)

    @staticmethod
    def made(down: int) -> list[str]:
        return ["without-0", "without-2"][: 1 + down // 2]

    async def test_another_record_is_taken_over_by_brokers_that_start_again(self) -> None:
        nodes = await self.peers(2)
        session = await self.session(nodes[0])
        await session.create_queue(durable("kept"))

        def back_up(table: RecordTable, connection: Connection) -> bytes:
            record = table.read(connection)
            assert record is not None
            return backup_of(record)

        backup = await self.with_table(back_up)
        await session.create_queue(durable("lost"))
        await self.everywhere(nodes, "kept", "lost")

        def recreate(table: RecordTable, connection: Connection) -> None:
            table.delete(connection)
            table.create(connection)
            table.put(connection, record_of(backup).renewed("restored", "dbmgr", 0))

        await self.with_table(recreate)
        await self.until(lambda: all(each.restarts == 1 for each in self.peer_nodes), "both start again", 20)
        for restarting in self.restarting:
            await restarting
        await self.everywhere(nodes, "kept")
        await self.in_step(nodes)
        self.assertEqual({recording(node).standing.generation for node in nodes}, {"restored"})
        self.assertEqual([each.failures for each in self.peer_nodes], [[], []])

    async def test_without_a_list_they_find_each_other_and_keep_their_messages_in_the_database_too(self) -> None:
        nodes = await self.peers(2, listed=False, own_store=True)
        session = await self.session(nodes[0])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")
        await self.send(nodes[0], "q", ["1", "2"])
        consumer = await self.consumer(nodes[1], "q")
        self.assertEqual(await self.receive(consumer, 1), ["1"])
        self.assertEqual(len({node.node_id for node in nodes}), 2)
        await self.until(lambda: nodes[0].count("q") == 1, "the home has the acknowledgement")
        await nodes[0].stop()
        self.peer_nodes[0].start()
        await self.until(lambda: nodes[0].count("q") == 1, "its own messages are back")
        homes = nodes[0].broker.clustering.homes  # type: ignore[union-attr]
        assert homes is not None
        await self.until(lambda: set(homes.brokers) == {place(node) for node in nodes}, "the database lists both")


class PostgresqlPeersTests(PeersCase):
    server: ClassVar[PostgresqlServer]

    @classmethod
    def setUpClass(cls) -> None:
        refuse_without()
        cls.server = PostgresqlServer()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def new_database(self) -> DatabaseStoreConfiguration:
        name = self.server.database().name.rpartition("/")[2]
        return DatabaseStoreConfiguration(f"jdbc:postgresql://127.0.0.1:{self.server.port}/{name}", user="tests")

    async def test_the_database_is_stopped_and_comes_back(self) -> None:
        await self.with_table(lambda table, connection: table.create(connection))
        nodes = await self.peers(3, listed=False)
        session = await self.session(nodes[1])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")
        await deferToThread(self.server.stop)
        with self.assertRaises(IllegalStateError) as refused:
            await session.create_queue(durable("r"))
        self.assertIn(f"the database postgresql://127.0.0.1:{self.server.port}/", str(refused.exception))
        await self.send(nodes[1], "q", ["1", "2"])
        consumer = await self.consumer(nodes[2], "q")
        self.assertEqual(await self.receive(consumer, 2), ["1", "2"])
        await nodes[0].stop()
        self.peer_nodes[0].start()
        await deferToThread(self.server.start)
        await self.in_step(nodes)  # the one that has started meanwhile, and those that have lost the database
        await session.create_queue(durable("r"))
        await self.everywhere(nodes, "q", "r")
        self.assertEqual([queues(node) for node in nodes], [["q", "r"]] * 3)
