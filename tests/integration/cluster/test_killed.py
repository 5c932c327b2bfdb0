"""Broker processes that are killed while messages are on their way to another node."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import TestCase

from mqclient.jms import ConnectionFactory
from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>node-{own}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>
<connector name="own">tcp://127.0.0.1:{port}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>own</connector-ref>
<retry-interval>50</retry-interval><max-retry-interval>100</max-retry-interval>
<static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="topic"><multicast/></address></addresses>
</core></configuration>
"""
COUNT = 100
WAIT_MS = 15_000


class KilledTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-killed-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.reserved = [ReservedPort(), ReservedPort()]
        self.ports = [port.number for port in self.reserved]
        self.brokers = [self.start(number) for number in range(2)]
        self.connections: list[Connection] = []

    def tearDown(self) -> None:
        for connection in self.connections:
            connection.close()
        for broker in self.brokers:
            broker.stop()
        for port in self.reserved:
            port.close()

    def start(self, number: int) -> Broker:
        folder = self.folder / f"node-{number}"
        folder.mkdir(exist_ok=True)
        (folder / "broker.xml").write_text(self.configuration(number))
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        return Broker([*twistd, "mqbroker", "--config", str(folder / "broker.xml")], folder)

    def configuration(self, number: int) -> str:
        ports = self.ports
        return CONFIGURATION.format(own=number, folder=self.folder / f"node-{number}" / "data", port=ports[number], other=ports[1 - number])

    def connect(self, number: int, client_id: str | None = None) -> Connection:
        connection = ConnectionFactory(f"tcp://127.0.0.1:{self.ports[number]}?useTopologyForLoadBalancing=false").create_connection()
        if client_id is not None:
            connection.client_id = client_id
        connection.start()
        self.connections.append(connection)
        return connection

    def close(self) -> None:
        while self.connections:
            self.connections.pop().close()

    def subscribe(self) -> None:
        """A durable subscription on the second node, known to the first one."""
        session = self.connect(1, "me").create_session()
        session.create_durable_consumer(session.create_topic("topic"), "sub").close()
        probe = self.connect(0).create_session()
        producer = probe.create_producer(probe.create_topic("topic"))
        consumer = session.create_durable_consumer(session.create_topic("topic"), "sub")
        deadline = time.monotonic() + WAIT_MS / 1000
        while consumer.receive(50) is None:
            assert time.monotonic() < deadline, "the subscription is not known to the other node"
            producer.send(probe.create_text_message("probe"))
        while consumer.receive(300) is not None:
            pass
        self.close()

    def send(self, then: Callable[[int], None] = lambda number: None) -> None:
        session = self.connect(0).create_session()
        producer = session.create_producer(session.create_topic("topic"))
        for number in range(COUNT):
            producer.send(session.create_text_message(f"m{number:03}"))
            then(number)

    def received(self) -> list[str]:
        session = self.connect(1, "me").create_session()
        consumer = session.create_durable_consumer(session.create_topic("topic"), "sub")
        found = []
        while (message := consumer.receive(WAIT_MS if len(found) < COUNT else 300)) is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
        return found

    def test_the_target_is_killed(self) -> None:
        self.subscribe()
        self.send(lambda number: self.brokers[1].kill() if number == COUNT // 2 else None)
        self.close()
        self.brokers[1] = self.start(1)
        self.assertEqual(self.received(), [f"m{number:03}" for number in range(COUNT)])

    def test_the_sender_is_killed(self) -> None:
        self.subscribe()
        self.brokers[1].kill()
        self.send()
        self.brokers[1] = self.start(1)
        self.brokers[0].kill()
        self.brokers[0] = self.start(0)
        self.assertEqual(self.received(), [f"m{number:03}" for number in range(COUNT)])
