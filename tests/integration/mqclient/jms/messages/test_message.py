"""Messages of every kind through a broker."""

from __future__ import annotations

import io
import time

from mqclient.jms import (
    Byte,
    BytesMessage,
    Char,
    DeliveryMode,
    Float,
    JavaSerialized,
    JMSException,
    Long,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    Short,
    StreamMessage,
    TextMessage,
    Topic,
)
from tests.integration.mqclient.jms.case import NOTHING, WAIT, BrokerCase

DELAY = 6_000  # ms: both sends, each with a write to a slow disk, and a stall of the machine take less
VALUES = {"t": True, "b": Byte(1), "s": Short(2), "i": 3, "l": Long(4), "f": Float(1.5), "d": 2.5, "str": "é😀", "null": None}


class BodyTests(BrokerCase):
    def round_trip(self, message: Message) -> Message:
        with self.session() as session:
            session.create_producer(self.name).send(message)
            received = session.create_consumer(self.name).receive(WAIT)
        assert received is not None
        self.assertIs(type(received), type(message))
        return received

    def test_text(self) -> None:
        for text in ("héllo €😀", "", None, "x" * 70_000):
            self.assertEqual(self.round_trip(TextMessage(text)).body, text)

    def test_bytes(self) -> None:
        self.assertEqual(self.round_trip(BytesMessage(bytes(range(256)))).body, bytes(range(256)))

    def test_map(self) -> None:
        entries = {**VALUES, "c": Char("x"), "bytes": b"\0\1"}
        got = self.round_trip(MapMessage(entries))
        self.assertEqual(got.body, entries)
        assert isinstance(got.body, dict)
        self.assertEqual({name: type(value) for name, value in got.body.items()}, {name: type(value) for name, value in entries.items()})

    def test_stream(self) -> None:
        items = [*VALUES.values(), Char("x"), b"\0\1"]
        got = self.round_trip(StreamMessage(items)).body
        self.assertEqual([(type(item), item) for item in got], [(type(item), item) for item in items])  # type: ignore[attr-defined]

    def test_object(self) -> None:
        for value in ({"a": [1, None, "é"]}, JavaSerialized(bytes.fromhex("aced00057400036f626a")), None):
            self.assertEqual(self.round_trip(ObjectMessage(value)).body, value)

    def test_without_body(self) -> None:
        self.assertIsNone(self.round_trip(Message()).body)

    def test_properties(self) -> None:
        message = Message()
        message.properties.update(VALUES)
        got = self.round_trip(message).properties
        self.assertEqual(
            {name: (type(got[name]), got[name]) for name in VALUES}, {name: (type(value), value) for name, value in VALUES.items()}
        )

    def test_large_messages(self) -> None:
        """Text and bytes above the limit, plain and compressed; bytes from and to a file."""
        content = bytes(range(256)) * 2000
        for compress in (False, True):
            session = self.session(compress_large_message=compress)
            producer, consumer = session.create_producer(self.name), session.create_consumer(self.name)
            producer.send("x" * 300_000)
            producer.send(BytesMessage(content))
            producer.send(BytesMessage(stream=io.BytesIO(content)))
            self.assertEqual(self.text(consumer.receive(WAIT)), "x" * 300_000)
            whole = consumer.receive(WAIT)
            assert isinstance(whole, BytesMessage)
            self.assertEqual((whole.body_length, whole.data == content), (len(content), True))
            streamed, target = consumer.receive(WAIT), io.BytesIO()
            assert isinstance(streamed, BytesMessage)
            streamed.save_to(target)
            self.assertEqual(target.getvalue() == content, True)
            session.close()

    def test_forwarding_keeps_types(self) -> None:
        session = self.session()
        message = MapMessage({"b": Byte(1)})
        message.properties["l"] = Long(1)
        session.create_producer(self.name).send(message)
        received = session.create_consumer(self.name).receive(WAIT)
        session.create_producer(self.name + ".2").send(received)
        again = session.create_consumer(self.name + ".2").receive(WAIT)
        assert isinstance(again, MapMessage)
        self.assertEqual((type(again["b"]), type(again.properties["l"])), (Byte, Long))
        self.assertEqual(again.destination, Queue(self.name + ".2"))


class HeaderTests(BrokerCase):
    def test_headers(self) -> None:
        session = self.session()
        message = TextMessage("x")
        message.correlation_id, message.type, message.reply_to, message.group_id = "c", "t", Topic("answers"), "g"
        producer = session.create_producer(self.name, priority=7, time_to_live=60_000, delivery_mode=DeliveryMode.NON_PERSISTENT)
        before = int(time.time() * 1000)
        sent = producer.send(message)
        got = session.create_consumer(self.name).receive(WAIT)
        assert got is not None
        self.assertEqual(
            (got.message_id, got.timestamp, got.priority, got.expiration), (sent.message_id, sent.timestamp, 7, sent.timestamp + 60_000)
        )
        self.assertEqual((got.correlation_id, got.type, got.reply_to, got.group_id), ("c", "t", Topic("answers"), "g"))
        self.assertEqual((got.destination, got.delivery_mode, got.redelivered), (Queue(self.name), DeliveryMode.NON_PERSISTENT, False))
        self.assertLessEqual(before, got.timestamp)

    def test_left_out_headers(self) -> None:
        session = self.session()
        session.create_producer(self.name, disable_message_id=True, disable_message_timestamp=True).send("x")
        got = session.create_consumer(self.name).receive(WAIT)
        assert got is not None
        self.assertEqual((got.message_id, got.timestamp), (None, 0))

    def test_priority_order(self) -> None:
        session = self.session()
        producer = session.create_producer(self.name)
        for priority in (0, 9, 4, 5):
            producer.send(str(priority), priority=priority)
        self.assertEqual(self.texts(session.create_consumer(self.name), 4), ["9", "5", "4", "0"])
        self.assertRaises(JMSException, producer.send, "x", priority=10)
        self.assertRaises(JMSException, producer.send, "x", time_to_live=-1)

    def test_delivery_delay(self) -> None:
        session = self.session()
        producer, consumer = session.create_producer(self.name), session.create_consumer(self.name)
        sent = producer.send("late", delivery_delay=DELAY)
        producer.send("at once")
        self.assertEqual(self.text(consumer.receive(WAIT)), "at once")
        self.assert_empty(consumer)
        got = consumer.receive(WAIT)
        assert got is not None
        self.assertGreaterEqual(time.time() * 1000 + 5, got.delivery_time)
        self.assertEqual((got.delivery_time, sent.delivery_time), (sent.timestamp + DELAY,) * 2)

    def test_expired_messages_are_not_delivered(self) -> None:
        session = self.session()
        session.create_producer(self.name, time_to_live=1).send("old")
        time.sleep(0.01)
        self.assert_empty(session.create_consumer(self.name))

    def test_duplicate_ids(self) -> None:
        session = self.session()
        producer, consumer = session.create_producer(self.name), session.create_consumer(self.name)
        for text in ("one", "two"):
            message = TextMessage(text)
            message.properties["_AMQ_DUPL_ID"] = "same"
            producer.send(message)
        self.assertEqual(self.texts(consumer, 1), ["one"])
        self.assertIsNone(consumer.receive(NOTHING))
