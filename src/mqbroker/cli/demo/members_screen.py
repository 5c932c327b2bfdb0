"""The screen of ``mqbroker demo takeover``: the members with their states, and who has taken over whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqbroker.cli.demo.members import MemberFigures
from mqbroker.cli.demo.screen import Rates, Watcher, clients_table, headline, table
from mqbroker.cli.demo.traffic import Ledger, Worker

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


class MembersScreen:
    """Makes the live picture and the plain lines from the same figures."""

    def __init__(self, watchers: Sequence[Watcher[MemberFigures]], workers: Sequence[Worker], ledger: Ledger) -> None:
        self._watchers = watchers
        self._workers = workers
        self._ledger = ledger
        self._rates = Rates()

    def flowing(self) -> bool:
        """Do all members know each other, and was a message read?"""
        known = [len(watcher.figures.states) for watcher in self._watchers if watcher.figures is not None]
        return known == [len(self._watchers)] * len(self._watchers) and self._ledger.totals()[1] > 0

    def state(self, watcher: Watcher[MemberFigures]) -> str:
        """As the others see it in the database."""
        name = watcher.node.name
        state, taker = next((each.figures.states.get(name, ("", "")) for each in self._watchers if each.figures is not None), ("", ""))
        process = "" if watcher.node.running else "killed, "
        return f"{process}{state or 'starting'}{f' by {taker}' if taker else ''}"

    def line(self, seconds: float) -> str:
        """All figures in one line."""
        sent, read = self._ledger.totals()
        parts = [f"{seconds:6.1f} s: sent {sent}, read {read}, on the way {max(sent - read, 0)}"]
        for watcher in self._watchers:
            has = "" if watcher.figures is None else f", has {watcher.figures.waiting}"
            parts.append(f"{watcher.node.name} {self.state(watcher)}{has}")
        return " | ".join(parts)

    def picture(self, seconds: float, limit: float | None, note: str) -> Group:
        """For a terminal."""
        from rich.console import Group
        from rich.text import Text

        head = headline("takeover", seconds, limit, self._ledger)
        keys = "  ".join(f"{number}: kill or restart {watcher.node.name}" for number, watcher in enumerate(self._watchers))
        clients = clients_table(self._workers, self._rates)
        return Group(head, self._members(), clients, Text(note, "yellow"), Text(f"{keys}  q: end and compare", "dim"))

    def _members(self) -> Table:
        found = table("members", ("broker", "state"), ("messages waiting", "consumers"))
        for watcher in self._watchers:
            figures = watcher.figures
            shown = ("", "") if figures is None else (str(figures.waiting), str(figures.consumers))
            found.add_row(watcher.node.name, self.state(watcher), *shown)
        return found
