"""What the start says about settings that weaken the guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.rules import ProofRules, warnings_at_start


class WarningTests(SynchronousTestCase):
    def told(self, rules: ProofRules, voters: Sequence[str], java: Sequence[str] = ()) -> list[str]:
        return list(warnings_at_start(rules, voters, lambda node_id: node_id in java))

    def test_a_pair_with_voters_needs_no_warning(self) -> None:
        self.assertEqual(self.told(ProofRules(True), ("a", "b")), [])
        self.assertEqual(self.told(ProofRules(True, 2, True, True), ("a", "b")), [])

    def test_a_pair_alone_is_told_the_remedy(self) -> None:
        (told,) = self.told(ProofRules(True), ())
        self.assertIn("Any further mqbroker in the cluster, even an idle one, is a voter", told)

    def test_each_setting_that_weakens_it_is_told(self) -> None:
        rules = ProofRules(True, 3, False, False)
        told = self.told(rules, ("a", "b"), ("b",))
        for text in ("quorum-size asks for 3 votes", "Java brokers vote here (b)", "check-for-active-server is", "vote-on-replication-fai"):
            self.assertEqual(len([each for each in told if text in each]), 1, text)
        self.assertEqual(len(told), 4)
        self.assertEqual(len(self.told(ProofRules(False, 3, False, False), ("a", "b"), ("b",))), 3)
