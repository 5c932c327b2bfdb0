"""Diverts of broker.xml are in force when clients come."""

from __future__ import annotations

from mqbroker.app import Broker, BrokerSettings, StartError
from mqbroker.config.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.config.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.message import CoreMessage, decode_message, encode_message
from tests.integration.server.wire_client import BrokerCase, reactor


class DivertTests(BrokerCase):
    async def test_messages_are_copied(self) -> None:
        broker = self.start(diverts=[DivertConfiguration("d", "orders", ("audit",))])
        client = await self.connect(broker)
        await client.open()
        for name in ("orders", "audit"):
            client.send(wire.CreateQueueV2(name, name, routing_type=1, durable=True))
            await client.next(wire.NullResponse)
        client.send(wire.SessionSend(encode_message(CoreMessage(address="orders", body=b"x")), True, -2))
        await client.next(wire.NullResponse)
        for consumer_id, name in enumerate(("orders", "audit")):
            client.send(wire.CreateConsumer(consumer_id, name, requires_response=False))
            client.send(wire.FlowToken(consumer_id, -1))
            client.send(wire.SessionStart())
            received = await client.next(wire.SessionReceive)
            self.assertEqual(decode_message(received.message).body, b"x")

    def test_a_divert_that_cannot_be_stops_the_start(self) -> None:
        divert = DivertConfiguration("d", "orders", ("audit",), transformer=TransformerConfiguration("no.such:thing"))
        settings = BrokerSettings(Configuration(security_enabled=False, persistence_enabled=False, diverts=[divert]), self.folder)
        with self.assertRaisesRegex(StartError, "no.such"):
            Broker(settings, reactor).start()
