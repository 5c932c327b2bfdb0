"""A durable subscription keeps messages while its subscriber is away.  It belongs to the client id of the connection."""

import os
import sys

from mqclient.jms import ConnectionFactory, Topic

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
topic = Topic("example.durable.news")

with ConnectionFactory(url, client_id="example-reader").create_context() as reader:
    reader.create_durable_consumer(topic, "daily")  # from now on the broker keeps messages

with ConnectionFactory(url).create_context() as writer:
    for day in ("Monday", "Tuesday"):
        writer.create_producer().send(topic, f"the news of {day}")

with ConnectionFactory(url, client_id="example-reader").create_context() as reader:
    with reader.create_durable_consumer(topic, "daily") as consumer:
        for _ in range(2):
            print(consumer.receive_body(timeout=5000))
    reader.unsubscribe("daily")
