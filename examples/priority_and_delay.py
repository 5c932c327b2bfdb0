"""Priorities, delayed delivery, time to live."""

import os
import sys
import time

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_connection() as connection, connection.create_session() as session:
    queue = session.create_queue("example.priority")
    producer = session.create_producer(queue)
    producer.send("not urgent", priority=1)
    producer.send("urgent", priority=9)
    producer.send("gone before anybody reads it", time_to_live=1)
    producer.send("half a second later", delivery_delay=500)
    time.sleep(0.01)

    start = time.monotonic()
    consumer = session.create_consumer(queue)
    for _ in range(3):
        message = consumer.receive(timeout=5000)
        assert message is not None, "a message is missing"
        print(f"{time.monotonic() - start:.1f} s: {message.body} (priority {message.priority})")
