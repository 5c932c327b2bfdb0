"""Entries that several parts of the table have."""

from __future__ import annotations

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Block, honoured

PROPERTY = Block(
    "property",
    "A property of the Java class.",
    attributes=(honoured("key", kinds.FILLED_TEXT, "Name.", required=True), honoured("value", kinds.TEXT, "Value.", required=True)),
    repeated=True,
)
NAME = honoured("name", kinds.FILLED_TEXT, "Name.", required=True)
FILTER_STRING = honoured("filter-string", kinds.OPTIONAL_TEXT, "Only messages that match.")


def filter_block(name: str, description: str) -> Block:
    """An element whose attribute ``string`` is a filter of the element around it."""
    string = honoured("string", kinds.TEXT, "The filter.", required=True)
    return Block(name, description, attributes=(string,), gives=FILTER_STRING)
