"""Wishes on their way: answers that are none, and a master that takes none for long."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, Net, Node, three


class WishTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, _ = three()

    def answer(self, node: Node, name: str = "q", seconds: float = 0) -> wire.Packet:
        session = node.session()
        session.peer.ping(10_000_000)
        session.send(create(name))
        self.net.settle(seconds)
        [answer] = session.take()
        return answer

    def test_a_master_that_takes_no_changes_for_long(self) -> None:
        self.one.recording.keeping.blocked = "it never ends"
        answer = self.answer(self.two, seconds=190)
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual(answer.error_code, IllegalStateError.code)
        self.assertIn(f"{ONE} takes no changes now", str(answer.message))
        answer = self.answer(self.one, seconds=190)
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn("it never ends", str(answer.message))

    def test_a_master_that_takes_no_changes_for_longer_than_a_request_waits(self) -> None:
        """The request is given up at that time, not when the master would be asked again."""
        self.net, self.one, self.two, _ = three(wait_reply_s=3)
        self.one.recording.keeping.blocked = "for a while"
        session = self.two.session()
        session.send(create("q"))
        self.net.settle(2.9)
        self.assertEqual(session.take(), [])
        self.net.settle(0.1)
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn(f"{ONE} takes no changes now", str(answer.message))
        self.one.recording.keeping.blocked = None
        self.net.settle(10)
        self.assertEqual((session.take(), self.two.queues), ([], []))

    def test_one_that_takes_them_again(self) -> None:
        self.one.recording.keeping.blocked = "for a while"
        session = self.two.session()
        session.send(create("q"))
        self.net.settle(7)
        self.assertEqual(session.take(), [])
        self.one.recording.keeping.blocked = None
        self.net.settle(5)
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])

    def test_an_answer_that_is_none(self) -> None:
        for wrong in ({"position": "x", "change": None}, {}, {"error": [1]}):
            self.one.shared.operations._answers["append"] = lambda *parameters, wrong=wrong: wrong  # type: ignore[index]
            answer = self.answer(self.two)
            assert isinstance(answer, wire.ExceptionResponse)
            self.assertIn(ONE, str(answer.message))
            self.flushLoggedErrors()
        self.assertEqual(self.two.queues, [])

    def test_a_refusal_of_a_broker_that_is_not_the_master(self) -> None:
        self.one.recording.keeping.end()
        answer = self.answer(self.two)
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn("is not the master broker", str(answer.message))

    def test_what_waits_is_given_up_in_time(self) -> None:
        net = Net(nowait_for_master=True, nowait_for_master_s=20)
        two = net.add("b2:7676")
        session = two.session()
        session.send(create("q"))
        net.settle(19)
        self.assertEqual(session.take(), [])
        net.settle(1)
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])
