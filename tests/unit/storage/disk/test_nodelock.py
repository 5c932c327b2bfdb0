"""``server.lock``: one broker at a time, its state, and the id of its node."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_FIRST_TIME, STATE_PAUSED, NodeLock, new_node_id
from mqbroker.storage.errors import StoreLockedError
from tests.support.disk import SimulatedDisk

NODE = "01234567-89ab-4cde-8f01-23456789abcd"


class NodeLockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory("/lock")
        self.disk.sync_directory("/")
        self.lock = NodeLock(self.disk, "/lock")

    def test_a_folder_has_one_active_broker(self) -> None:
        self.lock.acquire()
        other = NodeLock(self.disk, "/lock")
        error = self.assertRaises(StoreLockedError, other.acquire)
        self.assertIn("another broker uses this folder", str(error))
        self.lock.release()
        other.acquire()

    def test_a_lock_that_is_not_held_may_be_released(self) -> None:
        self.lock.release()
        self.lock.acquire()
        self.lock.release()
        self.lock.release()
        self.lock.acquire()

    def test_a_new_folder_has_neither_a_state_nor_a_node(self) -> None:
        self.assertEqual((self.lock.state(), self.lock.node_id()), (STATE_FIRST_TIME, None))

    def test_the_state_and_the_node_leave_each_other_alone(self) -> None:
        self.lock.write_node_id(NODE)
        self.lock.write_state(STATE_ACTIVE)
        self.assertEqual((self.lock.state(), self.lock.node_id()), (STATE_ACTIVE, NODE))
        self.lock.write_state(STATE_PAUSED)
        self.assertEqual((self.lock.state(), self.lock.node_id()), (STATE_PAUSED, NODE))

    def test_both_survive_a_crash_of_the_machine(self) -> None:
        self.lock.write_state(STATE_ACTIVE)
        self.lock.write_node_id(NODE)
        self.disk.crash()
        again = NodeLock(self.disk, "/lock")
        self.assertEqual((again.state(), again.node_id()), (STATE_ACTIVE, NODE))

    def test_a_file_that_another_process_holds_is_an_error_that_says_which(self) -> None:
        held = self.disk.lock("/lock/server.lock")
        assert held is not None
        self.assertIn("/lock/server.lock: another process holds this file", str(self.assertRaises(StoreLockedError, self.lock.state)))
        held.release()
        self.assertEqual(self.lock.state(), STATE_FIRST_TIME)

    def test_a_new_node_id_is_a_random_uuid_that_artemis_reads_as_it_is(self) -> None:
        self.assertEqual(new_node_id(lambda size: b"\xff" * size), "ffffffff-ffff-1fff-bfff-ffffffffffff")
