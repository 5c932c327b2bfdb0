"""A message that cannot be processed goes to the dead letter address after some attempts (max-delivery-attempts, 10 by default)."""

import os
import sys

from mqclient.jms import ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
dead_letter_queue = sys.argv[2] if len(sys.argv) > 2 else "DLQ"

with ConnectionFactory(url).create_connection() as connection:
    session = connection.create_session(transacted=True)
    queue = session.create_queue("example.poison")
    session.create_producer(queue).send("a message that nobody can read")
    session.commit()

    with session.create_consumer(queue) as consumer:
        while (message := consumer.receive(timeout=2000)) is not None:
            print("attempt", message.delivery_count)
            session.rollback()

    with session.create_consumer(dead_letter_queue, "_AMQ_ORIG_ADDRESS = 'example.poison'") as consumer:
        dead = consumer.receive(timeout=5000)
        session.commit()
        assert dead is not None, "there is no dead letter"
        print("dead letter:", dead.body, "from queue", dead.properties["_AMQ_ORIG_QUEUE"])
