"""Who owns the data in a database."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.errors import FencedError
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import DatabaseAwayError, transaction
from tests.unit.storage.sql.support import SqlRig

NODE, OTHER, THIRD = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))


class SessionTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.connection = self.rig.database.connect()
        self.addCleanup(self.connection.close)
        schema.prepare(self.rig.database, self.connection)

    def test_a_database_gets_a_session_and_keeps_its_number(self) -> None:
        self.assertIsNone(session.node_id_of(self.connection))
        first = session.take(self.connection, NODE, "one")
        second = session.take(self.connection, NODE, "two")
        self.assertEqual((second.number, first.epoch, second.epoch), (first.number, 1, 2))
        self.assertEqual(session.node_id_of(self.connection), NODE)

    def test_a_former_owner_does_not_come_through_the_fence(self) -> None:
        former = session.take(self.connection, NODE, "one")
        with transaction(self.connection):
            former.write(self.connection, 1)
        self.assertEqual(former.last_batch(self.connection), 1)
        session.take(self.connection, NODE, "two")
        with self.assertRaises(FencedError), transaction(self.connection):
            former.write(self.connection, 2)
        with self.assertRaises(FencedError):
            former.last_batch(self.connection)

    def test_the_same_owner_of_an_earlier_epoch_is_a_former_one(self) -> None:
        former = session.take(self.connection, NODE, "one")
        session.take(self.connection, NODE, "one")
        with self.assertRaises(FencedError), transaction(self.connection):
            former.write(self.connection, 1)

    def test_all_data_of_a_broker_are_removed(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        second = session.take(self.connection, OTHER, "two", "b2")
        for each in (first, second):
            self.connection.run(
                schema.table("INSERT INTO {setting} (session, kind, name, value) VALUES (?, 'k', 'n', 'v')"), (each.number,)
            )
        self.assertEqual([session.drop(self.connection, "b1") for _ in range(2)], [1, 0])
        self.assertEqual(self.connection.rows(schema.table("SELECT session FROM {setting}")), [(second.number,)])
        self.assertIsNone(session.node_id_of(self.connection, "b1"))
        with self.assertRaises(FencedError), transaction(self.connection):
            first.write(self.connection, 1)

    def test_sessions_of_two_brokers_lie_side_by_side(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        second = session.take(self.connection, OTHER, "two", "b2")
        self.assertNotEqual(first.number, second.number)
        self.assertEqual([session.node_id_of(self.connection, each) for each in ("b1", "b2", "b3", "")], [NODE, OTHER, None, None])
        self.assertTrue(session.is_known(self.connection, NODE))
        for each in (first, second):
            with transaction(self.connection):
                each.write(self.connection, 1)

    def test_a_switch_takes_all_sessions_of_a_broker_and_fences_its_process(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        second = session.take(self.connection, OTHER, "two", "b2")
        with transaction(self.connection):
            taken = session.switch(self.connection, "b1", "b2", "two")
        self.assertEqual(taken, [session.StoreSession(first.number, NODE, "two", first.epoch + 1)])
        self.assertEqual(session.inherited(self.connection, second, "b2"), taken)
        with self.assertRaises(FencedError), transaction(self.connection):
            first.write(self.connection, 1)
        third = session.take(self.connection, THIRD, "three", "b3")
        with transaction(self.connection):
            taken = session.switch(self.connection, "b2", "b3", "three")
        self.assertEqual([each.number for each in taken], [first.number, second.number])
        self.assertEqual(session.inherited(self.connection, third, "b3"), taken)
        with transaction(self.connection):
            self.assertEqual(session.switch(self.connection, "b2", "b1", "one"), [])

    def test_a_switch_that_is_rolled_back_has_taken_nothing(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        with self.assertRaises(KeyError), transaction(self.connection):
            session.switch(self.connection, "b1", "b2", "two")
            raise KeyError
        with transaction(self.connection):
            first.write(self.connection, 1)

    def test_a_start_owns_what_an_earlier_process_has_inherited(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        session.take(self.connection, OTHER, "two", "b2")
        with transaction(self.connection):
            session.switch(self.connection, "b1", "b2", "two")
        again = session.take(self.connection, OTHER, "two again", "b2")
        [taken] = session.inherited(self.connection, again, "b2")
        self.assertEqual((taken.number, taken.owner), (first.number, "two again"))

    def test_a_broker_whose_data_were_taken_begins_anew(self) -> None:
        first = session.take(self.connection, NODE, "one", "b1")
        session.take(self.connection, OTHER, "two", "b2")
        with transaction(self.connection):
            session.switch(self.connection, "b1", "b2", "two")
        self.assertIsNone(session.node_id_of(self.connection, "b1"))
        again = session.take(self.connection, THIRD, "one again", "b1")
        self.assertNotEqual(again.number, first.number)
        self.assertEqual(session.inherited(self.connection, again, "b1"), [])

    def test_a_switch_and_a_transaction_of_the_target_wait_for_each_other(self) -> None:
        """On SQLite, which has one writer; the database counts as away when the other one takes too long."""
        first = session.take(self.connection, NODE, "one", "b1")
        other = SqliteDatabase(str(self.rig.path), 0.0).connect()
        self.addCleanup(other.close)
        self.connection.begin()
        first.write(self.connection, 1)
        with self.assertRaises(DatabaseAwayError), transaction(other):
            session.switch(other, "b1", "b2", "two")
        self.connection.commit()
        other.begin()
        [taken] = session.switch(other, "b1", "b2", "two")
        self.connection.run("PRAGMA busy_timeout = 0")
        with self.assertRaises(DatabaseAwayError), transaction(self.connection):
            first.write(self.connection, 2)
        other.commit()
        self.assertEqual(taken.number, first.number)
        with self.assertRaises(FencedError), transaction(self.connection):
            first.write(self.connection, 2)

    def test_what_a_broker_had_inherited_comes_before_its_own(self) -> None:
        own = {name: session.take(self.connection, node, name, name) for name, node in (("b2", OTHER), ("b1", NODE), ("b3", THIRD))}
        for target, taker in (("b1", "b2"), ("b2", "b3")):
            with transaction(self.connection):
                taken = session.switch(self.connection, target, taker, taker)
        self.assertEqual([each.number for each in taken], [own["b1"].number, own["b2"].number])
        self.assertGreater(own["b1"].number, own["b2"].number)
        self.assertEqual(session.inherited(self.connection, own["b3"], "b3"), taken)

    def test_data_that_were_taken_between_two_steps_of_a_start_are_not_made_anew(self) -> None:
        session.take(self.connection, NODE, "one", "b1")
        with transaction(self.connection):
            session.switch(self.connection, "b1", "b2", "two")
        with self.assertRaises(FencedError):
            session.take(self.connection, NODE, "one again", "b1")

    def test_who_is_shut_out_writes_nothing_until_somebody_takes_the_data(self) -> None:
        self.assertEqual(session.shut_out(self.connection, ""), 1)
        owner = session.take(self.connection, NODE, "one")
        following = session.shut_out(self.connection, "")
        with self.assertRaises(FencedError), transaction(self.connection):
            owner.write(self.connection, 1)
        self.assertEqual(session.take(self.connection, NODE, "one").epoch, following)

    def test_ids_are_drawn_once(self) -> None:
        with transaction(self.connection):
            first, second = session.draw_ids(self.connection, 10), session.draw_ids(self.connection, 5)
        self.assertEqual(second, first + 10)
        other = self.rig.database.connect()
        self.addCleanup(other.close)
        with transaction(other):
            self.assertEqual(session.draw_ids(other, 1), second + 5)
