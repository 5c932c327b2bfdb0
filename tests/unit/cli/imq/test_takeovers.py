"""A broker that has died in the middle of a takeover lets go of what it held, without a start."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.shared.brokers import BrokerRow, BrokerTable, Myself, State
from mqbroker.storage.sql import schema, session
from tests.unit.cli.runner import Result, mqbroker

ACTION = "-reset takeover-then-exit"


class TakeoverThenExitTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.instance = self.varhome / "instances" / "b1"
        self.path = self.varhome / "mq.db"
        self.started: list[list[str]] = []
        self.waited = 0
        self.brokerd()
        self.properties(
            "imq.cluster.ha=true\nimq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\nimq.persist.jdbc.dbVendor=sqlite\n"
            f"imq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:{self.path}\nimq.hostname=localhost\n"
            "imq.cluster.monitor.interval=2\nimq.cluster.monitor.threshold=2\n"
        )
        self.started.clear()
        self.database = SqliteDatabase(str(self.path))
        self.connection = self.database.connect()
        self.addCleanup(self.connection.close)
        schema.prepare(self.database, self.connection)
        self.table = BrokerTable(self.database)

    def properties(self, text: str) -> None:
        (self.instance / "props" / "config.properties").write_text(text)

    def brokerd(self, *options: str) -> Result:
        with mock.patch("os.execv", lambda program, arguments: self.started.append(arguments[3:])):
            return mqbroker("imq", "brokerd", "-varhome", str(self.varhome), "-name", "b1", *options)

    def reset(self, *options: str) -> Result:
        result = self.brokerd("-reset", "takeover-then-exit", *options)
        self.assertEqual(self.started, [], "no broker is begun")
        return result

    def refused(self, *options: str) -> str:
        result = self.reset(*options)
        self.assertEqual((result.status, result.out), (1, ""))
        return result.err

    def member(self, broker: str, state: State = State.OPERATING, url: str = "localhost:7676", folder: str = "") -> Myself:
        """A member with a session of its own, whose process is in another folder or, as here, has had none."""
        me = Myself(broker, "c", url, "1", f"process of {broker}", folder)
        self.table.join(self.connection, me, None)
        session.take(self.connection, f"node of {broker}", f"store of {broker}", broker)
        self.table.stamp(self.connection, me, state, f"node of {broker}")
        return me

    def row(self, broker: str) -> BrokerRow:
        found = self.table.row(self.connection, broker)
        assert found is not None
        return found

    def owners(self) -> dict[str, str]:
        return dict(self.table.owners(self.connection))

    def waits(self, meanwhile: Callable[[], object]) -> None:
        def sleep(seconds: float) -> None:
            self.waited += 1
            self.now += seconds
            meanwhile()

        self.now = 100.0
        self.patch(time, "sleep", sleep)
        self.patch(time, "monotonic", lambda: self.now)

    def test_takeovers_that_were_begun_are_anybodys_and_the_broker_counts_as_stopped(self) -> None:
        self.member("b1")
        self.member("b2")
        self.table.lock(self.connection, self.row("b2"), "b1")
        result = self.reset()
        told = "The takeover of b2 is given up: any other broker of the cluster takes it over, or b1 after its next start.\n"
        self.assertEqual((result.status, result.out, result.err), (0, told, ""))
        self.assertEqual((self.row("b2").state, self.row("b2").taker), (State.SHUTDOWN_FAILOVER, ""))
        self.assertEqual((self.row("b1").state, self.row("b1").taker), (State.SHUTDOWN_COMPLETE, ""))
        self.assertEqual(self.owners(), {"node of b1": "b1", "node of b2": "b2"})

    def test_a_former_process_writes_nothing_more(self) -> None:
        me = self.member("b1")
        self.reset()
        self.assertIsNone(self.table.stamp(self.connection, me, State.OPERATING, "node of b1"))

    def test_one_that_was_taking_over_nobody_is_told(self) -> None:
        self.member("b1", State.SHUTDOWN_FAILOVER)
        result = self.reset()
        self.assertEqual((result.status, result.out), (0, "b1 was taking over nobody.\n"))
        self.assertEqual(self.row("b1").state, State.SHUTDOWN_COMPLETE)

    def test_a_broker_that_runs_on_the_instance_is_left_alone(self) -> None:
        self.member("b1")
        journal = self.instance / "data" / "journal"
        journal.mkdir()
        lock = NodeLock(LocalFileSystem(), str(journal))
        lock.acquire()
        self.addCleanup(lock.release)
        self.assertIn(f"{ACTION}: a broker runs on this instance", self.refused())
        self.assertEqual(self.row("b1").state, State.OPERATING)

    def test_a_broker_that_may_run_elsewhere_is_watched(self) -> None:
        me = self.member("b1", url="elsewhere:7676", folder="another")
        self.waits(lambda: None)
        result = self.reset()
        self.assertEqual((result.status, result.err), (0, "Waiting 6 s for a sign of life of b1 at elsewhere:7676\n"))
        self.assertEqual((self.waited, self.row("b1").state), (6, State.SHUTDOWN_COMPLETE))
        self.table.join(self.connection, me, self.row("b1"))
        self.waits(lambda: self.connection.run(schema.table("UPDATE {broker} SET stamp = stamp + 1 WHERE broker = 'b1'")))
        self.assertIn(f"{ACTION}: imq.brokerid=b1: a broker of this id runs at elsewhere:7676", self.refused())
        self.assertEqual(self.row("b1").state, State.INITIALIZING)

    def test_a_broker_that_is_taken_over_itself_is_left_to_its_taker(self) -> None:
        self.member("b1")
        self.member("b2")
        self.table.lock(self.connection, self.row("b1"), "b2")
        self.assertIn(f"{ACTION}: b2 is taking b1 over, and gets what that was about to take over", self.refused())
        self.assertEqual(self.row("b1").taker, "b2")

    def test_who_is_no_member_has_nothing_to_let_go_of(self) -> None:
        self.assertIn("b1 is no member of the cluster c: it has never started there", self.refused())
        other = replace(self.member("b3"), broker="b1", cluster="d")
        self.table.join(self.connection, other, None)
        self.assertIn("imq.brokerid=b1 is that of a broker of the cluster d", self.refused())
        self.properties("")
        self.assertIn(f"{ACTION}: the instance is in no enhanced cluster", self.refused())
        self.properties("imq.cluster.ha=true\n")
        self.assertIn("imq.cluster.ha=true needs imq.brokerid", self.refused())

    def test_no_instance_is_made_for_it(self) -> None:
        self.assertIn("There is no instance b2", self.refused("-name", "b2"))
        self.assertFalse((self.varhome / "instances" / "b2").exists())

    def test_a_database_without_tables(self) -> None:
        for name in schema.NAMES:
            self.connection.run(f"DROP TABLE {schema.PREFIX}{name}")
        self.assertIn("there are no tables in", self.refused())
