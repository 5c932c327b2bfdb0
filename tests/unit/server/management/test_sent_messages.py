"""Messages that management sends."""

from __future__ import annotations

from mqclient.wire.bodies import decode_text
from tests.unit.server.management.test_queue_control import QueueControlCase


class SentTests(QueueControlCase):
    def test_a_message_sent_to_a_queue_comes_to_no_other_of_its_address(self) -> None:
        self.session.create_queue("second", "q")
        self.call("queue.q", "sendMessage", {"color": "red"}, 3, "text", True, None, None)
        (reference,) = self.world.queue("q").references
        self.assertEqual((reference.message.property("color"), decode_text(reference.message.decoded().body)), ("red", "text"))
        self.assertEqual(self.world.queue("second").message_count, 0)
        self.assertIn("base64", self.fails("queue.q", "sendMessage", {}, 4, "?", True, None, None))

    def test_a_sent_message_has_a_user_id_where_one_is_wanted(self) -> None:
        for wanted in (True, True, False):
            self.call("address.q", "sendMessage", None, 4, "", True, None, None, wanted)
        first, second, third = (reference.message.decoded().user_id for reference in self.world.queue("q").references)
        assert first is not None and second is not None
        self.assertEqual((len(first), len(second), third), (16, 16, None))
        self.assertNotEqual(first, second)
