"""The list of voters: it changes by one, and only when the last change is kept everywhere."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof import voters
from mqbroker.ha.proof.voters import Voters, voters_in
from tests.support.settings_store import SettingsStore


class VotersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = SettingsStore()
        self.voters = Voters(self.store, "own", {})

    def test_node_ids_join_one_by_one(self) -> None:
        for node_id in ("a", "b", "a", "own"):
            self.voters.join(node_id)
        self.assertEqual((self.voters.members, self.store.commits), (("a",), 1))
        self.store.sync()
        self.assertEqual((self.voters.members, self.store.commits), (("a", "b"), 2))
        self.store.sync()
        self.assertEqual(voters_in(self.store.durable), ("a", "b"))

    def test_a_change_waits_for_the_replica_of_the_last_one(self) -> None:
        replica = self.store.demand("replica")
        self.voters.join("a")
        self.voters.join("b")
        self.store.sync()
        self.assertEqual(self.voters.members, ("a",))
        replica.hold(self.store.last)
        self.assertEqual(self.voters.members, ("a", "b"))

    def test_only_who_is_told_to_leaves(self) -> None:
        self.voters = Voters(self.store, "own", {("activation-voters", "voters"): '["a", "b"]'})
        self.voters.leave("a")
        self.voters.leave("c")
        self.store.sync()
        self.assertEqual((self.voters.members, self.store.commits), (("b",), 1))

    def test_who_is_no_voter_leaves_nothing_behind(self) -> None:
        self.voters.join("a")
        for number in range(1000):
            self.voters.leave(f"n{number}")
        self.assertEqual(self.voters._wanted, {})

    def test_the_last_word_about_a_node_counts(self) -> None:
        self.voters.join("a")
        self.voters.join("b")
        self.voters.leave("b")
        self.store.sync()
        self.store.sync()
        self.assertEqual((self.voters.members, self.store.commits), (("a",), 1))

    def test_a_store_that_is_durable_at_once_takes_all_changes(self) -> None:
        self.store.when_synced = lambda ticket, function: function()
        for node_id in "abc":
            self.voters.join(node_id)
        self.assertEqual(self.voters.members, ("a", "b", "c"))

    def test_there_is_a_limit(self) -> None:
        self.patch(voters, "VOTERS_MAX", 2)
        for node_id in "abca":
            self.voters.join(node_id)
        for _ in range(4):
            self.store.sync()
        self.assertEqual(self.voters.members, ("a", "b"))

    def test_a_damaged_list_is_refused(self) -> None:
        for text in ("{}", "[1]", '[""]', "x"):
            self.assertRaises(ValueError, voters_in, {("activation-voters", "voters"): text})
