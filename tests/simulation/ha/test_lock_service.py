"""The simulated lock service keeps the contract, and what its faults do to a manager."""

from __future__ import annotations

import random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.conformance import NAME, LosableLockManagerContract
from mqbroker.ha.locks.contract import LockManager, UnavailableError
from tests.simulation.ha.lock_service import BEAT_SECONDS, LATEST, REQUEST_SECONDS, SESSION_SECONDS, LockService, SimulatedLockManager
from tests.simulation.world import Process, World
from tests.support.disk import SimulatedCrash


class ServiceTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.world = World(1)
        self.blocked = 0.0
        """Until then nothing gets to the service, nor back."""
        self.service = LockService(self.world, lambda sender, receiver: max(self.blocked - self.world.now, 0.0))
        self.service.heal()
        self.processes: list[Process] = []

    def make_manager(self) -> SimulatedLockManager:
        process = Process(self.world, f"broker{len(self.processes)}", random.Random(1))
        self.processes.append(process)
        return SimulatedLockManager(self.service, process, process.name)


class SimulatedContractTests(LosableLockManagerContract, ServiceTestCase):
    def make_manager(self) -> LockManager:
        return ServiceTestCase.make_manager(self)

    def lose(self, manager: Any) -> None:
        self.service.end_sessions(manager._host)
        self.world.run(SESSION_SECONDS)


class FaultTests(ServiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lost: list[str] = []
        self.one, self.other = self.make_manager(), self.make_manager()
        for each in (self.one, self.other):
            each.start(self.lost.append)
        self.assertTrue(self.one.try_lock(NAME))

    def test_an_answer_is_lost_after_the_request_took_effect(self) -> None:
        self.service.lost_answers = 1
        with self.assertRaises(UnavailableError):
            self.one.change_number(NAME, 0, -1)
        self.assertEqual(self.one.number(NAME), -1)

    def test_a_service_that_is_down_does_nothing_and_keeps_everything(self) -> None:
        self.service.go_down(0.8)
        with self.assertRaises(UnavailableError):
            self.one.change_number(NAME, 0, -1)
        self.world.run(0.5)
        self.assertEqual((self.one.number(NAME), self.one.has_lock(NAME), self.lost), (0, True, []))

    def test_who_is_cut_off_loses_its_lock_and_a_late_request_changes_nothing(self) -> None:
        self.blocked = self.world.now + SESSION_SECONDS + LATEST + 1
        with self.assertRaises(UnavailableError):
            self.one.change_number(NAME, 0, -1)
        self.world.run(SESSION_SECONDS + LATEST + 2)
        self.assertEqual(len(self.lost), 2)
        self.other.start(self.lost.append)
        self.assertTrue(self.other.try_lock(NAME))
        self.assertEqual(self.other.number(NAME), 0)

    def test_what_is_late_arrives_when_everything_is_healed(self) -> None:
        """Once a late request held up all later ones, and a session was lost in the peace after the faults."""
        self.blocked = self.world.now + SESSION_SECONDS + LATEST + 1
        self.world.run(2 * BEAT_SECONDS)
        self.blocked = 0.0
        self.service.heal()
        self.world.run(SESSION_SECONDS + LATEST + 2)
        self.assertEqual(self.lost, [])

    def test_the_session_of_a_process_that_has_ended_ends_later(self) -> None:
        self.processes[0].end()
        self.assertFalse(self.other.try_lock(NAME))
        self.world.run(SESSION_SECONDS + LATEST)
        self.assertTrue(self.other.try_lock(NAME))

    def test_a_process_that_stands_still_hears_of_its_loss_when_it_goes_on(self) -> None:
        self.processes[0].pause(SESSION_SECONDS + LATEST + 1)
        self.world.run(SESSION_SECONDS + LATEST)
        self.assertTrue(self.other.try_lock(NAME))
        self.assertEqual(self.lost, [])
        self.world.run(2)
        self.assertEqual((len(self.lost), self.one.was_lost), (1, True))

    def test_a_thread_ends_with_its_process_and_stands_still_with_it(self) -> None:
        self.world.schedule(0.0001, self.processes[0].pause, 0.5)
        before = self.world.now
        self.one.number(NAME)
        self.assertGreater(self.world.now, before + 0.4)
        self.service.go_down(5)
        self.world.schedule(REQUEST_SECONDS / 2, self.processes[0].end)
        with self.assertRaises(SimulatedCrash):
            self.one.number(NAME)
