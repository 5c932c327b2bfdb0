"""A topic: every subscriber that is there gets every message."""

import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_context() as context:
    news = context.create_topic("example.news")
    subscribers = [context.create_consumer(news) for _ in range(2)]
    context.create_producer().send(news, "extra, extra")
    for number, subscriber in enumerate(subscribers):
        print(f"subscriber {number} read: {subscriber.receive_body(timeout=5000)}")
