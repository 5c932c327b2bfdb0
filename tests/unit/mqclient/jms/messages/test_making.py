"""Making messages, as sessions and contexts do."""

from __future__ import annotations

import io

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.messages.making import MessageMaking


class MakingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.making = MessageMaking()

    def test_each_kind_holds_what_it_was_made_of(self) -> None:
        self.assertEqual(self.making.create_text_message("text").text, "text")
        self.assertEqual(self.making.create_map_message({"a": 1}).get_int("a"), 1)
        self.assertEqual(self.making.create_object_message([1, "b"]).value, [1, "b"])
        stream = self.making.create_stream_message([1, "b"])
        stream.reset()
        self.assertEqual([stream.read_int(), stream.read_string()], [1, "b"])
        content = self.making.create_bytes_message(b"raw")
        content.reset()
        self.assertEqual(content.body_length, 3)

    def test_each_kind_may_be_filled_later(self) -> None:
        message = self.making.create_text_message()
        self.assertIsNone(message.text)
        message.text = "later"
        self.assertEqual(message.text, "later")

    def test_a_file_is_not_read_before_its_message_is_sent(self) -> None:
        file = io.BytesIO(b"content")
        self.making.create_bytes_message(stream=file)
        self.assertEqual(file.tell(), 0)

    def test_messages_share_nothing(self) -> None:
        first, second = self.making.create_message(), self.making.create_message()
        first.set_string_property("colour", "red")
        self.assertFalse(second.property_exists("colour"))
