"""The lock manager on ZooKeeper, on one in memory: the contract, and what is left of requests whose answer nobody heard."""

from __future__ import annotations

import random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.conformance import NAME, LosableLockManagerContract
from mqbroker.ha.locks.contract import LockManager, UnavailableError
from mqbroker.ha.locks.zookeeper.manager import ZooKeeperLockManager
from tests.support.zookeeper import MemorySession, MemoryZooKeeper, Node

SERVERS = "a:2181,b:2181,c:2181"
LEASES = f"/brokers/{NAME}/locks/leases"
NUMBER = f"/brokers/{NAME}/activation-sequence"


class ManagerCase(SynchronousTestCase):
    properties = {"connect-string": SERVERS, "namespace": "brokers", "retries": "0"}

    def setUp(self) -> None:
        super().setUp()
        self.service = MemoryZooKeeper()
        self.entropy = random.Random(1).randbytes
        self.lost: list[str] = []
        self.pauses: list[float] = []

    def made(self, **properties: str) -> ZooKeeperLockManager:
        found = self.properties | {name.replace("_", "-"): value for name, value in properties.items()}
        return ZooKeeperLockManager(found, self.service.connect, self.entropy, self.pause)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    @property
    def session(self) -> MemorySession:
        """That of the manager that was started last."""
        return self.service.sessions[self.service.made]

    @property
    def contenders(self) -> list[str]:
        return self.service.below(LEASES)

    def connected(self, **properties: str) -> ZooKeeperLockManager:
        manager = self.made(**properties)
        manager.start(self.lost.append)
        return manager


class ContractTests(LosableLockManagerContract, ManagerCase):
    def make_manager(self) -> LockManager:
        return self.made()

    def lose(self, manager: Any) -> None:
        sessions = self.service.sessions
        next(session for session in sessions.values() if session is manager._session).lose()


