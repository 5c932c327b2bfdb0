"""A transaction: what was received and what was sent take effect together, or not at all."""

import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")

with ConnectionFactory(url).create_connection() as connection:
    session = connection.create_session(transacted=True)
    orders, invoices = session.create_queue("example.orders"), session.create_queue("example.invoices")
    session.create_producer(orders).send("order 1")
    session.commit()

    consumer, producer = session.create_consumer(orders), session.create_producer(invoices)
    for attempt in range(2):
        order = consumer.receive(timeout=5000)
        assert order is not None, "no order came"
        producer.send(f"invoice for {order.body}")
        if attempt == 0:
            session.rollback()  # as after an error: the order comes again, the invoice was never sent
            print("rolled back")
        else:
            session.commit()
            print("committed; delivery number", order.delivery_count)

    invoice = session.create_consumer(invoices).receive(timeout=5000)
    session.commit()
    assert invoice is not None, "no invoice came"
    print(invoice.body)
