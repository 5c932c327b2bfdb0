"""The wire described once: every packet of the CORE protocol as a ``construct`` declaration (decision 10).

This is the reference.  The tables of ``protocol-spec/`` are made from it and the tests compare the codecs of
:mod:`mqclient.wire.packets` with it, byte by byte.  It needs the extra ``spec`` (construct) and is not imported at run time.

A body is read with :func:`parse` and written with :func:`build`.  Values are a plain dictionary by field name; ``groups`` in it is the
number of optional groups that the packet has.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mqclient.wire.packets.grammar_cluster import CLUSTER
from mqclient.wire.packets.grammar_connection import CONNECTION, GENERIC, SESSION
from mqclient.wire.packets.grammar_homes import HOMES
from mqclient.wire.packets.grammar_messaging import CONSUMERS, DELIVERY, PRODUCERS
from mqclient.wire.packets.grammar_packets import Description, Presence
from mqclient.wire.packets.grammar_queues import QUEUES
from mqclient.wire.packets.grammar_readers import READERS
from mqclient.wire.packets.grammar_sessions import CONTROL, XA

CHAPTERS: Mapping[str, tuple[Description, ...]] = MappingProxyType(
    {
        "connection": CONNECTION,
        "session": SESSION,
        "responses": GENERIC,
        "queues": QUEUES,
        "consumers": CONSUMERS,
        "producers": PRODUCERS,
        "delivery": DELIVERY,
        "control": CONTROL,
        "xa": XA,
        "cluster": CLUSTER,
        "readers": READERS,
        "homes": HOMES,
    }
)
"""The descriptions by the group of packets that they belong to."""

GRAMMAR: Mapping[int, Description] = MappingProxyType({packet.type: packet for packets in CHAPTERS.values() for packet in packets})
"""The description of every packet type."""


def field_names(description: Description) -> list[str]:
    """The names of the fields, in wire order."""
    return [entry.name for entry in description.layout.subcons if not isinstance(entry.subcon, Presence)]


def parse(packet_type: int, body: bytes, version: int) -> dict[str, Any]:
    """The values of a body.  Raises ``construct.ConstructError`` when it is malformed, KeyError for a type that is not described."""
    description = GRAMMAR[packet_type]
    found = description.layout.parse(body, version=version)
    values = {name: found[name] for name in field_names(description)}
    values["groups"] = sum(found[entry.name] for entry in description.layout.subcons if isinstance(entry.subcon, Presence))
    return values


def build(packet_type: int, values: Mapping[str, Any], version: int) -> bytes:
    """The body for ``values`` as a connection of ``version`` carries it."""
    body: bytes = GRAMMAR[packet_type].layout.build(dict(values), version=version)
    return body
