"""Names as clients before version 129 expect them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import Message
from mqbroker.server.session.old_names import JMS_SESSION_KEY, shown_name, with_old_address
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, decode_message, encode_message
from mqclient.wire.properties import BYTE, TypedValue
from tests.support.broker import World


class OldNameTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.world.peer().open().create_queue("q")

    def session(self, version: int = 128, jms: bool = True) -> Any:
        return SimpleNamespace(version=version, metadata={JMS_SESSION_KEY: ""} if jms else {}, server=self.world.server)

    def address(self, session: Any, address: str, routing_type: int | None = None) -> str | None:
        properties: dict[str, TypedValue] = {} if routing_type is None else {KEY_ROUTING_TYPE: (BYTE, routing_type)}
        message = Message.received(encode_message(CoreMessage(address=address, properties=properties, body=b"body")), 1)
        found = decode_message(with_old_address(session, message))
        self.assertEqual(found.body, b"body")
        return found.address

    def test_old_clients_of_jms_see_prefixes(self) -> None:
        self.assertEqual(shown_name(self.session(), self.world.queue("q")), "jms.queue.q")
        self.assertEqual([self.address(self.session(), "x", kind) for kind in (1, 0)], ["jms.queue.x", "jms.topic.x"])

    def test_newer_ones_and_those_without_jms_see_plain_names(self) -> None:
        for session in (self.session(version=129), self.session(jms=False)):
            self.assertEqual(shown_name(session, self.world.queue("q")), "q")
            self.assertEqual(self.address(session, "x", 1), "x")

    def test_where_the_message_does_not_say_its_kind_the_address_does(self) -> None:
        self.world.messaging.administration.create_address("t", frozenset((0,)))
        found = [self.address(self.session(), name) for name in ("q", "t", "gone")]
        self.assertEqual(found, ["jms.queue.q", "jms.topic.t", "jms.queue.gone"])
