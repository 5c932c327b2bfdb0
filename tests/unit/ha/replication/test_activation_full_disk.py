"""A pair with little room on a disk while a copy is made: the active broker goes on, and the replica gets into sync, now or later."""

from __future__ import annotations

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqclient.wire import packets as wire
from tests.support.broker import Session
from tests.unit.ha.replication.support import Node, PairCase, alone, created
from tests.unit.ha.replication.test_activation import acknowledged

COUNT = 50
ROOM = 32 * 1024 * 1024
SCAN_SECONDS = 6.0
"""The disk was looked at meanwhile."""


def is_full(node: Node) -> bool:
    return node.life.active.messaging.core.global_memory.disk_full


def got(session: Session, kind: type[wire.Packet]) -> int:
    return sum(isinstance(packet, kind) for packet in session.take())


class FullDiskTests(PairCase):
    def setUp(self) -> None:
        super().setUp()
        self.primary = alone(self)
        session = self.primary.client()
        session.send(created("q"))
        for number in range(COUNT):
            session.publish(bytes(20_000), reply=True, number=number)
        self.run_for(0.2)
        self.assertEqual(acknowledged(session), COUNT + 1)

    def fill(self, node: Node) -> None:
        """92 % of its disk are in use when it has everything, and there is room for some segments."""
        node.disk.capacity = self.primary.disk.used + ROOM
        node.disk_size = ROOM * 100 // 8

    def backup(self) -> Node:
        return self.node("backup", 2, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200))

    def assert_has_all(self, backup: Node) -> None:
        """The backup takes over, and a consumer gets the messages also from a full disk."""
        self.primary.kill()
        self.run_until(lambda: backup.state != "passive")
        self.assertEqual((backup.state, backup.failures), ("active", []))
        self.run_for(SCAN_SECONDS)
        session = backup.client()
        session.consume()
        self.run_for(0.2)
        self.assertEqual(got(session, wire.SessionReceive), COUNT)

    def test_an_active_broker_whose_disk_is_nearly_full_blocks_producers_and_is_copied_all_the_same(self) -> None:
        self.fill(self.primary)
        self.run_for(SCAN_SECONDS)
        self.assertTrue(is_full(self.primary))
        producer = self.primary.client()
        producer.send(wire.ProducerRequestCredits(1000, "q"))
        backup = self.backup().start()
        self.run_until(lambda: self.primary.replica_state == "in sync")
        self.assertEqual(got(producer, wire.ProducerCredits), 0)
        self.primary.disk.capacity = None
        self.run_for(SCAN_SECONDS)
        self.assertEqual(got(producer, wire.ProducerCredits), 1)
        self.assert_has_all(backup)

    def test_a_replica_whose_disk_is_nearly_full_is_in_sync_and_blocks_producers_when_it_has_taken_over(self) -> None:
        backup = self.backup()
        self.fill(backup)
        backup.start()
        self.run_until(lambda: self.primary.replica_state == "in sync")
        self.assertFalse(is_full(self.primary))
        self.assert_has_all(backup)
        self.assertTrue(is_full(backup))

    def test_a_replica_whose_disk_fills_while_it_copies_is_given_up_and_copies_anew_when_there_is_room(self) -> None:
        backup = self.backup()
        backup.disk.capacity = self.primary.disk.used // 2
        backup.start()
        producer = self.primary.client()
        for number in range(20):
            producer.publish(reply=True, number=number)
            self.run_for(1.0)
            self.assertEqual(acknowledged(producer), 1)
        self.assertGreater(backup.disk.failures, 0)
        self.assertEqual((backup.state, backup.failures, self.primary.replica_state == "in sync"), ("passive", [], False))
        backup.disk.capacity = None
        self.run_until(lambda: self.primary.replica_state == "in sync")

    def test_a_replica_in_sync_whose_disk_is_full_is_given_up_and_its_primary_goes_on(self) -> None:
        backup = self.backup().start()
        self.run_until(lambda: self.primary.replica_state == "in sync")
        backup.disk.capacity = backup.disk.used
        producer = self.primary.client()
        producer.publish(bytes(2000), reply=True, number=1)
        self.run_until(lambda: acknowledged(producer) == 1)
        self.assertEqual(self.primary.messages(), COUNT + 1)
        backup.disk.capacity = None
        self.run_until(lambda: self.primary.replica_state == "in sync", 60.0)
