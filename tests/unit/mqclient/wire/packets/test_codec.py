"""The packets of the runtime against the grammar: the same bytes, the same values, the same refusals, for every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.packets import PACKETS, VERSION_MAX, VERSION_MIN, decode_packet, encode_packet, grammar
from mqclient.wire.packets.grammar_packets import Description
from tests.unit.mqclient.wire.strategies import (
    damage,
    examples,
    grammar_verdict,
    group_count,
    packet_fields,
    packet_values,
    runtime_verdict,
    to_packet,
)

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)


def has_groups(description: Description) -> bool:
    return group_count(description) > 0 and "groups" in PACKETS[description.type].__dataclass_fields__  # type: ignore[attr-defined]


class EveryVersionTests(SynchronousTestCase):
    """Each packet, in all versions: both write the same bytes and read the same values from them."""

    def check(self, description: Description, values: dict[str, Any]) -> None:
        packet = to_packet(description, values)
        for version in VERSIONS:
            body = encode_packet(packet, version)
            self.assertEqual(body, grammar.build(description.type, values, version), f"version {version}")
            found = decode_packet(description.type, body, version)
            self.assertEqual(
                packet_fields(description, found),
                grammar_verdict(description, body, version, has_groups(description)),
                f"version {version}",
            )
            self.assertEqual(encode_packet(found, version), body, f"version {version}")
        if values["groups"] == group_count(description):
            expected = {name: values[name] for name in grammar.field_names(description)}
            for name in self.not_on_the_wire(values):
                expected.pop(name, None)
            found_values = packet_fields(description, decode_packet(description.type, encode_packet(packet, VERSION_MAX), VERSION_MAX))
            self.assertEqual({name: found_values[name] for name in expected}, expected)

    def not_on_the_wire(self, values: dict[str, Any]) -> tuple[str, ...]:
        if values.get("exit"):
            return ("primary", "backup", "last")
        return ("message_body_size",) if values.get("continues") else ()


class DamageTests(SynchronousTestCase):
    """Each packet, damaged: both refuse, or both read the same; a refusal names packet and field."""

    def check(self, description: Description, body: bytes, version: int) -> None:
        self.assertEqual(
            runtime_verdict(description, body, version),
            grammar_verdict(description, body, version, has_groups(description)),
            f"{body.hex()} version {version}",
        )


def _every_version_test(description: Description) -> Callable[[EveryVersionTests], None]:
    @examples(6)
    @given(values=packet_values(description))
    def test(self: EveryVersionTests, values: dict[str, Any]) -> None:
        self.check(description, values)

    return test


def _damage_test(description: Description) -> Callable[[DamageTests], None]:
    @examples(30)
    @given(data=st.data(), values=packet_values(description), version=st.integers(VERSION_MIN, VERSION_MAX))
    def test(self: DamageTests, data: st.DataObject, values: dict[str, Any], version: int) -> None:
        self.check(description, data.draw(damage(grammar.build(description.type, values, version))), version)

    return test


for _description in grammar.GRAMMAR.values():
    setattr(EveryVersionTests, f"test_{_description.name.lower()}", _every_version_test(_description))
    setattr(DamageTests, f"test_{_description.name.lower()}", _damage_test(_description))
