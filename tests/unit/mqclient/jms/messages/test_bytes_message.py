"""Bytes messages."""

from __future__ import annotations

import io

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.conversion import to_core
from mqclient.wire.message import CoreMessage
from tests.unit.mqclient.jms.messages.test_message import received


class BytesTests(SynchronousTestCase):
    def test_bytes_values_in_order(self) -> None:
        message = BytesMessage()
        message.write_int(-1)
        message.write_utf("é")
        message.write_char("x")
        self.assertRaises(MessageNotReadableException, message.read_int)
        message.reset()
        self.assertEqual((message.read_int(), message.read_utf(), message.read_char()), (-1, "é", "x"))
        self.assertRaises(MessageEOFException, message.read_byte)
        self.assertEqual(message.read_bytes(), b"")
        message.reset()
        self.assertEqual((message.read_bytes(2), message.read_unsigned_short(), message.body_length), (b"\xff\xff", 0xFFFF, 10))
        self.assertRaises(MessageNotWriteableException, message.write_int, 1)
        self.assertRaises(MessageFormatException, BytesMessage().write_byte, 128)
        self.assertRaises(MessageFormatException, BytesMessage().write_utf, "x" * 65536)

    def test_bytes_to_a_file(self) -> None:
        target = io.BytesIO()
        received(CoreMessage(type=4, body=b"data")).save_to(target)  # type: ignore[attr-defined]
        self.assertEqual(target.getvalue(), b"data")

    def test_an_unknown_type_of_body_is_bytes(self) -> None:
        got = received(CoreMessage(type=7, body=b"EMB"))
        self.assertEqual((type(got), got.body, to_core(got).type), (BytesMessage, b"EMB", 7))
