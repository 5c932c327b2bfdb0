"""Work on all messages of a queue gives others their turn."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.administration import removal
from mqbroker.messaging.turns import steps
from mqbroker.messaging.turns.steps import Steps, StepwiseWork
from mqbroker.messaging.turns.turn import Turn
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT, decode_message, encode_message
from mqclient.wire.properties import INT, STRING
from tests.support.broker import Session, World
from tests.support.clock import FakeClock

COUNT = 100
STEP = 10


class WorkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(steps, "SCANNED_MAX", 3)
        self.clock = FakeClock()
        self.work = StepwiseWork(Turn(self.clock), self.clock)
        self.done: list[Any] = []
        self.looked = 0

    def count(self, number: int, failure: Exception | None = None) -> Steps[int]:
        for _ in range(number):
            self.looked += 1
            yield 1
        if failure is not None:
            raise failure
        return number

    def start(self, work: Steps[int]) -> None:
        self.work.start(work, lambda result, failure: self.done.append(failure or result))

    def test_little_work_is_done_at_once(self) -> None:
        self.start(self.count(2))
        self.assertEqual((self.done, self.clock.pending), ([2], 0))

    def test_much_goes_on_later_and_in_order(self) -> None:
        self.start(self.count(7))
        self.start(self.count(1))
        self.assertEqual((self.done, self.looked), ([], 3))
        self.clock.advance(0)
        self.assertEqual((self.done, self.clock.pending), ([7, 1], 0))

    def test_time_counts_too(self) -> None:
        def slow() -> Steps[int]:
            for _ in range(3):
                self.clock.seconds += 1
                self.looked += 1
                yield 0
            return 3

        self.start(slow())
        self.assertEqual((self.done, self.looked), ([], 1))
        self.clock.advance(10)
        self.assertEqual(self.done, [3])

    def test_a_failure_is_told_and_ends_nothing_else(self) -> None:
        error = ValueError("no")
        self.start(self.count(4, error))
        self.start(self.count(4))
        self.clock.advance(0)
        self.assertEqual(self.done, [error, 4])


class QueueCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(steps, "SCANNED_MAX", STEP)
        self.patch(removal, "DISCARDED_TOGETHER", STEP)
        self.world = World()
        self.session = self.world.peer().open()
        for name in ("q", "other", "replies"):
            self.session.create_queue(name)
        for number in range(COUNT):
            self.session.publish(str(number).encode(), properties={"n": (INT, number)})
        self.queue = self.world.queue("q")
        self.replies = self.world.session()
        self.replies.consume("replies", credits=10_000_000)
        self.replies.take()

    def ask(self, operation: str, *parameters: Any, session: Session | None = None, resource: str = "queue.q") -> None:
        message = self.session.message(b"", "activemq.management", durable=False, routing_type=None)
        message.type = TYPE_TEXT
        message.body = encode_text(json.dumps(parameters))
        for key, value in (("_AMQ_ResourceName", resource), ("_AMQ_OperationName", operation), ("JMSReplyTo", "replies")):
            message.properties[key] = (STRING, value)
        (session or self.session).send(wire.SessionSend(encode_message(message), False, 0))

    def answers(self) -> list[Any]:
        messages = [decode_message(packet.message) for packet in self.replies.received()]
        return [(message.properties["_AMQ_OperationSucceeded"][1], *json.loads(decode_text(message.body) or "[]")) for message in messages]

    def result(self, operation: str, *parameters: Any, resource: str = "queue.q") -> Any:
        """What is answered, and not in the same turn."""
        self.ask(operation, *parameters, resource=resource)
        self.assertEqual(self.answers(), [], operation)
        self.world.clock.advance(0.001)
        ((succeeded, result),) = self.answers()
        self.assertTrue(succeeded, result)
        return result


class QueueTests(QueueCase):
    def test_each_operation_answers_when_it_is_done(self) -> None:
        self.assertEqual(self.result("countMessages", "n < 70"), 70)
        self.assertEqual(json.loads(self.result("countMessages", "n >= 98", "n")), {"98": 1, "99": 1})
        self.assertEqual([row["n"] for row in json.loads(self.result("listMessagesAsJSON", "n = 77"))], [77])
        self.assertEqual(self.result("changeMessagesPriority", "n < 5", 9), 5)
        self.assertEqual([reference.message.priority for reference in self.queue.references][:6], [9] * 5 + [4])
        self.assertEqual(self.result("moveMessages", "n < 20", "other"), 20)
        self.assertEqual(self.result("removeMessages", "n < 50"), 30)
        (wanted,) = [reference.message.message_id for reference in self.queue.references if reference.message.property("n") == 90]
        self.assertTrue(self.result("removeMessage", wanted))
        self.assertEqual(self.result("removeAllMessages"), 49)
        self.assertEqual((self.queue.message_count, self.world.queue("other").message_count), (0, 20))
        self.assertEqual(self.result("purge", resource="address.other"), 20)

    def test_one_turn_does_a_part(self) -> None:
        self.ask("removeAllMessages")
        self.assertEqual(self.queue.message_count, COUNT - STEP)
        self.assertFalse(self.session.peer.transport.reading, "who has asked is not heard before the answer")
        other = self.world.session()
        other.publish(b"x", "other", reply=True)
        self.assertIsInstance(other.take()[-1], wire.NullResponse)
        self.world.clock.advance(0.001)
        self.assertTrue(self.session.peer.transport.reading)

    def test_who_has_asked_is_heard_again_although_the_answer_fails(self) -> None:
        def fails(*arguments: object) -> None:
            raise LookupError("nothing found")

        self.patch(self.world.broker.open_management(), "_done", fails)
        self.ask("removeAllMessages")
        with self.assertRaises(LookupError):
            self.world.clock.advance(0.001)
        self.assertEqual((self.queue.message_count, self.session.peer.transport.reading), (0, True))

    def test_requests_keep_their_order(self) -> None:
        self.ask("countMessages", "n < 10")
        self.ask("removeAllMessages")
        self.ask("countMessages", "n < 10", session=self.world.session())
        self.world.clock.advance(0.001)
        self.assertEqual(sorted(self.answers(), key=str), [(True, 10), (True, 10), (True, COUNT)])

    def test_messages_that_come_and_go_meanwhile(self) -> None:
        self.ask("removeMessages", "n >= 0")
        consumer = self.world.session()
        consumer.consume(credits=-1)
        taken = len(consumer.received())
        for _ in range(30):
            self.world.session().publish(b"new", properties={"n": (INT, 1000)})
        self.world.clock.advance(0.001)
        ((succeeded, count),) = self.answers()
        self.assertEqual((succeeded, count + taken), (True, COUNT))

    def test_moving_to_the_same_queue_is_refused(self) -> None:
        self.ask("moveMessages", None, "q")
        ((succeeded, text),) = self.answers()
        self.assertFalse(succeeded)
        self.assertIn("onto itself", text)
        self.assertEqual([reference.message.property("n") for reference in self.queue.references], list(range(COUNT)))

    def test_who_waits_is_alive(self) -> None:
        self.session.peer.ping(5000)
        self.ask("removeAllMessages")
        connection = self.session.peer.connection
        self.world.server.turn.run(connection.check_alive, self.world.clock.monotonic() + 100)
        self.assertFalse(connection.closed)

    def test_who_leaves_meanwhile_leaves_nothing_undone(self) -> None:
        self.ask("removeAllMessages")
        self.session.peer.lose()
        self.world.clock.advance(0.001)
        self.assertEqual((self.queue.message_count, self.answers()), (0, [(True, COUNT)]))
