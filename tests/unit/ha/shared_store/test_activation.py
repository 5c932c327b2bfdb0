"""Brokers that share a folder: who is active, who waits, and how that changes."""

from __future__ import annotations

from typing import Any

from mqbroker.node.parts import StartError
from mqbroker.server.observation.metrics import render
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_FAILING_BACK, STATE_PAUSED
from tests.unit.ha.shared_store.nodes import FolderWorld, Node, NodeCase, backup, primary


class HoldBackTests(NodeCase):
    """An orderly stop after which the broker comes back."""

    def test_a_primary_leaves_its_backup_passive_whatever_is_configured(self) -> None:
        first = self.node(primary(failover_on_shutdown=True))
        second = self.node(backup())
        first.activation.hold_back()
        self.assertTrue(first.stop())
        second.run(5.0)
        self.assertEqual((second.state, self.state()), ("passive", STATE_PAUSED))
        first.life.start()
        first.run(1.0)
        self.assertEqual(first.state, "active")

    def test_an_active_backup_can_come_back_without_its_primary(self) -> None:
        self.kill(self.node(primary()))
        second = self.node(backup())
        self.assertEqual(second.state, "active")
        second.activation.hold_back()
        self.assertTrue(second.stop())
        second.life.start()
        second.run(1.0)
        self.assertEqual(second.state, "active")


class GivenAwayTests(NodeCase):
    """An active backup that stops since its messages go to another broker."""

    def active_backup(self, **options: Any) -> Node:
        self.kill(self.node(primary()))
        node = self.node(backup(**options))
        self.assertEqual((node.state, node.activation.gives_away), ("active", True))
        return node

    def test_backups_keep_off_a_folder_that_has_nothing_more_to_give_until_the_primary_has_run_again(self) -> None:
        node = self.active_backup(failover_on_shutdown=True)
        node.activation.gave_away(complete=True)
        node.activation.retire()
        node.run(5.0)
        self.assertEqual((node.state, self.state()), ("passive", STATE_PAUSED))
        again = self.node(primary())
        self.assertEqual(again.state, "active")
        self.kill(again)
        node.run(5.0)
        self.assertEqual((node.state, node.activations), ("active", 2))

    def test_what_could_not_be_given_is_taken_over_again(self) -> None:
        node = self.active_backup()
        node.activation.gave_away(complete=False)
        node.activation.retire()
        node.run(5.0)
        self.assertEqual((node.state, node.activations, self.state()), ("active", 2, STATE_ACTIVE))

    def test_without_restart_backup_it_stops(self) -> None:
        node = self.active_backup(restart_backup=False)
        node.activation.retire()
        self.assertEqual(node.stops_wanted, 1)

    def test_a_primary_that_management_scales_down_leaves_its_folder_as_configured(self) -> None:
        node = self.node(primary(failover_on_shutdown=True))
        self.assertFalse(node.activation.gives_away)
        node.activation.gave_away(complete=True)
        self.assertTrue(node.stop())
        self.assertEqual(self.state(), STATE_ACTIVE)


