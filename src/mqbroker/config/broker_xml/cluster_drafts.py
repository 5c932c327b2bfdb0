"""What a file says about other brokers, while it is still being put together: broker.xml first, then what overrides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, int]
"""File and line."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The name of a connector, where it is used."""

    name: str
    place: Place


@dataclass(slots=True)
class Draft:
    """One block: values by dataclass field, and where each was written.

    ``connectors`` and ``static_connectors`` hold a tuple of :class:`Ref`; None as a value counts as not set.
    """

    name: str
    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def at(self, *names: str) -> Place:
        """Where the first of the fields ``names`` that is set was written, or else the block."""
        return next((self.places[name] for name in names if name in self.places), self.place)

    def put(self, name: str, value: Any, place: Place) -> None:
        self.values[name] = value
        self.places[name] = place


@dataclass(slots=True)
class ClusterDrafts:
    """Every block about other brokers, by name; ``diverts`` are among them because they are read alike."""

    broadcast_groups: dict[str, Draft] = field(default_factory=dict)
    discovery_groups: dict[str, Draft] = field(default_factory=dict)
    cluster_connections: dict[str, Draft] = field(default_factory=dict)
    diverts: dict[str, Draft] = field(default_factory=dict)
    bridges: dict[str, Draft] = field(default_factory=dict)
    grouping_handler: Draft | None = None
    scale_down: Draft | None = None
    acceptors: Place = ("", 0)
    """Where the acceptors are."""

    @property
    def used(self) -> bool:
        """Is there any block?"""
        groups = self.broadcast_groups or self.discovery_groups
        return bool(groups or self.cluster_connections or self.diverts or self.bridges or self.grouping_handler or self.scale_down)
