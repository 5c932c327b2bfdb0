"""The session on which a member tells what happens there."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.listening import NotificationRequest, listen
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.message import ClientMessage
from tests.unit.cluster.bridge_support import Pair


class ListeningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.told: list[str] = []
        self.begin({})

    def begin(self, settings: dict[str, Any]) -> None:
        """Make a link to a member with these address settings."""
        self.pair = Pair()
        self.pair.b.messaging.core.settings.set("#", settings)
        self.pair.events.connected = self.connected  # type: ignore[method-assign]
        self.pair.start()

    async def connected(self, factory: SessionFactory) -> None:
        interests = Interests("", 1, "activemq.notifications", ("activemq.management",))
        request = NotificationRequest("a", "activemq.notifications", "activemq.management", "", interests.filter_string())
        self.pair.events.told.append("connected")
        await listen(await factory.create_session(pre_acknowledge=True), request, self.hear)

    def hear(self, message: ClientMessage) -> None:
        kind = message.properties.get("_AMQ_NotifType")
        self.told.append("marker" if kind is None else str(kind[1]))

    def test_what_there_is_then_what_happens(self) -> None:
        self.assertEqual((self.told[0], self.told[-1]), ("marker", "marker"))
        self.assertIn("BINDING_ADDED", self.told)
        self.told.clear()
        self.pair.receiver.create_queue("later")
        self.pair.stir()
        self.assertEqual(self.told, ["BINDING_ADDED"])

    def test_address_settings_for_all_queues_keep_no_notification_and_lose_none(self) -> None:
        self.begin({"default_ring_size": 0, "default_non_destructive": True, "default_last_value_queue": True})
        [queue] = [queue for name, queue in self.pair.b.messaging.core.queues.items() if name.startswith("notif.")]
        definition = queue.definition
        self.assertEqual((definition.ring_size, definition.non_destructive, definition.last_value), (-1, False, False))
        self.assertEqual(queue.message_count, 0)

    def test_when_the_member_tells_no_more_the_link_is_made_anew(self) -> None:
        """Without it nobody would hear of the member's queues any more, and messages would wait where no consumer is."""
        [queue] = [queue for name, queue in self.pair.b.messaging.core.queues.items() if name.startswith("notif.")]
        self.pair.b.messaging.administration.delete_queue(queue, remove_consumers=True)
        self.told.clear()
        self.pair.advance(2)
        self.assertEqual(self.pair.events.told, ["connected", "started", "lost", "connected", "started"])
        self.assertIn("BINDING_ADDED", self.told)