class TakeoverTests(NodeCase):
    lost = "another broker has taken this folder"

    def setUp(self) -> None:
        super().setUp()
        self.primary = self.node(primary())
        self.backup = self.node(backup())
        self.assertEqual((self.primary.state, self.backup.state), ("active", "passive"))

    def test_a_backup_goes_on_with_what_the_dead_primary_had(self) -> None:
        self.primary.queue("q")
        self.kill(self.primary)
        self.backup.run(1.0)
        self.assertEqual((self.backup.state, self.backup.queues(), self.backup.activations), ("active", {"q"}, 1))
        self.assertEqual(self.state(), STATE_ACTIVE)

    def test_the_one_that_lost_its_lock_ends_without_a_word_to_anybody(self) -> None:
        self.primary.queue("q")
        self.kill(self.primary)
        self.backup.run(1.0)
        self.primary.run(2.0)
        self.assertEqual((self.primary.state, self.backup.state), ("failed", "active"))
        self.assertIn(self.lost, self.primary.failures[0])
        self.assertEqual(self.state(), STATE_ACTIVE)
        self.flushLoggedErrors()

    def test_a_start_that_fails_when_its_turn_has_come_ends_the_broker_and_leaves_the_folder_to_the_next(self) -> None:
        unlucky = Node(self.world, 7, backup(), problem=StartError("the port is taken"))
        self.assertTrue(self.backup.stop())
        unlucky.life.start()
        unlucky.run(1.0)
        self.primary.queue("q")
        self.kill(self.primary)
        unlucky.run(1.0)
        self.assertEqual((unlucky.state, unlucky.failures, unlucky.clock.pending), ("failed", ["the port is taken"], 0))
        self.assertEqual(self.node(backup()).queues(), {"q"})

    def test_after_an_orderly_stop_the_backup_stays_passive_until_the_primary_was_there_again(self) -> None:
        self.assertTrue(self.primary.stop())
        self.backup.run(10.0)
        self.assertEqual((self.state(), self.backup.state), (STATE_PAUSED, "passive"))
        again = self.node(primary())
        self.assertEqual((again.state, self.state()), ("active", STATE_ACTIVE))
        self.kill(again)
        self.backup.run(3.0)
        self.assertEqual(self.backup.state, "active")

    def test_it_shows_itself_to_the_cluster_while_it_waits(self) -> None:
        self.assertEqual(self.backup.presence.shown, self.primary.life.active.store.node_id)
        self.kill(self.primary)
        self.backup.run(1.0)
        self.assertEqual(self.backup.presence.shown, "")

    def test_its_pages_show_role_and_state(self) -> None:
        self.assertEqual(self.backup.life.ready(), "the broker is passive (backup)")
        self.assertIsNone(self.backup.life.live())
        shown = b"".join(render(self.backup.life.figures())).decode()
        self.assertIn('artemis_passive{broker="b",role="backup",state="passive"} 1\n', shown)

    def test_further_backups_queue(self) -> None:
        third = self.node(backup())
        self.assertEqual(third.life.ready(), "the broker is passive (behind another backup)")
        self.assertEqual(third.presence.shown, "")
        self.kill(self.primary)
        for node in (third, self.backup, third):
            node.run(1.0)
        self.assertEqual((self.backup.state, third.life.ready()), ("active", "the broker is passive (backup)"))
        self.kill(self.backup)
        third.run(1.0)
        self.assertEqual(third.state, "active")

    def test_a_backup_that_is_stopped_leaves_the_folder_to_others(self) -> None:
        self.assertTrue(self.backup.stop())
        self.assertEqual((self.backup.state, self.backup.presence.shown, self.state()), ("stopped", "", STATE_ACTIVE))
        third = self.node(backup())
        self.assertEqual(third.life.ready(), "the broker is passive (backup)")


class NewFolderTests(NodeCase):
    def test_a_backup_that_was_there_first_waits_and_then_shows_itself(self) -> None:
        second = self.node(backup())
        second.run(10.0)
        self.assertEqual((second.state, second.presence.shown), ("passive", ""))
        first = self.node(primary())
        second.run(3.0)
        self.assertEqual((first.state, second.presence.shown), ("active", first.life.active.store.node_id))
        self.kill(first)
        second.run(1.0)
        self.assertEqual(second.state, "active")


class FailoverOnShutdownTests(NodeCase):
    def test_the_backup_goes_on_after_an_orderly_stop(self) -> None:
        first, second, third = (
            self.node(primary(failover_on_shutdown=True)),
            self.node(backup(failover_on_shutdown=True)),
            self.node(backup()),
        )
        first.queue("q")
        self.assertTrue(first.stop())
        for node in (second, third):
            node.run(2.0)
        self.assertEqual((second.state, second.queues()), ("active", {"q"}))
        self.assertTrue(second.stop())
        third.run(2.0)
        self.assertEqual((third.state, third.queues()), ("active", {"q"}))

    def test_so_it_does_when_management_asks_for_it(self) -> None:
        for policy in (primary(), backup()):
            with self.subTest(backup=policy.backup):
                first = self.node(primary())
                second = self.node(backup())
                if policy.backup:
                    self.kill(first)
                    second.run(1.0)
                    first, second = second, self.node(backup())
                first.queue("q")
                first.life.active.others.fail_over()
                first.run()
                self.assertEqual(first.stops_wanted, 1)
                self.assertTrue(first.stop())
                second.run(2.0)
                self.assertEqual((first.state, second.state, second.queues()), ("stopped", "active", {"q"}))
                self.world = self.make_world()


