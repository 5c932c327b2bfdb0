"""A browser looks at a queue and takes nothing."""

import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_context() as context:
    queue = context.create_queue("example.browser")
    for number in range(3):
        context.create_producer().send(queue, f"message {number}", properties={"number": number})

    with context.create_browser(queue) as browser:
        print("in the queue:", [message.body for message in browser])
    with context.create_browser(queue, "number > 1") as browser:
        print("selected:", [message.body for message in browser])

    with context.create_consumer(queue) as consumer:
        for _ in range(3):
            print("received:", consumer.receive_body(timeout=5000))
