"""The core client on plain sockets: it runs only inside run() and pump(), without a thread; and many messages are sent at once."""

import os
import sys

from mqclient.core.api import QueueConfiguration
from mqclient.core.batches import Batch
from mqclient.errors import QueueExistsError
from mqclient.sockets import SocketRuntime, server_locator
from mqclient.wire.message import CoreMessage, encode_message

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
NAME = "example.sockets"
TEN_SECONDS = 10

with SocketRuntime() as runtime:
    locator = server_locator(url, runtime=runtime)
    factory = runtime.run(locator.create_session_factory(), TEN_SECONDS)
    session = runtime.run(factory.create_session(), TEN_SECONDS)
    try:
        runtime.run(session.create_queue(QueueConfiguration(name=NAME, routing_type=1)), TEN_SECONDS)
    except QueueExistsError:
        pass

    told: list[Batch] = []
    messages = [encode_message(CoreMessage(0, NAME, durable=True, body=b"message %d" % number)) for number in range(1000)]
    session.send_batch(NAME, messages, told.append)
    while not told:
        runtime.pump(0.01)
    print(f"sent: {len(messages)}, refused: {len(told[0].refused)}, unanswered: {len(told[0].unanswered)}")

    async def receive() -> int:
        consumer = await session.create_consumer(NAME)
        await session.start()
        received = 0
        while (message := await consumer.receive(2000)) is not None:
            await message.acknowledge()
            received += 1
        return received

    print(f"received: {runtime.run(receive(), TEN_SECONDS)}")
    runtime.run(locator.close(), TEN_SECONDS)
