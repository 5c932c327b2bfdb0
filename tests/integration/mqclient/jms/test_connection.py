"""Connections that break: what lives on, what is reported, what ends."""

from __future__ import annotations

import threading
from typing import Any

from mqclient.jms import Connection, ConnectionFactory, FailoverEvent, JMSException, Queue, Session, Topic, TransactionRolledBackException
from tests.integration.brokers import broker_url
from tests.integration.mqclient.jms.case import WAIT, BrokerCase
from tests.integration.mqclient.jms.proxy import Proxy

RECONNECT = {"reconnect_attempts": -1, "retry_interval": 20}


class FailureCase(BrokerCase):
    def setUp(self) -> None:
        super().setUp()
        self.proxy = Proxy(broker_url())
        self.addCleanup(self.proxy.close)

    def connect(self, **settings: Any) -> Connection:
        factory = ConnectionFactory(self.proxy.url, **settings)
        self.addCleanup(factory.close)
        connection = factory.create_connection()
        connection.start()
        return connection


class ReconnectTests(FailureCase):
    def test_sessions_and_consumers_live_on(self) -> None:
        for window in (-1, 100_000):
            connection = self.connect(confirmation_window_size=window, block_on_acknowledge=True, **RECONNECT)
            session = connection.create_session()
            producer, consumer = session.create_producer(self.name), session.create_consumer(self.name)
            subscriber = session.create_consumer(Topic(self.name + ".t"))
            reported, events = list[JMSException](), list[FailoverEvent]()
            connection.exception_listener = reported.append
            connection.failover_listener = events.append
            producer.send("before")
            self.assertEqual(self.texts(consumer, 1), ["before"])
            self.proxy.cut()
            self.eventually(lambda reported=reported: reported)
            self.eventually(lambda events=events: len(events) == 2)
            self.assertEqual([one.error_code for one in reported], ["FAILOVER"])
            self.assertEqual(events, [FailoverEvent.FAILURE_DETECTED, FailoverEvent.FAILOVER_COMPLETED])
            producer.send("after")
            session.create_producer(Topic(self.name + ".t")).send("published")
            self.assertEqual(self.texts(consumer, 1) + self.texts(subscriber, 1), ["after", "published"])
            connection.close()

    def test_a_waiting_receive_goes_on(self) -> None:
        connection = self.connect(**RECONNECT)
        consumer, got = connection.create_session().create_consumer(self.name), list[Any]()

        def receive() -> None:
            while "b" not in got:
                got.append(self.text(consumer.receive(WAIT)))

        thread = threading.Thread(target=receive)
        thread.start()
        producer = self.direct().create_producer(self.name)
        producer.send("a")
        self.proxy.cut()
        producer.send("b")
        thread.join(WAIT / 1000)
        self.assertEqual(got[-1:], ["b"])

    def direct(self) -> Session:
        """A session that does not go through the proxy."""
        factory = ConnectionFactory(broker_url())
        self.addCleanup(factory.close)
        return factory.create_connection().create_session()

    def test_a_lost_transaction_is_reported_once(self) -> None:
        connection = self.connect(**RECONNECT)
        session = connection.create_session(transacted=True)
        producer, reported = session.create_producer(self.name), list[JMSException]()
        connection.exception_listener = reported.append
        producer.send("lost")
        self.proxy.cut()
        self.eventually(lambda: reported)
        self.assertRaises(TransactionRolledBackException, session.commit)
        producer.send("kept")
        session.commit()
        consumer = session.create_consumer(self.name)
        self.assertEqual(self.texts(consumer, 1), ["kept"])

    def test_the_client_id_stays_reserved(self) -> None:
        connection, reported = self.connect(client_id=self.name, **RECONNECT), list[JMSException]()
        connection.exception_listener = reported.append
        self.proxy.cut()
        self.eventually(lambda: reported)
        consumer = connection.create_session().create_durable_consumer(Topic(self.name), "s")
        connection.create_session().create_producer(Topic(self.name)).send("x")
        self.assertEqual(self.texts(consumer, 1), ["x"])


class DisconnectTests(FailureCase):
    def test_browsing_does_not_just_end(self) -> None:
        connection = self.connect()
        session = connection.create_session()
        session.create_producer(self.name).send("seen")
        shown = iter(session.create_browser(Queue(self.name)))
        self.assertEqual(self.text(next(shown)), "seen")
        self.proxy.cut()
        self.eventually(lambda: connection.closed)
        with self.assertRaises(JMSException) as raised:
            next(shown)
        self.assertEqual(raised.exception.error_code, "DISCONNECT")

    def test_without_reconnect_everything_ends_and_says_so(self) -> None:
        connection = self.connect()
        session, reported, errors = connection.create_session(), list[JMSException](), list[JMSException]()
        consumer = session.create_consumer(self.name)
        closed = threading.Event()

        def listener(error: JMSException) -> None:
            reported.append(error)
            connection.close()
            closed.set()

        def receive() -> None:
            try:
                consumer.receive()
            except JMSException as error:
                errors.append(error)

        connection.exception_listener = listener
        thread = threading.Thread(target=receive)
        thread.start()
        self.proxy.cut()
        thread.join(WAIT / 1000)
        self.assertTrue(closed.wait(WAIT / 1000))
        self.assertEqual(([one.error_code for one in reported], connection.closed), (["DISCONNECT"], True))
        self.assertRaises(JMSException, session.create_producer, self.name)

    def test_a_consumer_that_is_cut_off_does_not_end_silently(self) -> None:
        consumer = self.connect().create_session().create_consumer(self.name)
        self.proxy.cut()
        self.assertRaises(JMSException, list, consumer)
