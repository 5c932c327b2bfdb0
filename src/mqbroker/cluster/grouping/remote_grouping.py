"""The REMOTE grouping handler: proposes queues for groups to the LOCAL one, and knows its decisions."""

from __future__ import annotations

from collections.abc import Callable

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
from mqclient.wire.properties import NULL, STRING, TypedValue

PASSED_ON_MAX = 10_000
"""Notifications about groups that are remembered, so that they are not passed on again when they come by another way."""

ROUNDS_MAX = 10
"""Times that a proposal is made, each time with the timeout of the handler, before messages go on without a decision."""


ASKING_MAX = 100
"""Groups of one broker that ask a LOCAL grouping handler that has not answered; others go on without a decision, until it answers again."""


class _Known:
    """``at``: when the LOCAL handler was asked last (monotonic, seconds).

    ``confirmed`` is false after notifications may have been missed.  ``alone``: the choice of this broker, made without a decision.
    """

    __slots__ = ("alone", "at", "confirmed", "name")

    def __init__(self, name: str, at: float, *, alone: bool = False) -> None:
        self.name = name
        self.at = at
        self.confirmed = True
        self.alone = alone


class RemoteGrouping(GroupingHandler):
    """The handler that asks.

    Once no proposal about a group was answered in all rounds, other groups do not wait until the LOCAL handler answers again.
    """

    def __init__(self, configuration: GroupingHandlerConfiguration, place: Place) -> None:
        super().__init__(configuration, place)
        self._decisions: dict[str, _Known] = {}
        self._passed_on: dict[tuple[str, str, str, TypedValue | None], float] = {}
        """Notifications passed on to members further away, and when (monotonic, seconds)."""
        self._deserted = False
        self._told_of_desertion = False
        self._local: str | None = None
        """Node id of the member with the LOCAL handler; None while unknown, and where it is further away than one link."""
        period = configuration.group_timeout / 2000
        self._keep_alive = period if period > 0 else float("inf")

    # --- routing

    def decide(self, key: str, choose: Callable[[], str | None]) -> str | Pending | None:
        known = self._decisions.get(key)
        if known is not None and self.bound(known.name):
            asks = known.alone or self.clock.monotonic() - known.at >= self._keep_alive
            if asks and key not in self._pending and self._may_ask:
                known.at = self.clock.monotonic()
                self._propose(key, known.name)
            if known.confirmed:
                self._use(key, known)
                if known.alone:
                    self.messages_ungrouped += 1
                return known.name
        pending = self._pending.get(key)
        if pending is None:
            name = known.name if known is not None and self.bound(known.name) else choose()
            if name is None:
                return None
            if not self._may_ask:
                if known is None or known.name != name:
                    self._learn(key, _Known(name, self.clock.monotonic(), alone=True))
                self.messages_ungrouped += 1
                return name
            pending = self._propose(key, name)
        if self._deserted and self.bound(pending.name):
            self.messages_ungrouped += 1
            return pending.name
        return pending

    @property
    def _may_ask(self) -> bool:
        return not self._deserted or len(self._pending) < ASKING_MAX

    def _use(self, key: str, known: _Known) -> None:
        self._decisions.pop(key, None)
        self._decisions[key] = known

    def _learn(self, key: str, known: _Known) -> None:
        self._use(key, known)
        if len(self._decisions) > DECISIONS_MAX:
            # The LOCAL handler can be asked again.
            del self._decisions[next(iter(self._decisions))]

    # --- proposals

    def _propose(self, key: str, name: str) -> Pending:
        pending = self._pending[key] = Pending(name)
        self._start_timer(key, pending, self._timeout)
        self._tell(PROPOSAL, key, name)
        return pending

    def _late(self, key: str) -> None:
        pending = self._pending[key]
        pending.rounds += 1
        known = self._decisions.get(key)
        if known is not None and not known.confirmed:
            # The old decision is the best one known: no other came.
            known.confirmed = True
            self._resolve(key)
        elif pending.rounds >= ROUNDS_MAX:
            self._give_up(key, pending)
        elif not self.bound(pending.name):
            self._resolve(key)
        else:
            if pending.awaited is not None:
                self._tell(UNPROPOSAL, key, pending.awaited)
                self._forget_awaited(key, pending)
            self._start_timer(key, pending, self._timeout)
            self._tell(PROPOSAL, key, pending.name)

    def _give_up(self, key: str, pending: Pending) -> None:
        known = self._decisions.get(key)
        if known is not None and self.bound(known.name):
            known.at = self.clock.monotonic()
            known.alone = known.alone or pending.awaited is not None
        else:
            self._learn(key, _Known(pending.name, self.clock.monotonic(), alone=True))
        if pending.awaited is not None:
            self._warn(f"the group {key} belongs to the queue {pending.awaited}, which is not known here: it is routed without grouping")
        else:
            self._deserted = True
            if not self._told_of_desertion:
                self._told_of_desertion = True
                self._warn(
                    f"no LOCAL grouping handler has answered about the group {key}: messages are routed without grouping until one does. "
                    "Exactly one broker of the cluster must have a grouping-handler with <type>LOCAL</type>, and must run"
                )
        self._resolve(key)

    def repeat(self) -> None:
        for key, pending in list(self._pending.items()):
            if pending.awaited is None:
                self._tell(PROPOSAL, key, pending.name)

    def linked(self, node_id: str) -> None:
        """Decisions may have been missed: the LOCAL handler is asked about each group before its decision is used again.

        Each link may be a part of the way to a LOCAL handler that is further away.
        """
        if self._local is None or node_id == self._local:
            for known in self._decisions.values():
                known.confirmed = False
            self.repeat()

    def _found(self, key: str, name: str) -> None:
        self._learn(key, _Known(name, self.clock.monotonic()))
        self._resolve(key)

    # --- the other handlers

    def told(self, kind: str, properties: Properties, node_id: str) -> None:
        proposal = Proposal(properties)
        key, distance = proposal.key, proposal.distance + 1
        if kind == PROPOSAL:
            self._pass_on(PROPOSAL, key, proposal.value, None, distance)
        elif kind == UNPROPOSAL:
            known = self._decisions.get(key)
            if known is not None and known.name == proposal.value:
                del self._decisions[key]
            self._pass_on(UNPROPOSAL, key, proposal.value, None, distance)
        elif kind == PROPOSAL_RESPONSE:
            if not proposal.distance:
                self._local = node_id
            self._deserted = self._told_of_desertion = False
            self._answered(key, proposal.answer)
            alternative: TypedValue = (NULL, None) if proposal.answer == proposal.value else (STRING, proposal.answer)
            self._pass_on(PROPOSAL_RESPONSE, key, proposal.value, alternative, distance)

    def _pass_on(self, kind: str, key: str, value: str, alternative: TypedValue | None, distance: int) -> None:
        """Tell members further away; a notification that came by several ways is passed on once."""
        now = self.clock.monotonic()
        told = kind, key, value, alternative
        if now - self._passed_on.get(told, float("-inf")) < self._timeout / 2:
            return
        if len(self._passed_on) >= PASSED_ON_MAX:
            self._passed_on.clear()
        self._passed_on[told] = now
        self._tell(kind, key, value, alternative, distance)

    def _answered(self, key: str, name: str) -> None:
        pending = self._pending.get(key)
        if pending is None or self.bound(name):
            self._found(key, name)
        elif pending.awaited != name:
            self._forget_awaited(key, pending)
            self._wait_for(key, pending, name)
