"""A queue: every kind of message, with headers and typed properties.  Each message goes to one consumer."""

import os
import sys

from mqclient.jms import Byte, BytesMessage, ConnectionFactory, Long, MapMessage, ObjectMessage, StreamMessage, TextMessage

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_connection() as connection, connection.create_session() as session:
    queue = session.create_queue("example.queue")
    producer = session.create_producer(queue, time_to_live=60_000)
    text = TextMessage("an order")
    text.correlation_id = "order-1"
    text.properties["express"] = True
    text.properties["amount"] = 3  # an int of Java; Long(3) would be a long, Byte(3) a byte
    producer.send(text)
    producer.send(BytesMessage(b"\x00\x01\x02"))
    producer.send(MapMessage({"name": "Ada", "size": Byte(5), "id": Long(1)}))
    producer.send(StreamMessage(["a", 1, 2.5, None]))
    producer.send(ObjectMessage({"nested": ["json"]}))

    consumer = session.create_consumer(queue)
    for _ in range(5):
        message = consumer.receive(timeout=5000)
        assert message is not None, "a message is missing"
        print(type(message).__name__, message.body, dict(message.properties))
