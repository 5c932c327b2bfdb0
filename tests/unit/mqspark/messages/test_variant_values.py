"""Variants that no message can hold."""

from __future__ import annotations

from tests.unit.mqspark.messages.test_variants import VariantCase


class RefusedTests(VariantCase):
    def test_what_no_message_can_hold(self) -> None:
        for raw in (b"\x2c\x00\x00\x00\x00", b"\x02\x00\x00", b"\x03\x00\x00", b"", b"\x14\x00"):
            self.assertIn("the column properties holds a variant that is no", self.refused({"properties": self.column(raw)}))
