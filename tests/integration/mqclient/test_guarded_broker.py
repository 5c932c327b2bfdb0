"""The client against an mqbroker with users, TLS and full addresses, which is stopped, restarted and frozen."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import trustme
from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import Connection, ConnectionFactory, FailoverEvent, JMSException, JMSSecurityException, MessageConsumer, MessageProducer
from mqclient.jms.messages.message import DeliveryMode
from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort

PERMISSIONS = (
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "createDurableQueue",
    "deleteDurableQueue",
    "createAddress",
    "deleteAddress",
    "consume",
    "browse",
    "send",
)
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>guarded</name>
<journal-type>NIO</journal-type>
<paging-directory>data/paging</paging-directory>
<bindings-directory>data/bindings</bindings-directory>
<journal-directory>data/journal</journal-directory>
<large-messages-directory>data/large-messages</large-messages-directory>
<acceptors>
<acceptor name="plain">tcp://127.0.0.1:{port}?protocols=CORE</acceptor>
<acceptor name="tls">tcp://127.0.0.1:{tls}?protocols=CORE;sslEnabled=true;keyStorePath={store};keyStoreType=PEM</acceptor>
</acceptors>
<security-settings><security-setting match="#">{permissions}</security-setting></security-settings>
<address-settings>
<address-setting match="full.#"><max-size-bytes>20000</max-size-bytes></address-setting>
<address-setting match="full.fail.#"><address-full-policy>FAIL</address-full-policy></address-setting>
<address-setting match="full.block.#"><address-full-policy>BLOCK</address-full-policy></address-setting>
</address-settings>
</core></configuration>
"""
LOGIN = """activemq { org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
 org.apache.activemq.jaas.properties.user="users.properties" org.apache.activemq.jaas.properties.role="roles.properties"; };
"""
BOOTSTRAP = """<broker xmlns="http://activemq.apache.org/schema"><jaas-security domain="activemq"/>
<server configuration="file:{etc}/broker.xml"/></broker>
"""


