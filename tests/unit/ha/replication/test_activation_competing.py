"""Competing primaries: any number of brokers that are one node, of which whoever has the newest data may be active."""

from __future__ import annotations

from itertools import permutations

from mqbroker.ha.locks.coordination import coordinated_name, coordinated_node_id
from tests.unit.ha.replication.support import Node
from tests.unit.ha.replication.test_activation_locks import LockCase

PEERS = "peer-journal-001"
NAME, NODE = coordinated_name(PEERS), coordinated_node_id(PEERS)


class CompetingCase(LockCase):
    def peer(self, number: int, coordination_id: str | None = PEERS) -> Node:
        others = [other for other in (1, 2, 3) if other != number]
        return self.locked(f"peer{number}", number, *others, coordination_id=coordination_id, retry_replication_wait=500)

    def active(self, peers: list[Node]) -> Node:
        """The only one, once there is one."""
        self.run_until(lambda: any(peer.state == "active" for peer in peers), 60)
        [found] = [peer for peer in peers if peer.state == "active"]
        return found

    def stop_all(self, peers: list[Node]) -> None:
        for peer in peers:
            peer.kill()
            self.end_session(peer)


class CompetingTests(CompetingCase):
    def setUp(self) -> None:
        super().setUp()
        self.peers = [self.peer(number).start() for number in (1, 2)]
        self.first = self.active(self.peers)
        [self.second] = [peer for peer in self.peers if peer is not self.first]
        self.assert_pair(self.first, self.second)

    def test_they_are_one_node(self) -> None:
        self.assertEqual({peer.record_node for peer in self.peers}, {NODE})
        self.assertEqual(self.service.numbers, {NAME: 1})

    def test_a_peer_that_is_back_does_not_get_its_place_back(self) -> None:
        self.first.kill()
        self.end_session(self.first)
        self.run_until(lambda: self.second.state == "active")
        self.first.start()
        self.assert_pair(self.second, self.first)
        self.run_for(30)
        self.assert_pair(self.second, self.first)
        self.assertEqual(self.number, 2)

    def test_a_third_one_waits_until_it_can_be_the_replica(self) -> None:
        third = self.peer(3).start()
        self.run_for(20)
        self.assertEqual(third.state, "passive")
        self.first.kill()
        self.end_session(self.first)
        self.run_until(lambda: self.second.state == "active")
        self.assert_pair(self.second, third)

    def test_after_an_outage_of_all_whoever_has_the_newest_data_starts_in_any_order(self) -> None:
        third = self.peer(3).start()
        self.run_for(5)
        peers = [*self.peers, third]
        sequence = 1
        for order in permutations(range(3)):
            self.stop_all(peers)
            newest = {peer.name for peer in peers if self.is_complete_at(peer, sequence)}
            self.assertEqual(len(newest), 2)
            for number in order:
                peers[number].start()
                self.run_for(1)
            active = self.active(peers)
            self.assertIn(active.name, newest)
            self.run_until(lambda: sum(self.is_complete_at(peer, self.number) for peer in peers) == 2, 60)
            sequence = self.number

    @staticmethod
    def is_complete_at(peer: Node, sequence: int) -> bool:
        record = peer.record_or_none
        return record is not None and record.complete and record.sequence == sequence

    def test_old_data_alone_do_not_start(self) -> None:
        self.second.kill()
        self.end_session(self.second)
        self.first.queue("q")
        self.run_until(lambda: self.number == 2, 60)
        self.stop_all([self.first])
        self.second.start()
        self.run_for(30)
        self.assertEqual((self.second.state, self.number), ("passive", 2))
        self.first.start()
        self.assert_pair(self.first, self.second)
        self.assertEqual(self.first.queues(), {"q"})


class FormerNodeTests(CompetingCase):
    def test_a_broker_that_was_a_node_of_its_own_keeps_its_data_and_its_sequence(self) -> None:
        own = self.peer(1, None).start()
        self.run_until(lambda: own.state == "active")
        own.queue("q")
        self.run_for(1)
        node = own.record_node
        assert node is not None and node != NODE
        self.stop_all([own])
        self.service.numbers = {NAME: self.service.numbers[node]}
        peer = self.peer(1)
        peer.disk = own.disk
        peer.start()
        self.run_until(lambda: peer.state == "active")
        self.assertEqual((peer.record_node, peer.queues(), peer.record.sequence), (NODE, {"q"}, 2))
        self.stop_all([peer])
        peer.start()
        self.run_until(lambda: peer.state == "active")
        self.assertEqual(peer.queues(), {"q"})
