"""Text messages made easy."""

from __future__ import annotations

import zlib

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import IllegalStateError, MalformedPacketError
from mqclient.wire.bodies import decode_text, encode_map, encode_text
from mqclient.wire.message import KEY_LARGE_COMPRESSED, TYPE_MAP, TYPE_TEXT, decode_message
from mqclient.wire.packets import SessionSend
from mqclient.wire.properties import BOOLEAN
from tests.support.network import ScriptedBroker, World


class TextTests(SynchronousTestCase):
    def test_a_text_message_is_made_and_read(self) -> None:
        broker = ScriptedBroker()
        world = World(broker)
        session = world.session()
        message = session.create_text_message("grüße", durable=False, priority=7)
        self.assertEqual((message.text, message.type, message.durable, message.priority), ("grüße", TYPE_TEXT, False, 7))
        world.finish(world.finish(session.create_producer("a")).send(message))
        [sent] = broker.got(SessionSend)
        self.assertEqual(decode_text(decode_message(sent.message).body), "grüße")
        message.text = None
        self.assertIsNone(message.text)

    def test_a_compressed_text_is_read(self) -> None:
        body = zlib.compress(encode_text("long"))
        self.assertEqual(ClientMessage(type=TYPE_TEXT, body=body, properties={KEY_LARGE_COMPRESSED: (BOOLEAN, True)}).text, "long")

    def test_other_messages_have_no_text(self) -> None:
        message = ClientMessage(type=TYPE_MAP, body=encode_map({}))
        with self.assertRaises(IllegalStateError):
            _ = message.text
        with self.assertRaises(IllegalStateError):
            message.text = "a"

    def test_a_body_that_is_no_text_says_so(self) -> None:
        with self.assertRaises(MalformedPacketError) as caught:
            _ = ClientMessage(type=TYPE_TEXT, body=b"raw!").text
        self.assertIn("message.body: is not an encoded text", str(caught.exception))
        self.assertIn("its sender has put other bytes into a text message", str(caught.exception))