class NodeTests(ManagerCase):
    def test_nodes_lie_as_those_of_artemis(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        manager.change_number(NAME, 0, -2)
        self.assertEqual(self.service.nodes[NUMBER].content, b"\xff" * 7 + b"\xfe")
        [contender] = self.contenders
        self.assertRegex(contender, r"^_c_[0-9a-f-]{36}-lease-0000000000$")

    def test_without_a_namespace(self) -> None:
        manager = ZooKeeperLockManager({"connect-string": f"{SERVERS}/chroot"}, self.service.connect, self.entropy, self.pause)
        manager.start(self.lost.append)
        manager.try_lock(NAME)
        self.assertEqual(len(self.service.below(f"/chroot/{NAME}/locks/leases")), 1)

    def test_a_lease_of_artemis_keeps_the_lock(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        manager.unlock(NAME)
        self.service.nodes[f"{LEASES}/_c_7d1b-lease-0000000005"] = Node(owner=99)
        self.assertFalse(manager.try_lock(NAME))
        self.assertEqual(self.contenders, ["_c_7d1b-lease-0000000005"])

    def test_a_later_lease_of_artemis_takes_nothing_away(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        self.service.nodes[f"{LEASES}/_c_7d1b-lease-0000000005"] = Node(owner=99)
        self.assertTrue(manager.has_lock(NAME))
        self.assertTrue(manager.change_number(NAME, 0, 1))

    def test_a_node_that_is_no_contender_keeps_the_lock(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        self.service.nodes[f"{LEASES}/other"] = Node()
        self.assertFalse(manager.has_lock(NAME))

    def test_an_empty_number_is_0_and_a_damaged_one_is_told(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        self.service.nodes[NUMBER] = Node()
        self.assertEqual(manager.number(NAME), 0)
        self.assertTrue(manager.change_number(NAME, 0, 1))
        self.service.nodes[NUMBER] = Node(b"123")
        self.assertIn(f"{NUMBER} is damaged", str(self.assertRaises(UnavailableError, manager.number, NAME)))


class StartTests(ManagerCase):
    def test_nothing_to_warn_of(self) -> None:
        self.assertEqual(self.made().start(self.lost.append), [])

    def test_a_session_that_the_ensemble_changes(self) -> None:
        for given, word in ((40_000, "lengthens"), (10_000, "shortens")):
            self.service.timeout_ms = given
            [warning] = self.made().start(self.lost.append)
            self.assertIn(f"session-ms is 18000, and the ensemble {word} the session to {given} ms", warning)

    def test_too_few_servers(self) -> None:
        for servers, told in (("a:1,b:1", "2 servers"), ("a:1,a:1,a:1", "1 server:"), ("a", "1 server:")):
            [warning] = self.made(connect_string=servers).start(self.lost.append)
            self.assertIn(f"connect-string has {told}", warning)

    def test_nobody_answers(self) -> None:
        self.service.down = True
        self.assertRaises(UnavailableError, self.made().start, self.lost.append)

    def test_a_stop_ends_the_session(self) -> None:
        manager = self.connected()
        session = self.session
        manager.stop()
        manager.stop()
        self.assertEqual(session.closes, 1)
        self.assertRaises(UnavailableError, manager.number, NAME)
        self.assertFalse(manager.has_lock(NAME))
        manager.unlock(NAME)


class LostAnswerTests(ManagerCase):
    def test_a_contender_whose_answer_was_lost_is_taken_up(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        manager.unlock(NAME)
        self.session.lost_answers = 1
        self.assertRaises(UnavailableError, manager.try_lock, NAME)
        self.assertEqual(len(self.contenders), 1)
        self.assertTrue(manager.has_lock(NAME))
        self.assertTrue(manager.try_lock(NAME))
        self.assertEqual(len(self.contenders), 1)

    def test_two_contenders_become_one(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        manager.unlock(NAME)
        session = self.session
        session.late = 1
        self.assertRaises(UnavailableError, manager.try_lock, NAME)
        self.assertTrue(manager.try_lock(NAME))
        session.arrive()
        self.assertEqual(len(self.contenders), 2)
        self.assertTrue(manager.has_lock(NAME))
        self.assertEqual(len(self.contenders), 1)

    def test_the_contender_of_a_former_session_is_removed(self) -> None:
        manager = self.connected()
        manager.try_lock(NAME)
        former = self.session
        # The ensemble has not noticed yet that this session is over.
        manager._session = None
        manager.start(self.lost.append)
        self.assertFalse(former.is_over)
        self.assertTrue(manager.try_lock(NAME))
        self.assertEqual(len(self.contenders), 1)
        self.assertEqual(self.service.nodes[f"{LEASES}/{self.contenders[0]}"].owner, self.session.session_id)

    def test_a_contender_that_lost_the_race_is_removed_later(self) -> None:
        holder, late = self.connected(), self.connected()
        session = self.session
        holder.try_lock(NAME)
        session.late = 1
        holder.unlock(NAME)
        self.assertRaises(UnavailableError, late.try_lock, NAME)
        holder.try_lock(NAME)
        session.arrive()
        self.assertFalse(late.try_lock(NAME))
        self.assertEqual(len(self.contenders), 1)

    def test_requests_are_repeated(self) -> None:
        manager = self.connected(retries="2", retries_ms="500")
        self.session.lost_answers = 2
        self.assertTrue(manager.try_lock(NAME))
        self.assertEqual(self.pauses, [0.5, 0.5])

    def test_for_ever_ends_with_the_session(self) -> None:
        manager = self.connected(retries="-1", retries_ms="10")
        session = self.session
        self.service.down = True
        pause = self.pauses

        def expire(seconds: float) -> None:
            pause.append(seconds)
            if len(pause) == 50:
                self.service.expire(session)

        self.patch(manager, "_pause", expire)
        self.assertRaises(UnavailableError, manager.number, NAME)
        self.assertEqual(len(pause), 50)


class ChangeTests(ManagerCase):
    def setUp(self) -> None:
        super().setUp()
        self.manager = self.connected(retries="1")
        self.manager.try_lock(NAME)
        self.manager.change_number(NAME, 0, 1)

    def test_an_answer_that_was_lost_counts(self) -> None:
        self.session.lost_answers = 1
        self.assertTrue(self.manager.change_number(NAME, 1, -2))
        self.assertEqual(self.manager.number(NAME), -2)

    def test_a_request_that_arrives_after_its_repetition_changes_nothing(self) -> None:
        session = self.session
        session.late = 1
        self.assertTrue(self.manager.change_number(NAME, 1, -2))
        self.assertTrue(self.manager.change_number(NAME, -2, 2))
        session.arrive()
        self.assertEqual(self.manager.number(NAME), 2)

    def test_a_request_that_arrives_before_its_repetition_counts(self) -> None:
        session = self.session
        session.late = 1
        self.patch(self.manager, "_pause", lambda seconds: session.arrive())
        self.assertTrue(self.manager.change_number(NAME, 1, -2))
        self.assertEqual(self.manager.number(NAME), -2)

    def test_a_request_that_arrives_when_another_one_has_the_lock_changes_nothing(self) -> None:
        session = self.session
        session.late = 2
        self.assertRaises(UnavailableError, self.manager.change_number, NAME, 1, -2)
        self.service.expire(session)
        other = self.connected()
        self.assertTrue(other.try_lock(NAME))
        session.arrive()
        self.assertEqual(other.number(NAME), 1)

    def test_a_lock_that_is_lost_between_the_attempts_leaves_the_outcome_open(self) -> None:
        session = self.session
        session.lost_answers = 1
        self.patch(self.manager, "_pause", lambda seconds: self.service.nodes.pop(f"{LEASES}/{self.contenders[0]}"))
        error = self.assertRaises(UnavailableError, self.manager.change_number, NAME, 1, -2)
        self.assertIn("was lost before the answer", str(error))

    def test_a_number_that_a_command_has_changed_at_the_same_time(self) -> None:
        read = self.manager._read

        def read_and_change(session: MemorySession, name: str) -> tuple[int, int | None]:
            found = read(session, name)
            self.service.nodes[NUMBER] = Node((7).to_bytes(8, "big"), version=100)
            return found

        self.patch(self.manager, "_read", read_and_change)
        self.assertFalse(self.manager.change_number(NAME, 1, -2))
        self.assertEqual(self.pauses, [])

    def test_a_lock_that_is_lost_at_the_same_time(self) -> None:
        held = self.manager._held

        def held_and_lost(session: MemorySession, name: str) -> str | None:
            found = held(session, name)
            self.service.nodes.pop(found or "", None)
            return found

        self.patch(self.manager, "_held", held_and_lost)
        self.assertFalse(self.manager.change_number(NAME, 1, -2))
        self.assertEqual(self.manager.number(NAME), 1)
