"""What an active broker of a pair does: it knows the voters."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import capturedLogs, formatEvent

from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqbroker.config.model.cluster import ReplicationConfiguration, ScaleDownConfiguration
from mqbroker.ha.proof.seeking import LAPSE_SECONDS
from mqbroker.ha.proof.vote_codec import INTRODUCTION
from mqbroker.ha.replication.active_side import WARN_SECONDS
from mqbroker.ha.replication.process_voters import ProcessVoters
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


class NeighbourTests(PairCase):
    """The only voter of a pair runs in the process of its primary, and nobody is at its place."""

    def pair_beside_its_voter(self) -> tuple[Node, Node, Node]:
        neighbours = ProcessVoters()
        voter = self.node("voter", 3, 1, 2, policy=ReplicationConfiguration(False))
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False))
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200))
        voter.neighbours = primary.neighbours = neighbours
        for each in (voter, primary, backup):
            each.start()
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,) and primary.replica_state == "in sync")
        self.run_for(1)
        del self.network.listening[voter.port]
        return voter, primary, backup

    def test_a_broker_goes_on_with_the_vote_of_one_in_its_process(self) -> None:
        _, primary, backup = self.pair_beside_its_voter()
        backup.kill()
        self.run_until(lambda: primary.record.sequence == 2, LAPSE_SECONDS)
        self.run_for(LAPSE_SECONDS)
        self.assertEqual((primary.state, primary.activations, primary.activation._own.seeker.state), ("active", 1, "proven"))

    def test_a_neighbour_that_has_lost_its_own_replica_votes_after_it_has_the_proof(self) -> None:
        """Two that need the vote of each other wait: either may be active elsewhere by now."""
        voter, primary, backup = self.pair_beside_its_voter()
        replica = self.node("replica", 4, 3, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200))
        self.network.listening[voter.port] = voter.life.active.server
        replica.start()
        self.run_until(lambda: voter.replica_state == "in sync" and primary.record_node in voter.activation._voters())
        self.run_for(1)
        del self.network.listening[voter.port]
        replica.kill()
        backup.kill()
        self.run_for(30)
        self.assertEqual([each.state for each in (voter, primary)], ["passive", "passive"])
        self.assertEqual([each.record.sequence for each in (voter, primary)], [1, 1])

    def test_a_neighbour_that_stops_votes_no_more(self) -> None:
        voter, primary, backup = self.pair_beside_its_voter()
        voter.activation.leave()
        backup.kill()
        self.run_for(LAPSE_SECONDS + 1)
        self.assertEqual((primary.state, primary.record.sequence), ("passive", 1))


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

    def test_a_broker_without_persistence_is_no_voter(self) -> None:
        forgetful = self.node("forgetful", 4, 1, 2, 3, persistent=False).start()
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, 4, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, 4, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        for _ in range(2):
            self.run_for(6)
            self.assertIn(forgetful.life.active.server.node_id, primary.life.active.server.cluster.connections["c"].members)
            self.assertEqual(primary.activation._voters(), (voter.record_node,))
            forgetful.kill()
            forgetful.start()
        primary.kill()
        self.run_until(lambda: backup.state == "active")

    def test_a_voter_that_does_not_answer_at_first_is_asked_again(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        self.run_until(lambda: voter.state == "active")
        channel = voter.life.active.server.cluster_channel
        said = channel._votes.pop(INTRODUCTION)
        self.run_until(lambda: primary.state == "active")
        self.run_for(4)
        self.assertEqual(primary.activation._voters(), ())
        channel._votes[INTRODUCTION] = said
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,), 8)

    def test_the_start_tells_that_too_few_voters_answer(self) -> None:
        voter = self.node("voter", 3, 1).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        self.run_until(lambda: primary.state == "active" and primary.activation._voters() != ())
        self.run_for(1)
        lost = voter.record_node
        voter.kill()
        primary.kill()
        with capturedLogs() as events:
            primary.start()
            self.run_for(WARN_SECONDS + 3)
        said = [formatEvent(event) for event in events]
        self.assertEqual(len([each for each in said if f"1 of 1 voters are needed, and 0 vote: without the others ({lost})" in each]), 1)

    def two_pairs(self, *further: int) -> tuple[list[Node], list[Node]]:
        """Two pairs that vote for each other, with their primaries on one machine and their backups on another."""
        actives, replicas = [], []
        for first, second in ((1, 3), (3, 1)):
            policies = ReplicationConfiguration(False, group_name=f"g{first}"), ReplicationConfiguration(True, group_name=f"g{first}")
            others = second, second + 1, *further
            actives.append(self.node(f"primary {first}", first, first + 1, *others, policy=policies[0]).start())
            replicas.append(self.node(f"backup {first}", first + 1, first, *others, policy=policies[1]).start())
        self.run_until(lambda: all(each.state == "active" and each.replica_state == "in sync" for each in actives))
        self.run_until(lambda: all(len(each.activation._voters()) == 1 + len(further) for each in actives))
        return actives, replicas

    def test_pairs_that_vote_for_each_other_wait_when_a_machine_is_lost_and_the_start_tells_it(self) -> None:
        with capturedLogs() as events:
            actives, replicas = self.two_pairs()
            self.run_for(WARN_SECONDS)
        said = [formatEvent(event) for event in events]
        self.assertEqual(len([each for each in said if "some that vote are pairs" in each]), 2)
        for each in replicas:
            each.kill()
        self.run_for(30)
        self.assertEqual([each.state for each in actives], ["passive", "passive"])

    def test_a_majority_of_voters_in_no_pair_lets_them_go_on(self) -> None:
        voters = [self.node(f"voter {port}", port, 1, 3).start() for port in (5, 6)]
        self.run_until(lambda: all(each.state == "active" for each in voters))
        actives, replicas = self.two_pairs(5, 6)
        for each in replicas:
            each.kill()
        self.run_for(10)
        self.assertEqual([(each.state, each.activations, each.record.shared) for each in actives], [("active", 1, False)] * 2)

    def test_a_java_voter_is_told_of_at_the_start_and_asked_as_java_brokers_ask(self) -> None:
        votes: list[str] = []
        voter = self.node("voter", 3, 1, 2).start()
        self.run_until(lambda: voter.state == "active")
        voter.speak_java(votes)
        with capturedLogs() as events:
            primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
            backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
            self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
            self.run_for(WARN_SECONDS)
        said = [formatEvent(event) for event in events]
        self.assertEqual(len([each for each in said if f"Java brokers vote here ({voter.record_node})" in each]), 1)
        primary.kill()
        took = self.run_until(lambda: backup.state == "active")
        self.assertEqual(set(votes), {FAILOVER_VOTE})
        self.assertLess(took, 2)

    def test_a_java_voter_that_comes_later_is_told_of_then_and_once(self) -> None:
        """A new one, and one that votes already and was away."""
        for known in (False, True):
            first = 10 * known
            voter = self.node(f"voter {known}", first + 3, first + 1)
            primary = self.node(f"primary {known}", first + 1, first + 3, policy=ReplicationConfiguration(False))
            if known:
                voter.start()
                primary.start()
                self.run_until(lambda p=primary, v=voter: p.state == "active" and p.activation._voters() == (v.record_node,))
                self.run_for(1)
                voter.kill()
                primary.kill()
            with capturedLogs() as events:
                primary.start()
                self.run_until(lambda p=primary: p.state == "active")
                self.run_for(WARN_SECONDS + 3)
                self.assertNotIn("Java", " ".join(map(str, map(formatEvent, events))))
                voter.start()
                self.run_until(lambda v=voter: v.state == "active")
                voter.speak_java([])
                self.run_for(WARN_SECONDS)
                voter.kill()
                voter.start()
                self.run_until(lambda v=voter: v.state == "active")
                voter.speak_java([])
                self.run_for(WARN_SECONDS)
            said = [formatEvent(event) for event in events]
            self.assertEqual(len([each for each in said if f"Java brokers vote here ({voter.record_node})" in each]), 1)

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
