"""Work for the database beside the loop."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.desk import Desk
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.sql.support import SqlRig


class DeskTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.rig.breaking.calm = True
        self.writer = SimulatedDiskWriter()
        self.desk = Desk(self.rig.breaking, self.writer)

    def test_work_is_done_later_and_in_order(self) -> None:
        first = self.desk.ask(lambda connection: connection.rows("SELECT 1"))
        second = self.desk.ask(lambda connection: connection.rows("SELECT 2"))
        self.assertNoResult(first)
        self.writer.run()
        self.assertEqual((self.successResultOf(first), self.successResultOf(second)), ([(1,)], [(2,)]))

    def test_an_error_is_the_result_and_a_lost_connection_is_made_again(self) -> None:
        for kind in (DatabaseAwayError, DatabaseError):

            def fail(connection: object, kind: type[Exception] = kind) -> None:
                raise kind("no")

            failed = self.desk.ask(fail)
            following = self.desk.ask(lambda connection: connection.rows("SELECT 1"))
            self.writer.run()
            self.failureResultOf(failed, kind)
            self.assertEqual(self.successResultOf(following), [(1,)])

    def test_nobody_hears_of_what_is_done_after_the_end(self) -> None:
        done: list[int] = []
        asked = self.desk.ask(lambda connection: done.append(1))
        self.desk.close()
        self.writer.run()
        self.assertEqual(done, [1])
        self.assertNoResult(asked)
