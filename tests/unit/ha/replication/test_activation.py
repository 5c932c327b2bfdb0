"""Brokers of a pair: one is active, the other one repeats its writes, and takes over."""

from __future__ import annotations

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof.copy_record import CopyState
from mqbroker.ha.replication.passive_side import REST_SECONDS
from mqbroker.server.cluster_port import CopyFigures
from mqbroker.server.observation.metrics import render
from mqclient.wire import packets as wire
from tests.support.broker import Session
from tests.unit.ha.replication.support import Node, PairCase, alone, created
from tests.unit.node.test_life_network import KnownNetwork

NOTHING_YET = CopyFigures(0, False, None, None)


def acknowledged(session: Session) -> int:
    """How many of the sends that asked for it were answered since the last call."""
    return sum(isinstance(packet, wire.NullResponse) for packet in session.take())


class NetworkCheckTests(PairCase):
    def test_a_replica_that_reaches_nobody_does_not_take_over_and_raises_no_sequence(self) -> None:
        """A pair alone has no other proof than that its primary is gone, which a replica that is cut off believes, too."""
        primary = self.node("primary", 1, 2, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, policy=ReplicationConfiguration(True))
        backup.network_watch = watch = KnownNetwork()
        backup.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        watch.answers = False
        primary.kill()
        self.run_for(20)
        self.assertEqual((backup.state, backup.record.sequence), ("passive", 1))
        watch.isolated("nobody answers")
        self.run_for(1)
        self.assertEqual(backup.state, "stopped")
        watch.answers = True
        watch.reachable()
        primary.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        primary.kill()
        self.run_until(lambda: backup.state == "active")


