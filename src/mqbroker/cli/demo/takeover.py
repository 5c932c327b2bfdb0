"""``mqbroker demo takeover``: an enhanced cluster under load, a broker that is killed, and the proof that no message is lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from mqbroker.cli.demo.running import Run, at_work, checked, demonstrate, end, run_options, show, steps_at_thirds, toggled

if TYPE_CHECKING:
    from mqbroker.cli.demo.members import Members

MEMBERS: Final = 3
_KILLED: Final = ": another member takes over its messages and its clients"
_STARTED: Final = "; its messages stay with the taker"


@click.command(epilog="Example: mqbroker demo takeover --seconds 30 --kill")
@run_options
@click.option("--kill", is_flag=True, help="Kill b0 after a third of --seconds, and start it again after two thirds.")
def takeover(seconds: float | None, plain: bool, kill: bool) -> None:
    """Show what an enhanced cluster of three brokers does.

    The demonstration starts three brokers on one file of SQLite, on this machine, on free ports of 127.0.0.1 and with their data in a
    temporary folder, and two producers and two consumers with exactlyOnce=true in their URL. The keys 0, 1 and 2 kill a broker, as a crash
    would, and start it again: another one takes over its messages and its clients, and it comes back without them.

    At the end the sequence numbers of all messages that were sent are compared with those that were read: status 0 means that no message
    is missing and none came twice.
    """
    steps = steps_at_thirds("--kill", seconds, "0", "0") if kill else []
    from mqbroker.cli.demo.members import Members

    demonstrate("three brokers", lambda: Members(MEMBERS), lambda members: _show(members, seconds, plain, steps))


def _show(members: Members, seconds: float | None, plain: bool, steps: Sequence[tuple[float, str]]) -> str:
    from mqbroker.cli.demo.members import member_figures
    from mqbroker.cli.demo.members_screen import MembersScreen
    from mqbroker.cli.demo.screen import Watcher
    from mqbroker.cli.demo.traffic import Consumer, Ledger, Producer

    homes = [member.home for member in members.members]
    ledger = Ledger()
    producers = [Producer("quick", homes[0], ledger, 40), Producer("steady", homes[1], ledger, 15)]
    consumers = [Consumer("one", homes[1], ledger, 40), Consumer("two", homes[2], ledger, 40)]
    workers = [*producers, *consumers]
    watchers = [Watcher(member, member_figures) for member in members.members]
    screen = MembersScreen(watchers, workers, ledger)
    with at_work(watchers, workers):
        show(lambda: Run(screen, seconds, lambda key: toggled(members.nodes, key, _KILLED, _STARTED), steps), screen, plain)
        end("every broker is started", members.start, workers, ledger)
        return checked(ledger)
