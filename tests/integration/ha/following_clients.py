"""Clients of a pair of brokers, which follow to the one that is active."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from unittest import TestCase

from mqclient.jms import ConnectionFactory, JMSException, TextMessage
from mqclient.jms.connection import Connection
from tests.integration.brokers import Broker
from tests.integration.ha.pair import PRIMARY
from tests.integration.ha.replicated_pair import IN_SYNC

FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&callFailoverTimeout=30000"
WAIT_MS = 60_000
"""Of waiting for what has to come, on a busy machine."""


class FollowingClients(TestCase):
    ports: dict[str, int]
    """Of each broker, by its name."""

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

    def send_to(self, name: str, *texts: str, transacted: bool = False) -> None:
        """Send texts, each with itself as its duplicate id; many are sent sooner in one transaction."""
        session = self.connect(name).create_session(transacted=transacted)
        producer = session.create_producer(session.create_queue("q"))
        for text in texts:
            message: TextMessage = session.create_text_message(text)
            message.set_string_property("_AMQ_DUPL_ID", text)
            producer.send(message)
        if transacted:
            session.commit()

    def lose_the_primary_under_load(
        self, primary: Broker, backup: Broker, start: Callable[[str, str], object], ready: str = IN_SYNC
    ) -> None:
        """Kill ``primary``, go on with ``backup``, and let the primary come back and take over again: nothing acknowledged is lost.

        ``ready`` is what the backup writes when it may take over.
        """

        def kill() -> None:
            primary.kill()
            backup.wait_for("AMQ221010")

        def come_back() -> None:
            start(PRIMARY, "AMQ221007")
            backup.wait_for(ready, times=2)

        self.lose_nothing(PRIMARY, kill, come_back)

    def lose_nothing(self, last: str, *events: Callable[[], object]) -> None:
        """Let ``events`` happen one after the other under load: whatever was acknowledged, ``last`` has at the end."""
        done = threading.Event()
        acknowledged: SimpleQueue[str] = SimpleQueue()
        kept: set[str] = set()

        def go_on(count: int = 50) -> None:
            for _ in range(count):
                kept.add(acknowledged.get(timeout=WAIT_MS / 1000))

        sender = threading.Thread(target=self.send, args=(self.connect(PRIMARY), acknowledged, done), daemon=True)
        sender.start()
        go_on()
        for event in events:
            event()
            go_on(acknowledged.qsize() + 50)
        done.set()
        sender.join(WAIT_MS / 1000)
        self.assertFalse(sender.is_alive())
        go_on(acknowledged.qsize())
        self.assertEqual(kept - set(self.received(last)), set())

    def received(self, name: str) -> list[str]:
        """The texts of all messages of the queue, for the first of which this waits.

        There is no consumer when this is done, to whom others could send theirs.
        """
        connection = self.connect(name)
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("q"))
        found = []
        message = consumer.receive(WAIT_MS)
        while message is not None:
            found.append(str(message.text))  # type: ignore[attr-defined]
            message = consumer.receive_no_wait()  # asks the broker whether the queue has more
        connection.close()
        return found
