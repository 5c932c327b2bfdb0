"""The screen of ``mqbroker demo takeover``: the members with their states, and who has taken over whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.cli.demo.members import MemberFigures
from mqbroker.cli.demo.screen import Screen, Watcher, table

if TYPE_CHECKING:
    from rich.table import Table


class MembersScreen(Screen[MemberFigures]):
    """The members of an enhanced cluster."""

    demo = "takeover"

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

    def _states(self) -> list[str]:
        parts = []
        for watcher in self._watchers:
            has = "" if watcher.figures is None else f", has {watcher.figures.waiting}"
            parts.append(f"{watcher.node.name} {self.state(watcher)}{has}")
        return parts

    def _tables(self) -> list[Table]:
        found = table("members", ("broker", "state"), ("messages waiting", "consumers"))
        for watcher in self._watchers:
            figures = watcher.figures
            shown = ("", "") if figures is None else (str(figures.waiting), str(figures.consumers))
            found.add_row(watcher.node.name, self.state(watcher), *shown)
        return [found]
