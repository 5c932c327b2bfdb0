"""What a LOCAL grouping handler decides, keeps and tells."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.grouping import local_grouping
from mqclient.wire.properties import STRING
from tests.unit.cluster.grouping.test_grouping import LOCAL, TIMEOUT, Broker


class LocalTests(SynchronousTestCase):
    def test_the_first_choice_holds_and_is_stored(self) -> None:
        broker = Broker(True)
        self.assertEqual(broker.decide(), broker.there)
        self.assertEqual(broker.decide(proposal=broker.here), broker.there)
        self.assertEqual(len(broker.settings()), 1)
        self.assertEqual(broker.take(), [("PROPOSAL_RESPONSE", "a.q", broker.there, None, 0)])

    def test_proposals_are_answered_with_what_is_decided(self) -> None:
        broker = Broker(True)
        broker.receive("PROPOSAL", "a.q", broker.there)
        broker.receive("PROPOSAL", "a.q", broker.here, distance=1)
        broker.receive("PROPOSAL", "a.q", broker.there)
        expected = [(broker.there, None), (broker.here, broker.there), (broker.there, None)]
        self.assertEqual(broker.take(), [("PROPOSAL_RESPONSE", "a.q", value, alternative, 0) for value, alternative in expected])

    def test_answers_and_messages_wait_until_the_decision_is_durable(self) -> None:
        broker = Broker(True)
        broker.node.store.held = True
        broker.receive("PROPOSAL", "a.q", broker.there)
        self.assertEqual(broker.take(), [])
        message = broker.node.message(durable=False, properties={"_AMQ_GROUP_ID": (STRING, "b")})
        broker.node.messaging.sending.send(message, "q", None, 1, broker.node.context)
        self.assertEqual(broker.waiting_there, 0)
        broker.node.store.sync()
        self.assertEqual(broker.waiting_there, 1)
        self.assertEqual([each[1] for each in broker.take()], ["a.q", "b.q"])

    def test_a_restart_waits_for_the_queues_of_stored_decisions(self) -> None:
        broker = Broker(True, {"a.q": f'"gone{LOCAL}"', "b.q": f'"late{LOCAL}"'})
        self.assertEqual([broker.decide("a"), broker.decide("b")], [None, None])
        self.assertEqual(broker.handler.waiting, 2)
        broker.node.core.routing._remotes[f"late{LOCAL}"] = broker.binding
        broker.handler.notified("BINDING_ADDED", {"_AMQ_ClusterName": (STRING, f"late{LOCAL}")})
        broker.advance(0)
        self.assertEqual((broker.woken, broker.decide("b")), (["b"], f"late{LOCAL}"))
        broker.advance(TIMEOUT)
        self.assertEqual(broker.woken, ["b", "a"])
        self.assertEqual(broker.decide("a"), broker.there)
        kinds = [(kind, value) for kind, _, value, *_ in broker.take()]
        self.assertEqual(kinds, [("UNPROPOSAL", f"gone{LOCAL}"), ("PROPOSAL_RESPONSE", broker.there)])
        self.assertIn("decided again", broker.warnings[0])

    def test_a_queue_that_is_removed_takes_its_decisions_along(self) -> None:
        broker = Broker(True)
        for number in range(1200):
            broker.decide(f"g{number}")
        broker.decide("kept", broker.here)
        broker.take()
        broker.leave()
        broker.advance(0.001)
        told = broker.take()
        self.assertEqual((len(told), {each[0] for each in told}), (1200, {"UNPROPOSAL"}))
        self.assertEqual(broker.handler.decisions, 1)
        self.assertEqual(broker.decide("g1", broker.here), broker.here)

    def test_another_way_to_the_same_queue_changes_nothing(self) -> None:
        broker = Broker(True)
        broker.decide()
        broker.take()
        broker.leave()
        broker.come_back()
        broker.advance(0)
        self.assertEqual((broker.take(), broker.decide(proposal=broker.here)), ([], broker.there))

    def test_unused_decisions_are_reaped(self) -> None:
        broker = Broker(True, group_timeout=60_000, reaper_period=10_000)
        broker.handler.start()
        broker.decide("used")
        broker.decide("unused")
        for _ in range(8):
            broker.advance(10)
            broker.decide("used")
        self.assertEqual(broker.handler.decisions, 1)
        self.assertIn(("UNPROPOSAL", "unused.q", broker.there, None, 0), broker.take())
        broker.handler.stop()
        self.assertEqual(broker.node.clock.pending, 0)

    def test_beyond_the_limit_the_group_unused_for_longest_is_forgotten(self) -> None:
        self.patch(local_grouping, "DECISIONS_MAX", 2)
        broker = Broker(True)
        for group in ("a", "b", "a", "c"):
            broker.decide(group)
        self.assertEqual(broker.handler.decisions, 2)
        self.assertIn(("UNPROPOSAL", "b.q", broker.there, None, 0), broker.take())
        self.assertIn("forgotten", broker.warnings[0])

    def test_a_broker_that_does_not_know_the_queue_does_not_undo_a_decision(self) -> None:
        broker = Broker(True)
        broker.decide()
        broker.receive("UNPROPOSAL", "a.q", broker.there)
        self.assertEqual(broker.handler.decisions, 1)
        broker.node.core.routing.unbind_remote(broker.binding)
        broker.receive("UNPROPOSAL", "a.q", broker.here)
        self.assertEqual(broker.handler.decisions, 1)
        broker.receive("UNPROPOSAL", "a.q", broker.there)
        self.assertEqual(broker.handler.decisions, 0)

    def test_another_local_handler_is_told_once(self) -> None:
        broker = Broker(True)
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there, distance=1)
        self.assertEqual(broker.warnings, [])
        broker.receive("PROPOSAL_RESPONSE", "a.q", broker.there)
        broker.receive("PROPOSAL_RESPONSE", "b.q", broker.there)
        self.assertEqual(len(broker.warnings), 1)
        self.assertIn("Exactly one broker", broker.warnings[0])
