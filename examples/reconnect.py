"""A client that survives failures of the connection and tells about them."""

import os
import sys

from mqclient.jms import ConnectionFactory, FailoverEvent, JMSException

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")


def failed(error: JMSException) -> None:
    print("the connection failed:", error, "-", "it lives on" if error.error_code == "FAILOVER" else "it is closed")


def failover(event: FailoverEvent) -> None:
    print("failover:", event.name)


# Several brokers can be named: "(tcp://a:61616,tcp://b:61616)?ha=true"
factory = ConnectionFactory(url, reconnect_attempts=10, retry_interval=200, retry_interval_multiplier=1.5, max_retry_interval=2000)
with factory.create_connection() as connection:
    connection.exception_listener = failed
    connection.failover_listener = failover
    session = connection.create_session()
    session.create_producer("queue://example.reconnect").send("stop and start the broker now, and nothing is lost")
    for message in session.create_consumer("queue://example.reconnect"):
        print(message.body)
        break
