"""The report that ``mqbroker data merge`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.merge.comparison import Comparison, Found
from mqbroker.cli.data.merge.sending import Plan, Sendable
from mqbroker.cli.data.merge.split import Split
from mqbroker.cli.output import table
from mqclient.wire.message import user_id_text


@dataclass(slots=True)
class Report:
    """All that was found out, and done: ``sent`` is None after a dry run."""

    folders: DataFolders
    split: Split
    comparison: Comparison
    plan: Plan
    with_undecided: bool
    sent: int | None

    @property
    def _unsendable(self) -> list[Found]:
        return [*self.comparison.unsendable, *self.plan.unsendable]

    @property
    def _undecided(self) -> list[Found]:
        return [] if self.with_undecided else self.comparison.undecided

    @property
    def _queues(self) -> list[str]:
        found = self.comparison
        return sorted({*found.both, *found.only_kept, *found.only_running})

    def as_json(self) -> dict[str, Any]:
        found = self.comparison
        return {
            "kept": str(self.folders.journal),
            "commonPart": self.split.common.whole,
            "missing": _sendables(self.plan.to_send),
            "alreadyThere": _sendables(self.plan.known),
            "undecided": [_described(each) for each in self._undecided],
            "unsendable": [_described(each) for each in self._unsendable],
            "inBoth": found.shared,
            "consumed": {
                name: {"both": found.both.get(name, []), "onlyKept": found.only_kept[name], "onlyRunning": found.only_running[name]}
                for name in self._queues
            },
            "consumedPages": self.split.common.unread_pages,
            "sent": self.sent,
        }

    def print(self, verbose: bool) -> None:
        found, common = self.comparison, self.split.common
        click.echo(f"Kept journal: {self.folders.journal}")
        if not common.whole:
            click.echo("The running broker has no longer all of the journal that both had at the split, so the lists are not complete.")
        click.echo(f"Messages in both: {found.shared}")
        for title, messages in (
            ("MISSING", [each.found for each in self.plan.to_send]),
            ("ALREADY THERE", [each.found for each in self.plan.known] if verbose else []),
            ("UNDECIDED", self._undecided),
            ("NOT SENT", self._unsendable),
        ):
            for each in messages:
                click.echo(f"{title} {_line(each)}")
        if self._queues:
            rows = [
                (name, str(len(found.both.get(name, ()))), str(found.only_kept[name]), str(found.only_running[name]))
                for name in self._queues
            ]
            click.echo(table(("QUEUE", "CONSUMED_IN BOTH", "ONLY IN_KEPT", "ONLY IN_RUNNING"), rows, left=1))
        if verbose:
            for name, message_ids in found.both.items():
                click.echo(f"CONSUMED IN BOTH from {name}: {', '.join(map(str, message_ids))}")
        if common.unread_pages:
            click.echo(f"Pages whose messages were all consumed in both: {common.unread_pages}")
        if self.plan.known:
            click.echo(f"Already there, by their duplicate ids: {len(self.plan.known)} messages")
        if self._undecided:
            click.echo(f"Undecided: {len(self._undecided)} messages, which --include-undecided sends, too")
        if self.sent is None:
            click.echo(f"Dry run: {len(self.plan.to_send)} messages would be sent; --send sends them")
        else:
            click.echo(f"sent {self.sent} messages")


def _sendables(messages: Sequence[Sendable]) -> list[dict[str, Any]]:
    return [_described(each.found) for each in messages]


def _described(found: Found) -> dict[str, Any]:
    content = found.content()
    described: dict[str, Any] = {
        "messageID": found.message_id,
        "address": found.record.address or content.address,
        "queues": [queue.name for queue in found.queues],
        "timestamp": content.timestamp,
        "priority": content.priority,
        "userID": None if content.user_id is None else user_id_text(content.user_id),
        "bodySize": len(content.body) if found.record.body_id is None else found.record.body_size,
    }
    return described | ({"reason": found.reason} if found.reason else {})


def _line(found: Found) -> str:
    described = _described(found)
    user_id = "" if described["userID"] is None else f", user id {described['userID']}"
    text = f"message {found.message_id} on {', '.join(described['queues'])}: {described['bodySize']} bytes{user_id}"
    return f"{text}: {found.reason}" if found.reason else text
