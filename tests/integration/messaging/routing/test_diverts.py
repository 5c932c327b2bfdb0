"""Diverts of a configuration, and of management over a restart, in a real broker."""

from __future__ import annotations

from pathlib import Path

from mqbroker.app import Broker, StartError
from mqbroker.checks import check_settings
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_message
from mqclient.wire.properties import BYTE
from tests.integration.server.wire_client import BrokerCase

DIVERT = DivertConfiguration("d", "q", ("t",), routing_type="ANYCAST")


def addresses() -> list[AddressConfiguration]:
    return [
        AddressConfiguration(name, frozenset({1}), [QueueConfiguration(name=name, address=name, routing_type=1)]) for name in ("q", "t")
    ]


class DivertTests(BrokerCase):
    async def send(self, broker: Broker) -> None:
        client = await self.connect(broker)
        await client.open()
        message = CoreMessage(address="q", durable=True, properties={KEY_ROUTING_TYPE: (BYTE, 1)}, body=b"body")
        client.send(wire.SessionSend(encode_message(message), True, 1))
        await client.next(wire.NullResponse)

    def counts(self, broker: Broker) -> list[int]:
        return [broker.messaging.core.queues[name].message_count for name in ("q", "t")]

    async def test_a_divert_of_the_configuration(self) -> None:
        broker = self.start(addresses=addresses(), diverts=[DIVERT])
        await self.send(broker)
        self.assertEqual(self.counts(broker), [1, 1])

    async def test_one_of_management_survives_a_restart(self) -> None:
        broker = self.start(addresses=addresses(), persistence_enabled=True)
        broker.messaging.diverts.create(DIVERT)
        await self.send(broker)
        await self.stop(broker)
        broker = self.start(addresses=addresses(), persistence_enabled=True)
        await self.send(broker)
        self.assertEqual(self.counts(broker), [2, 2])

    def test_a_java_transformer_stops_the_start_by_name(self) -> None:
        divert = DivertConfiguration("d", "q", ("t",), transformer=TransformerConfiguration("org.acme.Shout"))
        error = self.assertRaises(StartError, self.start, addresses=addresses(), diverts=[divert])
        self.assertIn("divert d: the transformer org.acme.Shout cannot be imported", str(error))
        settings = BrokerSettings(Configuration(diverts=[divert]), Path())
        problems = check_settings(settings, (), "broker.xml", "login.config", lambda path: b"")
        self.assertEqual([str(problem) for problem in problems if "org.acme.Shout" in str(problem)], [f"broker.xml: {error}"])
