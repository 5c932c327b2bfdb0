"""What cannot be sent is refused where it is sent, before a byte of it is written; and text messages made easy."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.core.sending import sendable, uploads
from mqclient.errors import MessageTooLargeError
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import TYPE_BYTES, TYPE_TEXT, CoreMessage
from mqclient.wire.packets import SessionSend, SessionSendContinuation, SessionSendLarge
from mqclient.wire.properties import INT, PROPERTIES_MAX
from tests.support.network import ScriptedBroker, World

FRAME_MAX = 2000


class SendTests(SynchronousTestCase):
    def start(self, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **settings)
        self.session = self.world.session()
        self.producer = self.world.finish(self.session.create_producer("a"))

    def setUp(self) -> None:
        self.start()

    def refused(self, message: Any, error: type[Exception], *parts: str) -> None:
        """The message is refused with a sentence that has these parts; the connection is as before, and takes another message."""
        before = len(self.broker.received_packets)
        with self.assertRaises(error) as caught:
            self.world.finish(self.producer.send(message))
        for part in parts:
            self.assertIn(part, str(caught.exception))
        self.assertEqual(self.broker.received_packets[before:], [])
        self.world.finish(self.producer.send(self.session.create_message()))
        self.assertEqual(len(self.world.network.links), 1)

    def message(self, **attributes: Any) -> ClientMessage:
        message = self.session.create_message(TYPE_TEXT)
        for name, value in attributes.items():
            setattr(message, name, value)
        return message

    def test_a_body_that_is_not_bytes(self) -> None:
        self.refused(self.message(body="text"), TypeError, "bytes, not str", "encode_text(…)")
        self.refused(self.message(body={1: 2}), TypeError, "bytes, not dict", "encode_map(…)")
        self.refused(self.message(body=[1]), TypeError, "bytes, not list", "encode_stream(…)")
        self.refused(self.message(body=None), TypeError, "bytes, not None")
        self.refused(self.message(body=5), TypeError, "bytes, not int")

    def test_what_is_no_message(self) -> None:
        self.refused("hello", TypeError, "expected a message, not str", "create_text_message")
        self.refused(CoreMessage(), TypeError, "expected a message, not CoreMessage")

    def test_a_text_message_with_plain_bytes(self) -> None:
        for body in (b"raw", b"\x01raw!", b"\x01", b"\x01\0\0\0\x03abc", b"\x01\0\0\0\x08ab", b"\x02\0\0\0\0"):
            self.refused(self.message(body=body), ValueError, "encode_text(…)", "TYPE_BYTES")

    @given(st.none() | st.text(), st.binary(max_size=3))
    def test_every_encoded_text_is_sent_whatever_follows_it(self, text: str | None, surplus: bytes) -> None:
        sendable.check_message(ClientMessage(type=TYPE_TEXT, body=encode_text(text) + surplus, strict=True))

    def test_bodies_of_other_types_and_of_received_messages_are_not_looked_at(self) -> None:
        for message in (
            self.message(type=TYPE_BYTES, body=b"raw"),
            ClientMessage(type=TYPE_TEXT, body=b"as it came"),
            self.message(body=b""),
            self.message(type=TYPE_BYTES, body=bytearray(b"raw")),
            self.message(type=TYPE_BYTES, body=memoryview(b"raw")),
        ):
            self.world.finish(self.producer.send(message))
        self.assertEqual(len(self.broker.got(SessionSend)), 5)

    def test_properties_that_are_not_typed(self) -> None:
        self.refused(self.message(properties={"n": 5}), TypeError, "the property n is int", "message.put('n', value)")
        self.refused(self.message(properties={5: (INT, 5)}), TypeError, "the name of a property is a str, not int: 5")
        self.refused(self.message(address=5, properties={"n": (INT, "x")}), ValueError, "'x' does not fit")

    def test_those_of_a_large_message_too(self) -> None:
        self.refused(self.message(body_source=iter([b"x"]), properties={"n": 5}), TypeError, "the property n is int")

    def test_an_address_that_is_no_text(self) -> None:
        self.producer = self.world.finish(self.session.create_producer())
        with self.assertRaises(TypeError):
            self.producer.send(self.message(), 5)

    def test_too_many_properties(self) -> None:
        """Also where the connection would be restored for ever, and the message sent again each time."""
        for settings in ({}, {"reconnect_attempts": -1, "confirmation_window_size": 1 << 20}):
            self.start(**settings)
            properties = {f"p{number}": (INT, 1) for number in range(PROPERTIES_MAX)}
            self.world.finish(self.producer.send(self.message(properties=dict(properties))))
            properties["more"] = (INT, 1)
            self.refused(self.message(properties=properties), MessageTooLargeError, "10001 properties", "10000")

    def test_too_large_a_frame(self) -> None:
        """Also where the connection would be restored for ever, and the message sent again each time."""
        for settings in ({}, {"reconnect_attempts": -1, "confirmation_window_size": 1 << 20}):
            self.start(min_large_message_size=1 << 30, producer_window_size=-1, **settings)
            with mock.patch.object(sendable, "FRAME_SIZE_MAX", FRAME_MAX):
                self.refused(self.message(type=TYPE_BYTES, body=bytes(FRAME_MAX)), MessageTooLargeError, "minLargeMessageSize")

    def test_the_largest_frame_is_sent(self) -> None:
        self.start(min_large_message_size=1 << 30, producer_window_size=-1)
        size = FRAME_MAX - 100
        with mock.patch.object(sendable, "FRAME_SIZE_MAX", FRAME_MAX):
            while True:
                message = self.message(type=TYPE_BYTES, body=bytes(size))
                try:
                    self.world.finish(self.producer.send(message))
                except MessageTooLargeError:
                    break
                size += 1
        # Type, channel and body of the greatest one, with the length in front.
        link_sizes = [len(packet.message) for packet in self.broker.got(SessionSend)]
        self.assertEqual(max(link_sizes) + 13 + 13, FRAME_MAX)

    def test_pieces_of_a_large_message_stay_below_the_limit(self) -> None:
        with mock.patch.object(uploads, "CHUNK_SIZE_MAX", 1000):
            self.start(min_large_message_size=1 << 30, producer_window_size=-1)
        self.world.finish(self.producer.send(self.message(body_source=iter([bytes(2500)]))))
        self.assertEqual([len(packet.chunk) for packet in self.broker.got(SessionSendContinuation)], [1000, 1000, 500])
        self.assertEqual(len(self.broker.got(SessionSendLarge)), 1)
