"""What a database holds, read in pieces."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.storage.sql import contents
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


class ContentsTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.rig.start()
        self.queue_id = self.rig.queue()

    def test_pieces(self) -> None:
        store = self.rig.store
        places = []
        for number in range(7):
            batch = store.begin()
            message = make_message(store, b"%d" % number)
            batch.add_message(message, [self.queue_id, 99])
            batch.add_duplicate_id("cache", b"%d" % number, store.next_id())
            store.commit(batch)
            places.append(message.message_id)
        self.rig.settle()
        with mock.patch.object(contents, "PIECE_ROWS", 3), contents.snapshot(self.rig.database) as (connection, sessions):
            [(node_id, session)] = sessions.items()
            found = contents.Contents(self.rig.database, connection, session, node_id)
            rows = list(found.messages())
            self.assertEqual([row.place for row in rows], places)
            self.assertEqual({tuple(row.references) for row in rows}, {((self.queue_id, 0, -1), (99, 0, -1))})
            self.assertEqual([record.ids for record in found.duplicate_ids()], [b"%d" % number for number in range(7)])
            self.assertGreater(found.next_id(), places[-1])
        self.assertEqual(node_id, self.rig.store.node_id)

    def test_a_database_that_is_away(self) -> None:
        with (
            mock.patch.object(type(self.rig.database), "connect", side_effect=DatabaseAwayError("nobody answers")),
            self.assertRaisesRegex(DatabaseError, "nobody answers"),
            contents.snapshot(self.rig.database),
        ):
            self.fail("nothing can be read")
