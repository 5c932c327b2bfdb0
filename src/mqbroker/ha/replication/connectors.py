"""A connector as a text, for the notes that copies keep of each other."""

from __future__ import annotations

import json

from mqclient.wire.primitives import TransportConfiguration


def connector_text(connector: TransportConfiguration) -> str:
    """The text by which :func:`connector_of` finds the connector again."""
    return json.dumps([connector.name, connector.factory_class_name, [[key, str(value)] for key, value in connector.parameters]])


def connector_of(text: str) -> TransportConfiguration:
    """Raises ValueError for a text that :func:`connector_text` has not made."""
    try:
        name, factory, parameters = json.loads(text)
        pairs = tuple((key, value) for key, value in parameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{text[:100]!r} is no connector") from error
    if not all(isinstance(each, str) for each in (name, factory, *(part for pair in pairs for part in pair))):
        raise ValueError(f"{text[:100]!r} is no connector: expected texts")
    return TransportConfiguration(name, factory, pairs)
