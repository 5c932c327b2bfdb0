"""Clients that ask for a queue are answered by what is on record, not by what their broker has read."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master.reading import READ_SECONDS
from mqclient.errors import InvalidTransientQueueUseError
from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, TWO, Node, peers, three


def share(name: str, **attributes: object) -> wire.CreateSharedQueueV2:
    return wire.CreateSharedQueueV2(name, name, **{"durable": True, "routing_type": 0, "requires_response": True, **attributes})


class _Asking(SynchronousTestCase):
    net: Any

    def ask(self, node: Node, packet: wire.Packet, seconds: float = 0) -> Any:
        session = node.session()
        session.send(packet)
        self.net.settle(seconds)
        [answer] = session.take()
        return answer

    def query(self, node: Node, name: str = "sub", seconds: float = 0) -> Any:
        return self.ask(node, wire.QueueQuery(name), seconds)


class ReadingTests(_Asking):
    """The third broker has not heard of the last changes."""

    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()
        self.one.session().ok(share("sub"))
        self.net.settle()
        self.three.deaf.add("recordHas")

    def questions(self) -> int:
        found: int = self.net.requests["changes"]
        return found

    def change(self, *packets: wire.Packet) -> None:
        session = self.two.session()
        for packet in packets:
            session.send(packet)
            self.net.settle()
        self.assertEqual({each.NAME for each in session.take()}, {"NULL_RESPONSE"})

    def test_a_queue_that_was_deleted_is_not_there(self) -> None:
        self.change(wire.DeleteQueue("sub"))
        self.assertEqual(self.three.queues, ["sub"])
        self.assertFalse(self.query(self.three).exists)

    def test_a_queue_that_was_made_is_there(self) -> None:
        self.change(share("other", filter_string="a = 1"))
        self.assertEqual(self.three.queues, ["sub"])
        answer = self.query(self.three, "other")
        self.assertEqual((answer.exists, answer.filter_string), (True, "a = 1"))

    def test_a_queue_that_was_made_anew_is_described_as_it_is(self) -> None:
        self.change(wire.DeleteQueue("sub"), share("sub", filter_string="a = 1"))
        self.assertEqual(self.query(self.three).filter_string, "a = 1")

    def test_a_queue_that_was_made_can_be_deleted(self) -> None:
        self.change(share("other"))
        self.assertEqual(self.ask(self.three, wire.DeleteQueue("other")).NAME, "NULL_RESPONSE")
        self.assertEqual([node.queues for node in (self.one, self.two)], [["sub"]] * 2)

    def test_a_shared_subscription_that_was_deleted_is_made_anew(self) -> None:
        former = self.three.world.queue("sub")
        self.change(wire.DeleteQueue("sub"))
        self.assertEqual(self.ask(self.three, share("sub")).NAME, "NULL_RESPONSE")
        self.assertTrue(former.deleted)
        self.assertEqual([node.queues for node in (self.one, self.two, self.three)], [["sub"]] * 3)

    def test_a_shared_subscription_is_compared_with_the_one_that_is_on_record(self) -> None:
        self.change(wire.DeleteQueue("sub"), share("sub", filter_string="a = 1"))
        self.assertEqual(self.ask(self.three, share("sub", filter_string="a = 1")).NAME, "NULL_RESPONSE")
        self.assertEqual(self.ask(self.three, share("sub")).error_code, InvalidTransientQueueUseError.code)

    def test_no_question_where_the_answer_does_not_depend_on_the_record(self) -> None:
        session = self.three.session()
        session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True), create("auto", auto_created=True))
        before = self.questions()
        for name in ("t", "auto", self.three.world.server.management_address):
            self.assertTrue(session.call(wire.QueueQuery(name)).exists, name)
        for name in ("sub", "nothing"):
            self.query(self.one, name)
        self.assertEqual(self.questions(), before)

    def test_many_ask_together(self) -> None:
        before = self.questions()
        sessions = [self.three.session() for _ in range(20)]
        for session in sessions:
            session.send(wire.QueueQuery("sub"))
        self.net.settle()
        self.assertEqual([len(session.take()) for session in sessions], [1] * 20)
        self.assertEqual(self.questions() - before, 2, "the first question was put before the others came")

    def test_a_question_that_was_put_before_is_no_answer(self) -> None:
        first, second = self.three.session(), self.three.session()
        first.send(wire.QueueQuery("sub"))
        self.net.clock.run_due()  # the master answers
        self.one.session().ok(wire.DeleteQueue("sub"))
        second.send(wire.QueueQuery("sub"))
        self.net.settle()
        self.assertEqual([session.take()[0].exists for session in (first, second)], [True, False])

    def test_without_the_master_the_answer_is_what_the_broker_has_read(self) -> None:
        self.net.cut(self.one, self.three)
        self.change(wire.DeleteQueue("sub"))
        session = self.three.session()
        self.assertTrue(session.call(wire.QueueQuery("sub")).exists)
        session.ok(share("sub"))

    def test_a_master_that_goes_before_it_answers(self) -> None:
        self.one.deaf.add("changes")
        session = self.three.session()
        session.send(wire.QueueQuery("sub"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.cut(self.one, self.three)
        self.assertTrue(session.take()[0].exists)

    def test_nobody_waits_for_long_nor_after_another_has_waited_in_vain(self) -> None:
        self.change(wire.DeleteQueue("sub"))
        self.one.deaf.add("changes")
        first, second = self.three.session(), self.three.session()
        first.send(wire.QueueQuery("sub"))
        self.net.settle(READ_SECONDS - 1)
        self.assertEqual(first.take(), [])
        self.net.settle(1)
        self.assertTrue(first.take()[0].exists)
        self.assertTrue(second.call(wire.QueueQuery("sub")).exists)
        self.one.deaf.clear()
        self.net.cut(self.one, self.three)
        self.net.link(self.one, self.three)
        self.net.settle()
        self.change(share("sub"))
        self.assertTrue(self.query(self.three).exists)

    def test_an_answer_that_is_none_is_not_asked_for_again_at_once(self) -> None:
        answers, before = self.one.shared.operations._answers, self.questions()
        working = answers["changes"]
        answers["changes"] = lambda *parameters: {}  # type: ignore[index]
        self.change(wire.DeleteQueue("sub"))
        for _ in range(3):
            self.assertTrue(self.query(self.three).exists)
        self.assertEqual(self.questions() - before, 1)
        answers["changes"] = working  # type: ignore[index]
        self.net.settle(10)
        self.assertFalse(self.query(self.three).exists)

    def test_a_client_that_goes_meanwhile(self) -> None:
        session = self.three.session()
        session.send(wire.QueueQuery("sub"))
        session.peer.lose()
        self.net.settle(READ_SECONDS)
        self.assertTrue(self.query(self.three).exists)


class PeersTests(_Asking):
    """The record is in a database."""

    def setUp(self) -> None:
        self.net = peers(2)
        self.addCleanup(self.net.database.close)
        self.one, self.two = self.net.nodes[ONE], self.net.nodes[TWO]
        self.ask(self.one, share("sub"))
        self.net.settle()
        self.two.deaf.add("recordHas")
        self.ask(self.one, wire.DeleteQueue("sub"))
        self.assertEqual(self.two.queues, ["sub"])

    def test_the_database_is_asked(self) -> None:
        self.assertFalse(self.query(self.two).exists)

    def test_without_the_database_the_answer_is_what_the_broker_has_read(self) -> None:
        self.net.database.away = True
        self.assertTrue(self.query(self.two).exists)
        self.assertTrue(self.query(self.two).exists)
        self.net.database.away = False
        self.net.settle(10)
        self.assertFalse(self.query(self.two).exists)
