"""The programs of the recorded conversations, written in Python, send what the Java client sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from mqclient.jms import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    TextMessage,
)
from mqclient.wire.frames import FrameSplitter
from tests.integration.brokers import broker_url
from tests.integration.mqclient.jms.case import WAIT, BrokerCase
from tests.integration.mqclient.jms.proxy import Proxy
from tests.unit.mqclient.wire import vectors

PREAMBLE = b"ARTEMIS"
CHANNELS = (1, 10, 11)
"""Session creation, the connection's hidden session, the session of the program."""


class Recorder(Proxy):
    """Notes the packets of one client: ``channels`` are packet types by channel, in order."""

    def __init__(self, url: str) -> None:
        self.channels: dict[int, list[int]] = {}
        self._splitter: FrameSplitter | None = None
        super().__init__(url)

    def client_sent(self, data: bytes) -> None:
        if self._splitter is None:
            self._splitter = FrameSplitter(1 << 20)
            data = data.removeprefix(PREAMBLE)
        for frame in self._splitter.feed(data):
            note(self.channels, frame)


def note(channels: dict[int, list[int]], frame: bytes) -> None:
    channels.setdefault(int.from_bytes(frame[5:13], "big"), []).append(vectors.packet_type(frame))


class SamePacketsTests(BrokerCase):
    def check(self, scenario: str, program: Callable[[Connection], None], **settings: Any) -> None:
        recorder = Recorder(broker_url())
        self.addCleanup(recorder.close)
        with ConnectionFactory(recorder.url, **settings).create_connection() as connection:
            program(connection)
        document = vectors.load(vectors.VECTORS / "jms-2.44.0" / f"{scenario}.json")
        java: dict[int, list[int]] = {}
        for from_client, frame in next(vectors.connections(document)).frames:
            if from_client:
                note(java, frame)
        for channel in CHANNELS:
            self.assertEqual(recorder.channels.get(channel), java.get(channel), f"{scenario}, channel {channel}")

    def test_connection(self) -> None:
        self.check("connect-close", lambda connection: None)

    def test_recover(self) -> None:
        def program(connection: Connection) -> None:
            with connection.create_session(AcknowledgeMode.CLIENT_ACKNOWLEDGE) as session:
                queue = session.create_queue(self.name)
                producer = session.create_producer(queue)
                producer.send("a")
                producer.send("b")
                consumer = session.create_consumer(queue)
                consumer.receive(WAIT)
                session.recover()
                consumer.receive(WAIT)
                last = consumer.receive(WAIT)
                assert last is not None
                last.acknowledge()

        self.check("ack-recover", program)

    def test_rollback(self) -> None:
        def program(connection: Connection) -> None:
            with connection.create_session(transacted=True) as session:
                queue = session.create_queue(self.name)
                producer = session.create_producer(queue)
                producer.send("rolled back")
                session.rollback()
                for text in ("m0", "m1", "m2"):
                    producer.send(text)
                session.commit()
                consumer = session.create_consumer(queue)
                self.texts(consumer, 2)
                session.rollback()
                self.texts(consumer, 3)
                session.commit()

        self.check("tx-rollback", program)

    def test_durable_subscription(self) -> None:
        def program(connection: Connection) -> None:
            with connection.create_session() as session:
                topic = session.create_topic(self.name)
                consumer = session.create_durable_consumer(topic, "sub.x")
                producer = session.create_producer(topic)
                producer.send("1", delivery_mode=DeliveryMode.NON_PERSISTENT)
                self.texts(consumer, 1)
                with contextlib.suppress(IllegalStateException):
                    session.create_durable_consumer(topic, "sub.x")
                consumer.close()
                producer.send("2")
                consumer = session.create_durable_consumer(topic, "sub.x")
                self.texts(consumer, 1)
                consumer.close()
                session.create_durable_consumer(topic, "sub.x", "a = 1").close()
                session.unsubscribe("sub.x")
                with contextlib.suppress(InvalidDestinationException):
                    session.unsubscribe("sub.x")

        self.check("topic-durable", program, client_id=self.name)

    def test_request_and_reply(self) -> None:
        def program(connection: Connection) -> None:
            with connection.create_session() as session:
                queue = session.create_queue(self.name)
                answers = session.create_temporary_queue()
                replies, requests = session.create_consumer(answers), session.create_consumer(queue)
                question = TextMessage("ping")
                question.reply_to = answers
                session.create_producer(queue).send(question, delivery_mode=DeliveryMode.NON_PERSISTENT)
                request = requests.receive(WAIT)
                assert request is not None
                answerer = session.create_producer(delivery_mode=DeliveryMode.NON_PERSISTENT)
                answerer.send("pong", destination=request.reply_to)
                replies.receive(WAIT)
                replies.close()
                answers.delete()
                session.create_temporary_queue()

        self.check("request-reply-temp-queue", program)
