"""When a message expires, by the settings of its address."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.message.expiration import expiration_at_routing

NOW = 1_000_000


class ExpirationTests(SynchronousTestCase):
    def expiration(self, own: int, **settings: Any) -> int:
        return expiration_at_routing(own, AddressSettings(**settings), NOW)

    def test_without_settings_a_message_keeps_its_own(self) -> None:
        self.assertEqual(self.expiration(0), 0)
        self.assertEqual(self.expiration(NOW + 5), NOW + 5)

    def test_an_address_may_keep_everything(self) -> None:
        self.assertEqual(self.expiration(NOW + 5, no_expiry=True, expiry_delay=7), 0)

    def test_the_delay_is_for_messages_without_expiration_alone(self) -> None:
        self.assertEqual(self.expiration(0, expiry_delay=7, max_expiry_delay=3), NOW + 7)
        self.assertEqual(self.expiration(NOW + 5, expiry_delay=7), NOW + 5)

    def test_a_delay_of_zero_expires_at_once(self) -> None:
        self.assertEqual(self.expiration(0, expiry_delay=0), NOW)

    def test_a_message_without_expiration_gets_the_longest_that_is_allowed(self) -> None:
        self.assertEqual(self.expiration(0, min_expiry_delay=3, max_expiry_delay=9), NOW + 9)
        self.assertEqual(self.expiration(0, min_expiry_delay=3), NOW + 3)

    def test_expirations_are_moved_into_the_range(self) -> None:
        limits = {"min_expiry_delay": 3, "max_expiry_delay": 9}
        self.assertEqual([self.expiration(NOW + own, **limits) - NOW for own in (-5, 1, 3, 6, 9, 10)], [3, 3, 3, 6, 9, 9])

    def test_a_delay_without_an_end_is_the_latest_time_that_a_message_can_state(self) -> None:
        endless = 2**63 - 1
        for own, name in ((0, "expiry_delay"), (0, "max_expiry_delay"), (0, "min_expiry_delay"), (NOW + 5, "min_expiry_delay")):
            self.assertEqual(self.expiration(own, **{name: endless}), endless)
        self.assertEqual(self.expiration(NOW + 5, max_expiry_delay=endless), NOW + 5)
