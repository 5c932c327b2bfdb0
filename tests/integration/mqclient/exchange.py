"""What every shell does in its first test: messages there and back."""

from __future__ import annotations

from typing import Any


async def exchange(locator: Any) -> list[int]:
    """Send and receive three messages; written once for both frameworks."""
    factory = await locator.create_session_factory()
    session = await factory.create_session("user", "password")
    producer = await session.create_producer("q")
    consumer = await session.create_consumer("q")
    await session.start()
    received = []
    for _ in range(3):
        await producer.send(session.create_message())
        found = await consumer.receive(10_000)
        await found.acknowledge()
        received.append(found.message_id)
    assert await consumer.receive(50) is None
    await locator.close()
    return received
