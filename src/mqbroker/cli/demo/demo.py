"""``mqbroker demo cluster``: three brokers, the messages between them, and the proof that no message is lost or doubled."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.demo.brokers import Node
    from mqbroker.cli.demo.screen import Screen
    from mqbroker.cli.demo.traffic import Consumer, Ledger, Worker

NODES: Final = 3
STILL_SECONDS: Final = 30.0
"""At the end: the time without arrivals after which missing messages count as lost."""
DOUBT_SECONDS: Final = 3.0
"""The same where everything was read, but some of it in a transaction whose end is not known: it may come again."""
TRAFFIC_SECONDS: Final = 30.0
"""How long the cluster may take to form before it is shown as it is."""
_FRAME: Final = 0.25
_LINE: Final = 1.0


@click.command(epilog="Example: mqbroker demo cluster --seconds 30")
@click.option(
    "--seconds", type=click.FloatRange(min=1), help="End after this many seconds. Default: run until the key q or Ctrl-C is pressed."
)
@click.option("--plain", is_flag=True, help="Print lines instead of a live picture. Always so without a terminal.")
@click.option("--kill", is_flag=True, help="Kill node2 after a third of --seconds, and start it again after two thirds.")
def cluster(seconds: float | None, plain: bool, kill: bool) -> None:
    """Show what a cluster of three brokers does.

    The demonstration starts three brokers on this machine, on free ports of 127.0.0.1 and with their data in a temporary folder, and two
    producers and two consumers. One of the consumers is slow and leaves now and then, so that messages are forwarded, wait, and are
    redistributed. The keys 0, 1 and 2 kill a broker, as a crash would, and start it again.

    At the end the sequence numbers of all messages that were sent are compared with those that were read: status 0 means that no message
    is missing and none came twice.
    """
    if kill and seconds is None:
        raise click.UsageError("--kill can only be used with --seconds")
    from mqbroker.cli.demo.brokers import Nodes

    live = sys.stdout.isatty() and sys.stdin.isatty() and not plain
    with _terminated_as_interrupted():
        click.echo("Starting three brokers …")
        with Nodes(NODES) as nodes:
            verdict = _show(nodes, seconds, live, kill)
    click.echo(verdict)


def _show(nodes: list[Node], seconds: float | None, live: bool, kill: bool) -> str:
    from mqbroker.cli.demo.screen import Screen, Watcher
    from mqbroker.cli.demo.traffic import Consumer, Ledger, Producer

    ledger = Ledger()
    producers = [Producer("quick", nodes[0], ledger, 40), Producer("steady", nodes[1], ledger, 15)]
    consumers = [Consumer("slow", nodes[1], ledger, 10, present=4, away=2), Consumer("fast", nodes[2], ledger, 80)]
    watchers = [Watcher(node) for node in nodes]
    workers: list[Worker] = [*producers, *consumers]
    screen = Screen(nodes, watchers, workers, ledger)
    for thread in (*watchers, *workers):
        thread.start()
    try:
        try:
            _await_traffic(screen)
            run = _Run(nodes, screen, seconds, kill)
            _run_live(run) if live else _run_plain(run)
        except KeyboardInterrupt:
            click.echo("")
        click.echo("Ending: producers stop, every broker is started, and the messages in transit are read …")
        for producer in producers:
            producer.end()
        _read_the_rest(nodes, consumers, ledger, workers)
        verdict = ledger.verdict()
        if not verdict.good:
            raise CommandError(str(verdict))
        return str(verdict)
    finally:
        for watcher in watchers:
            watcher.end()
        for worker in workers:
            worker.end()
        for thread in (*watchers, *workers):
            thread.join(5.0)


def _await_traffic(screen: Screen) -> None:
    """Wait until messages go from one broker to another, when the time begins to count; after a while the obstacle is shown."""
    deadline = time.monotonic() + TRAFFIC_SECONDS
    while not screen.flowing() and time.monotonic() < deadline:
        time.sleep(0.05)


class _Run:
    """The time while messages are sent."""

    def __init__(self, nodes: Sequence[Node], screen: Screen, limit: float | None, kill: bool) -> None:
        self.nodes = nodes
        self.screen = screen
        self.limit = limit
        self.note = ""
        self._began = time.monotonic()
        self._steps = [(limit / 3, 2), (limit * 2 / 3, 2)] if kill and limit is not None else []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def goes_on(self) -> bool:
        """Do the work that is due; False when the time is over."""
        while self._steps and self.seconds >= self._steps[0][0]:
            self.toggle(self._steps.pop(0)[1])
        return self.limit is None or self.seconds < self.limit

    def toggle(self, number: int) -> None:
        """Kill a node, or start it again."""
        node = self.nodes[number]
        if node.running:
            node.kill()
            self.note = f"{node.name} was killed; messages for it wait at the other brokers"
        else:
            node.start()
            self.note = f"{node.name} is started again"


def _run_plain(run: _Run) -> None:
    note = ""
    while run.goes_on():
        if run.note != note:
            note = run.note
            click.echo(note)
        click.echo(run.screen.line(run.seconds))
        sys.stdout.flush()
        time.sleep(_LINE)


def _run_live(run: _Run) -> None:
    from rich.live import Live

    with _keys() as key, Live(run.screen.picture(run.seconds, run.limit, run.note), auto_refresh=False) as picture:
        while run.goes_on():
            pressed = key(_FRAME)
            if pressed in ("q", "Q"):
                return
            if pressed in tuple(map(str, range(NODES))):
                run.toggle(int(pressed))
            picture.update(run.screen.picture(run.seconds, run.limit, run.note), refresh=True)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Gives a function that waits so many seconds for a key; the empty text when none was pressed."""
    import select
    import termios
    import tty

    terminal = sys.stdin.fileno()
    kept = termios.tcgetattr(terminal)

    def key(seconds: float) -> str:
        ready = select.select([terminal], [], [], seconds)[0]
        return sys.stdin.read(1) if ready else ""

    try:
        tty.setcbreak(terminal)
        yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, kept)


def _read_the_rest(nodes: Sequence[Node], consumers: Sequence[Consumer], ledger: Ledger, workers: Sequence[Worker]) -> None:
    """Bring every node back, and read until everything has come or nothing comes any more.  Raises CommandError."""
    from mqbroker.cli.demo.brokers import await_active
    from mqbroker.cli.demo.traffic import Producer

    for node in nodes:
        node.start()
    await_active(nodes)
    for consumer in consumers:
        consumer.drain()
    seen, since = ledger.totals(), time.monotonic()
    while True:
        failed = next((worker for worker in workers if worker.failure is not None), None)
        if failed is not None:
            raise CommandError(f"{failed.name} has ended by a defect: {failed.failure!r}")
        still = time.monotonic() - since
        sending = any(worker.is_alive() for worker in workers if isinstance(worker, Producer))
        totals = ledger.totals()
        if totals != seen:
            seen, since = totals, time.monotonic()
        elif still > STILL_SECONDS or (not sending and (ledger.complete() or (totals[0] == totals[1] and still > DOUBT_SECONDS))):
            return
        time.sleep(0.1)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the demonstration as Ctrl-C does, so that no process is left."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    kept: Any = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)
