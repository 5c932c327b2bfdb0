"""The common part of the demonstrations: keys and lines while messages are sent, and reading the rest in the end."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mqbroker.cli.options import together
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.demo.brokers import Brokers, Node
    from mqbroker.cli.demo.screen import Screen
    from mqbroker.cli.demo.traffic import Consumer, Ending, Ledger, Worker

B = TypeVar("B", bound="Brokers")

STILL_SECONDS: Final = 30.0
"""At the end: the time without arrivals after which missing messages count as lost."""
DOUBT_SECONDS: Final = 3.0
"""The same where all messages were read, but some in a transaction whose end is not known: these may come again."""
TRAFFIC_SECONDS: Final = 30.0
"""How long it may take until messages flow before everything is shown as it is."""
_FRAME: Final = 0.25
_LINE: Final = 1.0

run_options = together(
    click.option("--plain", is_flag=True, help="Print lines instead of a live picture. Always so without a terminal."),
    click.option(
        "--seconds", type=click.FloatRange(min=1), help="End after this many seconds. Default: run until the key q or Ctrl-C is pressed."
    ),
)


def demonstrate(what: str, brokers: Callable[[], B], run: Callable[[B], str]) -> None:
    """Start ``brokers``, do ``run`` with them, end them, and print the verdict that it has given."""
    with terminated_as_interrupted():
        click.echo(f"Starting {what} …")
        with brokers() as started:
            verdict = run(started)
    click.echo(verdict)


def steps_at_thirds(option: str, seconds: float | None, first: str, second: str) -> list[tuple[float, str]]:
    """The keys that ``option`` presses: after a third of the time, and after two thirds.  Raises UsageError without ``--seconds``."""
    if seconds is None:
        raise click.UsageError(f"{option} can only be used with --seconds")
    return [(seconds / 3, first), (seconds * 2 / 3, second)]


class Run:
    """The time while messages are sent: ``limit`` seconds, None for ever.

    ``pressed(key)`` does what a key stands for, and tells it; ``steps`` are keys that are pressed by themselves, each at its second.
    """

    def __init__(
        self, screen: Screen[Any], limit: float | None, pressed: Callable[[str], str], steps: Sequence[tuple[float, str]] = ()
    ) -> None:
        self.note = ""
        self._is_plain = False
        self._screen = screen
        self._limit = limit
        self._pressed = pressed
        self._steps = [*steps]
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _goes_on(self) -> bool:
        """Do the work that is due; False when the time is over."""
        while self._steps and self.seconds >= self._steps[0][0]:
            self._press(self._steps.pop(0)[1])
        return self._limit is None or self.seconds < self._limit

    def _press(self, key: str) -> None:
        if note := self._pressed(key):
            self.note = note
            if self._is_plain:
                click.echo(note)

    def plain(self) -> None:
        self._is_plain = True
        while self._goes_on():
            click.echo(self._screen.line(self.seconds))
            sys.stdout.flush()
            time.sleep(_LINE)

    def live(self) -> None:
        from rich.live import Live

        with _keys() as key, Live(self._screen.picture(self.seconds, self._limit, self.note), auto_refresh=False) as picture:
            while self._goes_on():
                pressed = key(_FRAME)
                if pressed in ("q", "Q"):
                    return
                if pressed:
                    self._press(pressed)
                picture.update(self._screen.picture(self.seconds, self._limit, self.note), refresh=True)


def show(run: Callable[[], Run], screen: Screen[Any], plain: bool) -> None:
    """Wait until messages flow, and run until the time is over, a key ends it, or Ctrl-C."""
    try:
        _await_traffic(screen)
        begun = run()
        begun.live() if sys.stdout.isatty() and sys.stdin.isatty() and not plain else begun.plain()
    except KeyboardInterrupt:
        click.echo("")


def _await_traffic(screen: Screen[Any]) -> None:
    """The time begins to count when messages flow; after a while the obstacle is shown."""
    deadline = time.monotonic() + TRAFFIC_SECONDS
    while not screen.flowing() and time.monotonic() < deadline:
        time.sleep(0.05)


@contextmanager
def at_work(watchers: Sequence[Ending], workers: Sequence[Worker]) -> Iterator[None]:
    """All threads run, and have ended afterwards."""
    # Warnings of clients tell what the demonstration shows, and would be written across the picture.
    logging.getLogger("mqclient").setLevel(logging.ERROR)
    threads = [*watchers, *workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.end()
        for thread in threads:
            thread.join(5.0)


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


def read_the_rest(consumers: Sequence[Consumer], ledger: Ledger, workers: Sequence[Worker]) -> None:
    """Read until everything has come or nothing comes any more; every broker is there.  Raises CommandError."""
    from mqbroker.cli.demo.traffic import Producer

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


def end(what: str, mend: Callable[[], object], workers: Sequence[Worker], ledger: Ledger) -> None:
    """Stop the producers, let every broker be there again by ``mend``, and read the rest.  Raises CommandError."""
    from mqbroker.cli.demo.traffic import Consumer, Producer

    click.echo(f"Ending: producers stop, {what}, and the messages in transit are read …")
    for worker in workers:
        if isinstance(worker, Producer):
            worker.end()
    mend()
    read_the_rest([worker for worker in workers if isinstance(worker, Consumer)], ledger, workers)


def toggled(nodes: Sequence[Node], key: str, killed: str, started: str) -> str:
    """Kill the broker whose number is ``key``, or start it again.  Returns its name with what was done, "" for another key."""
    node = next((node for number, node in enumerate(nodes) if str(number) == key), None)
    if node is None:
        return ""
    if node.running:
        node.kill()
        return f"{node.name} was killed{killed}"
    node.start()
    return f"{node.name} is started again{started}"


def checked(ledger: Ledger) -> str:
    """The proof.  Raises CommandError when a message is missing or came twice."""
    verdict = ledger.verdict()
    if not verdict.good:
        raise CommandError(str(verdict))
    return str(verdict)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the demonstration as Ctrl-C does, so that no process is left."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    kept: Any = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)
