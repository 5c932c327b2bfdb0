"""Paging over real sockets and on a real disk, with the Python client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import TestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.embedded import EmbeddedBroker
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqclient.jms import ConnectionFactory, Session
from mqclient.jms.exceptions import JMSException

COUNT = 400


class PagingTests(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.data = Path(self.mktemp())
        self.data.mkdir()

    def broker(self, **changes: Any) -> EmbeddedBroker:
        settings = {"max_size_bytes": 20_000, "page_size_bytes": 30_000, **changes.pop("settings", {})}
        configuration = Configuration(security_enabled=False, address_settings={"#": settings}, **changes)
        broker = EmbeddedBroker(configuration, acceptor="tcp://127.0.0.1:0", data=self.data).start()
        self.addCleanup(broker.stop)
        return broker

    def session(self, broker: EmbeddedBroker, transacted: bool = False) -> Session:
        connection = ConnectionFactory(broker.tcp_url).create_connection()
        self.addCleanup(connection.close)
        connection.start()
        return connection.create_session(transacted=transacted)

    def pages(self) -> list[Path]:
        return list((self.data / "data" / "paging").rglob("*.page"))

    def receive(self, consumer: Any, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            message = consumer.receive(10_000)
            if message is None:
                break
            found.append(message.text)
        return found

    def test_a_browser_that_finds_little_looks_through_all_pages_in_several_turns(self) -> None:
        session = self.session(self.broker())
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        for number in range(COUNT):
            message = session.create_text_message(f"message {number} {'x' * 200}")
            message.set_int_property("number", number)
            producer.send(message)
        taken = session.create_consumer(queue, selector="number < 30")
        self.assertEqual(len(self.receive(taken, 30)), 30)
        with patch("mqbroker.messaging.turns.turn.SCANNED_MAX", 32):
            found = [message.text.split()[1] for message in session.create_browser(queue, selector=f"number >= {COUNT - 2}")]
        self.assertEqual(found, [str(COUNT - 2), str(COUNT - 1)])

    def test_more_than_memory_takes_survives_a_restart_in_order(self) -> None:
        texts = [f"message {number} {'x' * 200}" for number in range(COUNT)]
        broker = self.broker()
        session = self.session(broker)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        for text in texts:
            producer.send(session.create_text_message(text))
        self.assertGreater(len(self.pages()), 3)
        self.assertEqual([message.text for message in session.create_browser(queue)], texts)
        consumer = session.create_consumer(queue)
        self.assertEqual(self.receive(consumer, 100), texts[:100])
        session.close()
        broker.stop()
        broker = self.broker()
        self.assertEqual(broker.broker.messaging.core.queues["orders"].message_count, COUNT - 100)
        session = self.session(broker, transacted=True)
        consumer = session.create_consumer(session.create_queue("orders"))
        self.assertEqual(self.receive(consumer, 50), texts[100:150])
        session.rollback()
        for start in range(100, COUNT, 50):
            # What a transaction holds counts in max-read-page-bytes.
            self.assertEqual(self.receive(consumer, 50), texts[start : start + 50])
            session.commit()
        broker.stop()
        self.assertEqual(self.pages(), [])

    def test_large_messages(self) -> None:
        broker = self.broker(settings={"max_size_bytes": 0})
        session = self.session(broker)
        queue = session.create_queue("big")
        producer = session.create_producer(queue)
        bodies = [bytes([number]) * 300_000 for number in range(5)]
        for body in bodies:
            message = session.create_bytes_message()
            message.write_bytes(body)
            producer.send(message)
        consumer = session.create_consumer(queue)
        for body in bodies:
            message = consumer.receive(10_000)
            assert message is not None
            self.assertEqual(message.body, body)

    def test_a_page_limit_refuses_messages(self) -> None:
        broker = self.broker(settings={"max_size_bytes": 0, "page_limit_messages": 10, "page_full_policy": "FAIL"})
        session = self.session(broker)
        queue = session.create_queue("limited")
        producer = session.create_producer(queue)
        for _ in range(10):
            producer.send(session.create_text_message("fits"))
        with self.assertRaises(JMSException):
            producer.send(session.create_text_message("does not"))
        self.assertEqual(len(self.receive(session.create_consumer(queue), 10)), 10)

    def test_the_disk_guard(self) -> None:
        spaces = [DiskSpace("/", 5, 100)]
        with patch("mqbroker.app._disk_space", lambda folders: spaces):
            broker = self.broker(settings={"disk_full_policy": "FAIL"}, disk_scan_period=10)
            session = self.session(broker)
            producer = session.create_producer(session.create_queue("q"))
            with self.assertRaises(JMSException):
                producer.send(session.create_text_message("no"))
            spaces[0] = DiskSpace("/", 50, 100)
            for _ in range(100):
                try:
                    producer.send(session.create_text_message("yes"))
                    break
                except JMSException:
                    time.sleep(0.02)
            consumer = session.create_consumer(session.create_queue("q"))
            self.assertEqual(self.receive(consumer, 1), ["yes"])
