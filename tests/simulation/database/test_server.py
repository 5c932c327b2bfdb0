"""The database of the simulation does what a server may do, and no more."""

from __future__ import annotations

import unittest
from collections.abc import Callable

from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import DatabaseAwayError, transaction
from tests.simulation.database.connections import LOCK_LIMIT, SILENCE_LIMIT, ServerDatabase, SimulatedConnection
from tests.simulation.database.server import IDLE_LIMIT, DatabaseServer, Taking
from tests.simulation.database.threads import Threads
from tests.simulation.world import WALL_START_MS, Process, World


class Machine:
    def __init__(self, test: ServerTests) -> None:
        self._test = test

    def killed_by_database(self, machine: bool, downtime: float) -> None:
        self._test.kill()

    def freeze(self, seconds: float) -> None:
        self._test.threads.freeze(self._test.process, seconds)


class ServerTests(unittest.TestCase):
    def setUp(self) -> None:
        self.world = World(3)
        self.threads = Threads(self.world)
        self.server = DatabaseServer(self.world, self.threads)
        self.addCleanup(self.server.close)
        self.addCleanup(self.threads.end)
        self.process = self.make_process("process")
        self.other = self.make_process("other")
        self.said: list[str] = []
        self.do(lambda connection: self.write(connection, "CREATE TABLE t (x)"))
        self.world.run(1.0)

    def make_process(self, name: str) -> Process:
        return Process(self.world, name, self.world.generator(name))

    def do(self, use: Callable[[SimulatedConnection], object], process: Process | None = None, patience: float | None = None) -> None:
        """Use a connection in a thread; what becomes of that is said."""
        process = process or self.process

        def run() -> None:
            try:
                use(ServerDatabase(self.server, process, Machine(self), patience).connect())
            except DatabaseAwayError as error:
                self.said.append(str(error))
            else:
                self.said.append("done")

        self.threads.start(process, run)

    def write(self, connection: SimulatedConnection, *statements: str, wait: float = 0.0) -> None:
        with transaction(connection):
            for statement in statements:
                connection.run(statement)
            if wait:
                self.threads.wait(connection.process, wait)

    def insert(self, number: int, process: Process | None = None, wait: float = 0.0) -> None:
        self.do(lambda connection: self.write(connection, f"INSERT INTO t VALUES ({number})", wait=wait), process)

    def kill(self) -> None:
        self.process.end()
        self.server.process_died(self.process, False)
        self.threads.process_died(self.process)

    @property
    def there(self) -> list[object]:
        return [row[0] for row in self.server.ask("SELECT x FROM t ORDER BY x")]

    def outcome(self) -> list[str]:
        self.world.run(10.0)
        return self.said[1:]

    def test_a_reader_sees_what_was_committed_and_a_writer_its_own_work(self) -> None:
        seen: list[object] = []

        def write(connection: SimulatedConnection) -> None:
            with transaction(connection):
                connection.run("INSERT INTO t VALUES (?)", (1,))
                seen.append(connection.rows("SELECT x FROM t"))
                connection.run_many("INSERT INTO t VALUES (?)", iter([(2,), (3,)]))
                self.threads.wait(connection.process, 0.5)

        def read(connection: SimulatedConnection) -> None:
            self.threads.wait(connection.process, 0.2)
            seen.append(connection.rows("SELECT x FROM t"))

        self.do(write)
        self.do(read, self.other)
        self.assertEqual(self.outcome(), ["done", "done"])
        self.assertEqual((seen, self.there), ([[(1,)], []], [1, 2, 3]))

    def test_a_statement_alone_is_a_transaction_and_its_time_is_that_of_the_server(self) -> None:
        self.insert(1, wait=0.5)
        self.world.schedule(0.1, self.do, lambda connection: connection.run("INSERT INTO t VALUES (now_ms())"), self.other)
        self.assertEqual(self.outcome(), ["done", "done"])
        [_, (when,)] = self.server.ask("SELECT x FROM t ORDER BY x")
        self.assertTrue(1500 <= when - WALL_START_MS < 1700, when)  # the table was made in the first second
        self.assertEqual(self.server._work.rows("SELECT x FROM t ORDER BY x"), self.server.ask("SELECT x FROM t ORDER BY x"))

    def test_transactions_wait_for_each_other(self) -> None:
        self.insert(1, wait=0.5)
        self.world.schedule(0.1, self.insert, 2, self.other)
        self.assertEqual((self.outcome(), self.there), (["done", "done"], [1, 2]))

    def test_what_waits_too_long_is_told_that_the_database_is_away(self) -> None:
        self.do(lambda connection: self.write(connection, *["INSERT INTO t VALUES (1)"] * 40))
        self.server.slow = 500.0  # no statement is idle for long, but all of them take their time
        self.world.run(0.5)
        self.insert(2, self.other)
        self.world.run(LOCK_LIMIT + 1.5)
        self.assertEqual(self.said[1:], ["the database is held up by another transaction"])

    def test_an_idle_transaction_is_ended(self) -> None:
        self.insert(1, wait=IDLE_LIMIT * 3)
        self.world.schedule(0.1, self.insert, 2, self.other)
        self.assertEqual((self.outcome(), self.there), (["done", "the database has ended the idle transaction"], [2]))

    def test_a_connection_breaks_before_the_commit_or_after_it(self) -> None:
        self.server.arm("run", 0, "break", 0.0)
        self.insert(1)
        self.assertEqual((self.outcome(), self.there), (["the connection is lost"], []))
        self.server.arm("committed", 0, "break", 0.0)
        self.insert(2)
        self.assertEqual((self.outcome(), self.there), (["the connection is lost"] * 2, [2]))

    def test_a_commit_under_way_is_carried_out_or_not_and_others_wait_for_that(self) -> None:
        for number in range(40):
            self.server.arm("commit", 0, "break", 0.5)
            self.insert(number)
            self.world.run(0.02)
            self.insert(-1, self.other)
            self.world.run(5.0)
        self.assertEqual(self.said[1:], ["the connection is lost", "done"] * 40)
        kept = [number for number in self.there if number != -1]
        self.assertTrue(0 < len(kept) < 40, kept)

    def test_a_process_that_ends_leaves_no_transaction(self) -> None:
        self.server.arm("run", 0, "kill", 0.0)
        self.insert(1)
        self.world.schedule(0.1, self.insert, 2, self.other)
        self.assertEqual((self.outcome(), self.there), (["done"], [2]))

    def test_a_restart_ends_connections_and_transactions(self) -> None:
        self.insert(1, wait=0.5)
        self.world.schedule(0.2, self.server.go_away, 1.0)
        self.world.schedule(0.5, self.insert, 2)
        self.world.schedule(1.5, self.insert, 3)
        expected = ["the database takes no connection", "the database has ended the connection", "done"]
        self.assertEqual((self.outcome(), self.there), (expected, [3]))

    def test_silence_ends_or_is_given_up(self) -> None:
        self.insert(1, wait=0.2)
        self.world.schedule(0.1, self.server.fall_silent, 0.5)
        self.assertEqual((self.outcome(), self.there), (["done"], [1]))
        self.server.fall_silent(SILENCE_LIMIT * 2)
        self.insert(2)
        self.assertEqual((self.outcome(), self.there), (["done", "the database does not answer"], [1]))

    def test_a_connection_with_little_patience_gives_up_sooner(self) -> None:
        self.insert(1, wait=0.8)
        self.world.schedule(0.1, self.do, lambda connection: self.write(connection, "INSERT INTO t VALUES (2)"), self.other, 0.3)
        self.assertEqual((self.outcome(), self.there), (["the database is held up by another transaction", "done"], [1]))

    def test_the_transaction_of_another_one_can_be_ended(self) -> None:
        found: list[object] = []
        self.insert(1, wait=0.8)
        self.world.schedule(
            0.1, self.do, lambda connection: found.extend(connection.rows(ServerDatabase.end_writers, ("a table",))), self.other
        )
        self.assertEqual((self.outcome(), self.there), (["done", "the database has ended the connection"], []))
        self.assertEqual(found, [(True,)])

    def test_a_fault_may_wait_for_one_of_the_machines(self) -> None:
        self.server.arm("run", 0, "break", 0.0, Machine(self))
        self.insert(1)
        self.assertEqual((self.outcome(), self.there), (["done"], [1]))

    def test_the_server_knows_who_has_taken_data_and_when(self) -> None:
        told: list[Taking] = []
        self.server.on_taking = told.append

        def take(owner: str) -> None:
            def use(connection: SimulatedConnection) -> None:
                schema.prepare(ServerDatabase(self.server, self.process), connection)
                session.take(connection, "node", owner)

            self.do(use)
            self.world.run(1.0)

        take("a")
        take("b")
        self.assertEqual([(each.owner, each.former, each.broker) for each in told], [("a", "", ""), ("b", "a", "")])
        self.assertEqual((self.server.turn_of("a"), self.server.turn_of("b"), self.server.turn_of("c")), (1, 2, 0))

    def test_a_clock_that_is_put_forward_stays_so(self) -> None:
        before = self.server.wall_ms()
        self.server.put_forward(5000)
        self.world.run(1.0)
        self.assertEqual(self.server.wall_ms() - before, 6000)
