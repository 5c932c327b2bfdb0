"""What the start says about settings that weaken the guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof.ports import Introduction
from mqbroker.ha.proof.rules import ProofRules, warnings_at_start


class WarningTests(SynchronousTestCase):
    def told(
        self, rules: ProofRules, voters: Sequence[str], java: Sequence[str] = (), silent: Sequence[str] = (), paired: Sequence[str] = ()
    ) -> list[str]:
        met = {each: None if each in silent else Introduction(each in java, True, each in paired) for each in voters}
        return list(warnings_at_start(rules, met))

    def test_a_pair_with_voters_needs_no_warning(self) -> None:
        self.assertEqual(self.told(ProofRules(True), ("a", "b")), [])
        self.assertEqual(self.told(ProofRules(True, 3, True, True), ("a", "b")), [])

    def test_a_pair_alone_is_told_the_remedy(self) -> None:
        (told,) = self.told(ProofRules(True), ())
        self.assertIn("Any further mqbroker in the cluster, even an idle one, is a voter", told)

    def test_a_majority_that_does_not_vote_now_is_told(self) -> None:
        self.assertEqual(self.told(ProofRules(True), "abc", silent="a"), [])
        (told,) = self.told(ProofRules(True), "abcd", silent="bd")
        self.assertIn("3 of 4 voters are needed, and 2 vote: without the others (b, d)", told)

    def test_a_voter_that_keeps_nothing_does_not_count(self) -> None:
        (told,) = warnings_at_start(ProofRules(True), {"a": Introduction(java=False, votes=False, paired=False)})
        self.assertIn("without the others (a)", told)

    def test_voters_that_are_pairs_are_told_where_the_others_are_no_majority(self) -> None:
        for voters, paired, expected in (("a", "a", 1), ("ab", "a", 1), ("abc", "a", 0), ("abc", "ab", 1), ("abc", "", 0)):
            told = self.told(ProofRules(True), voters, paired=paired)
            self.assertEqual(len(told), expected, voters)
            self.assertTrue(all(f"some that vote are pairs ({', '.join(paired)})" in each for each in told))

    def test_each_setting_that_weakens_it_is_told(self) -> None:
        rules = ProofRules(True, 4, False, False)
        told = self.told(rules, ("a", "b"), ("b",))
        for text in ("quorum-size asks for 3 votes", "Java brokers vote here (b)", "check-for-active-server is", "vote-on-replication-fai"):
            self.assertEqual(len([each for each in told if text in each]), 1, text)
        self.assertEqual(len(told), 4)
        self.assertEqual(len(self.told(ProofRules(False, 4, False, False), ("a", "b"), ("b",))), 3)


class PolicyTests(SynchronousTestCase):
    def test_what_is_not_written_means_the_rule_with_times_of_this_broker(self) -> None:
        self.assertEqual(ProofRules.of(ReplicationConfiguration(True)), ProofRules(False, retry_seconds=1.0, round_seconds=2.0))

    def test_what_is_written_counts(self) -> None:
        policy = ReplicationConfiguration(
            False,
            quorum_size=3,
            check_for_active_server=False,
            vote_on_replication_failure=False,
            vote_retry_wait=7000,
            quorum_vote_wait=12,
        )
        self.assertEqual(ProofRules.of(policy), ProofRules(True, 3, False, False, 7.0, 12))

    def test_no_pause_is_so_short_that_a_broker_does_nothing_but_ask(self) -> None:
        self.assertEqual(ProofRules.of(ReplicationConfiguration(True, vote_retry_wait=0)).retry_seconds, 0.1)
