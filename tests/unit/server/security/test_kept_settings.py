"""Settings that outlast a restart."""

from __future__ import annotations

from mqbroker.config.model.matching import AddressSettingsRepository, SecurityRepository
from mqbroker.server.security.kept_settings import restore_address_settings, restore_security_settings
from tests.unit.server.management.test_settings_control import SettingsCase


class KeptTests(SettingsCase):
    def test_what_was_made_is_there_after_a_restart_and_what_cannot_be_is_told(self) -> None:
        kept = {
            ("address-setting", "a"): '{"maxDeliveryAttempts": 3}',
            ("address-setting", "b"): '{"unknown": 3}',
            ("security-setting", "a"): '{"send": ["x"]}',
            ("security-setting", "b"): "[",
            ("divert", "a"): "{}",
        }
        settings, security = AddressSettingsRepository(), SecurityRepository()
        told: list[str] = []
        restore_address_settings(kept, settings, told.append)
        restore_security_settings(kept, security, told.append)
        self.assertEqual(settings.lookup("a").max_delivery_attempts, 3)
        self.assertEqual(security.lookup("a")["send"], {"x"})
        self.assertEqual(len(told), 2)
        self.assertIn("address settings for b", told[0])
        self.assertIn("security settings for b", told[1])
