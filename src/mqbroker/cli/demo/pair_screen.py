"""The screen of ``mqbroker demo failover``: who is active, the copy, the clients, and the timeline so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqbroker.cli.demo.brokers import QUEUE
from mqbroker.cli.demo.pair import Pair
from mqbroker.cli.demo.screen import Screen, Watcher, table
from mqbroker.cli.demo.timeline import Timeline
from mqbroker.cli.demo.traffic import Ledger, Worker

if TYPE_CHECKING:
    from rich.table import Table

    from mqbroker.cli.management import Management

KEYS = "k: kill the active broker  p: pause it  c: cut the brokers apart  f: fill the replica's disk  r: restart, mend everything"


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer of the active broker; ``behind``: bytes that its replica was sent and has not answered, -1 without one."""

    sequence: int
    in_sync: bool
    behind: int
    waiting: int

    @property
    def replica(self) -> str:
        if self.behind < 0:
            return "no replica"
        return f"replica {'in sync' if self.in_sync else 'copies'}, {self.behind} B behind"


def pair_figures(broker: Management) -> Figures:
    sequence, in_sync, behind = (broker.attribute("broker", name) for name in ("ActivationSequence", "ReplicaSync", "ReplicaBehind"))
    return Figures(int(sequence), bool(in_sync), int(behind), int(broker.attribute(f"queue.{QUEUE}", "MessageCount")))


class PairScreen(Screen[Figures]):
    """The brokers of a pair, and what has happened to them.  ``watchers`` are those of the pair's members, in their order."""

    demo = "failover"

    def __init__(
        self, pair: Pair, watchers: Sequence[Watcher[Figures]], workers: Sequence[Worker], ledger: Ledger, timeline: Timeline
    ) -> None:
        super().__init__(watchers, workers, ledger)
        self._pair = pair
        self._timeline = timeline

    def flowing(self) -> bool:
        """Is a replica in sync, and was a message read?"""
        figures = [watcher.figures for watcher in self._watchers if watcher.figures is not None]
        return any(each.in_sync for each in figures) and self._ledger.reads > 0

    def _flow(self, sent: int, read: int) -> str:
        return f"{self._rates.of('sent', sent):.0f} and {self._rates.of('read', read):.0f} a second"

    def _states(self) -> list[str]:
        parts = []
        for member, watcher in zip(self._pair.members, self._watchers, strict=True):
            figures = watcher.figures if member.active else None
            shown = "" if figures is None else f", sequence {figures.sequence}, {figures.replica}"
            parts.append(f"{member.name} {member.state}{shown}")
        return parts + ["cut apart"] * self._pair.apart

    def _past(self) -> list[str]:
        return self._timeline.lines()

    def _keys(self) -> str:
        return KEYS

    def _tables(self) -> list[Table]:
        network = "cut" if self._pair.apart else "whole"
        found = table(f"brokers; the network between them is {network}", ("broker", "state", "copy"), ("sequence", "messages waiting"))
        colours = {"active": "green", "in sync": "green", "killed": "red", "paused": "red"}
        for member, watcher in zip(self._pair.members, self._watchers, strict=True):
            figures, state = watcher.figures if member.active else None, member.state
            shown = ("", "", "") if figures is None else (figures.replica, str(figures.sequence), str(figures.waiting))
            found.add_row(member.name, f"[{colours.get(state, 'yellow')}]{state}[/]", *shown)
        found.add_row(self._pair.voter.name, "[green]running[/]", "", "", "")
        return [found]
