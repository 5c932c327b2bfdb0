"""What ``exactlyOnce`` costs: the same client with it and without it, in turn, against the same brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import mqclient.asyncio
from mqclient.core.api import ClientMessage, QueueConfiguration, SendAcknowledgementHandler
from mqclient.errors import MQError
from mqclient.jms import ConnectionFactory, JMSException, Session
from tests.bench.brokers import NAMES, new_broker, start_peer
from tests.bench.judging import PURE, figures, judged, spread
from tests.bench.results import LoadFailed, Run
from tests.bench.runner import FAILURES
from tests.interop.instance import PASSWORD, USER

PREFIX = "once-"
SIZE = 1024
TRANSACTION = 100
UNDER_WAY = 500
"""Messages that are sent and not confirmed, of the row with a handler."""
WITH, WITHOUT = "with_per_second", "without_per_second"
SWITCHES = {WITH: "exactlyOnce=true&reconnectAttempts=-1", WITHOUT: "confirmationWindowSize=1048576&reconnectAttempts=-1"}
ONCE_NOTE = (
    "One mqclient program sends durable messages of 1 KiB with `exactlyOnce=true` and, for the same time before and after, without it: the "
    "ratio is that of the two. Without it sends are confirmed as well, and the session lives on after a failure. "
    "`python -m tests.bench --once` measures this table alone."
)


@dataclass(frozen=True)
class Sizes:
    """Seconds of each measurement, and before it."""

    seconds: float = 4.0
    warm: float = 1.0


QUICK = Sizes(0.3, 0.1)


@dataclass(frozen=True)
class Line:
    """``rate(url, queue, sizes)`` gives messages a second."""

    row: str
    title: str
    least: float
    rate: Callable[[str, str, Sizes], float]


class Watch:
    """Counts the messages that are confirmed in the measured time: it begins after the warm-up, and that with the first confirmation."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._begin: float | None = None
        self._seconds = 0.0
        self._counted = 0

    @property
    def over(self) -> bool:
        return self._seconds >= self._sizes.seconds

    def confirmed(self, messages: int = 1) -> None:
        now = time.monotonic()
        if self._begin is None:
            self._begin = now + self._sizes.warm
        elif now >= self._begin and not self.over:
            self._counted += messages
            self._seconds = now - self._begin

    @property
    def rate(self) -> float:
        if not self._counted:
            raise LoadFailed("nothing was confirmed in the measured time")
        return self._counted / self._seconds


def _jms(url: str, sizes: Sizes, transacted: bool, work: Callable[[Session, Watch], None]) -> float:
    try:
        with ConnectionFactory(url) as factory, factory.create_connection(USER, PASSWORD) as connection:
            watch = Watch(sizes)
            work(connection.create_session(transacted=transacted), watch)
            return watch.rate
    except JMSException as error:
        raise LoadFailed(str(error)) from error


def blocking(url: str, queue: str, sizes: Sizes) -> float:
    def work(session: Session, watch: Watch) -> None:
        producer = session.create_producer(f"queue://{queue}")
        while not watch.over:
            producer.send(bytes(SIZE))
            watch.confirmed()

    return _jms(url, sizes, False, work)


def transacted(url: str, queue: str, sizes: Sizes) -> float:
    def work(session: Session, watch: Watch) -> None:
        producer = session.create_producer(f"queue://{queue}")
        while not watch.over:
            for _ in range(TRANSACTION):
                producer.send(bytes(SIZE))
            session.commit()
            watch.confirmed(TRANSACTION)

    return _jms(url, sizes, True, work)


class Confirmations(SendAcknowledgementHandler):
    """Lets through so many sends as are confirmed."""

    def __init__(self, watch: Watch) -> None:
        self.room = asyncio.Semaphore(UNDER_WAY)
        self.error: MQError | None = None
        self._watch = watch

    def send_acknowledged(self, message: ClientMessage) -> None:
        self._watch.confirmed()
        self.room.release()

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self.error = error
        self.room.release()


def handled(url: str, queue: str, sizes: Sizes) -> float:
    async def run() -> float:
        async with mqclient.asyncio.server_locator(url) as locator, await locator.create_session_factory() as factory:
            session = await factory.create_session(USER, PASSWORD)
            await session.create_queue(QueueConfiguration(name=queue), if_missing=True)
            producer = await session.create_producer(queue)
            watch = Watch(sizes)
            handler = Confirmations(watch)
            while not watch.over and handler.error is None:
                await handler.room.acquire()
                message = session.create_message()
                message.body = bytes(SIZE)
                await producer.send(message, acknowledgement_handler=handler)
            for _ in range(UNDER_WAY):
                await handler.room.acquire()
            if handler.error is not None:
                raise handler.error
            return watch.rate

    try:
        return asyncio.run(run())
    except MQError as error:
        raise LoadFailed(str(error)) from error


LINES = (
    Line("once-blocking", "each send confirmed before the next, JMS", 0.8, blocking),
    Line("once-handler", f"sends confirmed to a handler, {UNDER_WAY} under way, asyncio", 0.8, handled),
    Line("once-transacted", f"transactions of {TRANSACTION}, JMS", 0.9, transacted),
)


def compare(rate: Callable[[str, str, Sizes], float], url: str, queues: Sequence[str], sizes: Sizes) -> dict[str, float]:
    """One round: without, with, with, without, each with a queue of its own, so that a machine that slows down weighs on both."""
    found: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    for name, queue in zip((WITHOUT, WITH, WITH, WITHOUT), queues, strict=True):
        found[name].append(rate(f"{url}?{SWITCHES[name]}", queue, sizes))
    return {name: sum(values) / len(values) for name, values in found.items()}


def measure(folder: Path, rounds: int, sizes: Sizes, on_run: Callable[[Run], None], names: Sequence[str] = NAMES) -> None:
    """So many rounds; ``on_run`` hears of each measurement."""
    numbers = count()
    with ExitStack() as stack:
        peers = {}
        for name in names:
            peer = peers[name] = new_broker(name, folder / name)
            stack.callback(peer.kill)
            start_peer(peer)
        for turn in range(rounds):
            for line in LINES:
                for name, peer in peers.items():
                    queues = [f"{line.row}.{next(numbers)}" for _ in range(4)]
                    try:
                        run = Run(name, line.row, turn, compare(line.rate, peer.url, queues, sizes))
                    except FAILURES as error:
                        run = Run(name, line.row, turn, error=f"{type(error).__name__}: {error}")
                    on_run(run)


def once_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = [
        "| durable 1 KiB, msg/s | mqbroker with | without | ratio | target | artemis with | without | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in LINES:
        cells = [line.title]
        for broker in (PURE, "artemis"):
            rates = [figures(runs, line.row, broker, name) for name in (WITH, WITHOUT)]
            cells += [spread(list(each.values())) if each else "" for each in rates]
            cells.append(judged(_ratios(*rates), least=line.least if broker == PURE else None).text())
            if broker == PURE:
                cells.append(f"≥ {line.least}")
        if any(run.row == line.row and run.figures for run in runs):
            table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []


def _ratios(mine: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    return [mine[turn] / others[turn] for turn in sorted(mine.keys() & others.keys()) if others[turn]]
