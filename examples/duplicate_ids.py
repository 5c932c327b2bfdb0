"""Every order is stored once: a send whose outcome is unknown is repeated with the same duplicate id."""

import os
import sys
import uuid

from mqclient.jms import ConnectionFactory, JMSException

# For a pair of brokers: "(tcp://a:61616,tcp://b:61616)?ha=true"
url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 100

factory = ConnectionFactory(url, reconnect_attempts=-1, retry_interval=200)
with factory.create_connection() as connection:
    session = connection.create_session()
    producer = session.create_producer("queue://example.once")
    for number in range(count):
        message = session.create_text_message(f"order {number}")
        message.set_string_property("_AMQ_DUPL_ID", str(uuid.uuid4()))  # of this order, whatever happens
        while True:
            try:
                producer.send(message)
                break
            except JMSException as error:
                # The connection was lost before the answer came, and is there again.
                print("sending again:", error, file=sys.stderr)
        if number == count // 2:
            print("half of the orders are sent", flush=True)

    connection.start()
    consumer = session.create_consumer("queue://example.once")
    orders: list[object] = []
    while (received := consumer.receive(timeout=2000 if orders else 5000)) is not None:
        orders.append(received.body)
    print("each order came once:", orders == [f"order {number}" for number in range(count)])
