"""Messages of a queue one after the other, while others come, go and are read meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.administration.selection import scheduled, waiting
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.unit.messaging.support import Bench, Collector


class SelectionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")

    def send(self, *bodies: bytes, later_ms: int = 0, priority: int = 4) -> None:
        due = self.bench.clock.wall_ms() + later_ms
        properties = {KEY_SCHEDULED_DELIVERY: (LONG, due)} if later_ms else {}
        for body in bodies:
            self.bench.send(body, properties=properties, priority=priority)

    def bodies(self, found: Iterator[Reference | None]) -> list[bytes | None]:
        return [None if reference is None else reference.message.decoded().body for reference in found]

    def test_messages_come_as_they_would_be_delivered(self) -> None:
        self.send(b"1", b"2")
        self.send(b"9", priority=9)
        self.assertEqual(self.bodies(waiting(self.queue)), [b"9", b"1", b"2"])

    def test_one_that_is_not_accepted_was_looked_at_and_is_not_given(self) -> None:
        def accept(message: Message) -> bool:
            return message.decoded().body != b"2"

        self.send(b"1", b"2", b"3")
        self.assertEqual(self.bodies(waiting(self.queue, accept)), [b"1", None, b"3"])

    def test_one_that_comes_after_the_beginning_is_left_out(self) -> None:
        self.send(b"1", b"2")
        found = waiting(self.queue)
        next(found)
        self.send(b"3")
        self.assertEqual(self.bodies(found), [b"2", None])

    def test_one_that_goes_meanwhile_is_not_given(self) -> None:
        self.send(b"1", b"2", b"3")
        found = waiting(self.queue)
        next(found)
        Collector(self.bench, self.queue, room=2)
        self.assertEqual(self.bodies(found), [b"3"])

    def test_scheduled_messages_come_in_the_order_of_their_times(self) -> None:
        self.send(b"late", later_ms=2000)
        self.send(b"early", later_ms=1000)
        self.assertEqual(self.bodies(scheduled(self.queue)), [b"early", b"late"])

    def test_a_scheduled_message_that_has_become_due_meanwhile_is_not_given(self) -> None:
        self.send(b"early", later_ms=1000)
        self.send(b"late", later_ms=9000)
        found = scheduled(self.queue)
        next(found)
        self.send(b"later", later_ms=5000)
        self.bench.clock.advance(10)
        self.assertEqual(self.bodies(found), [None])
