"""Who owns the data in a database."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.storage.errors import FencedError
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import transaction
from tests.unit.storage.sql.support import SqlRig

NODE = "00000000-0000-0000-0000-000000000001"


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

    def test_the_first_of_several_brokers_decides_on_the_node_id_of_an_empty_database(self) -> None:
        found = session.node_id_of
        # Both see an empty database, before one of them has made its session.
        with mock.patch.object(session, "node_id_of", side_effect=[None, *[None] * 2]):
            self.assertEqual(session.settle_node_id(self.connection, NODE), NODE)
        with mock.patch.object(session, "node_id_of", side_effect=[None, found(self.connection)]):
            self.assertEqual(session.settle_node_id(self.connection, "another"), NODE)
        self.assertEqual(session.settle_node_id(self.connection, "another"), NODE)
        self.assertEqual(self.rig.ask("SELECT node_id, owner, epoch FROM mqbroker_session"), [(NODE, "", 0)])
        self.assertEqual(session.take(self.connection, NODE, "one").epoch, 1)

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

    def test_ids_are_drawn_once(self) -> None:
        with transaction(self.connection):
            first, second = session.draw_ids(self.connection, 10), session.draw_ids(self.connection, 5)
        self.assertEqual(second, first + 10)
        other = self.rig.database.connect()
        self.addCleanup(other.close)
        with transaction(other):
            self.assertEqual(session.draw_ids(other, 1), second + 5)
