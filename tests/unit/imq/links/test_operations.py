"""The resource ``imq`` is for other brokers, and says what was asked for wrongly."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.imq.links.operations import PARAMETERS, RESOURCE, MemberOperations
from mqbroker.server.management.registry import ManagementError
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT, decode_message, encode_message
from mqclient.wire.properties import STRING
from tests.support.broker import World


class OperationTests(SynchronousTestCase):
    def ask(self, user: str, password: str) -> tuple[bool, Any]:
        world = World(Configuration(cluster_user="cu", cluster_password="cp"))
        asked: list[Any] = []
        world.registry.register(RESOURCE, MemberOperations({"holds": lambda *parameters: asked.append(parameters)}))
        session = world.peer().open(username=user, password=password)
        session.create_queue("answers", durable=False)
        session.consume("answers")
        message = session.message(b"", "activemq.management", routing_type=None)
        message.type = TYPE_TEXT
        properties = {"_AMQ_ResourceName": RESOURCE, "_AMQ_OperationName": "holds", "JMSReplyTo": "answers"}
        message.properties |= {key: (STRING, value) for key, value in properties.items()}
        message.body = encode_text(json.dumps(["b2:7676", []]))
        session.send(wire.SessionSend(encode_message(message), False, 0))
        [packet] = session.received()
        answer = decode_message(packet.message)
        self.assertEqual(len(asked), int(user == "cu"))
        text = decode_text(answer.body)
        return bool(answer.properties["_AMQ_OperationSucceeded"][1]), text

    def test_the_cluster_user_alone(self) -> None:
        self.assertTrue(self.ask("cu", "cp")[0])
        succeeded, text = self.ask("admin", "secret")
        self.assertFalse(succeeded)
        self.assertIn("for the cluster user alone", text)

    def test_each_operation_is_there(self) -> None:
        self.assertEqual(set(MemberOperations.OPERATIONS), set(PARAMETERS))

    def test_what_was_asked_for_wrongly(self) -> None:
        for wrong in (ValueError("x"), TypeError("x"), KeyError("x")):

            def fail(wrong: Exception = wrong) -> None:
                raise wrong

            operations = MemberOperations({"join": fail})
            error = self.assertRaises(ManagementError, operations.answer, "join")
            self.assertIn("join of imq was asked for wrongly", str(error))
        self.assertRaises(ManagementError, MemberOperations({}).answer, "join")
