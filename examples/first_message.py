import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
with ConnectionFactory(url).create_context() as context:
    greetings = context.create_queue("example.greetings")
    context.create_producer().send(greetings, "Hello from Python")
    print(context.create_consumer(greetings).receive_body(timeout=5000))
