"""Text and object messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import (
    MessageFormatException,
)
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.conversion import as_message
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import Message
from mqclient.jms.messages.simple_messages import JavaSerialized, ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.wire.message import CoreMessage
from tests.unit.mqclient.jms.messages.test_message import received


class SimpleTests(SynchronousTestCase):
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
        )
    )
    def test_objects_travel_as_json(self, value: object) -> None:
        got = received(CoreMessage(type=2, body=ObjectMessage(value)._encode_body()))
        self.assertEqual(got.body, value)

    def test_java_objects_stay_opaque(self) -> None:
        java = JavaSerialized(bytes.fromhex("aced00057400036f626a"))
        got = received(CoreMessage(type=2, body=ObjectMessage(java)._encode_body()))
        assert isinstance(got, ObjectMessage)
        self.assertEqual((got.value, type(got.value)), (java, JavaSerialized))
        unknown = received(CoreMessage(type=2, body=b"\0\0\0\1\xff"))
        assert isinstance(unknown, ObjectMessage)
        self.assertRaises(MessageFormatException, lambda: unknown.value)
        self.assertEqual(unknown.serialized, b"\xff")
        self.assertRaises(MessageFormatException, ObjectMessage, object())

    def test_messages_from_python_values(self) -> None:
        for body, kind in [("x", TextMessage), (b"x", BytesMessage), ({"a": 1}, MapMessage), ([1], StreamMessage), (None, Message)]:
            self.assertIs(type(as_message(body)), kind)
            self.assertEqual(as_message(body).body, body)
        ready = TextMessage("x")
        self.assertIs(as_message(ready), ready)
        self.assertRaises(MessageFormatException, as_message, 5)
