"""Two broker processes of one folder: one is killed or stopped, the other one goes on, and clients follow."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path
from queue import SimpleQueue
from unittest import TestCase

from mqclient.jms import ConnectionFactory, JMSException
from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>{name}</name>
<security-enabled>false</security-enabled>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<ha-policy><shared-store>{policy}</shared-store></ha-policy>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<connectors>
<connector name="own">tcp://127.0.0.1:{port}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector>
</connectors>
<cluster-connections><cluster-connection name="cluster">
<connector-ref>own</connector-ref>
<retry-interval>100</retry-interval>
<static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""
PRIMARY, BACKUP = "primary", "backup"
FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&callFailoverTimeout=30000"
WAIT_MS = 20_000


class SharedStoreTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-shared-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ports = {}
        for name in (PRIMARY, BACKUP):
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name] = reserved.number
        self.options = "<failover-on-shutdown>false</failover-on-shutdown>"
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, "AMQ221109")
        self.backup.wait_for("AMQ221031")

    def start(self, name: str, line: str = "AMQ221007") -> Broker:
        """Start one, and wait until it has written ``line``."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        other = BACKUP if name == PRIMARY else PRIMARY
        text = CONFIGURATION.format(
            name=name,
            folder=self.folder / "data",
            policy=f"<{name}>{self.options}</{name}>",
            port=self.ports[name],
            other=self.ports[other],
        )
        (folder / "broker.xml").write_text(text)
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        broker = Broker([*twistd, "mqbroker", "--config", str(folder / "broker.xml")], folder, line)
        self.addCleanup(broker.stop)
        return broker

    def connect(self, name: str = PRIMARY) -> Connection:
        connection = ConnectionFactory(f"tcp://127.0.0.1:{self.ports[name]}?{FOLLOW}").create_connection()
        self.addCleanup(connection.close)
        connection.start()
        return connection

    def send(self, connection: Connection, acknowledged: SimpleQueue[str], done: threading.Event) -> None:
        """Send until ``done``, and tell of each text that the broker has acknowledged."""
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("q"))
        number = 0
        while not done.is_set():
            number += 1
            try:
                producer.send(session.create_text_message(f"m{number}"))
            except JMSException:
                continue  # nobody knows what became of it
            acknowledged.put(f"m{number}")

    def received(self, name: str) -> list[str]:
        session = self.connect(name).create_session()
        consumer = session.create_consumer(session.create_queue("q"))
        found = []
        while (message := consumer.receive(WAIT_MS if not found else 1000)) is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
        return found

    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        done = threading.Event()
        acknowledged: SimpleQueue[str] = SimpleQueue()
        kept: set[str] = set()

        def go_on(count: int = 50) -> None:
            for _ in range(count):
                kept.add(acknowledged.get(timeout=WAIT_MS / 1000))

        sender = threading.Thread(target=self.send, args=(self.connect(), acknowledged, done), daemon=True)
        sender.start()
        go_on()
        self.primary.kill()
        self.backup.wait_for("AMQ221010")
        go_on(acknowledged.qsize() + 50)
        again = self.start(PRIMARY, "AMQ221034")
        again.wait_for("AMQ221007")
        self.backup.wait_for("AMQ221109", times=2)
        go_on(acknowledged.qsize() + 50)
        done.set()
        sender.join(WAIT_MS / 1000)
        self.assertFalse(sender.is_alive())
        go_on(acknowledged.qsize())
        self.assertEqual(kept - set(self.received(PRIMARY)), set())

    def test_an_orderly_stop_leaves_the_backup_passive_and_the_primary_goes_on_later(self) -> None:
        session = self.connect().create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        self.primary.stop()
        self.start(PRIMARY)
        self.assertEqual(self.received(PRIMARY), ["kept"])
        self.assertNotIn("AMQ221010", self.backup.wait_for("AMQ221109"))

    def test_with_failover_on_shutdown_the_backup_goes_on(self) -> None:
        self.primary.stop()
        self.options = "<failover-on-shutdown>true</failover-on-shutdown>"
        primary = self.start(PRIMARY)
        session = self.connect().create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        primary.stop()
        self.backup.wait_for("AMQ221010")
        self.assertEqual(self.received(BACKUP), ["kept"])
