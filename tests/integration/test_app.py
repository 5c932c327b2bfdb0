"""A broker stops and starts again: what survives, and what waits for whom."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.task import deferLater
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from mqbroker.app import Broker, StartError
from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import MetricsConfiguration
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, NodeLock
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_DUPLICATE_ID, CoreMessage, decode_message, encode_headers, encode_message
from mqclient.wire.properties import STRING, TypedValue
from tests.integration.server.wire_client import BrokerCase, WireClient, reactor

PLUGIN = "org.apache.activemq.artemis.core.server.metrics.plugins.ArtemisPrometheusMetricsPlugin"


class Sender(BrokerCase):
    async def client(self, broker: Broker, **request: Any) -> WireClient:
        client = await self.connect(broker)
        await client.open(**request)
        return client

    async def publish(self, client: WireClient, body: bytes, durable: bool = True, duplicate_id: str | None = None) -> None:
        properties: dict[str, TypedValue] = {} if duplicate_id is None else {KEY_DUPLICATE_ID: (STRING, duplicate_id)}
        content = CoreMessage(address="q", durable=durable, properties=properties, body=body)
        client.send(wire.SessionSend(encode_message(content), True, -2))
        await client.next(wire.NullResponse)

    async def make_queue(self, client: WireClient, **attributes: Any) -> None:
        client.send(wire.CreateQueueV2("q", "q", routing_type=1, durable=True, **attributes))
        await client.next(wire.NullResponse)

    async def receive(self, client: WireClient, count: int) -> list[tuple[bytes, int]]:
        client.send(wire.CreateConsumer(0, "q", requires_response=False))
        client.send(wire.FlowToken(0, -1))
        client.send(wire.SessionStart())
        packets = [await client.next(wire.SessionReceive) for _ in range(count)]
        return [(decode_message(packet.message).body, packet.delivery_count) for packet in packets]


class FailingDiskTests(Sender):
    async def test_a_broker_in_a_program_stops_and_nobody_waits_for_it(self) -> None:
        """There is no process of its own that could end."""
        broker = self.start(persistence_enabled=True, graceful_shutdown_enabled=True)
        client = await self.client(broker)
        await self.make_queue(client)
        segment = broker.store._journal.messages.current  # type: ignore[union-attr]

        def fails(*arguments: object) -> None:
            raise OSError(5, "broken")

        segment.file.write = fails  # type: ignore[method-assign, union-attr]
        client.send(wire.SessionSend(encode_message(CoreMessage(address="q", durable=True, body=b"x")), True, -2))
        await client.closed
        self.assertEqual([packet for packet in client.packets if isinstance(packet, wire.NullResponse)], [])
        self.assertTrue(broker.store.failed)
        self.flushLoggedErrors()


class SlowPage(Resource):
    """A page that takes longer than a broker waits between two looks at its lock."""

    isLeaf = True

    def render_GET(self, request: Request) -> int:
        reactor.callLater(1.4, request.finish)
        return NOT_DONE_YET


class TakeoverTests(Sender):
    async def test_a_backup_whose_network_check_takes_its_time_looks_after_its_lock(self) -> None:
        port = reactor.listenTCP(0, Site(SlowPage()), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        folder, files = self.folder / "data" / "journal", LocalFileSystem()
        folder.mkdir(parents=True)
        NodeLock(files, str(folder)).write_state(STATE_ACTIVE)
        broker = self.start(
            persistence_enabled=True,
            shared_store=SharedStoreConfiguration(True),
            network_check_timeout=5000,
            network_check_url_list=f"http://127.0.0.1:{port.getHost().port}/",
        )
        while not broker.is_active:
            await deferLater(reactor, 0.05)
        Epoch(files, str(folder), os.urandom).begin()
        for _ in range(100):
            if broker.store.failed:
                break
            await deferLater(reactor, 0.05)
        self.assertTrue(broker.store.failed, "another broker has taken the folder")


class RestartTests(Sender):
    async def test_what_survives(self) -> None:
        broker = self.start(persistence_enabled=True)
        node_id = broker.node_id
        client = await self.client(broker, auto_commit_acks=False)
        await self.make_queue(client, max_consumers=5)
        for number in range(3):
            await self.publish(client, b"%d" % number, duplicate_id=f"id{number}")
        await self.publish(client, b"soft", durable=False)
        client.send(wire.SessionSendLarge(_headers()))
        client.send(wire.SessionSendContinuation(bytes(70_000), False, 70_000, True, -3))
        await client.next(wire.NullResponse)
        self.assertEqual(await self.receive(client, 1), [(b"0", 1)])
        client.send(wire.SessionClose())
        await client.next(wire.NullResponse)
        await self.stop(broker)

        broker = self.start(persistence_enabled=True)
        self.assertEqual(broker.node_id, node_id)
        queue = broker.messaging.core.queues["q"]
        self.assertEqual((queue.message_count, queue.definition.max_consumers), (4, 5))
        client = await self.client(broker)
        await self.publish(client, b"again", duplicate_id="id1")
        self.assertEqual(queue.message_count, 4, "a duplicate")
        self.assertEqual([body for body, _ in await self.receive(client, 3)], [b"0", b"1", b"2"])
        large = await client.next(wire.SessionReceiveLarge)
        self.assertEqual(large.large_message_size, 70_000)

    async def test_delivery_counts_survive(self) -> None:
        broker = self.start(persistence_enabled=True)
        client = await self.client(broker, auto_commit_acks=False)
        await self.make_queue(client)
        await self.publish(client, b"x")
        await self.receive(client, 1)
        client.send(wire.Rollback(True))
        await client.next(wire.NullResponse)
        await self.stop(broker)
        broker = self.start(persistence_enabled=True)
        self.assertEqual(await self.receive(await self.client(broker), 1), [(b"x", 3)])

    async def test_message_ids_are_never_used_twice(self) -> None:
        ids = []
        for _ in range(3):
            broker = self.start(persistence_enabled=True)
            ids.append(broker.store.next_id())
            await self.stop(broker)
        self.assertEqual(ids, sorted(set(ids)))

    async def test_without_persistence_nothing_is_kept_and_nothing_written(self) -> None:
        for _ in range(2):
            broker = self.start()
            client = await self.client(broker)
            self.assertNotIn("q", broker.messaging.core.queues)
            await self.make_queue(client)
            await self.publish(client, b"x")
            await self.stop(broker)
        self.assertEqual([path for path in self.folder.rglob("*") if path.is_file()], [])

    async def test_the_same_object_starts_again(self) -> None:
        broker = self.start(persistence_enabled=True)
        node_id = broker.node_id
        client = await self.client(broker)
        await self.make_queue(client)
        await self.publish(client, b"kept")
        await client.close()
        self.clients.clear()
        await broker.stop()
        broker.start()
        self.assertEqual(broker.node_id, node_id)
        self.assertEqual(broker.messaging.core.queues["q"].message_count, 1)
        client = await self.client(broker)
        await self.publish(client, b"again")
        self.assertEqual(broker.messaging.core.queues["q"].message_count, 2)

    async def test_two_brokers_do_not_share_a_folder(self) -> None:
        self.start(persistence_enabled=True)
        error = self.assertRaises(StartError, self.start, persistence_enabled=True)
        self.assertIn("journal", str(error))

    def test_a_folder_of_a_real_artemis_is_refused_and_not_touched(self) -> None:
        journal = self.folder / "data" / "journal"
        journal.mkdir(parents=True)
        (journal / "activemq-data-1.amq").write_bytes(b"\x00" * 100)
        before = sorted((path, path.stat().st_mtime_ns) for path in self.folder.rglob("*"))
        error = self.assertRaises(StartError, self.start, persistence_enabled=True)
        self.assertIn("artemis data exp", str(error))
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in self.folder.rglob("*")), before)


class StopTests(Sender):
    async def test_clients_are_told(self) -> None:
        broker = self.start()
        client = await self.client(broker)
        await broker.stop()
        notice = await client.next(wire.DisconnectV3)
        self.assertEqual((notice.node_id, notice.reason), (broker.node_id, 2))
        await client.closed

    async def test_a_graceful_stop_waits_for_the_last_client(self) -> None:
        broker = self.start(graceful_shutdown_enabled=True)
        client = await self.client(broker)
        stopped = broker.stop()
        await client.ping()
        self.assertFalse(stopped.called)
        await client.close()
        await stopped
        self.assertEqual([packet for packet in client.packets if isinstance(packet, wire.DisconnectV3)], [])

    async def test_a_graceful_stop_has_an_end(self) -> None:
        broker = self.start(graceful_shutdown_enabled=True, graceful_shutdown_timeout=50)
        client = await self.client(broker)
        await broker.stop()
        await client.next(wire.DisconnectV3)

    async def test_a_stop_with_clients_that_never_leave(self) -> None:
        broker = self.start()
        client = await self.client(broker)
        transport: Any = client.transport
        transport.pauseProducing()
        await broker.stop()
        transport.resumeProducing()


class MonitoringTests(Sender):
    async def get(self, url: str) -> tuple[int, str]:
        agent = Agent(reactor, pool=HTTPConnectionPool(reactor, persistent=False))
        response = await agent.request(b"GET", url.encode())
        return response.code, (await readBody(response)).decode()

    async def test_metrics_and_health(self) -> None:
        broker = self.start(name="b", metrics=MetricsConfiguration(PLUGIN, {"port": "0"}))
        client = await self.client(broker)
        await self.make_queue(client)
        await self.publish(client, b"x")
        (url,) = broker.pages.urls
        self.assertTrue(url.startswith("http://127.0.0.1:"))
        code, text = await self.get(url + "/metrics")
        self.assertEqual(code, 200)
        self.assertIn('artemis_message_count{broker="b",address="q",queue="q"} 1\n', text)
        self.assertEqual(await self.get(url + "/health/ready"), (200, "ok\n"))
        broker.server.started = False
        self.assertEqual((await self.get(url + "/health/ready"))[0], 503)
        self.assertEqual(await self.get(url + "/health/live"), (200, "ok\n"))
        broker.server.started = True

    async def test_the_address_of_the_console_serves_health_only(self) -> None:
        broker = self.start(web=("http://localhost:0",))
        (url,) = broker.pages.urls
        self.assertEqual((await self.get(url + "/health/live"))[0], 200)
        self.assertEqual((await self.get(url + "/metrics"))[0], 404)

    async def test_nothing_is_served_unless_configured(self) -> None:
        self.assertEqual(self.start().pages.urls, [])
        await deferLater(reactor, 0)


def _headers() -> bytes:
    return encode_headers(CoreMessage(address="q", durable=True))
