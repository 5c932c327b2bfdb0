"""The screen of ``mqbroker demo failover``: who is active, the copy, the clients, and the timeline so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqbroker.cli.demo.brokers import QUEUE
from mqbroker.cli.demo.pair import Pair
from mqbroker.cli.demo.screen import Rates, Watcher, clients_table, headline, table
from mqbroker.cli.demo.timeline import Timeline
from mqbroker.cli.demo.traffic import Ledger, Worker

if TYPE_CHECKING:
    from rich.console import Group
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


class PairScreen:
    """Makes the live picture and the plain lines from the same figures.  ``watchers`` are those of the pair's members, in their order."""

    def __init__(
        self, pair: Pair, watchers: Sequence[Watcher[Figures]], workers: Sequence[Worker], ledger: Ledger, timeline: Timeline
    ) -> None:
        self._pair = pair
        self._watchers = watchers
        self._workers = workers
        self._ledger = ledger
        self._timeline = timeline
        self._rates = Rates()

    def flowing(self) -> bool:
        """Is a replica in sync, and was a message read?"""
        figures = [watcher.figures for watcher in self._watchers if watcher.figures is not None]
        return any(each.in_sync for each in figures) and self._ledger.reads > 0

    def line(self, seconds: float) -> str:
        sent, read = self._ledger.totals()
        rates = f"{self._rates.of('sent', sent):.0f} and {self._rates.of('read', read):.0f} a second"
        parts = [f"{seconds:6.1f} s: sent {sent}, read {read}, {rates}"]
        for member, watcher in zip(self._pair.members, self._watchers, strict=True):
            figures = watcher.figures if member.active else None
            shown = "" if figures is None else f", sequence {figures.sequence}, {figures.replica}"
            parts.append(f"{member.name} {member.state}{shown}")
        return " | ".join(parts + ["cut apart"] * self._pair.apart)

    def picture(self, seconds: float, limit: float | None, note: str) -> Group:
        from rich.console import Group
        from rich.text import Text

        head = headline("failover", seconds, limit, self._ledger)
        clients = clients_table(self._workers, self._rates)
        past = [Text(line, "cyan") for line in self._timeline.lines()]
        return Group(head, self._brokers(), clients, *past, Text(note, "yellow"), Text(f"{KEYS}  q: end and compare", "dim"))

    def _brokers(self) -> Table:
        network = "cut" if self._pair.apart else "whole"
        found = table(f"brokers; the network between them is {network}", ("broker", "state", "copy"), ("sequence", "messages waiting"))
        colours = {"active": "green", "in sync": "green", "killed": "red", "paused": "red"}
        for member, watcher in zip(self._pair.members, self._watchers, strict=True):
            figures, state = watcher.figures if member.active else None, member.state
            shown = ("", "", "") if figures is None else (figures.replica, str(figures.sequence), str(figures.waiting))
            found.add_row(member.name, f"[{colours.get(state, 'yellow')}]{state}[/]", *shown)
        found.add_row(self._pair.voter.name, "[green]running[/]", "", "", "")
        return found
