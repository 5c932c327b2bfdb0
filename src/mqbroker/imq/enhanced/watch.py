"""The rules by which members count as dead, from their rows in the database [B10.5] (decision 43).  Every clock is given.

A member without a link is a suspect.  It is dead when its *own* last stamp has not changed over several ticks, while this broker itself
could read and write; how old a stamp is says nothing, for the database may have been away for all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mqbroker.storage.shared.brokers import RUNNING, BrokerRow, State


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """``interval`` is that of the ticks (s).  After ``threshold`` ticks with the same stamp a suspect is dead."""

    interval: float
    threshold: int


@dataclass(slots=True)
class _Suspect:
    stamp: int
    ticks: int = 0


class Watch:
    """The suspects of the broker ``own``."""

    def __init__(self, own: str, settings: WatchSettings) -> None:
        self._own = own
        self._settings = settings
        self._suspects: dict[str, _Suspect] = {}
        self._last: float | None = None
        """When the database has answered last."""
        self._calm_from: float = 0
        """Until then no stamp is judged."""

    def tick(self, now: float, rows: Sequence[BrokerRow], linked: Collection[str]) -> list[BrokerRow]:
        """This broker has stamped its own row, and read all ``rows``, at ``now`` (s, of a clock that does not jump).

        ``linked`` are the node ids of the members with a link.  Returns the rows of the members that this broker is to take over now, in
        the order of their ids.
        """
        self._note_answer(now)
        others = [row for row in rows if row.broker != self._own and row.node_id not in linked]
        known = {row.broker for row in others if row.state in RUNNING or row.state is State.SHUTDOWN_FAILOVER}
        self._suspects = {broker: suspect for broker, suspect in self._suspects.items() if broker in known}
        online = [row for row in rows if row.broker == self._own or (row.node_id in linked and row.state is State.OPERATING)]
        return [row for row in others if self._is_dead(row, now) and self._is_my_turn(row, online)]

    def suspects(self) -> Sequence[str]:
        """The ids of those that are watched."""
        return sorted(self._suspects)

    def forget(self, broker: str) -> None:
        """A takeover of it has failed: its ticks begin anew."""
        self._suspects.pop(broker, None)

    def _note_answer(self, now: float) -> None:
        """After a break all ticks begin anew, and nobody is judged before the database has answered for as long as it was away."""
        last, self._last = self._last, now
        if last is not None and now - last > 2 * self._settings.interval:
            self._suspects.clear()
            self._calm_from = now + (now - last)

    def _is_dead(self, row: BrokerRow, now: float) -> bool:
        if row.state not in RUNNING and row.state is not State.SHUTDOWN_FAILOVER:
            return False
        suspect = self._suspects.get(row.broker)
        if suspect is None or suspect.stamp != row.stamp:
            # Nobody has to wait for the stamps of a broker that has said that it ends.
            ticks = self._settings.threshold if row.state is State.SHUTDOWN_FAILOVER else 0
            self._suspects[row.broker] = suspect = _Suspect(row.stamp, ticks)
        elif now >= self._calm_from:
            suspect.ticks += 1
        return suspect.ticks >= self._settings.threshold

    def _is_my_turn(self, row: BrokerRow, online: Sequence[BrokerRow]) -> bool:
        """The member that stands in for it tries first, and each further one a tick later."""
        waited = self._suspects[row.broker].ticks - self._settings.threshold
        return waited >= rank_of(self._own, row, online)


def rank_of(own: str, dead: BrokerRow, online: Sequence[BrokerRow]) -> int:
    """How many of those ``online`` come before ``own`` as takers of ``dead``: 0 for the one after it in the circle of the node ids.

    That is the member that clients were told as the backup (:mod:`mqbroker.cluster.membership.client_view`).
    """
    order = sorted(online, key=lambda row: (row.node_id <= dead.node_id, row.node_id))
    return next((place for place, row in enumerate(order) if row.broker == own), len(order))
