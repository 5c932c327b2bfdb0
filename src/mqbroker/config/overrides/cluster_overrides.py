"""Overriding properties about other brokers: they change the drafts that broker.xml gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mqbroker.config.broker_xml.bean_names import BeanReader, folded
from mqbroker.config.broker_xml.cluster_drafts import ClusterDrafts, Draft, Ref
from mqbroker.config.properties.cluster_beans import (
    BRIDGE_BEANS,
    BROADCAST_BEANS,
    CLUSTER_BEANS,
    DISCOVERY_BEANS,
    DIVERT_BEANS,
    GROUPING_BEANS,
    REFS,
    SCALE_DOWN_BEANS,
)
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.cluster import NO_HA
from mqbroker.config.schema.model import Item

_ENDPOINTS = ("endpointfactory", "broadcastendpointfactory", "endpointfactoryconfiguration", "broadcastendpointfactoryconfiguration")
_TRANSFORMER = "transformerConfiguration"


class ClusterOverrides:
    """Applies entries to ``drafts``."""

    def __init__(self, drafts: ClusterDrafts, beans: BeanReader) -> None:
        self._drafts = drafts
        self._beans = beans

    def families(self) -> dict[str, Callable[[Entry], None]]:
        """What is done with an entry, by the first name of its key."""
        drafts = self._drafts
        named: tuple[tuple[str, dict[str, Draft], Sequence[Item]], ...] = (
            ("clusterConfigurations", drafts.cluster_connections, CLUSTER_BEANS),
            ("bridgeConfigurations", drafts.bridges, BRIDGE_BEANS),
            ("divertConfigurations", drafts.diverts, DIVERT_BEANS),
            ("broadcastGroupConfigurations", drafts.broadcast_groups, BROADCAST_BEANS),
            ("discoveryGroupConfigurations", drafts.discovery_groups, DISCOVERY_BEANS),
        )
        handlers: dict[str, Callable[[Entry], None]] = {name: partial(self._named, known, items) for name, known, items in named}
        return {**handlers, "groupingHandlerConfiguration": self._grouping, "HAPolicyConfiguration": self._ha}

    def _named(self, known: dict[str, Draft], items: Sequence[Item], entry: Entry) -> None:
        expected = f"{entry.path[0]}.name.property"
        if not self._beans.long_enough(entry, 2, expected):
            return
        name = entry.path[1]
        if len(entry.path) == 2 and entry.removes:
            known.pop(name, None)
            return
        draft = known.get(name)
        if draft is None:
            draft = known[name] = Draft(name, (entry.file, entry.line))
        if not self._beans.long_enough(entry, 3, expected):
            return
        more = entry.path[2:]
        if folded(more[0]) in _ENDPOINTS and len(more) == 2:
            more = more[1:]
        if folded(more[0]) == folded(_TRANSFORMER) and known is not self._drafts.cluster_connections:
            self._transformer(draft, entry)
        elif len(more) > 1:
            self._beans.unknown(entry, ".".join(more), [])
        elif folded(more[0]) != "name":
            self._set(draft, entry, more[0], items, (_TRANSFORMER,) if "filter_string" in {item.target for item in items} else ())

    def _set(self, draft: Draft, entry: Entry, name: str, items: Sequence[Item], more: Sequence[str] = ()) -> None:
        place = (entry.file, entry.line)
        found = self._beans.value(entry, name, items, more)
        if found is None:
            return
        field_name, value = found
        draft.put(field_name, tuple(Ref(each, place) for each in value) if field_name in REFS else value, place)
        if field_name == "filter_string":
            self._beans.filter(entry)

    def _transformer(self, draft: Draft, entry: Entry) -> None:
        place, rest = (entry.file, entry.line), entry.path[3:]
        if len(rest) == 1 and folded(rest[0]) == "classname":
            draft.put("transformer_class_name", entry.value or None, place)
        elif len(rest) == 2 and folded(rest[0]) == "properties":
            draft.put("transformer_properties", {**draft.values.get("transformer_properties", {}), rest[1]: entry.value}, place)
        else:
            self._beans.error(entry, f"{'.'.join(entry.path)}: expected {_TRANSFORMER}.className or {_TRANSFORMER}.properties.key")

    def _grouping(self, entry: Entry) -> None:
        if entry.removes and len(entry.path) == 1:
            self._drafts.grouping_handler = None
        elif self._beans.long_enough(entry, 2, f"{entry.path[0]}.property"):
            if self._drafts.grouping_handler is None:
                self._drafts.grouping_handler = Draft("", (entry.file, entry.line))
            draft = self._drafts.grouping_handler
            self._set(draft, entry, entry.path[1], GROUPING_BEANS)
            draft.name = draft.values.pop("name", draft.name)

    def _ha(self, entry: Entry) -> None:
        if len(entry.path) == 1:
            if folded(entry.value) not in ("primaryonly", "liveonly"):
                self._beans.error(entry, f"{entry.path[0]} ({entry.value}) cannot be used: {NO_HA}; expected PRIMARY_ONLY")
            return
        expected = f"{entry.path[0]}.scaleDownConfiguration.property"
        if folded(entry.path[1]) != "scaledownconfiguration":
            self._beans.unknown(entry, entry.path[1], ["scaleDownConfiguration"])
        elif len(entry.path) == 2 and entry.removes:
            self._drafts.scale_down = None
        elif self._beans.long_enough(entry, 3, expected):
            if self._drafts.scale_down is None:
                self._drafts.scale_down = Draft("", (entry.file, entry.line))
            self._set(self._drafts.scale_down, entry, entry.path[2], SCALE_DOWN_BEANS)
