"""What a REMOTE grouping handler asks, waits for and believes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.grouping.remote_grouping import ASKING_MAX, ROUNDS_MAX
from tests.unit.cluster.grouping.test_grouping import LOCAL, TIMEOUT, Broker


class RemoteTests(SynchronousTestCase):
    def test_a_group_waits_for_the_answer_which_holds(self) -> None:
        broker = Broker(False)
        self.assertIsNone(broker.decide())
        self.assertIsNone(broker.decide())
        self.assertEqual(broker.take(), [("PROPOSAL", "a.q", broker.there, None, 0)])
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there, answer=broker.here)
        self.assertEqual(broker.woken, [])
        broker.advance(0)
        self.assertEqual((broker.woken, broker.decide()), (["a", "a"], broker.here))
        self.assertEqual(broker.node.clock.pending, 0)

    def test_answers_to_others_are_known_without_asking(self) -> None:
        broker = Broker(False)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.here)
        self.assertEqual(broker.decide(), broker.here)
        self.assertNotIn("PROPOSAL", [each[0] for each in broker.take()])

    def test_nobody_answers(self) -> None:
        broker = Broker(False)
        broker.decide()
        for _ in range(ROUNDS_MAX - 1):
            broker.advance(TIMEOUT)
            self.assertEqual(broker.woken, [])
        broker.advance(TIMEOUT)
        self.assertEqual((broker.woken, len(broker.warnings)), (["a"], 1))
        self.assertIn("<type>LOCAL</type>", broker.warnings[0])
        self.assertEqual(len(broker.take()), ROUNDS_MAX)
        # The group stays together here, and nobody else waits.
        self.assertEqual([broker.decide(proposal=broker.here), broker.decide("b")], [broker.there, broker.there])
        self.assertEqual(broker.handler.messages_ungrouped, 2)
        broker.advance(TIMEOUT * ROUNDS_MAX * 2)
        self.assertEqual(len(broker.warnings), 1)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.here)
        self.assertEqual(broker.decide(), broker.here)
        self.assertIsNone(broker.decide("c"))

    def test_while_nobody_answers_a_few_groups_ask_for_all(self) -> None:
        """Each message may have a group of its own; proposals about all of them would keep every broker of the cluster busy."""
        broker = Broker(False)
        broker.decide()
        broker.advance(TIMEOUT * ROUNDS_MAX)
        broker.take()
        groups = [f"g{number}" for number in range(ASKING_MAX + 50)]
        self.assertEqual({broker.decide(group) for group in groups}, {broker.there})
        self.assertEqual((broker.handler.waiting, len(broker.take())), (ASKING_MAX, ASKING_MAX))
        self.assertEqual(broker.handler.messages_ungrouped, len(groups))
        self.assertEqual(broker.decide(groups[-1], proposal=broker.here), broker.there, "the group stays together here")
        self.assertEqual(broker.take(), [])
        broker.receive("PROPOSAL_RESPONSE", "g0.q", broker.there)
        broker.take()
        self.assertEqual(broker.decide(groups[-1]), broker.there)
        self.assertEqual(broker.take(), [("PROPOSAL", f"{groups[-1]}.q", broker.there, None, 0)])
        broker.receive("PROPOSAL_RESPONSE", f"{groups[-1]}.q", broker.there, answer=broker.here)
        self.assertEqual(broker.decide(groups[-1]), broker.here)

    def test_proposals_are_repeated_for_a_member_that_asks_what_there_is(self) -> None:
        broker = Broker(False)
        broker.decide("a")
        broker.decide("b")
        broker.take()
        broker.handler.repeat()
        self.assertEqual([each[:2] for each in broker.take()], [("PROPOSAL", "a.q"), ("PROPOSAL", "b.q")])

    def test_the_decided_queue_is_not_known_yet(self) -> None:
        broker = Broker(False)
        broker.node.core.routing.unbind_remote(broker.binding)
        broker.decide(proposal=broker.here)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.here, answer=broker.there)
        self.assertIsNone(broker.decide(proposal=broker.here))
        broker.come_back()
        broker.advance(0)
        self.assertEqual((len(broker.woken), broker.decide()), (2, broker.there))

    def test_the_decided_queue_never_becomes_known(self) -> None:
        broker = Broker(False)
        broker.node.core.routing.unbind_remote(broker.binding)
        broker.decide(proposal=broker.here)
        for _ in range(ROUNDS_MAX):
            broker.receive("PROPOSAL_RESPONSE", "a.q", broker.here, answer=broker.there)
            broker.advance(TIMEOUT)
        kinds = [each[0] for each in broker.take() if not each[4]]
        self.assertEqual(kinds, ["PROPOSAL", *["UNPROPOSAL", "PROPOSAL"] * (ROUNDS_MAX - 1)])
        self.assertEqual((broker.woken, broker.decide(proposal=broker.here)), (["a"], broker.here))
        self.assertIn("which is not known here", broker.warnings[0])

    def test_decisions_are_kept_alive_and_asked_for_again_when_the_link_was_cut(self) -> None:
        broker = Broker(False, group_timeout=60_000)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there)
        broker.take()
        broker.advance(31)
        self.assertEqual((broker.decide(), broker.take()), (broker.there, [("PROPOSAL", "a.q", broker.there, None, 0)]))
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there)
        broker.take()
        broker.handler.linked("somebody else")
        self.assertEqual(broker.decide(), broker.there)
        broker.handler.linked(LOCAL)
        self.assertIsNone(broker.decide(proposal=broker.here))
        self.assertEqual(broker.take(), [("PROPOSAL", "a.q", broker.there, None, 0)])
        broker.advance(TIMEOUT)
        self.assertEqual((broker.woken, broker.decide()), (["a"], broker.there))

    def test_decisions_of_one_further_away_are_asked_for_again_when_any_link_was_cut(self) -> None:
        broker = Broker(False)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there, distance=1)
        broker.take()
        self.assertEqual(broker.decide(), broker.there)
        broker.handler.linked("a member on the way")
        self.assertIsNone(broker.decide())
        self.assertEqual(broker.take(), [("PROPOSAL", "a.q", broker.there, None, 0)])
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there, answer=broker.here, distance=1)
        self.assertEqual(broker.decide(), broker.here)

    def test_a_decision_that_is_taken_back_is_forgotten(self) -> None:
        broker = Broker(False)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there)
        broker.receive("UNPROPOSAL", "a.q", broker.here)
        self.assertEqual(broker.handler.decisions, 1)
        broker.receive("UNPROPOSAL", "a.q", broker.there)
        self.assertEqual(broker.handler.decisions, 0)

    def test_what_comes_is_told_to_members_further_away_once(self) -> None:
        broker = Broker(False)
        for distance in (0, 1):
            broker.receive("PROPOSAL", "a.q", broker.there, distance=distance)
            broker.receive("PROPOSAL_RESPONSE", "a.q", broker.here, answer=broker.there, distance=distance)
            broker.receive("UNPROPOSAL", "a.q", broker.there, distance=distance)
        self.assertEqual(
            broker.take(),
            [
                ("PROPOSAL", "a.q", broker.there, None, 1),
                ("PROPOSAL_RESPONSE", "a.q", broker.here, broker.there, 1),
                ("UNPROPOSAL", "a.q", broker.there, None, 1),
            ],
        )
        broker.advance(TIMEOUT)
        broker.receive("PROPOSAL", "a.q", broker.there)
        self.assertEqual(len(broker.take()), 1)
