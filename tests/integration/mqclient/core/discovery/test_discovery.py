"""Clients of every shell that find their broker by its announcements on the loopback interface."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.cluster.membership.discovery import DiscoveryGroup
from mqbroker.config.model.cluster import BroadcastGroupConfiguration, DiscoveryGroupConfiguration
from mqclient.blocking import Runner
from mqclient.core.api import TransportConfiguration
from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.errors import ConnectionTimedOutError
from mqclient.jms import ConnectionFactory, JMSException
from mqclient.protocol import discovery
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint, UdpEndpoint
from mqclient.sockets import SocketRuntime
from tests.integration.mqclient.core.discovery.test_jgroups import free_range
from tests.integration.mqclient.exchange import exchange
from tests.integration.mqclient.server import SocketBroker
from tests.integration.mqclient.shells.test_datagrams import GROUP, QuietRuntime, free_port, until


class ClientTests(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> Any:
        self.broker = SocketBroker()
        self.runner = Runner(reactor)  # not the process's, which other tests have without a reactor that runs
        self.group_port = free_port()
        return Deferred.fromCoroutine(self.broker.listen())

    def tearDown(self) -> Any:
        return Deferred.fromCoroutine(self.broker.stop())

    def announce(self, endpoint: Endpoint | None = None) -> BroadcastGroup:
        connector = TransportConfiguration("self", NETTY_CONNECTOR, (("host", "127.0.0.1"), ("port", str(self.broker.port))))
        configuration = BroadcastGroupConfiguration("bg", endpoint or self.endpoint, 50)
        group = BroadcastGroup(configuration, [connector], QuietRuntime(), "node")
        group.start()
        self.addCleanup(group.stop)
        return group

    @property
    def endpoint(self) -> UdpEndpoint:
        return UdpEndpoint(GROUP, self.group_port, "127.0.0.1")

    def url(self, parameters: str = "") -> str:
        return f"udp://{GROUP}:{self.group_port}?localBindAddress=127.0.0.1&initialWaitTimeout=20000&callTimeout=20000{parameters}"

    def jgroups(self) -> JGroupsEndpoint:
        file = Path(self.mktemp())
        first = free_range(2)
        file.write_text(
            f'<config><TCP bind_addr="127.0.0.1" bind_port="{first}" port_range="0"/><TCPPING initial_hosts="127.0.0.1[{first}]"/></config>'
        )
        return JGroupsEndpoint("channel", str(file))

    async def test_twisted(self) -> None:
        self.announce()
        self.assertEqual(await exchange(mqclient.twisted.server_locator(self.url())), [1, 2, 3])

    async def test_the_forms_of_the_chapters(self) -> None:
        self.announce()
        group = discovery.DiscoveryGroupConfiguration(self.endpoint, initial_wait_timeout=20_000)
        locator = mqclient.twisted.server_locator_with_ha(group)
        self.assertTrue(locator.settings.ha)
        self.assertEqual(await exchange(locator), [1, 2, 3])
        self.assertFalse(mqclient.twisted.server_locator_without_ha(group).settings.ha)

    async def test_asyncio(self) -> None:
        self.announce()

        async def main() -> list[int]:
            return await exchange(mqclient.asyncio.server_locator(self.url()))

        self.assertEqual(await deferToThread(lambda: asyncio.run(main())), [1, 2, 3])

    async def test_plain_sockets(self) -> None:
        self.announce()
        endpoint = self.jgroups()
        self.announce(endpoint)
        jgroups = f"jgroups://{endpoint.channel}?file={endpoint.file}&initialWaitTimeout=20000"

        def main() -> list[list[int]]:
            with SocketRuntime() as runtime:
                return [runtime.run(exchange(mqclient.sockets.server_locator(url, runtime=runtime)), 20) for url in (self.url(), jgroups)]

        self.assertEqual(len(await deferToThread(main)), 2)

    async def test_blocking_and_jms(self) -> None:
        self.announce()

        def main() -> None:
            with ConnectionFactory(self.url(), runner=self.runner) as factory, factory.create_connection() as connection:
                session = connection.create_session()
                session.create_producer(session.create_queue("q")).send(session.create_text_message("found"))

        await deferToThread(main)
        self.assertEqual(self.broker.sent, 1)

    async def test_jms_with_an_object(self) -> None:
        self.announce()
        group = discovery.DiscoveryGroupConfiguration(self.endpoint)

        def main() -> bool:
            with ConnectionFactory.with_ha(group, discovery_initial_wait_timeout=20_000, runner=self.runner) as factory:
                factory.create_connection().close()
                return factory.settings.ha

        self.assertTrue(await deferToThread(main))

    async def test_jgroups(self) -> None:
        endpoint = self.jgroups()
        self.announce(endpoint)
        url = f"jgroups://{endpoint.channel}?file={endpoint.file}&initialWaitTimeout=20000"
        self.assertEqual(await exchange(mqclient.twisted.server_locator(url)), [1, 2, 3])

    async def test_nobody_there(self) -> None:
        locator = mqclient.twisted.server_locator(self.url("&discoveryInitialWaitTimeout=50"))
        call: Any = locator.create_session_factory()
        await self.assertFailure(call, ConnectionTimedOutError)
        await locator.close()

        def main() -> str:
            with ConnectionFactory(self.url("&discoveryInitialWaitTimeout=50"), runner=self.runner) as factory:
                try:
                    factory.create_connection()
                except JMSException as error:
                    return str(error)
            return "connected"

        self.assertIn("AMQ219012", await deferToThread(main))

    async def test_brokers_find_each_other(self) -> None:
        self.announce()
        group = DiscoveryGroup("dg", DiscoveryGroupConfiguration("dg", self.endpoint, 300), QuietRuntime(), "another node")
        group.start()
        self.addCleanup(group.stop)
        await until(group.connectors)
        broadcast = self.announce()
        await until(lambda: group.contested)
        broadcast.stop()
        await until(lambda: not group.contested)

    def test_the_runner_takes_a_group(self) -> None:
        locator = self.runner.locator(discovery.DiscoveryGroupConfiguration(self.endpoint))
        self.assertEqual(list(locator.connectors), [])
