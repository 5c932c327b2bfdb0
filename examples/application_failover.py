"""A client that connects again by itself: it hears of every failure, and goes on with what is not done yet."""

import os
import sys
import time

from mqclient.jms import ConnectionFactory, JMSException

# Several brokers can be named: "(tcp://a:61616,tcp://b:61616)"
url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 100

factory = ConnectionFactory(url, reconnect_attempts=0)
sent: list[str] = []
seen: set[str] = set()
connections = 0

# Everything is made anew after a failure: connection, session, producer and consumer.
while len(seen) < count:
    try:
        with factory.create_connection() as connection:
            connections += 1
            session = connection.create_session()
            producer = session.create_producer("queue://example.failover")
            while len(sent) < count:
                order = f"order {len(sent)}"
                producer.send(order)  # when this fails the order may be stored or not, and is sent again
                sent.append(order)
                if len(sent) == count // 2:
                    print("half of the orders are sent", flush=True)
            consumer = session.create_consumer("queue://example.failover")
            connection.start()
            while len(seen) < count:
                message = consumer.receive(timeout=5000)
                if message is None:
                    break  # the consumer was closed by a failure
                seen.add(str(message.body))  # a set: an order that was sent again may come twice
    except JMSException as error:
        print("connecting again:", error, file=sys.stderr)
        time.sleep(0.2)

print("all orders came:", seen == set(sent))
print("connections:", connections)
