"""Whether another member has heard of a queue as it is here."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import Node, three


class LivesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()

    def asked(self, node: Node, other: Node, queue: str = "q") -> bool:
        answers: list[bool] = []
        node.shared.lives.ask(other.node_id, queue, answers.append)
        self.net.settle()
        (answer,) = answers
        return answer

    def make_anew(self, at: Node) -> None:
        session = at.session()
        for packet in (create("q"), wire.DeleteQueue("q"), create("q")):
            session.send(packet)
            self.net.settle()

    def test_a_member_that_follows_has_heard(self) -> None:
        for node in (self.one, self.two):
            self.make_anew(node)
            self.assertTrue(self.asked(node, self.three))

    def test_one_that_the_master_does_not_reach_has_not(self) -> None:
        self.net.cut(self.one, self.three)
        self.three.deaf.add("recordHas")
        self.make_anew(self.two)
        self.three.deaf.clear()
        for node in (self.two, self.two):
            self.assertFalse(self.asked(node, self.three))
        self.two.restart()
        self.net.link_all(self.two)
        self.net.settle()
        self.net.cut(self.one, self.three)
        self.assertFalse(self.asked(self.two, self.three))
        self.net.link(self.one, self.three)
        self.net.settle()
        self.assertTrue(self.asked(self.two, self.three))

    def test_what_another_broker_has_made_counts_too(self) -> None:
        self.net.cut(self.one, self.three)
        self.make_anew(self.one)
        self.assertFalse(self.asked(self.two, self.three))

    def test_a_member_is_asked_once_for_all_that_was_before(self) -> None:
        self.make_anew(self.two)
        self.two.session().send(create("r"))
        self.net.settle()
        self.asked(self.two, self.three, "r")
        before = self.net.requests["recordHas"]
        self.assertTrue(self.asked(self.two, self.three, "q"))
        self.assertEqual(self.net.requests["recordHas"], before)

    def test_queues_that_have_always_been_there_need_no_question(self) -> None:
        before = self.net.requests["recordHas"]
        self.assertTrue(self.asked(self.two, self.three, "unknown"))
        self.assertEqual(self.net.requests["recordHas"], before)

    def test_a_member_that_is_not_linked_has_not_heard(self) -> None:
        self.make_anew(self.two)
        self.net.cut(self.two, self.three)
        self.assertFalse(self.asked(self.two, self.three))

    def test_the_loss_of_the_link_is_an_answer(self) -> None:
        self.make_anew(self.two)
        answers: list[bool] = []
        self.two.shared.lives.ask(self.three.node_id, "q", answers.append)
        self.net.cut(self.two, self.three)
        self.net.settle()
        self.assertEqual(answers, [False])

    def test_nothing_is_kept_of_queues_that_have_gone(self) -> None:
        self.make_anew(self.two)
        self.two.session().send(wire.DeleteQueue("q"))
        self.net.settle()
        for node in (self.one, self.two, self.three):
            self.assertEqual(node.recording.standing.lives, {})

    def test_they_are_the_same_everywhere_and_after_a_restart(self) -> None:
        """Also at a broker that reads several changes at once."""
        self.net.cut(self.one, self.three)
        session = self.two.session()
        for name in ("q", "r"):
            session.send(create(name))
            self.net.settle()
        self.net.link(self.one, self.three)
        self.net.settle()
        lives = self.one.recording.standing.lives
        self.assertEqual(lives["r"][1], lives["q"][1] + 1)
        self.two.restart()
        self.assertEqual([node.recording.standing.lives for node in (self.two, self.three)], [lives, lives])
