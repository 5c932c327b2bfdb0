"""The core client under asyncio: everything that waits is awaited."""

import asyncio
import os
import sys

from mqclient.asyncio import server_locator
from mqclient.core.api import QueueConfiguration
from mqclient.errors import QueueExistsError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")


async def main() -> None:
    locator = server_locator(url)
    factory = await locator.create_session_factory()
    session = await factory.create_session()
    try:
        await session.create_queue(QueueConfiguration(name="example.asyncio"))
    except QueueExistsError:
        pass
    producer = await session.create_producer("example.asyncio")
    for number in range(3):
        message = session.create_message(TYPE_TEXT)
        message.body = encode_text(f"message {number}")
        await producer.send(message)

    consumer = await session.create_consumer("example.asyncio")
    await session.start()
    for _ in range(3):
        received = await consumer.receive(timeout=5000)
        assert received is not None, "no message came"
        print(decode_text(received.body))
        await received.acknowledge()
    await locator.close()


asyncio.run(main())
