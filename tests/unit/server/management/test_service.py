"""Management over messages, and what queue control does to messages."""

from __future__ import annotations

import errno
import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import (
    TYPE_DEFAULT,
    CoreMessage,
    decode_message,
    encode_message,
)
from mqclient.wire.properties import INT, STRING, TypedValue
from tests.support.broker import PERMISSIONS, Session, World
from tests.support.held_store import FakeBody

REPLIES = "replies"


class ManagementCase(SynchronousTestCase):
    configuration: Configuration | None = None

    def setUp(self) -> None:
        self.world = World(self.configuration)
        self.session = self.open()
        self.session.ok(wire.CreateQueueV2(REPLIES, REPLIES, durable=False, temporary=True, routing_type=1))
        self.session.consume(REPLIES, 99)
        self.session.create_queue("q")

    def open(self) -> Session:
        return self.world.peer().open(username="admin", password="secret")

    def request(self, properties: dict[str, str], body: bytes, reply_to: str | None = f"queue://{REPLIES}") -> None:
        values: dict[str, TypedValue] = {name: (STRING, value) for name, value in properties.items()}
        if reply_to is not None:
            values["JMSReplyTo"] = (STRING, reply_to)
        content = CoreMessage(address="activemq.management", type=TYPE_DEFAULT, properties=values, body=body)
        self.session.send(wire.SessionSend(encode_message(content), False, 0))

    def reply(self) -> tuple[bool, Any]:
        (packet,) = [entry for entry in self.session.received() if entry.consumer_id == 99]
        content = decode_message(packet.message)
        text = decode_text(content.body)
        succeeded = content.get("_AMQ_OperationSucceeded")
        assert isinstance(succeeded, bool)
        return succeeded, None if text is None else json.loads(text)[0]

    def call(self, resource: str, operation: str, *parameters: Any) -> Any:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertTrue(succeeded, result)
        return result

    def fails(self, resource: str, operation: str, *parameters: Any) -> str:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertFalse(succeeded, result)
        return str(result)

    def attribute(self, resource: str, name: str) -> Any:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, b"")
        succeeded, result = self.reply()
        self.assertTrue(succeeded, result)
        return result

    def fill(self, count: int = 3) -> list[int]:
        for number in range(count):
            self.session.publish(b"%d" % number, properties={"n": (INT, number)})
        return [reference.message.message_id for reference in self.world.queue("q").references]


class RequestTests(ManagementCase):
    def test_damaged_parameters_are_told(self) -> None:
        target = {"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "countMessages"}
        for body in (encode_text("{"), encode_text("7"), b"\x01\x00\x00\x00\x05ab", encode_text("[" * 100_000)):
            self.request(target, body)
            succeeded, text = self.reply()
            self.assertFalse(succeeded)
            self.assertIn("JSON", text)

    def test_parameters_that_a_disk_does_not_give_back_are_told(self) -> None:
        class LostBody(FakeBody):
            def read(self, offset: int, size: int) -> bytes:
                raise OSError(errno.EIO, "the disk fails")

        body = LostBody(1)
        self.patch(self.world.store, "create_large_body", lambda body_id: body)
        headers = {"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "countMessages", "JMSReplyTo": f"queue://{REPLIES}"}
        self.session.begin_large("activemq.management", properties={name: (STRING, value) for name, value in headers.items()})
        self.session.chunk(encode_text('["true"]'), total=1000)
        succeeded, text = self.reply()
        self.assertFalse(succeeded)
        self.assertEqual(text, "the parameters cannot be read: [Errno 5] the disk fails")
        self.assertEqual(body.holders, 0)

    def test_a_request_that_names_nothing_is_answered_without_result(self) -> None:
        self.request({}, b"")
        (packet,) = self.session.received()
        self.assertIsNone(decode_message(packet.message).get("_AMQ_OperationSucceeded"))

    def test_without_reply_address_it_is_done_silently(self) -> None:
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "pause"}, b"", reply_to=None)
        self.assertTrue(self.world.queue("q").paused)
        self.assertEqual(self.session.received(), [])

    def test_the_reply_belongs_to_the_request(self) -> None:
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "pause", "JMSCorrelationID": "mine"}, b"")
        (packet,) = self.session.received()
        self.assertEqual(decode_message(packet.message).get("JMSCorrelationID"), "mine")

    def test_the_management_address_has_no_queue(self) -> None:
        answer = self.session.call(wire.QueueQuery("activemq.management"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertEqual((answer.exists, answer.message_count, answer.consumer_count), (True, -1, -1))


class RoleTests(ManagementCase):
    def setUp(self) -> None:
        everything = dict.fromkeys(PERMISSIONS, frozenset({"all"}))
        reader = {**everything, "edit": frozenset[str]()}
        self.configuration = Configuration(
            management_message_rbac=True, security_settings={"#": everything, "mops.queue.q.#": reader, "mops.broker.#": {}}
        )
        super().setUp()

    def test_reading_and_changing_have_permissions_of_their_own(self) -> None:
        self.assertEqual(self.call("queue.q", "countMessages"), 0)
        self.assertEqual(self.attribute("queue.q", "messageCount"), 0)
        self.assertIn("EDIT", self.fails("queue.q", "removeAllMessages"))
        self.assertIn("VIEW", self.fails("broker", "getQueueNames"))
        self.assertIn("EDIT", self.fails("broker", "destroyQueue", "q"))
        self.assertIn("q", self.world.messaging.core.queues)
