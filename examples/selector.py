"""A selector: a consumer takes only the messages whose headers and properties match."""

import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_context() as context:
    queue = context.create_queue("example.selector")
    producer = context.create_producer()
    for number, colour in enumerate(["red", "green", "blue", "red"]):
        producer.send(queue, f"message {number}", properties={"colour": colour, "number": number})

    with context.create_consumer(queue, "colour = 'red' AND number > 0") as consumer:
        print("selected:", consumer.receive_body(timeout=5000))
    with context.create_consumer(queue) as rest:
        for _ in range(3):
            print("the rest:", rest.receive_body(timeout=5000))