class GuardedCase(SynchronousTestCase):
    """Trial knows no setUpClass: each test has a broker of its own."""

    folder: Path
    port: int
    tls: int
    broker: Broker

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqclient-guarded-"))
        # The broker is started again on the same ports.
        reserved = [ReservedPort(), ReservedPort()]
        for each in reserved:
            self.addCleanup(each.close)
        self.port, self.tls = (each.number for each in reserved)
        etc = self.folder / "etc"
        etc.mkdir()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        trustme.CA().cert_pem.write_to_path(self.folder / "stranger.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.folder / "server.pem")
        permissions = "".join(f'<permission type="{name}" roles="amq"/>' for name in PERMISSIONS)
        (etc / "broker.xml").write_text(
            CONFIGURATION.format(port=self.port, tls=self.tls, store=self.folder / "server.pem", permissions=permissions)
        )
        (etc / "login.config").write_text(LOGIN)
        (etc / "users.properties").write_text("user = secret\nnobody = secret\n")
        (etc / "roles.properties").write_text("amq = user\nothers = nobody\n")
        (etc / "bootstrap.xml").write_text(BOOTSTRAP.format(etc=etc))
        (self.folder / "data").mkdir()
        self.start()

    def start(self) -> None:
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        self.broker = Broker([*twistd, "mqbroker", "--instance", str(self.folder)], self.folder)

    def tearDown(self) -> None:
        self.broker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, user: str = "user", password: str = "secret", url: str = "", **settings: Any) -> Connection:
        factory = ConnectionFactory(url or f"tcp://127.0.0.1:{self.port}", **settings)
        self.addCleanup(factory.close)
        connection = factory.create_connection(user, password)
        connection.start()
        return connection

    def eventually(self, true: Callable[[], object], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")
            time.sleep(0.01)


class SecurityTests(GuardedCase):
    def test_credentials(self) -> None:
        self.assertRaises(JMSSecurityException, self.connect, "user", "wrong")
        self.assertRaises(JMSSecurityException, self.connect, "stranger", "secret")
        session = self.connect("nobody").create_session()
        self.assertRaises(JMSSecurityException, session.create_producer, "forbidden")

    def test_tls(self) -> None:
        url = f"tcp://127.0.0.1:{self.tls}?sslEnabled=true&callTimeout=20000&trustStorePath={self.folder}"
        for protocols in ("TLSv1.2", "TLSv1.3"):
            session = self.connect(url=f"{url}/ca.pem&enabledProtocols={protocols}").create_session()
            session.create_producer(protocols).send("hello")
            self.assertEqual(session.create_consumer(protocols).receive(20_000).body, "hello")  # type: ignore[union-attr]
        self.assertRaises(JMSException, self.connect, url=f"{url}/stranger.pem")
        self.assertRaises(JMSException, self.connect, url=f"tcp://127.0.0.1:{self.tls}?callTimeout=1000")
        self.assertRaises(JMSException, self.connect, url=f"tcp://127.0.0.1:{self.port}?sslEnabled=true&callTimeout=1000&trustAll=true")


class FullAddressTests(GuardedCase):
    def test_fail(self) -> None:
        for mode in DeliveryMode:
            session = self.connect(producer_window_size=10_000).create_session()
            producer = session.create_producer(f"full.fail.{mode}", delivery_mode=mode)
            with self.assertRaises(JMSException) as raised:
                for _ in range(200):
                    producer.send(bytes(1000))
            self.assertEqual(raised.exception.error_code, "210")
            consumer = session.create_consumer(f"full.fail.{mode}")
            self.eventually(partial(self.sent, producer, consumer))
            self.assertIsNotNone(consumer.receive(20_000))

    def sent(self, producer: MessageProducer, consumer: MessageConsumer) -> bool:
        """Make room, and send.

        Other sends that had been handed over fail like the first one, and each is told to the next call.
        """
        while consumer.receive(100):
            pass
        try:
            producer.send("there is room again")
        except JMSException as error:
            self.assertEqual(error.error_code, "210")
            return False
        return True

    def test_block(self) -> None:
        for mode in DeliveryMode:
            connection = self.connect(producer_window_size=10_000, call_timeout=3000)
            sent = list[int]()

            def send(connection: Connection = connection, mode: DeliveryMode = mode, sent: list[int] = sent) -> None:
                producer = connection.create_session().create_producer(f"full.block.{mode}", delivery_mode=mode)
                try:
                    for number in range(200):
                        producer.send(number.to_bytes(1000, "big"))
                        sent.append(number)
                except JMSException:
                    sent.append(-1)

            thread = threading.Thread(target=send)
            thread.start()
            self.stalled(sent)
            self.assertLess(len(sent), 100)
            consumer = self.connect().create_session().create_consumer(f"full.block.{mode}")
            received = [int.from_bytes(consumer.receive(20_000).body, "big") for _ in range(50)]  # type: ignore[union-attr]
            self.assertEqual(received, list(range(50)))
            consumer.close()
            self.stalled(sent)
            connection.close()
            thread.join(30)
            self.assertFalse(thread.is_alive(), "closing must end a send that waits")
            self.assertEqual(sent[-1], -1)

    def stalled(self, sent: list[int]) -> None:
        self.eventually(lambda: sent)
        last = -1
        while last != len(sent):
            last = len(sent)
            time.sleep(0.3)


class StopTests(GuardedCase):
    def test_restart(self) -> None:
        connection = self.connect(reconnect_attempts=-1, retry_interval=50)
        events, reported = list[FailoverEvent](), list[JMSException]()
        connection.failover_listener = events.append
        connection.exception_listener = reported.append
        session = connection.create_session()
        producer, consumer = session.create_producer("kept"), session.create_consumer("kept")
        received = list[Any]()
        thread = threading.Thread(target=lambda: received.append(consumer.receive()))
        self.broker.stop()
        self.eventually(lambda: events == [FailoverEvent.FAILURE_DETECTED])
        thread.start()
        self.start()
        self.eventually(lambda: len(events) == 2)
        producer.send("after")
        thread.join(30)
        self.assertEqual(([message.body for message in received], [one.error_code for one in reported]), (["after"], ["FAILOVER"]))

    def test_stop_without_reconnect(self) -> None:
        connection = self.connect()
        reported = list[JMSException]()
        connection.exception_listener = reported.append
        consumer = connection.create_session().create_consumer("ends")
        failed = threading.Event()

        def receive() -> None:
            try:
                consumer.receive()
            except JMSException:
                failed.set()

        threading.Thread(target=receive).start()
        self.broker.stop()
        self.addCleanup(self.start)
        self.assertTrue(failed.wait(30))
        self.eventually(lambda: reported)
        self.assertEqual(reported[0].error_code, "DISCONNECT")
        self.assertTrue(re.search("disconnected|lost", str(reported[0])))

    def test_frozen(self) -> None:
        """Nothing is closed, nothing answers."""
        process = self.broker._process.pid
        connection = self.connect(connection_ttl=4000, client_failure_check_period=500, call_timeout=60_000)
        session, reported = connection.create_session(), list[JMSException]()
        connection.exception_listener = reported.append
        producer = session.create_producer("frozen")
        results = list[Any]()

        def send() -> None:
            try:
                producer.send("into the void")
            except JMSException as error:
                results.append(error)

        os.kill(process, signal.SIGSTOP)
        self.addCleanup(os.kill, process, signal.SIGCONT)
        thread = threading.Thread(target=send)
        thread.start()
        thread.join(30)
        self.assertEqual(len(results), 1)
        self.eventually(lambda: reported)
        self.assertTrue(connection.closed)
        connection.close()

    def test_closing_while_frozen(self) -> None:
        process = self.broker._process.pid
        connection = self.connect(call_timeout=2000)  # so much for the opening, too
        consumer = connection.create_session().create_consumer("frozen")
        os.kill(process, signal.SIGSTOP)
        self.addCleanup(os.kill, process, signal.SIGCONT)
        before = time.monotonic()
        connection.close()
        self.assertLess(time.monotonic() - before, 15)
        self.assertRaises(JMSException, consumer.receive, 10)
