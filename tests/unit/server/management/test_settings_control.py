"""Address and security settings that management makes."""

from __future__ import annotations

import json

from mqclient.wire.bodies import encode_text
from tests.unit.server.management.test_service import ManagementCase


class SettingsCase(ManagementCase):
    def refused(self, operation: str, *parameters: object) -> str:
        self.request({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertFalse(succeeded)
        return str(result)

    def settings_of(self, address: str) -> dict[str, object]:
        return dict(json.loads(self.call("broker", "getAddressSettingsAsJSON", address)))


class AddressSettingsTests(SettingsCase):
    def test_they_hold_at_once_for_addresses_that_exist_and_new_ones(self) -> None:
        given = {
            "maxDeliveryAttempts": 3,
            "deadLetterAddress": "D",
            "pageFullMessagePolicy": "DROP",
            "defaultAddressRoutingType": "ANYCAST",
        }
        returned = self.call("broker", "addAddressSettings", "#", json.dumps(given))
        self.assertEqual(json.loads(returned), given)
        core = self.world.messaging.core
        self.assertEqual(core.addresses["q"].settings.max_delivery_attempts, 3)
        self.session.create_queue("other")
        self.assertEqual(core.addresses["other"].settings.dead_letter_address, "D")
        self.call("broker", "addAddressSettings", "q", json.dumps({"maxDeliveryAttempts": 4, "redeliveryMultiplier": 2}))
        self.assertEqual(self.settings_of("q"), {**given, "maxDeliveryAttempts": 4, "redeliveryMultiplier": 2.0})

    def test_removed_ones_leave_the_defaults(self) -> None:
        self.call("broker", "addAddressSettings", "q", json.dumps({"maxDeliveryAttempts": 3}))
        self.call("broker", "removeAddressSettings", "q")
        self.assertEqual(self.settings_of("q"), {})

    def test_what_cannot_be_is_refused_and_changes_nothing(self) -> None:
        self.assertIn("there is no property maxDeliveryAttemps", self.refused("addAddressSettings", "q", '{"maxDeliveryAttemps": 3}'))
        self.assertIn("'many' is not valid", self.refused("addAddressSettings", "q", '{"maxDeliveryAttempts": "many"}'))
        self.assertIn("pageSize has to be lower", self.refused("addAddressSettings", "q", '{"maxSizeBytes": 10}'))
        self.assertIn("not a JSON object", self.refused("addAddressSettings", "q", "[1]"))
        self.refused("addAddressSettings", "q", "{")
        self.refused("addAddressSettings", "q", "[" * 100_000)
        self.assertIn("AMQ229071", self.refused("addAddressSettings", "a.#.b", "{}"))
        self.assertIn("is not there yet", self.refused("addAddressSettings", "q", '{"retroactiveMessageCount": 5}'))
        self.assertEqual(self.settings_of("q"), {})


class SecuritySettingsTests(SettingsCase):
    def test_they_hold_at_once_until_they_are_removed(self) -> None:
        self.call("broker", "addSecuritySettings", "s.#", "a, b", "a", "", None, "", "", "", "b")
        found = {role["name"]: role for role in json.loads(self.call("broker", "getRolesAsJSON", "s.t"))}
        self.assertEqual(sorted(found), ["a", "b"])
        self.assertTrue(found["a"]["consume"] and found["b"]["send"] and found["b"]["browse"])
        self.assertFalse(found["b"]["consume"] or found["a"]["browse"] or found["a"]["createDurableQueue"])
        name, *flags = self.call("broker", "getRoles", "s.t")[0]
        self.assertEqual((name, flags[:2], len(flags)), ("a", [True, True], 12))
        self.call("broker", "removeSecuritySettings", "s.#")
        self.assertNotIn("a", [role["name"] for role in json.loads(self.call("broker", "getRolesAsJSON", "s.t"))])

    def test_a_match_that_cannot_be_is_refused(self) -> None:
        self.assertIn("AMQ229071", self.refused("addSecuritySettings", "a.#.b", *["x"] * 8))
