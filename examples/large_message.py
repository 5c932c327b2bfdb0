"""A large message: a file is sent in pieces and received into a file; neither side holds it in memory."""

import os
import sys
import tempfile

from mqclient.jms import BytesMessage, ConnectionFactory

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
SIZE = 5_000_000

with ConnectionFactory(url).create_context() as context, tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
    source.write(os.urandom(SIZE))
    source.seek(0)
    queue = context.create_queue("example.large")
    context.create_producer().send(queue, BytesMessage(stream=source))

    message = context.create_consumer(queue).receive(timeout=5000)
    assert isinstance(message, BytesMessage)
    print("bytes announced:", message.body_length)
    message.save_to(target)
    source.seek(0)
    target.seek(0)
    print("the same content:", source.read() == target.read())
