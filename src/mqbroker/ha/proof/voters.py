"""The list of voters of a node: a record in its bindings, so that all copies of the node count the same ones (decision 36)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.messaging.event import Event

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Store

VOTERS_KIND = "activation-voters"
"""The kind of the setting that holds the list."""

VOTERS_KEY = "voters"

VOTERS_MAX = 100
"""Voters of a node: more other brokers of the cluster than that are not asked.  Each search asks all of them at once."""

log = Logger(namespace="mqbroker.ha")


def voters_in(settings: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """The list among the settings of a store, as a copy reads it that is not active.  Raises ValueError for one that is damaged."""
    text = settings.get((VOTERS_KIND, VOTERS_KEY))
    if text is None:
        return ()
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise ValueError(f"the list of voters is no list of node ids: {text[:200]}")
    return tuple(found)


class Voters:
    """The list, while this copy is active: node ids join it, and leave it only when they were scaled down or the operator says so.

    The list changes by one node id at a time, and only when the last change is replicated: so of two lists that two copies may have, any
    two majorities have a voter in common.
    """

    def __init__(self, store: Store, node_id: str, settings: Mapping[tuple[str, str], str]) -> None:
        self.members = voters_in(settings)
        """The list as it was handed to the store last: what a search of this copy asks."""
        self.changed: Event[()] = Event()
        """The list has changed."""
        self._store = store
        self._node_id = node_id
        self._wanted: dict[str, bool] = {}
        """Changes to come: does the node id join?  The last word about each counts."""
        self._under_way = False

    def join(self, node_id: str) -> None:
        """Another node of the cluster connection was seen."""
        if node_id != self._node_id:
            self._want(node_id, True)

    def leave(self, node_id: str) -> None:
        """The node was scaled down: it does not come back.  If it does, with its promises, it joins again."""
        if node_id in self.members or node_id in self._wanted:
            self._want(node_id, False)

    def _want(self, node_id: str, joins: bool) -> None:
        if joins and len(self.members) + sum(self._wanted.values()) >= VOTERS_MAX and node_id not in self.members:
            log.warn("{node} is not asked about activations: there are {limit} voters", node=node_id, limit=VOTERS_MAX)
            return
        self._wanted[node_id] = joins
        if not self._under_way:
            self._change()

    def _change(self) -> None:
        self._under_way = False
        while self._wanted and not self._under_way:
            node_id = next(iter(self._wanted))
            joins = self._wanted.pop(node_id)
            if joins is not (node_id in self.members):
                self._put((*self.members, node_id) if joins else tuple(each for each in self.members if each != node_id))

    def _put(self, members: tuple[str, ...]) -> None:
        self.members = members
        self._under_way = True
        batch = self._store.begin()
        batch.put_setting(VOTERS_KIND, VOTERS_KEY, json.dumps(members))
        self._store.when_synced(self._store.commit(batch), self._change)
        self.changed()
