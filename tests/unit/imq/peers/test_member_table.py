"""Members that a database lists, by its own time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers.member_table import FORGOTTEN_SECONDS, PRESENT_SECONDS, MemberTable
from mqbroker.storage.sql.schema import prepare
from tests.unit.imq.peers.support import MemoryDatabase


class MemberTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.database = MemoryDatabase()
        self.addCleanup(self.database.close)
        self.connection = self.database.connect()
        prepare(self.database, self.connection)
        self.table = MemberTable(self.database, "c")

    def age(self, place: str, seconds: int) -> None:
        """The broker was there last so long ago."""
        self.connection.run("UPDATE mqbroker_member SET seen = seen - ? WHERE place = ?", (seconds * 1000, place))

    def test_whoever_notes_itself_is_listed_for_its_cluster(self) -> None:
        self.assertEqual(self.table.note(self.connection, "b1:7676"), [("b1:7676", True)])
        self.assertEqual(self.table.note(self.connection, "b2:7676"), [("b1:7676", True), ("b2:7676", True)])
        self.assertEqual(MemberTable(self.database, "d").note(self.connection, "b3:7676"), [("b3:7676", True)])

    def test_who_was_not_there_for_long_is_absent_and_then_forgotten(self) -> None:
        for place in ("b1:7676", "b2:7676"):
            self.table.note(self.connection, place)
        self.age("b1:7676", PRESENT_SECONDS + 1)
        self.assertEqual(self.table.note(self.connection, "b2:7676"), [("b1:7676", False), ("b2:7676", True)])
        self.age("b1:7676", FORGOTTEN_SECONDS)
        self.assertEqual(self.table.note(self.connection, "b2:7676"), [("b2:7676", True)])

    def test_who_comes_back_is_there_again(self) -> None:
        self.table.note(self.connection, "b1:7676")
        self.age("b1:7676", PRESENT_SECONDS + 1)
        self.assertEqual(self.table.note(self.connection, "b1:7676"), [("b1:7676", True)])
