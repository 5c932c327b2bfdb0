"""The rows of the members of enhanced clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.errors import FencedError
from mqbroker.storage.shared.brokers import FORGOTTEN_MS, BrokerRow, BrokerTable, Myself, NotTakenError, State
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Connection, Database, DatabaseError, transaction
from mqbroker.storage.sql.session import StoreSession
from tests.unit.storage.sql.support import SqlRig

FIRST, SECOND, THIRD = (
    Myself(f"b{number}", "c", f"localhost:767{number}", "1", f"process {number}", f"folder {number}") for number in (1, 2, 3)
)
NODES = {me.broker: f"00000000-0000-0000-0000-00000000000{me.broker[-1]}" for me in (FIRST, SECOND, THIRD)}


class BrokerTests(SynchronousTestCase):
    """Also run on PostgreSQL, see :mod:`tests.integration.storage.test_postgresql_brokers`."""

    def database(self) -> Database:
        return SqlRig(self.addCleanup).database

    def setUp(self) -> None:
        database = self.database()
        self.connection: Connection = database.connect()
        self.addCleanup(self.connection.close)
        schema.prepare(database, self.connection)
        self.table = BrokerTable(database)
        for me in (FIRST, SECOND, THIRD):
            self.assertTrue(self.table.join(self.connection, me, None))
            session.take(self.connection, NODES[me.broker], f"store {me.broker}", me.broker)
            self.assertIsNotNone(self.stamp(me))

    def stamp(self, me: Myself, state: State = State.OPERATING) -> int | None:
        return self.table.stamp(self.connection, me, state, NODES[me.broker])

    def row(self, broker: str) -> BrokerRow:
        found = self.table.row(self.connection, broker)
        assert found is not None
        return found

    def switch(self, me: Myself, target: str, owner: str) -> list[StoreSession]:
        return self.table.switch(self.connection, me, target, owner, lambda connection, sessions: None)

    def pause(self) -> None:
        """Let the time of the database go on by more than its unit."""
        start = self.table.now(self.connection)
        while self.table.now(self.connection) <= start:
            pass

    def owners(self) -> dict[str, list[str]]:
        """The node ids of the sessions that each broker has."""
        found: dict[str, list[str]] = {}
        for broker, node_id in self.connection.rows(schema.table("SELECT broker, node_id FROM {session} ORDER BY session")):
            found.setdefault(broker, []).append(node_id)
        return found

    # --- the own row

    def test_a_broker_that_joins_is_a_row(self) -> None:
        row = self.row("b1")
        self.assertEqual(
            (row.broker, row.cluster, row.url, row.node_id, row.version, row.state, row.taker, row.owner, row.folder),
            ("b1", "c", "localhost:7671", NODES["b1"], "1", State.OPERATING, "", "process 1", "folder 1"),
        )
        self.assertLess(abs(self.table.now(self.connection) - row.stamp), 60_000)
        self.assertEqual([row.broker for row in self.table.rows(self.connection, "c")], ["b1", "b2", "b3"])
        self.assertEqual(self.table.rows(self.connection, "another"), [])

    def test_of_two_that_have_seen_the_same_row_one_joins(self) -> None:
        seen = self.row("b1")
        self.pause()
        self.assertTrue(self.table.join(self.connection, replace(FIRST, owner="new"), seen))
        self.assertFalse(self.table.join(self.connection, replace(FIRST, owner="newer"), seen))
        self.assertFalse(self.table.join(self.connection, replace(FIRST, owner="newer"), None))
        self.assertEqual(self.row("b1").owner, "new")

    def test_an_id_of_another_cluster_is_not_taken(self) -> None:
        self.assertFalse(self.table.join(self.connection, replace(FIRST, cluster="d", owner="new"), self.row("b1")))

    def test_a_process_stamps_and_changes_its_own_row_alone(self) -> None:
        before = self.row("b1").stamp
        self.pause()
        stamp = self.stamp(FIRST)
        assert stamp is not None
        self.assertGreater(stamp, before)
        self.assertEqual(self.row("b1").stamp, stamp)
        former = replace(FIRST, owner="former")
        self.assertIsNone(self.stamp(former))
        self.assertEqual(self.row("b1").state, State.OPERATING)

    def test_a_broker_that_is_taken_over_stamps_no_more(self) -> None:
        self.assertIsNotNone(self.table.lock(self.connection, self.row("b1"), "b2"))
        self.assertIsNone(self.stamp(FIRST))

    def test_nothing_follows_the_state_of_an_end(self) -> None:
        for end in (State.SHUTDOWN_COMPLETE, State.SHUTDOWN_FAILOVER):
            self.assertTrue(self.table.join(self.connection, FIRST, self.row("b1")))
            self.assertIsNotNone(self.stamp(FIRST, end))
            self.assertIsNone(self.stamp(FIRST))
            self.assertEqual(self.row("b1").state, end)

    # --- takeovers

    def test_of_several_takers_one_gets_the_lock(self) -> None:
        seen = self.row("b1")
        self.assertIsNotNone(self.table.lock(self.connection, seen, "b2"))
        self.assertIsNone(self.table.lock(self.connection, seen, "b3"))
        self.assertIsNone(self.table.lock(self.connection, self.row("b1"), "b3"), "also for one that looks at the row now")
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.FAILOVER_PENDING, "b2"))

    def test_a_broker_that_was_there_meanwhile_is_not_taken_over(self) -> None:
        seen = self.row("b1")
        self.pause()
        self.stamp(FIRST)
        self.assertIsNone(self.table.lock(self.connection, seen, "b2"))

    def test_a_broker_in_another_state_than_seen_is_not_taken_over(self) -> None:
        seen = replace(self.row("b1"), state=State.SHUTDOWN_STARTED)
        self.assertIsNone(self.table.lock(self.connection, seen, "b2"))

    def test_a_switch_gives_all_data_to_the_taker(self) -> None:
        self.table.lock(self.connection, self.row("b1"), "b2")
        sessions = self.switch(SECOND, "b1", "store b2")
        self.assertEqual([(each.node_id, each.owner) for each in sessions], [(NODES["b1"], "store b2")])
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.FAILOVER_COMPLETE, "b2"))
        self.assertEqual(self.owners(), {"b2": [NODES["b1"], NODES["b2"]], "b3": [NODES["b3"]]})

    def test_who_has_the_data_of_a_node_is_known_when_nothing_is_left_of_them(self) -> None:
        self.table.lock(self.connection, self.row("b1"), "b2")
        [taken] = self.switch(SECOND, "b1", "store b2")
        self.connection.run(schema.table("DELETE FROM {session} WHERE session = ?"), (taken.number,))
        self.assertEqual(self.table.owners(self.connection)[NODES["b1"]], "b2")
        self.table.lock(self.connection, self.row("b2"), "b3")
        self.switch(THIRD, "b2", "store b3")
        self.assertEqual(set(self.table.owners(self.connection).values()), {"b3"})

    def test_a_broker_that_returns_is_another_node_also_when_nothing_is_left_of_its_data(self) -> None:
        """Once its former clients went on there, where nobody knew their duplicate ids, and not at the taker."""
        self.table.lock(self.connection, self.row("b1"), "b2")
        [taken] = self.switch(SECOND, "b1", "store b2")
        self.connection.run(schema.table("DELETE FROM {session} WHERE session = ?"), (taken.number,))
        settled = session.settle_node_id(self.connection, NODES["b1"], lambda: "new", "b1")
        self.assertEqual((settled, session.node_id_of(self.connection, "b1")), ("new", "new"))
        # The same folder under another id.
        self.assertEqual(session.settle_node_id(self.connection, NODES["b1"], lambda: "newer", "b9"), "newer")
        with self.assertRaises(FencedError):
            session.take(self.connection, NODES["b1"], "store b8", "b8")

    def test_a_broker_that_returns_later_than_its_former_nodes_are_remembered_is_another_one_too(self) -> None:
        self.connection.run(schema.table("DELETE FROM {session} WHERE broker = ?"), ("b1",))
        self.assertEqual(session.settle_node_id(self.connection, NODES["b1"], lambda: "new", "b1"), "new")

    def test_a_former_node_is_remembered_from_its_last_takeover_on(self) -> None:
        """Once its clients, which were served by the first taker, were those of a node that nobody knew when that was taken over."""
        self.table.lock(self.connection, self.row("b1"), "b2")
        [taken] = self.switch(SECOND, "b1", "store b2")
        self.connection.run(schema.table("DELETE FROM {session} WHERE session = ?"), (taken.number,))
        self.connection.run(schema.table("UPDATE {former} SET since = since - ?"), (FORGOTTEN_MS + 1,))
        self.table.lock(self.connection, self.row("b2"), "b3")
        self.switch(THIRD, "b2", "store b3")
        self.assertEqual(self.table.owners(self.connection)[NODES["b1"]], "b3")

    def test_a_switch_that_is_refused_changes_nothing(self) -> None:
        def refuse(connection: Connection, sessions: Sequence[StoreSession]) -> None:
            seen.extend(each.node_id for each in sessions)
            raise ValueError("no")

        seen: list[str] = []
        self.table.lock(self.connection, self.row("b1"), "b2")
        with self.assertRaises(ValueError):
            self.table.switch(self.connection, SECOND, "b1", "store b2", refuse)
        self.assertEqual(seen, [NODES["b1"]])
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.FAILOVER_PENDING, "b2"))
        self.assertEqual(self.owners()["b1"], [NODES["b1"]])

    def test_nobody_switches_without_the_lock(self) -> None:
        self.table.lock(self.connection, self.row("b1"), "b2")
        with self.assertRaises(NotTakenError):
            self.switch(THIRD, "b1", "store b3")
        self.assertEqual(self.owners()["b1"], [NODES["b1"]])

    def test_a_taker_that_is_taken_over_itself_switches_nothing(self) -> None:
        self.table.lock(self.connection, self.row("b1"), "b2")
        self.table.lock(self.connection, self.row("b2"), "b3")
        with self.assertRaises(NotTakenError):
            self.switch(SECOND, "b1", "store b2")
        self.assertEqual(self.owners()["b1"], [NODES["b1"]])

    def test_a_takeover_that_its_taker_did_not_end_goes_to_the_taker_of_that(self) -> None:
        self.table.lock(self.connection, self.row("b1"), "b2")
        self.table.lock(self.connection, self.row("b2"), "b3")
        sessions = self.switch(THIRD, "b2", "store b3")
        self.assertEqual({each.node_id for each in sessions}, {NODES["b1"], NODES["b2"]})
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.FAILOVER_COMPLETE, "b3"))
        with self.assertRaises(NotTakenError):
            self.switch(SECOND, "b1", "store b2")

    def test_what_a_taker_that_starts_again_had_begun_is_anybodys(self) -> None:
        """Its own queues may be of an earlier life than those of the lost member: whoever takes over looks at that."""
        self.table.lock(self.connection, self.row("b1"), "b2")
        self.assertTrue(self.table.join(self.connection, replace(SECOND, owner="new"), self.row("b2")))
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.SHUTDOWN_FAILOVER, ""))
        self.assertEqual(self.owners()["b1"], [NODES["b1"]])
        self.assertIsNotNone(self.table.lock(self.connection, self.row("b1"), "b3"))

    def test_a_failed_takeover_leaves_the_row_as_it_was(self) -> None:
        seen = self.row("b1")
        self.pause()
        self.table.lock(self.connection, seen, "b2")
        self.table.restore(self.connection, seen, "b3")
        self.assertEqual(self.row("b1").taker, "b2", "another one restores nothing")
        self.table.restore(self.connection, seen, "b2")
        self.assertEqual(self.row("b1"), seen)
        self.assertIsNotNone(self.stamp(FIRST))

    def test_nothing_is_restored_after_the_switch(self) -> None:
        seen = self.row("b1")
        self.table.lock(self.connection, seen, "b2")
        self.switch(SECOND, "b1", "store b2")
        self.table.restore(self.connection, seen, "b2")
        self.assertEqual(self.row("b1").state, State.FAILOVER_COMPLETE)

    def test_a_former_process_is_fenced_by_the_switch(self) -> None:
        fence = session.take(self.connection, NODES["b1"], "store b1", "b1")
        self.table.lock(self.connection, self.row("b1"), "b2")
        with transaction(self.connection):
            fence.write(self.connection, 1)  # until the switch what it writes counts, and comes over
        self.switch(SECOND, "b1", "store b2")
        with self.assertRaises(FencedError), transaction(self.connection):
            fence.write(self.connection, 2)

    # --- administration

    def test_the_messages_of_each_broker_are_counted(self) -> None:
        [(number,)] = self.connection.rows(schema.table("SELECT session FROM {session} WHERE broker = 'b2'"))
        insert = "INSERT INTO {message} (session, place, folder, headers, buffer, durable, branch) VALUES (?, ?, 'q', 0, ?, 1, 0)"
        for place in (1, 2):
            self.connection.run(schema.table(insert), (number, place, b""))
        self.assertEqual(self.table.messages(self.connection), {"b2": 2})

    def test_a_broker_that_runs_is_not_removed(self) -> None:
        with self.assertRaises(DatabaseError):
            self.table.remove(self.connection, self.row("b1"))
        seen = self.row("b1")
        self.stamp(FIRST, State.SHUTDOWN_COMPLETE)
        with self.assertRaises(DatabaseError):
            self.table.remove(self.connection, seen)
        self.assertTrue(self.table.remove(self.connection, self.row("b1")))
        self.assertIsNone(self.table.row(self.connection, "b1"))
