"""The table of elements: complete, in step with the dataclasses, and with the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.blocks import CORE
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.schema.model import Block, Support
from mqbroker.config.schema.values import TEXT

HERE = Path(__file__).parent
NEWER_THAN_THE_SCHEMA = {"disk-full-policy", "journal-lock-acquisition-timeout"}
"""Elements of a later Artemis than the list of names was taken from."""
OWN = {"mqbroker-compress-pages", "mqbroker-consumer-flow-limit", "mqbroker-local-delivery-preferred"}
"""Elements that Artemis does not have."""
OLDER_THAN_THE_SCHEMA = {
    "@connector-name",
    "@connector-ref",
    "discovery-initial-wait-timeout",
    "jdbc-lock-acquisition-timeout",
    "scale-down-group-name",
    "scale-down-clustername",
}
"""Names of older versions, which the chapters still have."""


def names_below(block: Block) -> Iterator[str]:
    yield from block.inside
    for attribute in block.attributes:
        yield f"@{attribute.name}"
    for child in block.children:
        yield child.name
        if isinstance(child, Block):
            yield from names_below(child)


class TableCase(SynchronousTestCase):
    def schema(self) -> list[str]:
        lines = (HERE.parent / "fixtures" / "schema-names.txt").read_text().splitlines()
        return [line for line in lines if not line.startswith("#")]


class TableTests(TableCase):
    def test_every_element_of_artemis_is_known(self) -> None:
        missing = []
        for name in self.schema():
            outer, _, inner = name.partition("/")
            entry = CORE.child(outer)
            if entry is None or (inner and isinstance(entry, Block) and inner not in set(names_below(entry))):
                missing.append(name)
        self.assertEqual(missing, [])

    def test_nothing_is_made_up(self) -> None:
        schema = set(self.schema())
        for child in CORE.children:
            if child.name not in NEWER_THAN_THE_SCHEMA | OWN:
                self.assertIn(child.name, schema)
            if isinstance(child, Block):
                unknown = {name for name in names_below(child) if f"{child.name}/{name}" not in schema}
                unknown -= NEWER_THAN_THE_SCHEMA | OLDER_THAN_THE_SCHEMA | OWN
                self.assertEqual(unknown, set(), child.name)

    def test_defaults_are_values_of_their_kind(self) -> None:
        defaults = Configuration()
        for item in CORE.items():
            value = getattr(defaults, item.target)
            if value is not None and item.kind is not TEXT:
                self.assertEqual(item.kind.convert(item.kind.show(value)), value, item.name)

    def test_a_default_asks_for_nothing(self) -> None:
        """A file that only repeats a default must not be refused."""
        defaults = Configuration()
        for item in CORE.items():
            if item.support is Support.REFUSED:
                self.assertIn(getattr(defaults, item.target), item.unless or (), item.name)
