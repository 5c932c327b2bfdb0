"""The table of elements: complete, in step with the dataclasses, and with the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.documentation import render
from mqbroker.config.model.address_settings import FIELD_NAMES
from mqbroker.config.model.configuration import Configuration, MetricsConfiguration, QueueConfiguration
from mqbroker.config.schema.address import ADDRESS_SETTING
from mqbroker.config.schema.blocks import CORE, CORE_BLOCKS, JMS, METRICS, QUEUE
from mqbroker.config.schema.model import Block, Item, Support
from mqbroker.config.schema.transport import ACCEPTOR, CONNECTOR
from mqbroker.config.schema.values import TEXT

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[3] / "docs" / "configuration.md"
NEWER_THAN_THE_SCHEMA = {"disk-full-policy", "journal-lock-acquisition-timeout"}
"""Elements of a later Artemis than the list of names was taken from."""
OWN = {"mqbroker-compress-pages"}
"""Elements that Artemis does not have."""
OLDER_THAN_THE_SCHEMA = {
    "@connector-name",
    "@connector-ref",
    "discovery-initial-wait-timeout",
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


def every_item(block: Block) -> Iterator[Item]:
    yield from block.items()
    for child in block.children:
        if isinstance(child, Block):
            yield from every_item(child)


class TableTests(SynchronousTestCase):
    def schema(self) -> list[str]:
        lines = (HERE.parent / "fixtures" / "schema-names.txt").read_text().splitlines()
        return [line for line in lines if not line.startswith("#")]

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
                unknown -= NEWER_THAN_THE_SCHEMA | OLDER_THAN_THE_SCHEMA
                self.assertEqual(unknown, set(), child.name)

    def test_every_item_has_its_field(self) -> None:
        core = {field.name for field in fields(Configuration)}
        self.assertEqual([item.name for item in CORE.items() if item.target not in core], [])
        self.assertEqual([item.name for item in ADDRESS_SETTING if item.target not in FIELD_NAMES], [])
        self.assertEqual(FIELD_NAMES - {item.target for item in ADDRESS_SETTING}, set())
        self.assertEqual({item.target for item in QUEUE.items()} - {field.name for field in fields(QueueConfiguration)}, set())
        self.assertEqual({item.target for item in METRICS.items()} - {field.name for field in fields(MetricsConfiguration)}, set())

    def test_every_field_has_its_element(self) -> None:
        blocks = {block.name.replace("-", "_") for block in CORE_BLOCKS} | {"resource_limits", "wildcards", "role_mapping", "scale_down"}
        without = {"journal_max_attic_files"}
        known = {item.target for item in CORE.items()} | blocks | without
        self.assertEqual({field.name for field in fields(Configuration)} - known, set())

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

    def test_what_is_not_done_has_a_reason(self) -> None:
        items: list[Item | Block] = [*every_item(CORE), *every_item(JMS), *ACCEPTOR, *CONNECTOR]
        blocks: list[Item | Block] = [block for block in CORE_BLOCKS if block.support is not Support.HONOURED]
        for entry in [*items, *blocks]:
            self.assertTrue(entry.description, entry.name)
            self.assertEqual(bool(entry.reason), entry.support is not Support.HONOURED, entry.name)
            self.assertFalse(entry.reason.endswith("."), entry.name)

    def test_names_are_unique(self) -> None:
        for items in (ACCEPTOR, CONNECTOR, ADDRESS_SETTING, CORE.children):
            names = [item.name for item in items]
            self.assertEqual(len(names), len(set(names)))

    def test_the_documentation_is_up_to_date(self) -> None:
        message = "docs/configuration.md is stale: python -m mqbroker.config.documentation > docs/configuration.md"
        self.assertTrue(DOCUMENT.read_text() == render(), message)

    def test_the_documentation_names_everything(self) -> None:
        text = render()
        for name in self.schema():
            self.assertIn(name.rpartition("/")[2], text)
