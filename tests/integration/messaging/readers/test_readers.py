"""Readers over real sockets and real files: through a restart, out of memory and out of pages, with security and management."""

from __future__ import annotations

from typing import Any

from mqbroker.app import Broker
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_headers, encode_message
from mqclient.wire.properties import BYTE
from tests.integration.server.wire_client import BrokerCase, WireClient
from tests.unit.messaging.readers.support import messages

LARGE = bytes(range(256)) * 2000


class ReaderTests(BrokerCase):
    async def session(self, broker: Broker) -> WireClient:
        client = await self.connect(broker)
        await client.open()
        return client

    async def call(self, client: WireClient, packet: wire.Packet, kind: type[wire.Packet]) -> Any:
        client.send(packet)
        return await client.next(kind)

    async def send(self, client: WireClient, *bodies: bytes) -> None:
        for number, body in enumerate(bodies):
            last = number == len(bodies) - 1
            buffer = encode_message(CoreMessage(address="q", durable=True, properties={KEY_ROUTING_TYPE: (BYTE, 1)}, body=body))
            client.send(wire.SessionSend(buffer, last, -5 if last else 0))
        await client.next(wire.NullResponse)

    async def read(self, client: WireClient, after: int, until: int) -> list[bytes]:
        """A whole range, with two requests under way."""
        found: list[bytes] = []
        while True:
            answer = await self.call(client, wire.ReaderRead("q", after, until, 20_000), wire.ReaderMessages)
            found += [message.body for message in messages(answer) if message.kind == 0]
            after = answer.position
            if answer.end:
                return found

    async def walk(self, **configuration: Any) -> None:
        broker = self.start(persistence_enabled=True, **configuration)
        client = await self.session(broker)
        client.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        await client.next(wire.NullResponse)
        bodies = [b"%05d" % number + bytes(95) for number in range(2000)]
        await self.send(client, *bodies)
        state = await self.call(client, wire.ReaderOpen("q", "job", wire.START_OLDEST), wire.ReaderState)
        self.assertEqual((state.node_id, state.epoch), (broker.node_id, 1))
        reserve = wire.ReaderReserve("q", "job", 1, state.settled, max_messages=1500, parts=3)
        found = await self.call(client, reserve, wire.ReaderRange)
        self.assertEqual((found.messages, len(found.ends)), (1500, 3))
        self.assertEqual(await self.read(client, found.after, found.until), bodies[:1500])
        await self.call(client, wire.ReaderSettle("q", "job", 1, found.ends[0]), wire.NullResponse)

        await self.stop(broker)
        broker = self.start(persistence_enabled=True, **configuration)
        client = await self.session(broker)
        state = await self.call(client, wire.ReaderOpen("q", "job", wire.START_OLDEST), wire.ReaderState)
        self.assertEqual((state.epoch, state.settled, state.reserved), (2, found.ends[0], found.until))
        left = await self.read(client, state.settled, state.reserved)
        self.assertEqual(left, bodies[1500 - len(left) : 1500])
        self.assertLess(len(left), 1100)
        self.assertEqual(state.messages, len(left) + 500)
        rest = await self.call(client, wire.ReaderReserve("q", "job", 2, found.until), wire.ReaderRange)
        self.assertEqual(await self.read(client, found.until, rest.until), bodies[1500:])
        await self.call(client, wire.ReaderSettle("q", "job", 2, rest.until), wire.NullResponse)
        answer = await self.call(client, wire.QueueQuery("q"), wire.QueueQueryResponseV3)
        self.assertEqual(answer.message_count, 0)

    async def test_in_memory(self) -> None:
        await self.walk()

    async def test_in_pages(self) -> None:
        await self.walk(address_settings={"#": {"max_size_bytes": 0, "page_size_bytes": 65536}})

    async def test_the_body_of_a_large_message(self) -> None:
        client = await self.session(self.start(persistence_enabled=True))
        client.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        await client.next(wire.NullResponse)
        client.send(wire.SessionSendLarge(encode_headers(CoreMessage(address="q", durable=True))))
        client.send(wire.SessionSendContinuation(LARGE, False, len(LARGE), True, -7))
        await client.next(wire.NullResponse)
        found = await self.call(client, wire.ReaderReserve("q", None, 0, 0), wire.ReaderRange)
        (large,) = messages(await self.call(client, wire.ReaderRead("q", 0, found.until), wire.ReaderMessages))
        self.assertEqual(large.kind, 1)
        body = b""
        while piece := (await self.call(client, wire.ReaderBody("q", large.message_id, len(body), 100_000), wire.ReaderBodyChunk)).data:
            body += piece
        self.assertEqual(body, LARGE)
