"""The producers and consumers of the demonstrations, and the account of written and read messages.

A producer counts a message as sent when its broker has confirmed it; a send whose answer was lost is repeated with the same duplicate id
until it is confirmed.  A consumer counts a message as read when its transaction is committed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from mqbroker.cli.demo.brokers import QUEUE
from mqclient.errors import DuplicateIdRejectedError
from mqclient.jms import ConnectionFactory, JMSException, TransactionRolledBackException

if TYPE_CHECKING:
    from mqclient.jms import Message, MessageConsumer, MessageProducer, Session

RETRY_SECONDS: Final = 0.2
"""Between attempts to reach a broker that is away."""
RECEIVE_MS: Final = 200
DRAIN_BATCH: Final = 50
"""Messages of one transaction when speed is wanted."""
_NAMED: Final = 10
"""Lost and doubled messages that the verdict names."""

Key = tuple[str, int]
"""Producer and sequence number of a message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lost``: confirmed to the producer and never read.  ``doubled``: read more than once.  ``unknown``: read and never sent."""

    sent: int
    read: int
    lost: tuple[Key, ...]
    doubled: tuple[Key, ...]
    unknown: tuple[Key, ...]

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.unknown)

    def __str__(self) -> str:
        text = f"sent {self.sent}, read {self.read}, lost {len(self.lost)}, doubled {len(self.doubled)}"
        if self.good:
            return f"{text}: every message that was sent was read, and none of them twice"
        parts = [
            f"{what}: {', '.join(f'{name} {number}' for name, number in keys[:_NAMED])}{' …' if len(keys) > _NAMED else ''}"
            for what, keys in (("lost", self.lost), ("doubled", self.doubled), ("never sent", self.unknown))
            if keys
        ]
        return "; ".join([text, *parts])


@dataclass(slots=True)
class Ledger:
    """Counts of the messages sent and read.  Used by several threads."""

    sent: dict[str, int] = field(default_factory=dict)
    """By producer: messages 0 to that number (exclusive) are confirmed."""
    read: Counter[Key] = field(default_factory=Counter)
    doubtful: set[Key] = field(default_factory=set)
    """Messages read in a transaction with an unknown outcome; if it was not committed they come again."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def confirmed(self, producer: str, count: int) -> None:
        with self.lock:
            self.sent[producer] = count

    def committed(self, keys: list[Key]) -> None:
        with self.lock:
            self.read.update(keys)

    def commit_failed(self, keys: list[Key]) -> None:
        with self.lock:
            self.doubtful.update(keys)

    def totals(self) -> tuple[int, int]:
        """Messages sent, and different ones read."""
        with self.lock:
            return sum(self.sent.values()), len(self.read.keys() | self.doubtful)

    @property
    def reads(self) -> int:
        """Messages that were surely read."""
        with self.lock:
            return len(self.read)

    def complete(self) -> bool:
        """Was every sent message surely read?  Messages in doubt may come again."""
        with self.lock:
            return len(self.read) >= sum(self.sent.values())

    def verdict(self) -> Verdict:
        with self.lock:
            known = self.read.keys() | self.doubtful
            expected = {(name, number) for name, count in self.sent.items() for number in range(count)}
            return Verdict(
                len(expected),
                len(known),
                tuple(sorted(expected - known)),
                tuple(sorted(key for key, count in self.read.items() if count > 1)),
                tuple(sorted(known - expected)),
            )


class Reachable(Protocol):
    """A place to which clients connect."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...


class Ending(threading.Thread):
    """A thread that ends when it has been told to; ``_ending`` is set then."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ending = threading.Event()

    def end(self) -> None:
        self._ending.set()


