"""Which active broker a backup follows."""

from __future__ import annotations

from mqbroker.config.model.cluster import ReplicationConfiguration
from tests.unit.ha.replication.support import Node, PairCase


class ChoiceTests(PairCase):
    def primary(self, name: str, port: int, *others: int, group: str | None = None) -> Node:
        return self.node(name, port, *others, policy=ReplicationConfiguration(False, group)).start()

    def backup(self, name: str, port: int, *others: int, group: str | None = None) -> Node:
        return self.node(name, port, *others, policy=ReplicationConfiguration(True, group, retry_replication_wait=200)).start()

    def in_sync(self, primary: Node, backup: Node) -> bool:
        return primary.state == "active" and primary.replica_state == "in sync" and primary.record_node == backup.record_node

    def test_fish_and_birds(self) -> None:
        fish = self.primary("fish", 1, 2, 3, 4, group="fish")
        bird = self.primary("bird", 2, 1, 3, 4, group="bird")
        self.run_until(lambda: (fish.state, bird.state) == ("active", "active"))
        for_birds = self.backup("for birds", 3, 1, 2, group="bird")
        self.run_until(lambda: self.in_sync(bird, for_birds))
        spare = self.backup("another for birds", 4, 1, 2, group="bird")
        self.run_for(2)
        self.assertEqual((fish.replica_state, spare.record_or_none), ("", None))

    def test_a_backup_without_a_group_takes_a_primary_that_has_none_yet(self) -> None:
        first, second = self.primary("first", 1, 2, 3, 4), self.primary("second", 2, 1, 3, 4)
        self.run_until(lambda: (first.state, second.state) == ("active", "active"))
        backups = [self.backup("third", 3, 1, 2), self.backup("fourth", 4, 1, 2)]
        self.run_until(lambda: (first.replica_state, second.replica_state) == ("in sync", "in sync"))
        self.assertEqual({each.record_node for each in backups}, {first.record_node, second.record_node})

    def test_a_backup_finds_a_primary_by_another_member(self) -> None:
        member = self.node("member", 5, 1, 3).start()
        primary = self.primary("primary", 1, 5)
        self.run_until(lambda: (primary.state, member.state) == ("active", "active"))
        backup = self.backup("backup", 3, 5)
        self.run_until(lambda: self.in_sync(primary, backup))

    def test_a_backup_goes_to_a_primary_as_soon_as_that_is_announced(self) -> None:
        """Brokers announce themselves every 2 s; the pause between two attempts is 5 s."""
        primary = self.node("primary", 1, policy=ReplicationConfiguration(False)).start()
        self.run_until(lambda: primary.state == "active")
        backup = self.node("backup", 2, policy=ReplicationConfiguration(True)).start()
        self.run_for(3)
        self.assertTrue(self.in_sync(primary, backup))

    def test_a_broker_that_has_no_place_for_a_replica_says_so_at_once(self) -> None:
        """A voter has none, and an active broker has one only: the backup looks again after the pause, with nothing to wait for."""
        voter = self.node("voter", 5, 1).start()
        primary = self.primary("primary", 1, 5)
        backup = self.backup("backup", 2, 1, 5)
        self.run_until(lambda: (primary.state, voter.state) == ("active", "active") and self.in_sync(primary, backup))
        spare = self.backup("spare", 3, 1, 5)
        self.run_for(2)
        for port in ("1", "5"):
            # One connection for each round, and for each second one more by which the backup asks for the members.
            self.assertGreater(spare.runtime.tried.count(port), 8, port)
        self.assertEqual((spare.record_or_none, voter.state), (None, "active"))
