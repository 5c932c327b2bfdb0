"""The embedded broker, as a test or an application uses it."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from pathlib import Path
from unittest import mock

import trustme
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.app import StartError
from mqbroker.config.model.cluster import ClusterConnectionConfiguration, ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.embedded import EmbeddedBroker
from mqbroker.ha.proof.copy_record import RECORD_FILE
from mqclient.errors import NotConnectedError
from mqclient.jms import ConnectionFactory, JMSException
from mqclient.urls import parse_transport_uri


class EmbeddedBrokerTests(SynchronousTestCase):
    def test_messages_pass_without_files_or_ports(self) -> None:
        with EmbeddedBroker() as broker, ConnectionFactory(broker.url).create_context() as context:
            self.assertEqual(broker.broker.urls, [])
            self.assertIsNone(broker.broker.data_directory)
            queue = context.create_queue("first")
            context.create_producer().send(queue, "hello")
            message = context.create_consumer(queue).receive(20_000)
            self.assertIsNotNone(message)
            self.assertEqual(message.text, "hello")  # type: ignore[union-attr]

    def test_several_brokers_live_side_by_side_and_one_starts_again(self) -> None:
        first, second = EmbeddedBroker().start(), EmbeddedBroker().start()
        try:
            self.assertNotEqual(first.url, second.url)
            with ConnectionFactory(first.url).create_context() as context:
                context.create_producer().send(context.create_queue("mine"), "for the first")
            self.assertIn("mine", first.broker.messaging.core.queues)
            self.assertNotIn("mine", second.broker.messaging.core.queues)
            second.stop()
            second.start()
            with ConnectionFactory(second.url).create_context() as context:
                self.assertIsNone(context.create_consumer(context.create_queue("mine")).receive_no_wait())
        finally:
            first.stop()
            second.stop()

    def test_a_stopped_broker_is_not_found(self) -> None:
        broker = EmbeddedBroker().start()
        url = broker.url
        broker.stop()
        broker.stop()
        with self.assertRaises((JMSException, NotConnectedError)):
            ConnectionFactory(url).create_context().create_queue("q")

    def test_a_large_body_is_not_held_back_by_the_buffer_limit(self) -> None:
        body = bytes(range(256)) * 40_000
        with EmbeddedBroker() as broker, ConnectionFactory(broker.url).create_context() as context:
            queue = context.create_queue("large")
            context.create_producer().send(queue, body)
            message = context.create_consumer(queue).receive(20_000)
            assert message is not None
            self.assertEqual(message.body, body)

    def test_it_is_durable_with_a_data_folder_and_open_with_an_acceptor(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with EmbeddedBroker(acceptor="tcp://127.0.0.1:0", data=folder) as broker:
                with ConnectionFactory(broker.tcp_url).create_context() as context:
                    context.create_producer().send(context.create_queue("kept"), "still here")
                port = int(broker.tcp_url.rpartition(":")[2])
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
            with EmbeddedBroker(data=folder) as broker, ConnectionFactory(broker.url).create_context() as context:
                message = context.create_consumer(context.create_queue("kept")).receive(20_000)
                self.assertEqual(message.text, "still here")  # type: ignore[union-attr]

    def test_settings_that_management_made_hold_after_a_restart(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with EmbeddedBroker(data=folder) as broker, ConnectionFactory(broker.url).create_connection() as connection:
                session = connection.create_session()
                replies = session.create_temporary_queue()
                consumer = session.create_consumer(replies)
                producer = session.create_producer("queue://activemq.management")
                connection.start()
                for operation, *parameters in (
                    ("addAddressSettings", "kept.#", '{"maxDeliveryAttempts": 3}'),
                    ("addAddressSettings", "gone.#", '{"maxDeliveryAttempts": 3}'),
                    ("removeAddressSettings", "gone.#"),
                    ("addSecuritySettings", "kept.#", *["one"] * 8),
                ):
                    request = session.create_text_message(json.dumps(parameters))
                    request.set_string_property("_AMQ_ResourceName", "broker")
                    request.set_string_property("_AMQ_OperationName", operation)
                    request.reply_to = replies
                    producer.send(request)
                    reply = consumer.receive(20_000)
                    assert reply is not None
                    self.assertTrue(reply.get_boolean_property("_AMQ_OperationSucceeded"), reply.body)
            with EmbeddedBroker(data=folder) as broker:
                settings = broker.broker.messaging.core.settings
                self.assertEqual(
                    (settings.lookup("kept.a").max_delivery_attempts, settings.lookup("gone.a").max_delivery_attempts), (3, 10)
                )
                self.assertEqual(broker.broker.server.security.repository.lookup("kept.a")["send"], {"one"})

    def test_tls_on_the_reactor_of_the_daemon_thread(self) -> None:
        authority = trustme.CA()
        with tempfile.TemporaryDirectory() as folder:
            authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(f"{folder}/server.pem")
            authority.cert_pem.write_to_path(f"{folder}/ca.pem")
            parameters = f"sslEnabled=true;keyStoreType=PEM;keyStorePath={folder}/server.pem"
            with EmbeddedBroker(acceptor=f"tcp://localhost:0?{parameters}") as broker:
                port = broker.tcp_url.rpartition(":")[2]
                url = f"tcp://localhost:{port}?sslEnabled=true&trustStoreType=PEM&trustStorePath={folder}/ca.pem&callTimeout=5000"
                with ConnectionFactory(url).create_context() as context:
                    context.create_producer().send(context.create_queue("secret"), "hush")
                    self.assertEqual(context.create_consumer(context.create_queue("secret")).receive_body(timeout=5000), "hush")

    def test_clients_of_many_threads_share_it(self) -> None:
        with EmbeddedBroker() as broker:
            errors: list[BaseException] = []

            def work(number: int) -> None:
                try:
                    with ConnectionFactory(broker.url).create_context() as context:
                        queue = context.create_queue(f"thread.{number}")
                        for index in range(20):
                            context.create_producer().send(queue, str(index))
                        consumer = context.create_consumer(queue)
                        texts = [consumer.receive(20_000).text for _ in range(20)]  # type: ignore[union-attr]
                        assert texts == [str(index) for index in range(20)], texts
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            self.assertEqual(errors, [])


class SharedStoreTests(SynchronousTestCase):
    """Two brokers of one folder in one process."""

    def setUp(self) -> None:
        self.data = self.mktemp()

    def broker(self, policy: SharedStoreConfiguration, timeout_ms: int = -1) -> EmbeddedBroker:
        configuration = Configuration(security_enabled=False, shared_store=policy, journal_lock_acquisition_timeout=timeout_ms)
        broker = EmbeddedBroker(configuration, data=self.data)
        self.addCleanup(broker.stop)
        return broker

    def test_a_backup_starts_and_is_active_after_its_primary(self) -> None:
        primary = self.broker(SharedStoreConfiguration(False, failover_on_shutdown=True)).start()
        backup = self.broker(SharedStoreConfiguration(True)).start()
        self.assertEqual((primary.is_active, backup.is_active, backup.wait_for_activation(0)), (True, False, False))
        self.assertRaises(RuntimeError, getattr, backup, "url")
        with ConnectionFactory(primary.url).create_context() as context:
            context.create_producer().send(context.create_queue("q"), "hello")
        primary.stop()
        self.assertTrue(backup.wait_for_activation(20))
        with ConnectionFactory(backup.url).create_context() as context:
            message = context.create_consumer(context.create_queue("q")).receive(20_000)
            assert message is not None
            self.assertEqual(message.text, "hello")

    def test_a_primary_waits_in_its_start_unless_told_not_to(self) -> None:
        first = self.broker(SharedStoreConfiguration(False)).start()
        second = self.broker(SharedStoreConfiguration(False, wait_for_activation=False)).start()
        self.assertFalse(second.is_active)
        third = self.broker(SharedStoreConfiguration(False))
        started = threading.Thread(target=third.start, daemon=True)
        second.stop()
        started.start()
        self.assertFalse(third.wait_for_activation(0))
        first.stop()
        started.join(20)
        self.assertTrue(third.is_active)

    def test_a_mount_with_locks_of_this_machine_only_is_refused(self) -> None:
        broker = self.broker(SharedStoreConfiguration(False))
        with mock.patch("mqbroker.process.mounts.read_mounts", lambda: "filer:/a / nfs rw,nolock 0 0\n"):
            self.assertIn("/: with its mount option nolock", str(self.assertRaises(StartError, broker.start)))
        self.assertFalse(Path(self.data).exists())

    def test_a_primary_that_cannot_wait_any_longer_fails(self) -> None:
        self.broker(SharedStoreConfiguration(False)).start()
        second = self.broker(SharedStoreConfiguration(False), timeout_ms=100)
        with self.assertRaisesRegex(StartError, "journal-lock-acquisition-timeout, 100 ms"):
            second.start()
        self.flushLoggedErrors()


class EmbeddedPairTests(SynchronousTestCase):
    """A broker with a copy of its own."""

    def broker(self, policy: ReplicationConfiguration) -> EmbeddedBroker:
        self.data = Path(self.mktemp())
        configuration = Configuration(
            security_enabled=False,
            replication=policy,
            connectors={"own": parse_transport_uri("tcp://127.0.0.1:1", "own")},
            cluster_connections=[ClusterConnectionConfiguration("c", "own")],
        )
        broker = EmbeddedBroker(configuration, data=self.data)
        self.addCleanup(broker.stop)
        return broker

    def test_a_primary_is_active_when_its_start_returns_and_a_backup_is_not(self) -> None:
        primary = self.broker(ReplicationConfiguration(False)).start()
        self.assertTrue(primary.is_active)
        with ConnectionFactory(primary.url).create_context() as context:
            context.create_producer().send(context.create_queue("q"), "hello")
        self.assertFalse(self.broker(ReplicationConfiguration(True)).start().wait_for_activation(0))

    def test_a_primary_whose_record_cannot_be_read_fails(self) -> None:
        broker = self.broker(ReplicationConfiguration(False))
        broker.start().stop()
        [record] = self.data.rglob(RECORD_FILE)
        record.write_text("x")
        with self.assertRaisesRegex(StartError, "server.activation.sequence is damaged"):
            broker.start()
        self.flushLoggedErrors()
