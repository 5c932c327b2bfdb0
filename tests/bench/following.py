"""A sender and a receiver of mqclient that follow to the broker that is active, and the longest time between two messages."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from mqclient.jms import ConnectionFactory, JMSException, MessageConsumer, Session
from tests.bench.results import LoadFailed
from tests.interop import instance

QUEUE = "queue://bench.follow"
RECEIVE_MS = 100


class Following:
    """``gap_seconds`` is the longest time between two messages since :meth:`forget`, up to the last one that came."""

    def __init__(self, url: str) -> None:
        self.gap_seconds = 0.0
        self.last_sent = 0.0
        """When the message was sent that came last; all times are those of the monotonic clock."""
        self._last = time.monotonic()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(url, work), daemon=True) for work in (self._receive, self._send)]
        for thread in self._threads:
            thread.start()

    def forget(self) -> None:
        self.gap_seconds = 0.0

    def wait_for_message_sent_after(self, moment: float, seconds: float) -> None:
        """Raises LoadFailed."""
        deadline = time.monotonic() + seconds
        while self.last_sent <= moment:
            if time.monotonic() > deadline:
                raise LoadFailed(f"no message came within {seconds:g} s")
            time.sleep(0.02)

    def stop(self) -> None:
        self._over.set()

    def _run(self, url: str, work: Callable[[Session], None]) -> None:
        with ConnectionFactory(url) as factory, factory.create_connection(instance.USER, instance.PASSWORD) as connection:
            connection.start()
            work(connection.create_session())

    def _send(self, session: Session) -> None:
        producer = session.create_producer(QUEUE)
        while not self._over.is_set():
            with contextlib.suppress(JMSException):  # nobody knows what became of it
                producer.send(repr(time.monotonic()))

    def _receive(self, session: Session) -> None:
        consumer: MessageConsumer = session.create_consumer(QUEUE)
        while not self._over.is_set():
            message = consumer.receive(RECEIVE_MS)
            if message is not None:
                now = time.monotonic()
                self.gap_seconds = max(self.gap_seconds, now - self._last)
                self._last = now
                self.last_sent = float(message.text)  # type: ignore[attr-defined]


def longest_gap(url: str, act: Callable[[], None], warm: float, limit: float) -> float:
    """Seconds, from before ``act`` until a message has come that was sent after it."""
    following = Following(url)
    try:
        following.wait_for_message_sent_after(0.0, limit)
        time.sleep(warm)
        following.forget()
        act()
        following.wait_for_message_sent_after(time.monotonic(), limit)
        return following.gap_seconds
    finally:
        following.stop()
