"""``mqbroker demo failover``: a replicated pair under load, what may happen to it, and the proof that no message is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from mqbroker.cli.demo.running import Run, at_work, checked, demonstrate, end, run_options, show, steps_at_thirds
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.demo.pair import Pair
    from mqbroker.cli.demo.timeline import Timeline

FAILURES: Final = {"kill": "k", "pause": "p", "cut": "c", "fill": "f"}
"""Their keys."""
RESTART: Final = "r"


@click.command(epilog="Example: mqbroker demo failover --seconds 30 --failure kill")
@run_options
@click.option("--failure", type=click.Choice([*FAILURES]), help="Do this after a third of --seconds, and mend everything after two thirds.")
def failover(seconds: float | None, plain: bool, failure: str | None) -> None:
    """Show what a replicated pair of brokers does.

    The demonstration starts a primary, a backup that has a copy of its data, and a third broker that votes, on this machine, on free ports
    of 127.0.0.1 and with their data in a temporary folder, and two producers and two consumers with exactlyOnce=true in their URL.

    The keys: k kills the active broker, as a crash would; p pauses it; c lets the brokers of the pair not be reached by the other brokers,
    but by clients; f fills the disk of the replica, by a limit on the size of the files of its process; r mends everything.

    At the end it tells for each failure how long it took until it was noticed, until a broker had the proof that no other one is active,
    had loaded its queues, and gave a client the first message. The sequence numbers of all messages that were sent are compared with those
    that were read: status 0 means that no message is missing and none came twice.
    """
    steps = [] if failure is None else steps_at_thirds("--failure", seconds, FAILURES[failure], RESTART)
    from mqbroker.cli.demo.pair import Pair

    demonstrate("a pair of brokers and a voter", Pair, lambda pair: _show(pair, seconds, plain, steps))


def _show(pair: Pair, seconds: float | None, plain: bool, steps: Sequence[tuple[float, str]]) -> str:
    from mqbroker.cli.demo.pair_screen import PairScreen, pair_figures
    from mqbroker.cli.demo.screen import Watcher
    from mqbroker.cli.demo.timeline import Historian, Timeline
    from mqbroker.cli.demo.traffic import Consumer, Ledger, Producer

    ledger, timeline = Ledger(), Timeline()
    producers = [Producer("quick", pair, ledger, 40), Producer("steady", pair, ledger, 15)]
    consumers = [Consumer("one", pair, ledger, 50), Consumer("two", pair, ledger, 50)]
    workers = [*producers, *consumers]
    watchers = [Watcher(member, pair_figures) for member in pair.members]
    screen = PairScreen(pair, watchers, workers, ledger, timeline)

    def begin() -> Run:
        timeline.begin(time.monotonic())
        return Run(screen, seconds, lambda key: _happen(pair, timeline, key), steps)

    def mend() -> None:
        pair.restart()
        pair.await_active()

    with at_work([*watchers, Historian(pair.members, lambda: ledger.reads, timeline)], workers):
        show(begin, screen, plain)
        end("everything is mended", mend, workers, ledger)
        for line in timeline.lines():
            click.echo(line)
        return checked(ledger)


def _happen(pair: Pair, timeline: Timeline, key: str) -> str:
    """Do what the key stands for, and tell it."""
    failures: Mapping[str, Callable[[], str]] = {"k": pair.kill, "p": pair.pause, "c": pair.cut, "f": pair.fill}
    if key == RESTART:
        return pair.restart()
    if key not in failures:
        return ""
    active = pair.active
    try:
        note = "" if active is None else timeline.failed(active.name, time.monotonic(), failures[key])
    except CommandError as error:
        return str(error)
    return note or "nobody is active, or there is no replica, so that nothing was done; r mends everything"
