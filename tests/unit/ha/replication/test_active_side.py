"""What an active broker of a pair does: it knows the voters."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.config.model.cluster import ReplicationConfiguration, ScaleDownConfiguration
from tests.unit.ha.replication.support import Node, PairCase


class HoldBackTests(PairCase):
    def passive_after(self, stop_of: Callable[[Node], object]) -> bool:
        """Does the replica of a pair that cannot go on without the word of its primary stay passive?"""
        primary, backup = self.pair(quorum_size=2)
        stop_of(primary)
        self.run_for(15)
        self.assertEqual(primary.state, "stopped")
        return backup.state == "passive"

    def test_an_orderly_stop_gives_the_replica_the_word(self) -> None:
        self.assertFalse(self.passive_after(lambda primary: primary.stop()))

    def test_one_that_holds_back_leaves_it_to_the_proof(self) -> None:
        def isolated(primary: Node) -> None:
            primary.activation.hold_back()
            primary.stop()

        self.assertTrue(self.passive_after(isolated))


class VotersTests(PairCase):
    def test_an_idle_broker_of_the_cluster_is_a_voter(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,))
        self.run_for(1)
        self.assertEqual(backup.kept_voters, (voter.record_node,))
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.assertEqual(backup.record.sequence, 2)

    def test_a_broker_that_stops_keeps_the_list_without_reading_what_it_writes(self) -> None:
        voter = self.node("voter", 3, 1).start()
        primary = self.node("primary", 1, 3, policy=ReplicationConfiguration(False)).start()
        self.run_until(lambda: primary.state == "active" and primary.activation._voters() == (voter.record_node,))
        primary.disk.fail("read", OSError("nobody may read"))
        primary.activation.leave()
        self.assertEqual(primary.activation._voters(), (voter.record_node,))
        self.assertEqual((primary.failures, primary.disk.failures), ([], 0))

    def test_a_voter_that_has_scaled_down_is_none_any_more(self) -> None:
        voter = self.node("voter", 3, 1, 2, scale_down=ScaleDownConfiguration(connectors=("to1",))).start()
        other = self.node("other", 4, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, 4, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, 4, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: set(primary.activation._voters()) == {voter.record_node, other.record_node})
        self.run_for(1)
        other.stop()
        voter.stop()
        self.run_until(lambda: voter.state == other.state == "stopped")
        self.run_for(1)
        # An orderly stop alone changes nothing: the broker comes back.
        self.assertEqual(primary.activation._voters(), (other.record_node,))
        self.assertEqual(backup.kept_voters, (other.record_node,))
