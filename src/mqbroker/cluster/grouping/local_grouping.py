"""The LOCAL grouping handler: the one broker of a cluster that decides, and keeps its decisions over restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from mqbroker.cluster.grouping.grouping import (
    DECISIONS_MAX,
    PROPOSAL,
    PROPOSAL_RESPONSE,
    UNPROPOSAL,
    GroupingHandler,
    Pending,
    Place,
    Properties,
    Proposal,
)
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.messaging.ports import Cancellable
from mqclient.wire.properties import NULL, STRING

KEPT_KIND = "group-decision"
"""The kind of the store's settings for decisions: key of the group, and name of the queue as a JSON text."""

REAPED_AT_ONCE = 500
"""Decisions that are forgotten in one turn."""


class _Decision:
    """``used``: last use, ``missed``: when the queue was first found missing (monotonic, seconds); None while the queue is there."""

    __slots__ = ("missed", "name", "used")

    def __init__(self, name: str, used: float) -> None:
        self.name = name
        self.used = used
        self.missed: float | None = None


class LocalGrouping(GroupingHandler):
    """The handler that decides.  ``kept`` are the decisions in the store, by key."""

    def __init__(self, configuration: GroupingHandlerConfiguration, place: Place, kept: Mapping[str, str]) -> None:
        super().__init__(configuration, place)
        now = self.clock.monotonic()
        self._decisions: dict[str, _Decision] = {}
        self._by_name: dict[str, dict[str, None]] = {}
        for key, text in kept.items():
            name = json.loads(text)
            if isinstance(name, str):
                self._add(key, _Decision(name, now))
        self._doubted: set[str] = set()
        self._timer: Cancellable | None = None
        self._rivals: set[str] = set()

    # --- decisions

    def decide(self, key: str, choose: Callable[[], str | None]) -> str | Pending | None:
        decision = self._valid(key)
        if decision is not None:
            self._use(key, decision)
            return decision.name if decision.missed is None else self._wait_until_found(key, decision)
        name = choose()
        if name is not None:
            self._decide(key, name)
            # Sent although no other broker has asked: a second LOCAL handler notices it.
            self.core.store.when_synced(self.ticket, self._answer, key, name)
        return name

    def _valid(self, key: str) -> _Decision | None:
        """The decision about a group; a decision whose queue was missing for the timeout is forgotten."""
        decision = self._decisions.get(key)
        if decision is None or self.bound(decision.name):
            if decision is not None:
                decision.missed = None
            return decision
        now = self.clock.monotonic()
        if decision.missed is None:
            decision.missed = now
        elif now - decision.missed >= self._timeout - 0.001:
            self._warn(f"the queue {decision.name} of the group {key} no longer exists: the group is decided again")
            self._forget(key)
            return None
        return decision

    def _decide(self, key: str, name: str) -> None:
        batch = self.core.store.begin()
        batch.put_setting(KEPT_KIND, key, json.dumps(name))
        self._add(key, _Decision(name, self.clock.monotonic()))
        self.ticket = self.core.store.commit(batch)
        if len(self._decisions) > DECISIONS_MAX:
            self._warn(f"more than {DECISIONS_MAX} groups are decided: the least recently used ones are forgotten")
            self._forget(next(iter(self._decisions)))

    def _add(self, key: str, decision: _Decision) -> None:
        self._decisions[key] = decision
        self._by_name.setdefault(decision.name, {})[key] = None

    def _use(self, key: str, decision: _Decision) -> None:
        decision.used = self.clock.monotonic()
        del self._decisions[key]
        self._decisions[key] = decision

    def _forget(self, key: str) -> None:
        """Forget a decision, here, in the store and everywhere."""
        decision = self._decisions.pop(key)
        keys = self._by_name[decision.name]
        keys.pop(key, None)
        if not keys:
            del self._by_name[decision.name]
        batch = self.core.store.begin()
        batch.delete_setting(KEPT_KIND, key)
        self.ticket = self.core.store.commit(batch)
        self._tell(UNPROPOSAL, key, decision.name)
        self._resolve(key)

    # --- queues that are missing

    def _wait_until_found(self, key: str, decision: _Decision) -> Pending:
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = Pending(decision.name)
            self._wait_for(key, pending, decision.name)
            missed = decision.missed if decision.missed is not None else self.clock.monotonic()
            self._start_timer(key, pending, max(missed + self._timeout - self.clock.monotonic(), 0.0))
        return pending

    def _found(self, key: str, name: str) -> None:
        self._resolve(key)

    def _late(self, key: str) -> None:
        self._valid(key)
        self._resolve(key)

    def _removed(self, name: str) -> None:
        if name in self._by_name and name not in self._doubted:
            # Another way to the same queue may follow at once.
            self._doubted.add(name)
            self.clock.call_later(0, self.core.turn.run, self._forget_removed, name)

    def _forget_removed(self, name: str) -> None:
        self._doubted.discard(name)
        if self.bound(name):
            return
        keys = list(self._by_name.get(name, ()))
        for key in keys[:REAPED_AT_ONCE]:
            self._forget(key)
        if len(keys) > REAPED_AT_ONCE:
            self._removed(name)

    # --- the other handlers

    def told(self, kind: str, properties: Properties, node_id: str) -> None:
        proposal = Proposal(properties)
        if kind == PROPOSAL:
            self._proposed(proposal.key, proposal.value)
        elif kind == UNPROPOSAL:
            # The other broker does not know the queue; this one may.
            if self.decided(proposal.key) == proposal.value and not self.bound(proposal.value):
                self._forget(proposal.key)
        elif proposal.distance == 0 and node_id not in self._rivals:
            self._rivals.add(node_id)
            self._warn(
                f"node {node_id} has a LOCAL grouping handler, too: groups are not kept together. "
                "Exactly one broker of a cluster has <type>LOCAL</type>, the others have REMOTE"
            )

    def _proposed(self, key: str, value: str) -> None:
        decision = self._valid(key)
        if decision is None:
            self._decide(key, value)
        else:
            self._use(key, decision)
        self.core.store.when_synced(self.ticket, self._answer, key, value)

    def _answer(self, key: str, value: str) -> None:
        """The decision is durable: announce it, unless it was forgotten meanwhile."""
        name = self.decided(key)
        if name is not None:
            self._tell(PROPOSAL_RESPONSE, key, value, (NULL, None) if name == value else (STRING, name))

    # --- life

    def start(self) -> None:
        if self.configuration.group_timeout > 0:
            self._timer = self.clock.call_later(self.configuration.reaper_period / 1000, self.core.turn.run, self._reap)

    def _reap(self) -> None:
        """Forget decisions that were not used for the group timeout."""
        oldest = self.clock.monotonic() - self.configuration.group_timeout / 1000
        count = 0
        while self._decisions and count < REAPED_AT_ONCE:
            key, decision = next(iter(self._decisions.items()))
            if decision.used > oldest:
                break
            self._forget(key)
            count += 1
        pause = 0 if count == REAPED_AT_ONCE else self.configuration.reaper_period / 1000
        self._timer = self.clock.call_later(pause, self.core.turn.run, self._reap)

    def stop(self) -> None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()
