"""A broker that leaves gives its duplicate ids to a real Artemis, whatever their bytes are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mqclient.asyncio import server_locator
from mqclient.core.api import QueueConfiguration
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import BYTES, STRING, TypedValue
from tests.interop import instance
from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.cluster.scenarios import SCALE_DOWN
from tests.interop.peers import restart

ANYCAST = 1
AWAITED_MS, MORE_MS = 20_000, 1500
"""Of waiting for a message that has to be there, and for one behind the last."""
IDS: dict[str, TypedValue] = {
    "a text": (STRING, "once"),
    "text of other letters": (STRING, "Bestellung-Ü-注文"),
    "bytes that are no text": (BYTES, b"\xff\xfe\x00\x80"),
}


async def send(url: str, body: bytes, ids: Sequence[TypedValue], count: int) -> list[bytes]:
    """Send a durable message with each of these duplicate ids to ``orders``; the bodies of all that can be browsed there then.

    So many have to be there.
    """
    locator = server_locator(url)
    try:
        session = await (await locator.create_session_factory()).create_session(instance.USER, instance.PASSWORD)
        if not (await session.queue_query("orders")).exists:
            await session.create_queue(QueueConfiguration(name="orders", routing_type=ANYCAST))
        producer = await session.create_producer("orders")
        for value in ids:
            message = session.create_message()
            message.properties[KEY_DUPLICATE_ID] = value
            message.body = body
            await producer.send(message)
        browser = await session.create_consumer("orders", browse_only=True)
        await session.start()
        found: list[bytes] = []
        while (received := await browser.receive(AWAITED_MS if len(found) < count else MORE_MS)) is not None:
            found.append(received.body)
        return found
    finally:
        await locator.close()


def test_a_message_with_a_known_duplicate_id_is_refused_by_the_artemis_that_took_over(java: None, tmp_path: Path) -> None:
    ids = list(IDS.values())
    first = [b"first"] * len(ids)
    with Nodes(("mqbroker", "artemis"), tmp_path, Shape(core={0: SCALE_DOWN})) as nodes:
        nodes.start()
        assert asyncio.run(send(nodes[0].url, b"first", ids, len(first))) == first
        nodes[0].stop()
        assert asyncio.run(send(nodes[1].url, b"again", ids, len(first))) == first
        restart(nodes[1])
        assert asyncio.run(send(nodes[1].url, b"again", ids, len(first))) == first, "the ids are as durable as the messages"
        assert asyncio.run(send(nodes[1].url, b"another", [(STRING, "another")], len(first) + 1)) == [*first, b"another"]
