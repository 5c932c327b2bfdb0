"""The common parts of ``producer``, ``consumer`` and ``browser``: options, destinations, threads, progress bar and final summary."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from mqbroker.cli.connection import reason
from mqbroker.cli.options import JSON, ConnectionOptions, connection_options, together
from mqbroker.cli.output import print_json
from mqbroker.cli.progress import Advance, progress
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.cli.traffic.stats import Tally, summary, summary_lines

if TYPE_CHECKING:
    from mqclient.jms import Connection, Destination, Session

P = ParamSpec("P")
R = TypeVar("R")


load_options = together(
    click.option(
        "--destination",
        default="queue://TEST",
        show_default=True,
        help="queue://NAME, topic://NAME or fqqn://ADDRESS::QUEUE; a name alone is a queue.",
    ),
    click.option("--message-count", type=click.IntRange(0), default=1000, show_default=True, help="Number of messages, in each thread."),
    click.option(
        "--threads", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of threads, each with its own session."
    ),
    click.option("--sleep", type=click.IntRange(0), default=0, help="Milliseconds to wait after each message."),
    click.option(
        "--commit-interval",
        "--tx-batch-size",
        "--txt-size",
        "batch",
        type=click.IntRange(0),
        default=0,
        help="Use transactions of this many messages. Default: no transactions.",
    ),
)
"""``--destination``, ``--message-count``, ``--threads``, ``--sleep`` and ``--commit-interval``."""


def destination_of(text: str) -> Destination:
    """The destination that ``--destination`` names.  Raises :class:`BadUsage`."""
    from mqclient.jms import InvalidDestinationException, Queue, Topic

    try:
        for prefix, kind in (("queue://", Queue), ("topic://", Topic), ("fqqn://", Queue)):
            if text.startswith(prefix):
                found = kind(text[len(prefix) :])
                if prefix == "fqqn://" and not found.fully_qualified:
                    raise BadUsage(f"--destination {text}: expected fqqn://ADDRESS::QUEUE")
                return found
        if "://" in text:
            raise BadUsage(f"--destination {text}: expected queue://NAME, topic://NAME or fqqn://ADDRESS::QUEUE")
        return Queue(text)
    except InvalidDestinationException as error:
        raise BadUsage(f"--destination {text}: {error}") from error


class Pause:
    """Waits between messages, and ends early when the command is interrupted."""

    def __init__(self, milliseconds: int) -> None:
        self._seconds = milliseconds / 1000
        self.stopped = threading.Event()

    def __call__(self) -> bool:
        """Wait; False when the work has to end."""
        return not (self.stopped.wait(self._seconds) if self._seconds else self.stopped.is_set())


class Load:
    """One run of a load command: its options, its threads, and the summary at its end.

    ``batch`` is the number of messages in a transaction, 0 without transactions; ``talk``: print a line for every message.
    """

    def __init__(
        self, connection: ConnectionOptions, destination: str, message_count: int, threads: int, sleep: int, batch: int, as_json: bool
    ) -> None:
        self.connection = connection
        self.target = destination_of(destination)
        self.count = message_count
        self.batch = batch
        self.as_json = as_json
        self.talk = connection.verbose and not as_json
        self.pause = Pause(sleep)
        self._threads = threads
        connection.quiet = as_json

    def say(self, text: str) -> None:
        """For a person: not with ``--json``."""
        if not self.as_json:
            click.echo(text)

    def label(self, role: str, thread: int) -> str:
        """The name of a thread in the output, as with the ``artemis`` command."""
        from mqclient.jms import Topic

        kind = "ActiveMQTopic" if isinstance(self.target, Topic) else "ActiveMQQueue"
        return f"{role} {kind}[{self.target.name}], thread={thread}"

    def session(self, connection: Connection) -> Session:
        """A session: transacted when there are batches."""
        return connection.create_session(transacted=self.batch > 0)

    def run(self, total: int, title: str, work: Callable[[int, Tally, Advance], None]) -> tuple[list[Tally], float]:
        """Run ``work(thread, tally, advance)`` in all threads and wait for them.  Returns the tallies and the seconds it took.

        ``total`` is the number of messages of a thread, for a progress bar called ``title``; without a title there is none.  An error of a
        thread is kept in its tally; Ctrl-C ends all of them.
        """
        tallies = [Tally("") for _ in range(self._threads)]
        with progress(total * self._threads, title, self.as_json or not title) as advance:

            def body(thread: int) -> None:
                started = time.perf_counter()
                try:
                    work(thread, tallies[thread], advance)
                except Exception as error:
                    tallies[thread].error = error
                    self.pause.stopped.set()
                tallies[thread].seconds = time.perf_counter() - started

            threads = [threading.Thread(target=body, args=(thread,), daemon=True) for thread in range(self._threads)]
            started = time.perf_counter()
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    thread.join()
            except KeyboardInterrupt:
                self.pause.stopped.set()
                raise
            seconds = time.perf_counter() - started
        return tallies, seconds

    def report(self, tallies: list[Tally], seconds: float, verb: str, what: str) -> None:
        """Print the work of each thread, then rate and latency.  Raises :class:`CommandError` when a thread failed."""
        result: dict[str, Any] = summary(tallies, seconds)
        if self.as_json:
            print_json(result | {"threads": [{"name": tally.label, "messages": tally.count} for tally in tallies]})
        else:
            for tally in tallies:
                click.echo(f"{tally.label} {verb}: {tally.count} messages")
                click.echo(f"{tally.label} Elapsed time in second : {int(tally.seconds)} s")
                click.echo(f"{tally.label} Elapsed time in milli second : {int(tally.seconds * 1000)} milli seconds")
            for line in summary_lines(result, what):
                click.echo(line)
        failures = [f"{tally.label or 'thread'}: {reason(tally.error)}" for tally in tallies if tally.error is not None]
        if failures:
            raise CommandError("\n".join(failures))


def load(command: Callable[Concatenate[Load, P], R]) -> Callable[..., R]:
    """Adds ``--json`` and the options of the connection; together with :data:`load_options` they become the first argument."""
    names = ("destination", "message_count", "threads", "sleep", "batch", "as_json")

    @functools.wraps(command)
    def wrapper(connection: ConnectionOptions, *args: Any, **values: Any) -> R:
        return command(Load(connection, **{name: values.pop(name) for name in names}), *args, **values)

    return JSON(connection_options(wrapper))
