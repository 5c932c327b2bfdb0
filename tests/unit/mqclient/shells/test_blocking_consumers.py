"""The consumer of programs with threads, without a reactor: what the broker answers is scripted."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.shells.blocking_consumers import Consumer
from mqclient.shells.threads import SharedBuffer

NOW = 1_000_000


class Runner:
    """Makes each call at once."""

    usable = True

    def __init__(self) -> None:
        self.runtime = SimpleNamespace(wall_clock_ms=lambda: NOW)

    def check(self) -> None:
        pass

    check_process = check

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        function(*args)

    call = post


class CoreConsumer:
    """Puts the next of ``rounds`` into the buffer each time that a delivery is forced."""

    queue_name = "q"

    def __init__(self, buffer: SharedBuffer, rounds: list[list[ClientMessage]]) -> None:
        self._buffer = buffer
        self.rounds = rounds
        self.settled: list[tuple[int, bool]] = []
        self.asked = 0

    def prepare_receive(self) -> None:
        self.asked += 1

    def force_delivery(self, patient: bool) -> None:
        for message in self.rounds.pop(0) if self.rounds else ():
            self._buffer.put(message)

    def consumed(self, message: ClientMessage, expired: bool) -> None:
        self.settled.append((message.message_id, expired))


def message(number: int, expiration: int = 0) -> ClientMessage:
    made = ClientMessage()
    made.message_id, made.expiration = number, expiration
    return made


class ReceiveTests(SynchronousTestCase):
    def consumer(self, *rounds: list[ClientMessage]) -> tuple[Consumer, CoreConsumer]:
        buffer = SharedBuffer()
        core = CoreConsumer(buffer, list(rounds))
        return Consumer(Runner(), core, buffer, -1, True), core  # type: ignore[arg-type]

    def test_receive_immediate_goes_on_after_messages_that_have_expired(self) -> None:
        consumer, core = self.consumer([message(1, NOW)], [message(2, NOW - 1)], [message(3, NOW + 1)])
        received = consumer.receive_immediate()
        assert received is not None
        self.assertEqual(received.message_id, 3)
        self.assertEqual(core.settled, [(1, True), (2, True), (3, False)])

    def test_receive_immediate_ends_when_only_expired_messages_are_there(self) -> None:
        consumer, core = self.consumer([message(1, NOW)])
        self.assertIsNone(consumer.receive_immediate())
        self.assertEqual(core.settled, [(1, True)])


class Jobs:
    """A dispatcher whose jobs the test does."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        self.jobs.append((function, args))

    def do(self) -> None:
        for function, args in self.jobs:
            function(*args)
        self.jobs.clear()


class ListenerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.buffer, self.dispatcher = SharedBuffer(), Jobs()
        self.core = CoreConsumer(self.buffer, [])
        self.got: list[int] = []
        consumer = Consumer(Runner(), self.core, self.buffer, -1, True)  # type: ignore[arg-type]
        consumer.set_message_handler(lambda message: self.got.append(message.message_id), self.dispatcher)  # type: ignore[arg-type]
        self.core.asked = 0

    def test_a_message_that_was_taken_back_is_waited_for_again(self) -> None:
        """A consumer without window gets no message that it has not asked for."""
        self.buffer.put(message(1))
        self.buffer.clear()  # a rollback, after a failure of another listener
        self.dispatcher.do()
        self.assertEqual((self.got, self.core.asked), ([], 1))

    def test_while_delivery_is_stopped_no_other_one_is_asked_for(self) -> None:
        self.buffer.pause()
        self.buffer.put(message(1))
        self.dispatcher.do()
        self.assertEqual(self.core.asked, 0)
        self.buffer.resume()
        self.dispatcher.do()
        self.assertEqual((self.got, self.core.asked), ([1], 1))
