"""Entries of properties and JSON that override broker.xml."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.config.properties.entries import split_key
from tests.unit.config.overrides.test_overrides import OverrideCase


class EntryTests(OverrideCase):
    def test_system_properties_win(self) -> None:
        found = self.load("name=file", system={"brokerconfig.name": "property", "name": "other"}).configuration
        self.assertEqual(found.name, "property")

    def test_json(self) -> None:
        text = json.dumps({"name": "j", "persistIDCache": False, "addressSettings": {"a.b": {"maxDeliveryAttempts": 3}}})
        found = self.load(text, name="/b.json").configuration
        self.assertEqual((found.name, found.persist_id_cache, found.address_settings["a.b"]), ("j", False, {"max_delivery_attempts": 3}))

    def test_other_quotes_and_removals(self) -> None:
        found = self.configured("key.surround=$", "remove.value=!", "addressSettings.$a.b$.noExpiry=true", "addressSettings.#=!")
        self.assertEqual(found.address_settings, {"a.b": {"no_expiry": True}})

    @given(st.lists(st.text(alphabet="ab.#*:", min_size=1), min_size=1, max_size=4))
    def test_keys_survive_quoting(self, names: list[str]) -> None:
        key = ".".join(f'"{name}"' if "." in name else name for name in names)
        self.assertEqual(split_key(key, '"'), tuple(names))
