"""The change record in a table: the same answers as the record in memory, whoever appends, and what its lock and its generation prevent."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers import record_table
from mqbroker.imq.peers.record_table import LockedError, OtherRecordError, RecordTable
from mqbroker.imq.record.changes import wish_of
from mqbroker.imq.record.record import Appended, ChangeRecord
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError, transaction
from mqclient.errors import MQError, QueueExistsError
from tests.unit.imq.peers.support import MemoryDatabase
from tests.unit.imq.record.strategies import changes

ONE, TWO = "b1:7676", "b2:7676"
NAMES = iter(range(10**9))


def create(name: str = "q", **attributes: Any) -> Any:
    return wish_of(Change("create", QueueDefinition(name, name, ANYCAST, **attributes)))


class TableCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.database = MemoryDatabase()
        self.addCleanup(self.database.close)
        self.connection = self.database.connect()
        self.one, self.two = (RecordTable(self.database, "c") for _ in range(2))

    def begun(self) -> RecordTable:
        self.one.create(self.connection)
        self.one.begin(self.connection, ChangeRecord.begin("g", ONE, 5))
        return self.one

    def append(self, table: RecordTable, wish: Any, token: str = "t", again: bool = False, generation: str = "g") -> Appended:
        return table.append(self.connection, generation, token, wish, ONE, 0, 1, False, again=again)

    def record(self, table: RecordTable) -> ChangeRecord:
        found = table.read(self.connection)
        assert found is not None
        return found


class LifeTests(TableCase):
    def test_a_table_is_made_once_and_is_empty(self) -> None:
        self.assertEqual([self.one.create(self.connection) for _ in range(2)], [True, False])
        self.assertIsNone(self.one.read(self.connection))
        self.assertEqual(self.one.position(self.connection), ("", 0))

    def test_without_a_table(self) -> None:
        self.assertRaises(DatabaseError, self.one.read, self.connection)
        RecordTable(self.database, "other").create(self.connection)
        error = self.assertRaises(DatabaseError, self.one.read, self.connection)
        self.assertIn("the.db has no table for the change record of the cluster c", str(error))

    def test_who_comes_first_begins_the_record(self) -> None:
        self.begun()
        found = self.two.begin(self.connection, ChangeRecord.begin("h", TWO, 6))
        self.assertEqual((found.generation, found.reset.origin), ("g", ONE))
        self.assertEqual(self.two.position(self.connection), ("g", 1))

    def test_clusters_have_nothing_to_do_with_each_other(self) -> None:
        self.begun()
        other = RecordTable(self.database, "d")
        other.create(self.connection)
        self.append(self.one, create())
        self.assertIsNone(other.read(self.connection))
        other.delete(self.connection)
        self.assertEqual(len(self.record(self.one)), 1)

    def test_a_whole_record_goes_into_an_empty_table_alone(self) -> None:
        record = ChangeRecord.begin("h", TWO, 0)
        record.append(create(), TWO, 0, 1)
        self.begun()
        self.assertFalse(self.one.put(self.connection, record))
        self.one.delete(self.connection)
        self.one.create(self.connection)
        self.assertTrue(self.one.put(self.connection, record))
        found = self.record(self.two)
        self.assertEqual((found.generation, found.changes), ("h", record.changes))

    def test_a_damaged_record_is_an_error(self) -> None:
        self.begun()
        self.append(self.one, create())
        self.record(self.two)
        for value in ("?", "{}"):
            with transaction(self.connection):
                self.connection.run("UPDATE mqbroker_record SET value = ?", (value,))
            error = self.assertRaises(DatabaseError, RecordTable(self.database, "c").read, self.connection)
            self.assertIn("cannot be used", str(error))


class AppendTests(TableCase):
    def test_one_appends_and_another_reads(self) -> None:
        self.begun()
        self.assertEqual(self.record(self.two).last, 1)
        appended = self.append(self.one, create())
        self.assertEqual(appended.position, 2)
        self.assertEqual(self.record(self.two).get("queue:q"), appended.change)
        self.assertEqual(self.append(self.two, create("p")).position, 3)
        self.assertRaises(QueueExistsError, self.append, self.one, create(max_consumers=1))
        self.assertEqual(self.record(self.one).last, 3)

    def test_a_commit_whose_answer_was_lost_is_found_by_its_token(self) -> None:
        self.begun()
        self.database.breaks = ["after"]
        self.assertRaises(DatabaseAwayError, self.append, self.one, create())
        self.connection = self.database.connect()
        again = self.append(self.one, create(), again=True)
        assert again.change is not None
        self.assertEqual((again.position, self.record(self.one).last), (2, 2))

    def test_one_that_was_not_committed_is_made_again(self) -> None:
        self.begun()
        self.database.breaks = ["before"]
        self.assertRaises(DatabaseAwayError, self.append, self.one, create())
        self.connection.rollback()
        self.connection = self.database.connect()
        self.assertEqual(self.record(self.one).last, 1)
        self.assertEqual(self.append(self.one, create(), again=True).position, 2)

    def test_another_record_takes_no_changes_of_the_former_one(self) -> None:
        self.begun()
        self.one.delete(self.connection)
        self.one.create(self.connection)
        error = self.assertRaises(OtherRecordError, self.append, self.two, create())
        self.assertIn("the.db has another change record (an empty one) than g", str(error))
        self.one.begin(self.connection, ChangeRecord.begin("h", ONE, 0))
        self.assertRaises(OtherRecordError, self.append, self.two, create())
        self.assertEqual(self.append(self.two, create(), generation="h").position, 2)

    def test_a_locked_table_takes_no_changes(self) -> None:
        self.begun()
        self.one.lock(self.connection, "b1:here:imqdbmgr")
        for work in (
            lambda: self.append(self.two, create()),
            lambda: self.two.begin(self.connection, ChangeRecord.begin("h", ONE, 0)),
            lambda: self.two.lock(self.connection, "another"),
            lambda: self.two.delete(self.connection),
        ):
            error = self.assertRaises(LockedError, work)
            self.assertIn("locked by b1:here:imqdbmgr", str(error))
        self.one.lock(self.connection, "b1:here:imqdbmgr")
        self.assertEqual([self.two.unlock(self.connection) for _ in range(2)], ["b1:here:imqdbmgr", ""])
        self.assertEqual(self.append(self.two, create()).position, 2)

    def test_a_database_that_was_set_back_is_read_anew(self) -> None:
        self.begun()
        self.append(self.one, create())
        with transaction(self.connection):
            self.connection.run("DELETE FROM mqbroker_record WHERE position = 2")
            self.connection.run("UPDATE mqbroker_cluster SET last = 1")
        self.assertEqual(self.record(self.one).last, 1)

    def test_odd_names(self) -> None:
        self.begun()
        self.append(self.one, create("a\0\ud800\\"))
        self.assertIsNotNone(self.record(self.two).get("queue:a\0\ud800\\"))


class TableMachine(RuleBasedStateMachine):
    """Three brokers append and read; the model is the record in memory.  Connections are lost before and after commits."""

    def __init__(self) -> None:
        super().__init__()
        self.small = patch.object(record_table, "SLACK_MAX", 2)
        self.small.start()
        self.database = MemoryDatabase()
        self.connection = self.database.connect()
        self.tables = [RecordTable(self.database, "c") for _ in range(3)]
        self.model = ChangeRecord.begin("g", ONE, 0)
        self.tables[0].create(self.connection)
        self.tables[0].begin(self.connection, ChangeRecord.begin("g", ONE, 0))

    @rule(
        number=st.integers(0, 2),
        change=changes(),
        known=st.integers(0, 12),
        deployed=st.booleans(),
        breaks=st.sampled_from(("", "", "", "before", "after")),
    )
    def append(self, number: int, change: Change, known: int, deployed: bool, breaks: str) -> None:
        wish, origin, token = wish_of(change), f"b{number}:7676", str(next(NAMES))
        expected: Any
        try:
            appended = self.model.append(wish, origin, 7, known, deployed)
            expected = appended.position, appended.change is not None
            if appended.change is not None and self.model.slack > 2 + len(self.model):
                self.model.compress()
        except MQError as error:
            expected = str(error)
        self.database.breaks = [breaks]
        found = self.asked(number, wish, origin, known, deployed, token, again=False)
        if found is None:
            self.connection.rollback()
            self.connection = self.database.connect()
            found = self.asked(number, wish, origin, known, deployed, token, again=True)
        self.database.breaks = []
        if isinstance(expected, tuple) and not expected[1] and breaks:
            found = expected  # nothing was to be appended, whatever has become of the commit
        assert found == expected, (found, expected)

    def asked(self, number: int, wish: Any, origin: str, known: int, deployed: bool, token: str, *, again: bool) -> Any:
        """None: the connection was lost."""
        try:
            appended = self.tables[number].append(self.connection, "g", token, wish, origin, 7, known, deployed, again=again)
        except DatabaseAwayError:
            return None
        except MQError as error:
            return str(error)
        return appended.position, appended.change is not None

    @rule(number=st.integers(0, 2))
    def read(self, number: int) -> None:
        record = self.tables[number].read(self.connection)
        assert record is not None
        assert record.changes == self.model.changes
        assert (record.floor, record.last, record.slack) == (self.model.floor, self.model.last, self.model.slack)
        for position in range(self.model.last + 1):
            assert record.since("g", position) == self.model.since("g", position)

    @invariant()
    def the_table_is_the_record(self) -> None:
        assert self.tables[0].position(self.connection) == ("g", self.model.last)

    def teardown(self) -> None:
        self.small.stop()
        self.database.close()


class ModelTests(SynchronousTestCase):
    def test_the_same_appends_give_the_same_answers(self) -> None:
        machine: Any = TableMachine.TestCase
        machine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
        machine().runTest()