class FailbackTests(NodeCase):
    def taken_over(self, **options: Any) -> tuple[Node, Node]:
        """A backup that is active, and its primary that is back."""
        first, second = self.node(primary()), self.node(backup(**options))
        first.queue("q")
        self.kill(first)
        second.run(1.0)
        self.assertEqual(second.state, "active")
        again = self.node(primary())
        self.assertEqual(again.life.ready(), "the broker is passive (primary that waits)")
        self.assertEqual((self.state(), again.presence.shown), (STATE_FAILING_BACK, second.life.active.store.node_id))
        return again, second

    def assert_wanted_twice(self, again: Node, second: Node) -> None:
        """The primary has announced itself, and the backup gives way when it has looked again."""
        second.presence.other = True
        second.run(1.0)
        self.assertEqual((second.state, self.state()), ("active", STATE_ACTIVE))
        again.run(0.5)
        self.assertEqual(self.state(), STATE_FAILING_BACK)
        second.run(1.0)

    def test_the_primary_gets_its_folder_back_once_it_has_announced_itself(self) -> None:
        again, second = self.taken_over()
        second.run(5.0)
        self.assertEqual(second.state, "active")
        self.assert_wanted_twice(again, second)
        second.run()
        again.run(1.0)
        second.run(3.0)
        self.assertEqual((again.state, again.queues(), second.state), ("active", {"q"}, "passive"))
        self.kill(again)
        second.run(3.0)
        self.assertEqual((second.state, second.activations), ("active", 2))

    def test_a_primary_gets_it_from_a_backup_that_looks_at_another_moment_and_when_it_is_slow(self) -> None:
        for seconds in (0.5, 0.9, 2.5, 6.0):
            with self.subTest(seconds=seconds):
                self.world = self.make_world()
                again, second = self.taken_over()
                second.presence.other = True
                for _ in range(6):
                    second.run(seconds)
                    again.run(0.5)
                self.assertEqual((again.state, second.state), ("active", "passive"))

    def test_nobody_gives_way_to_a_primary_that_has_died_while_it_waited(self) -> None:
        """The other backup has announced itself, too."""
        again, second = self.taken_over()
        third = self.node(backup())
        self.kill(again)
        second.presence.other = True
        second.run(20.0)
        self.assertEqual((second.state, self.state()), ("active", STATE_ACTIVE))
        self.kill(second)
        third.run(3.0)
        self.assertEqual((third.state, third.queues()), ("active", {"q"}))

    def test_a_primary_that_dies_again_and_again_gets_nothing(self) -> None:
        _, second = self.taken_over()
        second.presence.other = True
        for _ in range(5):
            second.run(15.0)
            self.kill(self.node(primary()))
        self.assertEqual(second.state, "active")

    def test_without_allow_failback_it_waits(self) -> None:
        again, second = self.taken_over(allow_failback=False)
        second.presence.other = True
        second.run(5.0)
        again.run(5.0)
        self.assertEqual((again.state, second.state), ("passive", "active"))
        self.kill(second)
        again.run(1.0)
        self.assertEqual(again.state, "active")

    def test_without_restart_backup_it_ends(self) -> None:
        again, second = self.taken_over(restart_backup=False)
        self.assert_wanted_twice(again, second)
        self.assertEqual((second.stops_wanted, second.state), (1, "active"))
        self.assertTrue(second.stop())
        self.assertEqual(self.state(), STATE_FAILING_BACK)

    def test_a_stop_that_was_asked_for_meanwhile_is_the_end(self) -> None:
        _, second = self.taken_over()
        second.life.give_way(True)
        self.assertTrue(second.stop())
        second.run(3.0)
        self.assertEqual(second.state, "stopped")

    def test_a_primary_that_is_stopped_while_it_waits_leaves_the_backup_its_own(self) -> None:
        again, second = self.taken_over()
        self.assertTrue(again.stop())
        self.assertEqual((self.state(), again.presence.shown), (STATE_ACTIVE, ""))
        third = self.node(backup())
        self.kill(second)
        third.run(1.0)
        self.assertEqual(third.state, "active")


class TimeoutTests(NodeCase):
    def test_who_waits_too_long_fails(self) -> None:
        self.node(primary())
        for policy in (primary(), backup()):
            node = self.node(policy, timeout_ms=2000)
            self.assertEqual((node.state, node.failures), ("passive", []))
            node.run(2.0)
            self.assertEqual(node.state, "failed")
            self.assertIn("journal-lock-acquisition-timeout", node.failures[0])
        self.flushLoggedErrors()

    def test_who_is_active_has_waited(self) -> None:
        node = self.node(primary(), timeout_ms=2000)
        node.run(5.0)
        self.assertEqual(node.state, "active")


class LostFolderTests(NodeCase):
    """What only files have."""

    world: FolderWorld

    def setUp(self) -> None:
        super().setUp()
        self.primary = self.node(primary())
        self.backup = self.node(backup())

    def test_a_lock_that_is_lost_ends_it_before_anybody_else_comes(self) -> None:
        self.kill(self.primary)
        self.primary.run(2.0)
        self.assertEqual(self.primary.state, "failed")
        self.assertIn("the lock of serverlock.1 is lost", self.primary.failures[0])

    def test_a_state_that_cannot_be_read_ends_a_backup(self) -> None:
        self.world.disk.fail("read", OSError(5, "input/output error"))
        self.backup.run(1.0)
        self.assertEqual(self.backup.state, "failed")
        self.assertIn("input/output error", self.backup.failures[0])
        self.flushLoggedErrors()
