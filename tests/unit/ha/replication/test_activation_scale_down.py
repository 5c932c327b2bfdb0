"""A replicated backup that takes over to give everything to another broker, and what becomes of its primary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mqbroker.config.model.cluster import ReplicationConfiguration, ScaleDownConfiguration
from mqbroker.ha.replication.process_voters import ProcessVoters
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import BYTES
from tests.unit.ha.replication.support import Node, PairCase, created

AWAY = "the broker is passive (backup, has given everything away, sequence 2)"


class ScaleDownCase(PairCase):
    def trio(self, **backup: Any) -> tuple[Node, Node, Node]:
        """A pair in sync whose backup scales down, with three messages, and another broker, which votes."""
        target = self.node("target", 3, 1, 2).start()
        primary = self.node("primary", 1, 2, 3, policy=ReplicationConfiguration(False, retry_replication_wait=200)).start()
        policy = ReplicationConfiguration(True, retry_replication_wait=200, **backup)
        replica = self.node("backup", 2, 1, 3, policy=policy, scale_down=ScaleDownConfiguration(commit_interval=1)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        session = primary.client()
        session.send(created("q"))
        for number in range(3):
            session.publish(reply=True, properties={KEY_DUPLICATE_ID: (BYTES, b"id %d" % number)})
        self.run_for(0.2)
        return primary, replica, target

    def given_away(self, **backup: Any) -> tuple[Node, Node, Node]:
        primary, replica, target = self.trio(**backup)
        primary.kill()
        self.run_until(lambda: replica.life.ready() == AWAY)
        return primary, replica, target


class TakeoverTests(ScaleDownCase):
    def test_everything_goes_to_another_broker_and_the_backup_waits_for_its_primary(self) -> None:
        _, replica, target = self.given_away()
        self.assertEqual((target.messages(), replica.state, replica.activations), (3, "passive", 1))
        known = target.life.active.messaging.core.known_duplicate_ids("q")
        assert known is not None
        self.assertIn(b"id 1", known)
        self.run_for(60)
        self.assertEqual((replica.state, replica.activations), ("passive", 1))

    def test_a_prepared_branch_goes_along(self) -> None:
        primary, replica, target = self.trio()
        manager, xid = primary.client(xa=True), Xid(1, b"branch", b"global")
        manager.send(wire.XaStart(xid))
        manager.publish()
        for request in (wire.XaEnd(xid), wire.XaPrepare(xid)):
            manager.send(request)
        self.run_for(0.2)
        primary.kill()
        self.run_until(lambda: replica.life.ready() == AWAY)
        self.assertEqual([branch.xid for branch in target.life.active.messaging.branches.prepared()], [xid])
        self.assertEqual(target.messages(), 3)
        again = target.client(xa=True)
        again.send(wire.XaCommit(xid, False))
        self.run_for(0.2)
        self.assertEqual(target.messages(), 4)

    def test_what_waits_elsewhere_for_the_dead_primary_arrives_once(self) -> None:
        """The other broker delivers it to the backup, under the duplicate ids of that link, or sends it where its queue is."""
        primary, replica, target = self.trio()
        primary.client().send(wire.CreateQueueV2("topic", "sub", durable=True, routing_type=0))
        self.run_for(1)
        session = target.client()
        for text in (b"1", b"2"):
            session.publish(text, "topic", routing_type=0)
        self.run_for(0.5)
        self.assertEqual(primary.messages("sub"), 2)
        primary.kill()
        session.publish(b"3", "topic", routing_type=0)
        self.run_until(lambda: replica.state == "active")
        session.publish(b"4", "topic", routing_type=0)
        self.run_until(lambda: replica.life.ready() == AWAY)
        session.publish(b"5", "topic", routing_type=0)
        self.run_for(5)
        bodies = [reference.message.decoded().body for reference in target.life.active.messaging.core.queues["sub"].references]
        self.assertEqual(sorted(bodies), [b"1", b"2", b"3", b"4", b"5"])

    def test_a_primary_that_comes_back_copies_the_backup_and_doubles_nothing(self) -> None:
        primary, replica, target = self.given_away(allow_failback=True)
        primary.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual((primary.messages(), target.messages(), replica.state), (0, 3, "passive"))
        primary.client().publish(reply=True)
        self.run_for(0.2)
        primary.kill()
        self.run_until(lambda: target.messages() == 4)

    def test_without_failback_the_backup_serves_the_primary_that_is_back_as_its_replica(self) -> None:
        primary, replica, target = self.given_away()
        primary.start()
        self.run_until(lambda: replica.replica_state == "in sync")
        replica.client().publish(reply=True)
        self.run_for(30)
        self.assertEqual((replica.state, replica.messages(), target.messages()), ("active", 1, 3))

    def back_before_the_target(self) -> tuple[Node, Node, Node]:
        """The primary has become the replica of its backup, which gives everything away as soon as somebody takes it."""
        primary, replica, target = self.trio()
        primary.kill()
        self.run_until(lambda: replica.state == "active")
        target.kill()
        self.run_for(3)
        primary.start()
        self.run_until(lambda: replica.replica_state == "in sync")
        target.start()
        return primary, replica, target

    def test_a_backup_that_has_given_everything_away_is_the_replica_of_the_one_that_goes_on_in_its_place(self) -> None:
        primary, replica, target = self.back_before_the_target()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual((primary.messages(), target.messages(), replica.state), (0, 3, "passive"))

    def test_one_whose_replica_dies_before_it_goes_on_is_met_as_at_any_start(self) -> None:
        primary, replica, target = self.back_before_the_target()
        self.patch(primary.activation._passive, "take_over", primary.kill)
        self.run_until(lambda: primary.state == "dead" and replica.state == "passive")
        self.run_for(20)
        primary.start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.assertEqual((primary.messages(), target.messages(), replica.state), (0, 3, "passive"))

    def test_a_backup_that_is_not_to_be_one_again_stops(self) -> None:
        primary, replica, target = self.trio(restart_backup=False)
        primary.kill()
        self.run_until(lambda: replica.stops_wanted == 1)
        self.run_until(lambda: replica.stop().called or replica.state == "stopped")
        self.assertEqual(target.messages(), 3)

    def test_without_a_target_the_backup_serves_until_there_is_one(self) -> None:
        primary, replica, target = self.trio()
        primary.kill()
        self.run_until(lambda: replica.state == "active")
        target.kill()
        self.run_for(30)
        self.assertEqual((replica.state, replica.messages()), ("active", 3))
        target.start()
        self.run_until(lambda: replica.life.ready() == AWAY)
        self.assertEqual(target.messages(), 3)

    def test_a_scale_down_that_is_killed_goes_on_with_the_next_start(self) -> None:
        primary, replica, target = self.trio()
        primary.kill()
        self.run_until(lambda: "q" in target.queues())
        replica.kill()
        replica.start()
        self.run_until(lambda: str(replica.life.ready()).startswith("the broker is passive (backup, has given everything away"))
        self.assertEqual(target.messages(), 3)

    def test_a_broker_that_loses_its_power_at_any_moment_of_it_neither_loses_nor_doubles_a_message(self) -> None:
        reached = set()
        for dies_late in range(8, 24, 4):
            for dies in ("backup", "target"):
                self.setUp()
                primary, replica, target = self.trio()
                target.write_seconds = 0.03
                primary.kill()
                self.run_until(lambda replica=replica: replica.life.state == "leaving")
                self.run_for(0.03 * dies_late)
                reached.add((dies, target.messages() if "q" in target.queues() else 0, replica.state))
                node = replica if dies == "backup" else target
                node.kill(power=True)
                self.run_for(1)
                node.start()
                self.run_until(lambda replica=replica: "has given everything away" in str(replica.life.ready()))
                self.assertEqual((target.messages(), dies_late, dies), (3, dies_late, dies))
        self.assertGreater(len(reached), 4, "it is interrupted at different moments")

    def test_an_operator_who_stops_the_backup_before_it_gives_anything_leaves_everything_there(self) -> None:
        primary, replica, target = self.trio()
        primary.kill()
        self.run_until(lambda: replica.state == "active")
        done = replica.stop()
        self.run_until(lambda: bool(done.called))
        self.assertEqual((replica.state, "q" in target.queues()), ("stopped", False))


class NeighbourTests(PairCase):
    """Two processes host the backups of each other, which are announced at the place of their host (``excludes``), and scale down to it."""

    def process(self, number: int, other: int) -> tuple[Node, Node]:
        """A host, and the backup of the other host; the way inside leads to the host."""
        inside, back = number + 20, ReplicationConfiguration(True, retry_replication_wait=200)
        self.network.inside[str(inside)] = str(number)
        host = self.node(f"host{number}", number, other, policy=ReplicationConfiguration(False, retry_replication_wait=200))
        away = ScaleDownConfiguration(connectors=(f"to{inside}",), commit_interval=1)
        guest = self.node(f"guest{number}", number + 10, other, number, inside, policy=back, scale_down=away)
        guest.announced = host.port
        host.neighbours = guest.neighbours = ProcessVoters()
        return host, guest

    def both(self) -> tuple[tuple[Node, Node], tuple[Node, Node]]:
        """Each backup is in sync, each host has three messages, and is the only voter of the other one."""
        first, second = processes = self.process(1, 2), self.process(2, 1)
        for host, _ in processes:
            host.start()
        self.run_until(lambda: first[0].state == second[0].state == "active")
        for (host, _), (_, guest) in ((first, second), (second, first)):
            guest.policy = replace(guest.policy, node_id=host.record_node)
            guest.start()
        for host, other in ((first[0], second[0]), (second[0], first[0])):
            self.run_until(lambda host=host: host.replica_state == "in sync")
            self.run_until(lambda host=host, other=other: host.activation._voters() == (other.record_node,))
            session = host.client()
            session.send(created("q"))
            for _ in range(3):
                session.publish(reply=True)
        self.run_for(1)
        return first, second

    def test_after_an_orderly_stop_of_one_process_the_other_one_has_the_messages_of_both(self) -> None:
        (host, guest), (stopped, stopped_guest) = self.both()
        stopped_guest.stop().addCallback(lambda _: stopped.stop())
        self.run_until(lambda: str(guest.life.ready()).startswith("the broker is passive (backup, has given everything away"), 20)
        self.assertEqual((host.state, host.activations, host.messages()), ("active", 1, 6))

    def test_neither_goes_on_when_a_process_is_lost_with_replica_and_voter(self) -> None:
        """The lost process could as well be cut off, and be about to go on with both nodes."""
        (host, guest), lost = self.both()
        for each in lost:
            each.kill()
        self.run_for(60)
        self.assertEqual((host.state, guest.state, guest.activations), ("passive", "passive", 0))
        for each in lost:
            each.start()
        self.run_until(lambda: host.state == "active" and lost[0].state == "active")
        self.assertEqual((host.messages(), lost[0].messages()), (3, 3))
