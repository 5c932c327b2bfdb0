"""Who is taken as a replica, who is not, and what its loss brings about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof.copy_record import CONNECTOR_SIZE_MAX
from mqbroker.ha.proof.seeking_machine import passive
from mqbroker.ha.replication.packets import VERSION, Hello, packet_frame
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, REPLICATION_CHANNEL
from mqclient.wire.primitives import TransportConfiguration
from tests.support.broker import Peer
from tests.unit.cluster.support import connector
from tests.unit.ha.replication.support import Node, PairCase, alone, created


class RegistrationTests(PairCase):
    def setUp(self) -> None:
        super().setUp()
        self.primary: Node = alone(self)

    def peer(self, product: str | None) -> Peer:
        world: Any = SimpleNamespace(server=self.primary.life.active.server)
        peer = Peer(world)
        peer.send(wire.ClusterConnect("u", "p", product, int(product is not None)), CLUSTER_CHANNEL)
        peer.read()
        return peer

    def register(self, product: str | None, place: TransportConfiguration | None = None) -> Peer:
        peer = self.peer(product)
        peer.send(wire.BackupRegistration("u", "p", False, place or connector(2)), CLUSTER_CHANNEL)
        return peer

    def test_a_java_replica_is_sent_on(self) -> None:
        self.assertEqual(self.register(None).take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])
        self.assertIsNone(self.primary.activation.primary.replica)

    def test_one_after_the_other(self) -> None:
        first = self.register("mqbroker")
        self.assertEqual(first.take(CLUSTER_CHANNEL), [])
        self.assertEqual(self.register("mqbroker").take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])
        first.send(wire.BackupRegistration("u", "p", False, connector(2)), CLUSTER_CHANNEL)
        self.assertEqual(first.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])
        first.lose()
        self.assertEqual(self.register("mqbroker").take(CLUSTER_CHANNEL), [])

    def test_a_connector_that_no_note_can_hold_is_refused(self) -> None:
        place = TransportConfiguration("n", "f", (("host", "h" * CONNECTOR_SIZE_MAX),))
        self.assertEqual(self.register("mqbroker", place).take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(0)])

    def test_a_replica_that_says_nothing_makes_room_for_another(self) -> None:
        silent = self.register("mqbroker")
        self.run_for(6)
        self.assertTrue(silent.transport.aborted)
        self.assertIsNone(self.primary.activation.primary.replica)

    def test_a_stop_ends_a_replica_that_has_not_copied_yet(self) -> None:
        registered = self.register("mqbroker")
        self.primary.stop()
        self.run_for(1)
        self.assertEqual(self.primary.state, "stopped")
        self.assertTrue(registered.transport.aborted)

    def test_a_packet_that_has_no_meaning_ends_the_connection(self) -> None:
        peer = self.register("mqbroker")
        peer.feed(packet_frame(Hello(VERSION, "", "")))
        self.assertTrue(peer.transport.aborted)
        other = self.peer(None)
        other.send(wire.NullResponse(), REPLICATION_CHANNEL)
        self.assertTrue(other.transport.aborted)
        self.assertEqual(self.primary.state, "active")


class ReturningPrimaryTests(PairCase):
    """The primary is back, and the active backup has another copy for its replica: a former host that is back brings one."""

    def taken_over(self, **policy: Any) -> Node:
        """The active backup."""
        self.primary, backup = self.pair(**policy)
        self.primary.queue("q")
        self.run_for(1)
        self.primary.kill()
        self.run_until(lambda: backup.state == "active")
        self.other = self.node("other", 3, 1, 2, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: backup.replica_state == "in sync")
        return backup

    def test_it_gets_its_place_back(self) -> None:
        backup = self.taken_over(allow_failback=True)
        session = backup.client()
        session.send(created("late"))
        self.primary.start()
        self.run_until(lambda: self.primary.state == "active" and self.primary.replica_state == "in sync")
        self.assertEqual((backup.state, self.other.state), ("passive", "passive"))
        self.assertLessEqual({"q", "late"}, self.primary.queues())

    def test_what_is_asked_meanwhile_is_answered(self) -> None:
        backup = self.taken_over(allow_failback=True)
        session = backup.client()
        waiting = self.registered(backup, True)
        session.send(created("late"))
        self.assertEqual(session.take(), [])
        self.run_for(0.2)
        self.assertEqual(session.take(), [wire.NullResponse(-1)])
        self.assertEqual((backup.activation.primary.replica.wants_failback, waiting.transport.aborted), (True, False))

    def test_a_replica_that_is_not_complete_is_given_up_at_once(self) -> None:
        backup = self.taken_over(allow_failback=True)
        self.other.kill()
        self.run_until(lambda: backup.replica_state == "")
        first, second = (self.registered(backup, wants_failback) for wants_failback in (False, True))
        self.run_for(0)
        self.assertEqual((first.transport.aborted, second.transport.aborted), (True, False))
        self.assertTrue(backup.activation.primary.replica.wants_failback)

    def test_it_has_died_before_there_was_a_place(self) -> None:
        backup = self.taken_over(allow_failback=True)
        waiting = self.registered(backup, True)
        waiting.lose()
        self.run_until(lambda: backup.replica_state == "in sync")
        self.assertFalse(backup.activation.primary.replica.wants_failback)

    def test_after_one_that_has_left_without_the_data_a_replica_stays_for_a_while(self) -> None:
        backup = self.taken_over(allow_failback=True)
        self.registered(backup, True).lose()
        self.run_until(lambda: backup.replica_state == "in sync")
        again = self.registered(backup, True)
        self.assertEqual(again.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])
        self.run_for(60)
        self.assertEqual(self.registered(backup, True).take(CLUSTER_CHANNEL), [])

    def test_without_the_question_for_a_proof_no_replica_is_given_up(self) -> None:
        backup = self.taken_over(allow_failback=True, vote_on_replication_failure=False)
        self.assertEqual(self.registered(backup, True).take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])

    def test_one_at_a_time(self) -> None:
        backup = self.taken_over(allow_failback=True)
        first, second = self.registered(backup, True), self.registered(backup, True)
        self.assertEqual([each.take(CLUSTER_CHANNEL) for each in (first, second)], [[], [wire.BackupRegistrationFailed(2)]])

    def test_a_stop_ends_one_that_waits(self) -> None:
        backup = self.taken_over(allow_failback=True)
        waiting = self.registered(backup, True)
        backup.stop()
        self.run_for(6)
        self.assertEqual((backup.state, waiting.transport.aborted, backup.failures), ("stopped", True, []))

    def test_a_backup_that_does_not_give_way_keeps_its_replica(self) -> None:
        backup = self.taken_over()
        waiting = self.registered(backup, True)
        self.assertEqual(waiting.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(2)])
        self.assertEqual(backup.replica_state, "in sync")

    def registered(self, node: Node, wants_failback: bool) -> Peer:
        world: Any = SimpleNamespace(server=node.life.active.server)
        peer = Peer(world)
        peer.send(wire.ClusterConnect("u", "p", "mqbroker", 1), CLUSTER_CHANNEL)
        peer.read()
        peer.send(wire.BackupRegistration("u", "p", wants_failback, connector(4)), CLUSTER_CHANNEL)
        return peer


class LossTests(PairCase):
    def test_a_replica_that_may_take_over_stays_known_as_the_backup(self) -> None:
        """A client that had connected after the loss did not know the other broker, and asked for ever where nobody listened any more."""
        primary, backup = self.graceful(quorum_size=2)
        backup.kill()
        self.run_for(3)
        self.assertEqual(self.backup_of(primary), "2")

    def test_one_that_cannot_take_over_is_no_backup_any_more(self) -> None:
        primary, backup = self.pair()
        backup.kill()
        self.run_until(lambda: primary.record.sequence == 2)
        self.run_for(0.1)
        self.assertIsNone(self.backup_of(primary))

    def backup_of(self, node: Node) -> str | None:
        """The port of the backup that clients of ``node`` are told."""
        [member] = node.life.active.server.cluster.connections["c"].topology
        return None if member.backup is None else dict(member.backup.parameters)["port"]

    def test_a_broker_that_has_just_ended_its_activity_seeks_no_proof(self) -> None:
        primary, backup = self.pair()
        before = primary.record
        seeker = primary.activation._own.seeker
        backup.kill()
        primary.activation.primary.replica.end("it has died")
        primary.activation.cease()
        self.run_for(10)
        self.assertEqual((seeker.state, primary.record), (passive.name, before))

    def test_one_that_is_lost_in_a_graceful_stop_goes_on_and_clients_are_let_go(self) -> None:
        primary, backup = self.in_stop()
        for link in self.network.links:
            link.cut()
        self.run_for(2)
        self.assertEqual((primary.state, backup.state, self.session.peer.transport.closed), ("stopped", "active", True))
        self.assertEqual((primary.failures, backup.failures), ([], []))

    def test_one_that_has_died_in_a_graceful_stop_leaves_no_client_without_answers(self) -> None:
        primary, backup = self.in_stop()
        backup.kill()
        self.run_for(1)
        self.assertEqual((primary.state, primary.record.shared), ("stopped", True))
        self.assertTrue(self.stopped.called and self.session.peer.transport.closed)

    def test_a_graceful_stop_without_proof_ends_as_soon_as_connections_would(self) -> None:
        primary, backup = self.graceful(quorum_size=2)
        session = primary.client()
        backup.kill()
        self.run_for(1)
        stopped = primary.stop()
        self.run_for(2)
        self.assertEqual((primary.state, session.peer.transport.closed), ("leaving", False))
        self.run_for(4)
        self.assertEqual((primary.state, session.peer.transport.closed, stopped.called), ("stopped", True, True))

    def in_stop(self) -> tuple[Node, Node]:
        """The primary waits for its last client, which has sent something."""
        primary, backup = self.graceful()
        self.session = session = primary.client()
        session.send(created("q"))
        self.run_for(0.1)
        self.stopped = primary.stop()
        session.publish(reply=True)
        self.run_for(1)
        self.assertEqual((primary.state, backup.state, self.session.peer.transport.closed), ("leaving", "passive", False))
        return primary, backup

    def graceful(self, **policy: Any) -> tuple[Node, Node]:
        """A pair whose primary waits for its clients when it stops."""
        primary = self.node("primary", 1, 2, policy=ReplicationConfiguration(False, **policy), graceful_shutdown_enabled=True).start()
        backup = self.node("backup", 2, 1, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.replica_state == "in sync")
        return primary, backup
