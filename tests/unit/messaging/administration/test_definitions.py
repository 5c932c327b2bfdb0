"""Management and configuration, where others have to agree to definitions."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.messaging.administration.registrar import Change
from mqclient.errors import IllegalStateError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT, decode_message, encode_message
from mqclient.wire.packets import SessionSend
from mqclient.wire.properties import STRING
from tests.support.broker import World
from tests.support.registrar import SlowRegistrar
from tests.unit.messaging.administration.test_registrar import RegistrarCase


class ManagementTests(RegistrarCase):
    def setUp(self) -> None:
        super().setUp()
        self.session.create_queue("answers", durable=False)
        self.session.consume("answers")
        self.registrar.agreed.clear()

    def ask(self, operation: str, *parameters: Any) -> None:
        properties = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": operation, "JMSReplyTo": "answers"}
        message = self.session.message(b"", "activemq.management", routing_type=None)
        message.type = TYPE_TEXT
        message.properties |= {key: (STRING, value) for key, value in properties.items()}
        message.body = encode_text(json.dumps(parameters))
        self.session.send(SessionSend(encode_message(message), False, 0))

    def answers(self) -> list[tuple[bool, Any]]:
        found = []
        for packet in self.session.received():
            message = decode_message(packet.message)
            text = decode_text(message.body)
            found.append((bool(message.properties["_AMQ_OperationSucceeded"][1]), json.loads(text)[0] if text else None))
        return found

    def agreed(self) -> list[tuple[str, str]]:
        return [(each.action, each.definition.name) for each in self.registrar.agreed]

    def test_operations_are_answered_when_they_are_agreed_on(self) -> None:
        self.hold()
        requests: list[tuple[Any, ...]] = [
            ("createAddress", "a", "ANYCAST"),
            ("updateAddress", "a", "ANYCAST,MULTICAST"),
            ("createQueue", json.dumps({"name": "q", "address": "a", "routing-type": "ANYCAST"})),
            ("updateQueue", json.dumps({"name": "q", "max-consumers": 3})),
            ("createDivert", json.dumps({"name": "d", "address": "a", "forwarding-address": "b"})),
            ("updateDivert", json.dumps({"name": "d", "forwarding-address": "c"})),
            ("destroyDivert", "d"),
            ("destroyQueue", "q"),
            ("deleteAddress", "a"),
            ("addAddressSettings", "a", json.dumps({"maxDeliveryAttempts": 3})),
            ("removeAddressSettings", "a"),
        ]
        for request in requests:
            self.ask(*request)
            self.assertEqual((self.answers(), len(self.asked())), ([], 1), request)
            self.registrar.decide()
            [(succeeded, result)] = self.answers()
            self.assertTrue(succeeded, result)
        self.assertEqual([name for _, name in self.agreed()], ["a", "a", "q", "q", "d", "d", "d", "q", "a", "a", "a"])
        self.assertEqual(self.agreed()[-2:], [("update", "a"), ("delete", "a")])

    def test_an_address_takes_its_queues_along_when_each_is_agreed_on(self) -> None:
        self.ask("createQueue", json.dumps({"name": "q", "address": "a", "routing-type": "ANYCAST"}))
        self.ask("createQueue", json.dumps({"name": "r", "address": "a", "routing-type": "ANYCAST"}))
        self.answers()
        self.registrar.agreed.clear()
        self.hold()
        self.ask("deleteAddress", "a", True)
        for name in ("q", "r", "a"):
            self.assertEqual((self.answers(), len(self.asked())), ([], 1), name)
            self.registrar.decide()
        self.assertEqual([succeeded for succeeded, _ in self.answers()], [True])
        self.assertEqual(self.agreed(), [("delete", "q"), ("delete", "r"), ("delete", "a")])
        self.assertEqual(self.world.messaging.diverts.names(), [])

    def test_a_refusal_is_the_answer_and_changes_nothing(self) -> None:
        self.ask("createAddress", "a", "ANYCAST")
        self.answers()
        self.hold()
        self.registrar.no = IllegalStateError("the master broker is not there")
        self.ask("deleteAddress", "a")
        self.registrar.decide()
        self.assertEqual(self.answers(), [(False, "the master broker is not there")])
        self.assertIn("a", self.world.messaging.core.addresses)

    def test_a_queue_goes_with_its_address_by_one_consent(self) -> None:
        self.session.create_queue("q")
        self.registrar.agreed.clear()
        self.hold()
        self.ask("destroyQueue", "q", False, True)
        self.registrar.decide()
        self.assertEqual((self.answers(), self.agreed()), ([(True, None)], [("delete", "q")]))
        self.assertNotIn("q", self.world.messaging.core.addresses)

    def test_an_address_that_was_made_for_itself_goes_with_its_queue_when_both_are_agreed_on(self) -> None:
        """The address went here alone, and was there on all other brokers, and here again after the next start."""
        self.ask("createAddress", "a", "ANYCAST")
        self.ask("createQueue", json.dumps({"name": "q", "address": "a", "routing-type": "ANYCAST"}))
        self.answers()
        self.registrar.agreed.clear()
        self.hold()
        self.ask("destroyQueue", "q", False, True)
        for name in ("q", "a"):
            self.assertEqual((self.answers(), len(self.asked())), ([], 1), name)
            self.registrar.decide()
        self.assertEqual((self.answers(), self.agreed()), ([(True, None)], [("delete", "q"), ("delete", "a")]))
        self.assertNotIn("a", self.world.messaging.core.addresses)

    def test_an_address_that_stays_behind_its_queue_is_told(self) -> None:
        self.ask("createAddress", "a", "ANYCAST")
        self.ask("createQueue", json.dumps({"name": "q", "address": "a", "routing-type": "ANYCAST"}))
        self.answers()
        self.hold()
        self.ask("destroyQueue", "q", False, True)
        self.registrar.decide()
        self.registrar.no = IllegalStateError("the master broker is not there")
        self.registrar.decide()
        self.assertEqual(self.answers(), [(False, "the master broker is not there")])
        self.assertEqual((list(self.world.messaging.core.queues), "a" in self.world.messaging.core.addresses), (["answers"], True))


class ConfigurationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.registrar = SlowRegistrar()
        queues = [QueueConfiguration(name, "a", 1, configuration_managed=True) for name in ("q", "r")]
        configuration = Configuration(security_enabled=False)
        configuration.addresses = [AddressConfiguration("a", frozenset((1,)), queues)]
        self.configuration = configuration

    def test_the_start_goes_on_and_queues_come_when_they_are_agreed_on(self) -> None:
        self.registrar.slow = True
        world = World(self.configuration, registrar=self.registrar)
        core = world.messaging.core
        self.assertEqual((list(core.addresses), list(core.queues)), ([], []))
        self.assertIsNone(world.server.problem())
        while self.registrar.open:
            self.registrar.decide()
        self.assertEqual((list(core.addresses), list(core.queues)), (["a"], ["q", "r"]))
        self.assertEqual([each.action for each in self.registrar.agreed], ["create"] * 3)

    def test_what_is_there_already_is_not_asked_for(self) -> None:
        world = World(self.configuration, registrar=self.registrar)
        self.registrar.agreed.clear()
        warned: list[str] = []
        world.messaging.deploy(self.configuration.addresses, warn=warned.append)
        self.assertEqual((self.registrar.agreed, warned), ([], []))

    def test_a_changed_queue_is_an_update(self) -> None:
        world = World(self.configuration, registrar=self.registrar)
        self.registrar.agreed.clear()
        self.configuration.addresses[0].queues[0].max_consumers = 2
        world.messaging.deploy(self.configuration.addresses)
        self.assertEqual(self.registrar.agreed, [Change("update", world.queue("q").definition)])
        self.assertEqual(world.queue("q").definition.max_consumers, 2)

    def test_a_late_refusal_is_told(self) -> None:
        self.registrar.slow = True
        world = World(Configuration(security_enabled=False), registrar=self.registrar)
        warned: list[str] = []
        world.messaging.deploy(self.configuration.addresses, warn=warned.append)
        self.registrar.no = IllegalStateError("not now")
        self.registrar.decide()
        self.assertEqual(warned, ["a is not deployed: not now"])
