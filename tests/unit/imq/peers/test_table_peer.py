"""Peers: brokers without a master, whose record is in a database."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.imq.peers.record_table import RecordTable
from mqbroker.imq.peers.table_peer import LOCK_SECONDS
from mqbroker.imq.record.changes import wish_of
from mqbroker.imq.record.record import PAGE_MAX, ChangeRecord
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqclient.errors import IllegalStateError, NotConnectedError
from mqclient.management import ManagementError
from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, THREE, TWO, Net, Node, peers


class PeersCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.net = self.made()
        self.addCleanup(self.database.close)

    def made(self) -> Net:
        return peers()

    @property
    def database(self) -> Any:
        return self.net.database

    def node(self, place: str) -> Node:
        return self.net.nodes[place]

    def answer(self, place: str, packet: wire.Packet, seconds: float = 0) -> wire.Packet | None:
        session = self.node(place).session()
        session.peer.ping(10_000_000)
        session.send(packet)
        self.net.settle(seconds)
        answers = session.take()
        return answers[0] if answers else None

    def made_at(self, place: str, packet: wire.Packet) -> None:
        answer = self.answer(place, packet)
        self.assertIsInstance(answer, wire.NullResponse)

    def refused(self, place: str, packet: wire.Packet) -> str:
        answer = self.answer(place, packet)
        assert isinstance(answer, wire.ExceptionResponse), answer
        return str(answer.message)

    def queues(self) -> list[list[str]]:
        return [node.queues for node in self.net.nodes.values()]

    def table(self) -> tuple[RecordTable, Any]:
        return RecordTable(self.database, "c"), self.database.connect()

    def recreate(self, generation: str | None = None) -> None:
        """Another record takes the place of the present one."""
        table, connection = self.table()
        table.delete(connection)
        table.create(connection)
        if generation is not None:
            table.put(connection, ChangeRecord.begin(generation, ONE, 0))


class RunningTests(PeersCase):
    def test_a_change_at_any_broker_is_made_everywhere(self) -> None:
        for number, place in enumerate((ONE, TWO, THREE)):
            self.made_at(place, create(f"q{number}"))
        self.assertEqual(self.queues(), [["q0", "q1", "q2"]] * 3)
        self.made_at(THREE, wire.DeleteQueue("q0"))
        self.assertEqual(self.queues(), [["q1", "q2"]] * 3)
        self.assertEqual((self.net.requests["append"], self.net.requests["join"]), (0, 0))

    def test_it_is_recorded_before_it_is_made(self) -> None:
        session = self.node(TWO).session()
        session.send(create("q"))
        self.assertEqual((session.take(), self.queues()), ([], [[]] * 3))
        self.net.settle()
        table, connection = self.table()
        self.assertEqual(table.position(connection)[1], 2)

    def test_two_who_want_the_same_name_differently(self) -> None:
        self.made_at(ONE, create("q"))
        text = self.refused(TWO, create("q", max_consumers=1))
        self.assertIn("exists", text)
        self.net.cut(self.node(ONE), self.node(TWO))
        first, second = self.node(ONE).session(), self.node(TWO).session()
        first.send(create("r"))
        second.send(create("r", max_consumers=1))
        self.net.settle()
        [answer] = first.take()
        self.assertIsInstance(answer, wire.NullResponse)
        [answer] = second.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn(ONE, str(answer.message))

    def test_any_broker_may_be_down(self) -> None:
        self.node(ONE).stop(crash=True)
        self.made_at(TWO, create("q"))
        self.node(ONE).start()
        self.net.link_all(self.node(ONE))
        self.net.settle()
        self.assertEqual(self.queues(), [["q"]] * 3)

    def test_brokers_that_are_not_linked_find_changes_in_the_table(self) -> None:
        self.net.cut_off(self.node(THREE))
        self.made_at(ONE, create("q"))
        self.assertEqual(self.node(THREE).queues, [])
        self.net.settle(5)
        self.assertEqual(self.node(THREE).queues, ["q"])

    def test_positions_are_compared_when_a_link_comes_up(self) -> None:
        self.net.cut(self.node(ONE), self.node(TWO))
        self.net.cut(self.node(THREE), self.node(TWO))
        self.made_at(ONE, create("q"))
        self.assertEqual(self.node(TWO).queues, [])
        self.net.link(self.node(ONE), self.node(TWO))
        self.net.settle()
        self.assertEqual(self.node(TWO).queues, ["q"])

    def test_each_says_which_record_it_follows(self) -> None:
        followed = {node.answer("follows", []) for node in self.net.nodes.values()}
        self.assertEqual(followed, {self.node(ONE).recording.standing.generation})

    def test_there_is_no_master_to_change_and_no_record_of_a_broker(self) -> None:
        shared = self.node(ONE).shared
        failure = self.failureResultOf(shared.change_of_master.change(TWO))
        self.assertIn("PRECONDITION_FAILED: this cluster has no master broker", str(failure.value))
        error = self.assertRaises(IllegalStateError, shared.backups.backup)
        self.assertIn("the change record is in the database the.db: it is backed up by `mqbroker imq dbmgr`", str(error))


class StartTests(PeersCase):
    def made(self) -> Net:
        return peers(0)

    def start(self, place: str, *queues: str, **settings: Any) -> Node:
        return self.net.add(place, *(QueueConfiguration(name, name, 0) for name in queues), link=False, **settings)

    def test_they_start_without_waiting_for_each_other(self) -> None:
        one = self.start(ONE)
        self.net.settle()
        self.assertTrue(one.recording.synchronised)
        two = self.start(TWO)
        self.net.settle()
        self.assertTrue(two.recording.synchronised)
        self.assertEqual(one.recording.standing.generation, two.recording.standing.generation)

    def test_until_the_record_is_there_administrators_are_served(self) -> None:
        self.database.away = True
        one = self.start(ONE)
        self.net.settle()
        self.assertIn("the change record of the database the.db", one.world.server.admission.reason or "")
        self.database.away = False
        self.net.settle(5)
        self.assertIsNone(one.world.server.admission.reason)

    def test_a_broker_puts_what_it_has_on_the_record_that_it_begins(self) -> None:
        one = self.start(ONE)
        one.stop()
        self.recreate_all()
        self.start(TWO)
        self.net.settle()
        one.start()
        self.net.settle()
        self.made_at(ONE, create("q"))
        one.stop()
        self.recreate()
        one.start()
        self.net.settle()
        self.assertEqual(one.queues, ["q"])
        table, connection = self.table()
        record = table.read(connection)
        assert record is not None
        self.assertIsNotNone(record.get("queue:q"))

    def recreate_all(self) -> None:
        table, connection = self.table()
        table.create(connection)
        table.delete(connection)

    def test_files_of_two_brokers(self) -> None:
        one, two = self.start(ONE, "a"), self.start(TWO, "b")
        self.net.link(one, two)
        self.net.settle(6)
        self.assertEqual(self.queues(), [["a", "b"]] * 2)

    def test_at_the_start_another_record_is_taken_over(self) -> None:
        one = self.start(ONE)
        self.net.settle()
        self.made_at(ONE, create("q"))
        one.stop()
        self.recreate("restored")
        one.start()
        self.net.settle()
        self.assertEqual((one.queues, one.recording.standing.generation, one.left), ([], "restored", []))

    def test_a_record_of_several_pages(self) -> None:
        record = ChangeRecord.begin("long", ONE, 0)
        for number in range(PAGE_MAX + 1):
            definition = QueueDefinition(f"q{number}", "a", ANYCAST)
            record.append(wish_of(Change("create", definition)), ONE, 0, record.last)
        table, connection = self.table()
        table.create(connection)
        table.put(connection, record)
        one = self.start(ONE)
        self.net.settle()
        self.assertEqual((len(one.queues), one.recording.standing.position), (PAGE_MAX + 1, PAGE_MAX + 2))

    def test_a_database_that_stays_away_ends_the_start(self) -> None:
        self.net = peers(0, retries=2, retry_s=7)
        self.database.away = True
        one = self.start(ONE)
        self.net.settle()
        for _ in range(2):
            self.assertEqual(one.left, [])
            self.net.settle(7)
        [reason] = one.left
        self.assertIn("cannot be reached after 3 attempts: the database the.db does not answer: the.db: it is away", reason)

    def test_without_an_end_it_is_tried_for_ever(self) -> None:
        self.net = peers(0, retries=-1)
        self.database.away = True
        one = self.start(ONE)
        for _ in range(100):
            self.net.settle(5)
        self.assertEqual(one.left, [])

    def test_a_table_that_is_not_to_be_made_has_to_be_there(self) -> None:
        self.net = peers(0, create=False)
        one = self.start(ONE)
        self.net.settle()
        [reason] = one.left
        self.assertIn("the change record cannot be used: ", reason)

    def test_a_locked_table_is_waited_for(self) -> None:
        table, connection = self.table()
        table.create(connection)
        table.lock(connection, "b9:here:imqdbmgr")
        one = self.start(ONE)
        self.net.settle()
        self.net.settle(5)
        table.unlock(connection)
        self.net.settle(5)
        self.assertEqual((one.left, one.recording.synchronised), ([], True))
        table.lock(connection, "b9:here:imqdbmgr")
        two = self.start(TWO)
        self.net.settle()
        for _ in range(int(LOCK_SECONDS // 5)):
            self.assertEqual(two.left, [])
            self.net.settle(5)
        [reason] = two.left
        self.assertIn("CONFLICT: the change record in the.db is locked by b9:here:imqdbmgr after 30 s", reason)
        self.assertIn("reset lck", reason)


class AwayTests(PeersCase):
    def test_what_needs_the_record_is_refused_and_the_rest_goes_on(self) -> None:
        self.made_at(ONE, create("q"))
        self.database.away = True
        text = self.refused(TWO, create("r"))
        self.assertIn("the database the.db has not put queue r on record: the database the.db does not answer", text)
        session = self.node(TWO).session()
        session.ok(create("automatic", auto_created=True))
        session.publish(b"1", "q")
        self.assertEqual(self.node(TWO).world.queue("q").message_count, 1)
        self.assertEqual([node.left for node in self.net.nodes.values()], [[]] * 3)
        self.database.away = False
        self.made_at(TWO, create("r"))

    def test_all_who_wait_are_told_at_once(self) -> None:
        self.database.away = True
        connects = self.database.connects
        sessions = [self.node(TWO).session() for _ in range(5)]
        for number, session in enumerate(sessions):
            session.send(create(f"q{number}"))
        self.net.settle()
        self.assertEqual([len(session.take()) for session in sessions], [1] * 5)
        self.assertLess(self.database.connects - connects, 5)

    def test_a_connection_that_was_lost_meanwhile_is_made_again_unseen(self) -> None:
        self.database.breaks = ["before"]
        self.made_at(TWO, create("q"))
        self.database.breaks = ["after"]
        self.made_at(TWO, create("r"))
        self.assertEqual(self.queues(), [["q", "r"]] * 3)

    def test_what_was_missed_comes_when_it_is_back(self) -> None:
        self.net.cut_off(self.node(THREE))
        self.made_at(ONE, create("q"))
        self.database.away = True
        self.net.link_all(self.node(THREE))
        self.net.settle()
        self.assertEqual(self.node(THREE).queues, [])
        self.database.away = False
        self.net.settle(5)
        self.assertEqual(self.node(THREE).queues, ["q"])

    def test_a_stop_does_not_wait_for_the_database(self) -> None:
        self.database.away = True
        session = self.node(TWO).session()
        session.send(create("q"))
        self.node(TWO).stop()
        self.net.settle()

    def test_questions_after_a_stop_fail(self) -> None:
        table = self.node(TWO).table
        assert table is not None
        asked = table.ask("look", False)
        self.node(TWO).stop()
        self.net.settle()
        self.failureResultOf(asked, NotConnectedError)

    def test_a_table_that_has_gone_is_named(self) -> None:
        table, connection = self.table()
        table.delete(connection)
        peer = self.node(TWO).table
        assert peer is not None
        asked: Deferred[Any] = peer.ask("look", False)
        self.net.settle()
        self.assertIn("has no table", self.failureResultOf(asked, ManagementError).getErrorMessage())


class OtherRecordTests(PeersCase):
    def test_a_broker_that_runs_leaves_and_takes_it_over_at_its_next_start(self) -> None:
        self.made_at(ONE, create("q"))
        self.recreate("restored")
        self.net.settle(5)
        for node in self.net.nodes.values():
            [reason] = node.left
            self.assertIn("PRECONDITION_FAILED: the database the.db has another change record", reason)
            assert node.table is not None
            self.assertTrue(node.table.replaced)
            node.left.clear()
            node.restart()
        for node in self.net.nodes.values():
            self.net.link_all(node)
        self.net.settle(5)
        self.assertEqual(self.queues(), [[]] * 3)
        self.assertEqual([node.left for node in self.net.nodes.values()], [[]] * 3)

    def test_a_change_is_refused_before_that_is_noticed(self) -> None:
        self.recreate("restored")
        text = self.refused(TWO, create("q"))
        self.assertIn("PRECONDITION_FAILED: the.db has another change record (restored)", text)

    def test_an_empty_table_is_nobodys_record(self) -> None:
        self.recreate()
        self.net.settle(5)
        self.assertIn("(an empty one)", self.refused(TWO, create("q")))
        self.assertEqual([node.left for node in self.net.nodes.values()], [[]] * 3)

    def test_a_locked_table_takes_changes_later(self) -> None:
        table, connection = self.table()
        table.lock(connection, "b9:here:imqdbmgr")
        session = self.node(TWO).session()
        session.send(create("q"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        table.unlock(connection)
        self.net.settle(5)
        self.assertIsInstance(session.take()[0], wire.NullResponse)
