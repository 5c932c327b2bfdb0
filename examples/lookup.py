"""Names from a jndi.properties file, so that the program knows no address."""

import os
import sys
from pathlib import Path

from mqclient.jms import ConnectionFactory
from mqclient.jndi import InitialContext

names = InitialContext(Path(__file__).with_name("jndi.properties"))
url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL")
factory = ConnectionFactory(url) if url else names.connection_factory("local")

with factory.create_context() as context:
    context.create_producer().send(names.queue("jobs"), "a job")
    print(context.create_consumer(names.queue("jobs")).receive_body(timeout=5000))
