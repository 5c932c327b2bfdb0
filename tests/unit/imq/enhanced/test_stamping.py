"""The thread that stamps the own row."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.stamping import Look
from mqbroker.storage.sql.database import DatabaseAwayError
from tests.unit.imq.enhanced.support import Cluster


class StampingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(self.addCleanup)
        self.one = self.cluster.add(1)
        self.told: list[Look | Exception] = []
        self.one.membership._stamping._tell = self.told.append

    def test_each_step_stamps_the_row_and_reads_all(self) -> None:
        before = self.cluster.row("b1").stamp
        self.cluster.pass_time(2)
        self.assertGreater(self.cluster.row("b1").stamp, before)
        look = self.told[0]
        assert isinstance(look, Look)
        self.assertEqual(([row.broker for row in look.rows], look.own, look.owners), (["b1"], True, {self.one.active.node_id: "b1"}))

    def test_a_lost_connection_is_told_and_made_again(self) -> None:
        self.one.database.away = True
        self.cluster.pass_time(1)
        self.assertIsInstance(self.told[-1], DatabaseAwayError)
        self.one.database.away = False
        self.cluster.pass_time(1)
        self.assertIsInstance(self.told[-1], Look)

    def test_a_row_that_is_not_the_own_one_any_more_is_told(self) -> None:
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b1"), "b2")
        self.cluster.pass_time(1)
        look = self.told[-1]
        assert isinstance(look, Look)
        self.assertFalse(look.own)

    def test_nothing_is_stamped_without_a_row(self) -> None:
        self.one.stop()
        count = len(self.told)
        self.cluster.pass_time(3)
        self.assertEqual(len(self.told), count)