class PairingTests(PairCase):
    def test_a_replica_that_is_back_soon_after_it_was_given_up_stays(self) -> None:
        primary, _ = self.pair()
        primary.activation.primary.replica.end("it was slow")
        self.run_until(lambda: primary.replica_state == "in sync")
        back = primary.activation.primary.replica
        self.run_for(2 * REST_SECONDS)
        self.assertEqual((primary.activation.primary.replica is back, back.reason), (True, ""))

    def test_a_backup_copies_the_primary_and_is_in_sync(self) -> None:
        primary, backup = self.pair()
        self.assertEqual((primary.state, backup.state), ("active", "passive"))
        self.assertEqual((primary.record.state, primary.record.sequence), (CopyState.COMPLETE, 1))
        self.assertEqual((backup.record.state, backup.record.sequence), (CopyState.COMPLETE, 1))
        self.assertTrue(primary.record.shared and backup.record.shared)
        self.assertNotIn("2", self.network.listening)
        self.assertEqual(backup.life.ready(), "the broker is passive (backup, complete, sequence 1, in sync)")

    def test_management_and_metrics_of_both_show_how_the_copies_stand(self) -> None:
        primary = alone(self)
        self.assertEqual(primary.life.active.others.copies, (1, False, None, None, None))
        backup = self.node("backup", 2, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.assertEqual(backup.activation.copies, NOTHING_YET)
        self.assertEqual(backup.life.ready(), "the broker is passive (backup, incomplete, sequence 0, following nobody)")
        self.run_until(lambda: primary.replica_state == "in sync")
        copies = primary.life.active.others.copies
        self.assertEqual(copies, (1, True, copies.size, copies.size, 0))
        self.assertGreater(copies.size, 0)
        self.assertEqual(backup.activation.copies[:2], (1, True))
        self.assertGreaterEqual(backup.activation.copies.copied, copies.size)
        lines = b"".join(render(backup.life.figures())).decode()
        self.assertIn('artemis_replica_sync{broker="backup"} 1', lines)
        self.assertIn('artemis_activation_sequence{broker="backup"} 1', lines)
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.assertEqual(backup.life.active.others.copies, (2, False, None, None, None))

    def test_the_cluster_learns_of_the_pair_when_it_is_in_sync(self) -> None:
        primary, _ = self.pair()
        server = primary.life.active.server
        [member] = server.cluster.connections["c"].topology
        self.assertEqual(dict(member.backup.parameters)["port"], "2")

    def test_a_durable_send_is_answered_only_when_the_replica_has_it(self) -> None:
        primary, backup = self.pair()
        session = primary.client()
        session.send(created("q"))
        self.run_for(0.1)
        self.assertEqual(acknowledged(session), 1)
        self.network.cut = True
        session.publish(reply=True)
        self.run_for(0.5)
        self.assertEqual(acknowledged(session), 0)
        self.network.cut = False
        self.run_for(0.1)
        self.assertEqual(acknowledged(session), 1)
        self.assertEqual(backup.state, "passive")

    def test_one_replica_is_enough(self) -> None:
        primary, _ = self.pair()
        spare = self.node("spare", 3, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_for(2)
        self.assertEqual((primary.replica_state, spare.record_or_none), ("in sync", None))


class TakeoverTests(PairCase):
    def send(self, count: int = 3) -> None:
        """Messages that are acknowledged."""
        [active] = [node for node in self.nodes if node.state == "active" and node.policy is not None]
        session = active.client()
        if "q" not in active.queues():
            session.send(created("q"))
        for number in range(count):
            session.publish(reply=True, number=number)
        self.run_for(0.2)
        assert acknowledged(session) >= count

    def test_the_backup_takes_over_when_the_primary_has_died(self) -> None:
        self.taken_over(power=False)

    def test_the_backup_takes_over_when_the_machine_of_the_primary_is_gone(self) -> None:
        self.taken_over(power=True)

    def taken_over(self, power: bool) -> None:
        primary, backup = self.pair()
        self.send()
        primary.kill(power)
        seconds = self.run_until(lambda: backup.state == "active")
        self.assertLess(seconds, 3)
        self.assertEqual((backup.messages(), backup.record.sequence, backup.life.active.store.node_id), (3, 2, primary.record_node))

    def test_a_backup_takes_over_while_its_disk_repeats_what_the_dead_primary_has_written_last(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False), journal_file_size=16384).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,))
        session = primary.client()
        session.send(created("q"))
        for number in range(300):
            session.publish(reply=True, number=number)
        self.run_for(0.5)
        segments = self.segments(primary)
        backup.write_seconds = 0.05
        messaging = primary.life.active.messaging
        messaging.core.turn.run(messaging.removal.purge, messaging.core.queues["q"])
        for _ in range(100):
            session.publish(reply=True)
        self.run_until(lambda: segments[0] not in self.segments(primary))
        for _ in range(10):
            session.publish(reply=True)
            self.run_for(0.01)
        self.assertIn(segments[0], self.segments(backup))
        read = backup.disk.read

        def read_beside_the_thread(path: str, offset: int = 0, size: int = -1) -> bytes:
            """The thread writes while this reads, and so the end of what is read may be later than its beginning."""
            before = read(path, offset, size)
            backup.writers[-1].run_beside()
            after = read(path, offset, size)
            same = next((at for at, (left, right) in enumerate(zip(before, after, strict=False)) if left != right), len(before))
            return before[: same + 1] + after[same + 1 :]

        backup.disk.read = read_beside_the_thread  # type: ignore[method-assign]
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.assertEqual((backup.failures, backup.messages()), ([], 110))

    def segments(self, node: object) -> list[str]:
        return [name for name in self.names(node) if name.startswith("mqbroker-data")]

    def test_an_orderly_stop_lets_the_backup_take_over_at_once(self) -> None:
        primary, backup = self.pair()
        self.send()
        stopped = primary.stop()
        seconds = self.run_until(lambda: backup.state == "active")
        self.assertLess(seconds, 1)
        self.run_for(1)
        self.assertTrue(stopped.called)
        self.assertEqual((primary.record.state, backup.messages()), (CopyState.GIVEN_UP, 3))

    def test_who_forces_a_failover_lets_the_backup_take_over(self) -> None:
        primary, backup = self.pair()
        self.send()
        primary.life.active.others.fail_over()
        self.run_for(0.05)
        self.assertEqual(primary.stops_wanted, 1)
        primary.stop()
        self.assertLess(self.run_until(lambda: backup.state == "active"), 1)
        self.run_for(1)
        self.assertEqual((primary.state, primary.record.state, backup.messages()), ("stopped", CopyState.GIVEN_UP, 3))

    def test_a_primary_that_is_back_follows_and_the_backup_keeps_its_place(self) -> None:
        primary, backup = self.pair()
        self.send()
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.send(2)
        primary.start()
        self.run_until(lambda: backup.replica_state == "in sync")
        self.assertEqual((primary.state, backup.state, primary.record.sequence), ("passive", "active", 2))
        self.assertIn("oldreplica.1", self.names(primary))

    def names(self, node: object) -> list[str]:
        return node.disk.list("/data/journal")  # type: ignore[attr-defined,no-any-return]

    def test_with_allow_failback_the_primary_is_active_again_and_the_backup_its_replica(self) -> None:
        primary, backup = self.pair(allow_failback=True)
        self.send()
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.send(2)
        primary.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual((primary.messages(), backup.state, backup.failures), (5, "passive", []))

    def giving_way(self, *voters: Node) -> tuple[Node, Node]:
        """A backup that has begun to give way to its primary."""
        ports = [int(each.port) for each in voters]
        primary = self.node("primary", 1, 2, *ports, policy=ReplicationConfiguration(False, retry_replication_wait=200)).start()
        policy = ReplicationConfiguration(True, allow_failback=True, retry_replication_wait=200)
        backup = self.node("backup", 2, 1, *ports, policy=policy).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == tuple(each.record_node for each in voters))
        self.send()
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        backup.write_seconds = 0.05
        primary.start()
        self.run_until(lambda: backup.state == "stopping")
        return primary, backup

    def test_a_backup_goes_on_if_its_primary_dies_before_it_is_active_again(self) -> None:
        primary, backup = self.giving_way(self.node("voter", 3, 1, 2).start())
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.assertEqual((backup.messages(), backup.record.sequence, backup.failures), (3, 3, []))

    def test_in_a_pair_alone_the_primary_may_have_gone_on_before_it_died(self) -> None:
        primary, backup = self.giving_way()
        primary.kill()
        self.run_for(60)
        self.assertEqual((backup.state, backup.activations), ("passive", 1))
        primary.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual(primary.messages(), 3)

    def test_without_its_replica_the_primary_goes_on_after_the_proof(self) -> None:
        primary, backup = self.pair()
        self.send()
        backup.kill()
        session = primary.client()
        session.publish(reply=True)
        self.run_for(0.1)
        seconds = self.run_until(lambda: acknowledged(session) == 1)
        self.assertLess(seconds, 3)
        self.assertEqual((primary.record.sequence, primary.record.shared), (2, False))
        backup.start()
        self.run_until(lambda: primary.activation.primary.replica is not None and primary.replica_state == "in sync")
        self.assertEqual((backup.record.sequence, primary.state), (2, "active"))

    def test_a_silent_replica_is_given_up(self) -> None:
        primary, backup = self.pair()
        backup.process.stopped = True
        self.send_without_answer(primary)
        self.run_until(lambda: primary.record.sequence == 2, 20)
        self.assertEqual(primary.state, "active")
        backup.process.go_on()
        self.run_until(lambda: primary.replica_state == "in sync")
        self.assertEqual((backup.state, backup.failures), ("passive", []))

    def send_without_answer(self, node: object) -> None:
        session = node.client()  # type: ignore[attr-defined]
        session.send(created("q"))

    def test_both_were_down_and_the_one_that_was_active_last_goes_on(self) -> None:
        primary, backup = self.pair()
        self.send()
        primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.send(2)
        primary.start()
        self.run_until(lambda: backup.replica_state == "in sync")
        primary.kill()
        backup.kill()
        self.run_for(1)
        primary.start()
        self.run_for(3)
        self.assertEqual(primary.state, "passive")
        backup.start()
        self.run_until(lambda: "active" in (primary.state, backup.state))
        self.run_until(lambda: any(node.state == "active" and node.replica_state == "in sync" for node in (primary, backup)))
        self.assertEqual([node.messages() for node in (primary, backup) if node.state == "active"], [5])

    def test_a_primary_that_only_lost_its_connection_is_not_replaced(self) -> None:
        primary, backup = self.pair()
        for link in self.network.links:
            link.cut()
        self.run_for(1)
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual((backup.state, backup.activations, primary.failures), ("passive", 0, []))

    def test_a_quorum_size_keeps_a_pair_alone_from_going_on(self) -> None:
        primary, backup = self.pair(quorum_size=2)
        primary.kill()
        self.run_for(10)
        self.assertEqual((backup.state, backup.activations), ("passive", 0))
        self.node("voter", 3, 1, 2).start()
        primary.start()
        self.run_until(lambda: "active" in (primary.state, backup.state))

    def test_without_its_voters_and_the_other_copy_nobody_goes_on(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,))
        self.run_for(1)
        voter.kill()
        primary.kill()
        self.run_for(20)
        self.assertEqual((backup.state, backup.activations), ("passive", 0))
        voter.start()
        self.run_until(lambda: backup.state == "active")

    def test_without_a_proof_the_active_broker_ends_its_connections_and_goes_on_later(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,))
        session = primary.client()
        session.send(created("q"))
        self.run_for(0.5)
        self.assertEqual(acknowledged(session), 1)
        voter.kill()
        backup.kill()
        session.publish(reply=True)
        self.run_for(15)
        self.assertEqual((primary.state, acknowledged(session), session.peer.transport.closed), ("passive", 0, True))
        self.assertIn("1", self.network.listening)
        voter.start()
        self.run_until(lambda: primary.state == "active")
        self.assertEqual((primary.record.sequence, primary.failures, primary.queues() >= {"q"}), (2, [], True))

    def test_a_primary_that_starts_without_its_backup_is_told_by_the_voters(self) -> None:
        voter = self.node("voter", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, 1, 3, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.run_until(lambda: primary.activation._voters() == (voter.record_node,))
        self.run_for(1)
        backup.kill()
        primary.kill()
        primary.start()
        self.run_until(lambda: primary.state == "active")
        self.assertEqual((primary.record.sequence, primary.failures), (2, []))
