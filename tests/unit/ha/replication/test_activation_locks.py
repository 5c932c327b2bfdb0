"""Pairs whose sequences come from a lock manager: no broker is active without it, and what was acknowledged is in who goes on."""

from __future__ import annotations

from typing import Any

from mqbroker.config.model.cluster import LockManagerConfiguration, ReplicationConfiguration
from mqclient.wire import packets as wire
from tests.support.locks import LockService
from tests.unit.ha.replication.support import Node, created
from tests.unit.ha.replication.test_one_active import OneActiveCase

MANAGER = LockManagerConfiguration("memory")


class LockCase(OneActiveCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = LockService()

    def locked(self, name: str, port: int, *others: int, backup: bool = False, **policy: Any) -> Node:
        node = self.node(name, port, *others, policy=ReplicationConfiguration(backup, manager=MANAGER, **policy))
        node.lock_service = self.service
        return node

    def pair(self, **backup: Any) -> tuple[Node, Node]:
        primary = self.locked("primary", 1, 2).start()
        replica = self.locked("backup", 2, 1, backup=True, **backup).start()
        self.assert_pair(primary, replica)
        return primary, replica

    @property
    def number(self) -> int:
        [number] = self.service.numbers.values()
        return number

    def end_session(self, node: Node) -> None:
        """The service has not heard of the node for too long."""
        self.service.end(node.lock_manager)


class TakeoverTests(LockCase):
    def test_a_pair_and_its_numbers(self) -> None:
        primary, replica = self.pair()
        self.assertEqual((primary.record.sequence, replica.record.sequence, self.number), (1, 1, 1))
        self.assertEqual(set(self.service.numbers), {primary.record_node})

    def test_a_replica_takes_over_when_the_session_of_the_dead_one_is_over(self) -> None:
        primary, replica = self.pair()
        primary.queue("q")
        self.run_for(1)
        primary.kill()
        self.run_for(10)
        self.assertEqual((replica.state, replica.activation.state), ("passive", "backup, waiting to ask again, sequence 1"))
        self.end_session(primary)
        self.assertLess(self.run_until(lambda: replica.state == "active"), 1)
        self.assertEqual((self.number, replica.queues()), (2, {"q"}))

    def test_a_primary_goes_on_without_a_dead_replica(self) -> None:
        primary, replica = self.pair()
        replica.kill()
        primary.client().send(created("q"))
        self.run_until(lambda: self.number == 2)
        self.run_for(1)
        self.assertEqual((primary.state, primary.queues(), primary.record.shared), ("active", {"q"}, False))

    def test_a_lost_link_lets_the_holder_of_the_lock_go_on_and_the_replica_copies_anew(self) -> None:
        primary, replica = self.pair()
        self.lose(replica)
        self.watch(10)
        self.run_until(lambda: self.number == 2, 90)
        self.run_until(lambda: primary.replica_state == "in sync", 60)
        self.assertEqual((primary.activations, replica.activations, self.number), (1, 0, 2))

    def test_who_stood_still_beyond_its_session_acknowledges_nothing_that_its_replica_has_not(self) -> None:
        primary, replica = self.pair()
        session = primary.client()
        primary.stand_still()
        self.run_for(5)
        self.end_session(primary)
        self.run_until(lambda: replica.state == "active", 60)
        session.send(created("late"))
        primary.go_on()
        self.watch(15)
        self.assertEqual([each for each in session.take() if isinstance(each, wire.NullResponse)], [])
        self.assertEqual((replica.state, "late" in replica.queues(), self.number), ("active", False, 2))

    def test_an_orderly_stop_hands_over_at_once(self) -> None:
        primary, replica = self.pair()
        stopped = primary.stop()
        self.assertLess(self.run_until(lambda: replica.state == "active"), 2)
        self.run_until(lambda: bool(stopped.called))
        self.assertEqual((self.number, set(self.service.holders.values())), (2, {replica.lock_manager}))

    def test_without_a_replica_an_orderly_stop_releases_the_lock(self) -> None:
        primary = self.locked("primary", 1, 2).start()
        self.run_until(lambda: primary.state == "active")
        stopped = primary.stop()
        self.run_until(lambda: bool(stopped.called))
        self.run_for(0.1)
        self.assertEqual((self.service.holders, primary.lock_manager.session), ({}, False))


class StartTests(LockCase):
    def stopped_pair(self) -> tuple[Node, Node]:
        """Both have everything, and are dead."""
        primary, replica = self.pair()
        for node in (primary, replica):
            node.kill()
            self.end_session(node)
        return primary, replica

    def test_the_primary_starts_alone_when_both_have_everything(self) -> None:
        primary, replica = self.stopped_pair()
        self.starts_alone(primary, replica)

    def test_so_does_the_backup(self) -> None:
        primary, replica = self.stopped_pair()
        self.starts_alone(replica, primary)

    def starts_alone(self, first: Node, second: Node) -> None:
        first.start()
        self.run_until(lambda: first.state == "active")
        second.start()
        self.assert_pair(first, second)

    def test_old_data_do_not_start_alone(self) -> None:
        primary, replica = self.pair()
        replica.kill()
        self.end_session(replica)
        primary.client().send(created("q"))
        self.run_until(lambda: self.number == 2)
        primary.kill()
        self.end_session(primary)
        replica.start()
        self.run_for(30)
        self.assertEqual((replica.state, self.service.holders, self.number), ("passive", {}, 2))
        primary.start()
        self.assert_pair(primary, replica)
        self.assertEqual(primary.queues(), {"q"})

    def test_nobody_starts_while_the_lock_manager_is_down(self) -> None:
        self.service.down = True
        primary = self.locked("primary", 1, 2).start()
        self.run_for(20)
        self.assertEqual((primary.state, primary.failures), ("passive", []))
        self.service.down = False
        self.run_until(lambda: primary.state == "active")

    def test_a_claim_that_was_left_open_is_taken_up(self) -> None:
        primary, replica = self.stopped_pair()
        [name] = self.service.numbers
        self.service.numbers[name] = -2
        replica.start()
        self.run_until(lambda: replica.state == "active")
        self.assertEqual((self.number, replica.record.sequence), (3, 3))
        primary.start()
        self.assert_pair(replica, primary)

    def test_answers_that_are_lost_after_they_took_effect(self) -> None:
        primary, _ = self.stopped_pair()
        for lost in range(1, 6):
            primary.start()
            primary.lock_manager.lost_answers = lost
            self.run_until(lambda: primary.state == "active")
            self.assertEqual((primary.record.sequence, self.number > 0), (self.number, True))
            primary.kill()
            self.end_session(primary)


class LossTests(LockCase):
    def test_the_loss_of_the_lock_stops_an_active_broker(self) -> None:
        primary, replica = self.pair()
        primary.lock_manager.lose()
        self.run_until(lambda: replica.state == "active")
        self.assertIn("the lock of this broker is lost: the session is over", primary.failures[0])
        self.watch(5)

    def test_a_sequence_that_cannot_be_committed_stops_the_broker(self) -> None:
        primary = self.locked("primary", 1, 2).start()
        manager = primary.lock_manager
        change = manager.change_number

        def lose_and_change(name: str, old: int, new: int) -> bool:
            if new > 0:
                self.service.holders.clear()
            return change(name, old, new)

        self.patch(manager, "change_number", lose_and_change)
        self.run_until(lambda: bool(primary.failures))
        self.assertIn("another broker has the lock since sequence 1 was claimed", primary.failures[0])
        self.assertEqual((primary.activations, self.number), (0, -1))

    def test_a_passive_broker_connects_anew_and_takes_over_later(self) -> None:
        primary, replica = self.pair()
        starts = replica.lock_manager.starts
        replica.lock_manager.lose()
        self.run_for(5)
        self.assertEqual((replica.lock_manager.starts, replica.failures), (starts + 1, []))
        self.assert_pair(primary, replica)
        primary.kill()
        self.end_session(primary)
        self.run_until(lambda: replica.state == "active")

    def test_without_the_lock_manager_and_its_replica_an_active_broker_answers_nobody(self) -> None:
        primary, replica = self.pair()
        session = primary.client()
        self.service.down = True
        replica.kill()
        session.send(created("q"))
        self.run_for(3)
        self.assertEqual([each for each in session.take() if isinstance(each, wire.NullResponse)], [])
        self.service.down = False
        self.run_until(lambda: self.number == 2, 60)
        self.run_until(lambda: primary.state == "active", 60)


class FailbackTests(LockCase):
    def test_a_primary_that_is_back_gets_its_place(self) -> None:
        primary, replica = self.pair(allow_failback=True)
        primary.kill()
        self.end_session(primary)
        self.run_until(lambda: replica.state == "active")
        primary.start()
        self.run_until(lambda: primary.state == "active", 60)
        self.assert_pair(primary, replica)
        self.assertEqual((self.number, set(self.service.holders.values())), (3, {primary.lock_manager}))

    def test_without_allow_failback_it_stays_the_replica(self) -> None:
        primary, replica = self.pair()
        primary.kill()
        self.end_session(primary)
        self.run_until(lambda: replica.state == "active")
        primary.start()
        self.assert_pair(replica, primary)
