"""Addresses to which messages may go without a decision for each of them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.server.runs.run_targets import plain_address
from tests.support.broker import World


class Sender:
    messages_sent = 0
    nameless = False

    def resolve(self, name: str) -> tuple[str, str | None, int | None]:
        return name.removeprefix("queue://"), None, None


class PlainAddressTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sender = Sender()

    def plain(self, name: str = "q", routing_type: int | None = None, **settings: Any) -> bool:
        world = World(Configuration(security_enabled=False, address_settings={"#": settings}))
        world.peer().open().create_queue("q")
        return plain_address(world.server, self.sender, name, routing_type) is not None

    def test_a_queue_that_is_there_needs_no_decision(self) -> None:
        self.assertTrue(self.plain())
        self.assertTrue(self.plain(routing_type=ANYCAST))

    def test_a_routing_type_that_the_address_has_not_is_to_be_decided(self) -> None:
        self.assertFalse(self.plain(routing_type=MULTICAST))

    def test_an_address_that_is_still_to_be_made_is_to_be_decided(self) -> None:
        self.assertFalse(self.plain("missing"))

    def test_a_name_that_means_something_else_is_to_be_decided(self) -> None:
        self.assertFalse(self.plain("queue://q"))

    def test_settings_that_change_the_expiration_are_to_be_applied(self) -> None:
        for settings in ({"expiry_delay": 5}, {"max_expiry_delay": 5}, {"min_expiry_delay": 5}, {"no_expiry": True}):
            self.assertFalse(self.plain(**settings), settings)

    def test_a_session_that_lacks_a_user_is_to_be_told(self) -> None:
        self.sender.nameless = True
        self.assertFalse(self.plain())