class Worker(Ending):
    """Works against one node, and goes on when that comes back.  ``status`` is one word for the screen."""

    def __init__(self, name: str, node: Reachable, ledger: Ledger) -> None:
        super().__init__(name)
        self.node = node
        self.ledger = ledger
        self.count = 0
        self.status = "connecting"
        self.failure: BaseException | None = None
        """The error that ended the thread; None while it runs, and after an orderly end."""

    def run(self) -> None:
        try:
            while not self.done():
                try:
                    self.work()
                except JMSException:
                    self.status = "waiting"
                    self._ending.wait(RETRY_SECONDS)
                    if self._ending.is_set() and not self.done():
                        time.sleep(RETRY_SECONDS)
        except BaseException as error:
            self.failure = error
        self.status = "ended"

    def done(self) -> bool:
        return self._ending.is_set()

    def work(self) -> None:
        """Work until the connection ends."""
        raise NotImplementedError

    @contextmanager
    def session(self, *, transacted: bool) -> Iterator[Session]:
        url = f"{self.node.url}&consumerWindowSize=0&callTimeout=10000"
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            with connection.create_session(transacted=transacted) as session:
                yield session


class Producer(Worker):
    """Sends ``rate`` messages a second."""

    def __init__(self, name: str, node: Reachable, ledger: Ledger, rate: float) -> None:
        super().__init__(name, node, ledger)
        self.rate = rate
        self._unanswered = False

    def done(self) -> bool:
        return self._ending.is_set() and not self._unanswered

    def work(self) -> None:
        with self.session(transacted=False) as session, session.create_producer(f"queue://{QUEUE}") as producer:
            self.status = "sending"
            due = time.monotonic()
            while not self.done():
                self._send(session, producer)
                due = max(due + 1 / self.rate, time.monotonic() - 1.0)
                self._ending.wait(max(due - time.monotonic(), 0.0))

    def _send(self, session: Session, producer: MessageProducer) -> None:
        message = session.create_text_message(f"{self.name} {self.count}")
        message.set_string_property("producer", self.name)
        message.set_long_property("number", self.count)
        message.set_string_property("_AMQ_DUPL_ID", f"{self.name} {self.count}")
        self._unanswered = True
        try:
            producer.send(message)
        except JMSException as error:
            if not isinstance(error.__cause__, DuplicateIdRejectedError):
                raise
        self._unanswered = False
        self.count += 1
        self.ledger.confirmed(self.name, self.count)


class Consumer(Worker):
    """Reads at most ``rate`` messages a second.  ``present`` and ``away`` (seconds): it leaves now and then, 0 = never."""

    def __init__(self, name: str, node: Reachable, ledger: Ledger, rate: float, present: float = 0.0, away: float = 0.0) -> None:
        super().__init__(name, node, ledger)
        self.rate = rate
        self.present = present
        self.away = away
        self._draining = threading.Event()

    def drain(self) -> None:
        """Read as fast as possible, and do not leave any more."""
        self._draining.set()

    def work(self) -> None:
        with self.session(transacted=True) as session, session.create_consumer(f"queue://{QUEUE}") as consumer:
            self.status = "reading"
            leaves = time.monotonic() + self.present
            due = time.monotonic()
            while not self.done():
                if self.present and not self._draining.is_set() and time.monotonic() > leaves:
                    break
                if self._read(session, consumer) and not self._draining.is_set():
                    due = max(due + 1 / self.rate, time.monotonic() - 0.2)
                    self._draining.wait(max(due - time.monotonic(), 0.0))
        if not self.done():
            self.status = "away"
            self._draining.wait(self.away)

    def _read(self, session: Session, consumer: MessageConsumer) -> bool:
        message = consumer.receive(RECEIVE_MS)
        if message is None:
            return False
        keys = [_key(message)]
        while self._draining.is_set() and len(keys) < DRAIN_BATCH:
            more = consumer.receive_no_wait()
            if more is None:
                break
            keys.append(_key(more))
        try:
            session.commit()
        except TransactionRolledBackException:
            return True
        except JMSException:
            self.ledger.commit_failed(keys)
            raise
        self.ledger.committed(keys)
        self.count += len(keys)
        return True


def _key(message: Message) -> Key:
    found: Any = message.get_string_property("producer")
    return str(found), message.get_long_property("number")
