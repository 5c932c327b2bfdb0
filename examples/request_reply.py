"""Request and reply: the answer goes to a temporary queue that only the asker reads."""

import os
import sys

from mqclient.jms import ConnectionFactory, Message, TextMessage

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
factory = ConnectionFactory(url)

with factory.create_context() as server, factory.create_context() as client:

    def answer(request: Message) -> None:
        assert isinstance(request, TextMessage) and request.reply_to is not None
        reply = TextMessage(str(request.body).upper())
        reply.correlation_id = request.message_id
        server.create_producer().send(request.reply_to, reply)

    server.create_consumer("queue://example.requests").listener = answer

    answers = client.create_temporary_queue()
    consumer = client.create_consumer(answers)
    request = client.create_producer(reply_to=answers).send("queue://example.requests", "what time is it?")
    reply = consumer.receive(timeout=5000)
    assert reply is not None, "no answer came"
    print(reply.body, "(answers the request:", reply.correlation_id == request.message_id, ")")
