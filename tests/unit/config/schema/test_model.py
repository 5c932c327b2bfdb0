"""The items of the table, and the fields that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from mqbroker.config.model.address_elements import ADDRESS_SETTING
from mqbroker.config.model.address_settings import FIELD_NAMES
from mqbroker.config.model.blocks import CORE, CORE_BLOCKS, JMS, METRICS, QUEUE
from mqbroker.config.model.configuration import Configuration, MetricsConfiguration, QueueConfiguration
from mqbroker.config.model.transport_elements import ACCEPTOR, CONNECTOR
from mqbroker.config.schema.model import Block, Item, Support
from tests.unit.config.model.test_blocks import TableCase


def every_item(block: Block) -> Iterator[Item]:
    yield from block.items()
    for child in block.children:
        if isinstance(child, Block):
            yield from every_item(child)


class ItemTests(TableCase):
    def test_every_item_has_its_field(self) -> None:
        core = {field.name for field in fields(Configuration)}
        self.assertEqual([item.name for item in CORE.items() if item.target not in core], [])
        self.assertEqual([item.name for item in ADDRESS_SETTING if item.target not in FIELD_NAMES], [])
        self.assertEqual(FIELD_NAMES - {item.target for item in ADDRESS_SETTING}, set())
        self.assertEqual({item.target for item in QUEUE.items()} - {field.name for field in fields(QueueConfiguration)}, set())
        self.assertEqual({item.target for item in METRICS.items()} - {field.name for field in fields(MetricsConfiguration)}, set())

    def test_every_field_has_its_element(self) -> None:
        blocks = {block.name.replace("-", "_") for block in CORE_BLOCKS} | {
            "resource_limits",
            "wildcards",
            "role_mapping",
            "scale_down",
            "database_store",
            "automatic_settings",  # from the properties of OpenMQ
            "home_cluster",  # as well
            "shared_store",
            "colocated",
            "replication",
            "hosted",
            "has_ha_policy",
        }
        known = {item.target for item in CORE.items()} | blocks
        self.assertEqual({field.name for field in fields(Configuration)} - known, set())

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
