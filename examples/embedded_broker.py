"""A broker inside the program, for tests: no port, no files."""

from mqbroker.embedded import EmbeddedBroker
from mqclient.jms import ConnectionFactory

with EmbeddedBroker() as broker, ConnectionFactory(broker.url).create_context() as context:
    context.create_producer().send("queue://example.embedded", "no socket was opened for this")
    print(context.create_consumer("queue://example.embedded").receive_body(timeout=5000))
