"""What a database holds, read in pieces."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, BranchState
from mqbroker.storage.sql import contents
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError
from mqclient.wire.message import CoreMessage
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.sql.taken import TakenTestCase, switch
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
            [session] = sessions
            found = contents.Contents(self.rig.database, connection, sessions)
            rows = list(found.messages())
            self.assertEqual([row.place for row in rows], places)
            self.assertEqual({tuple(row.references) for row in rows}, {((self.queue_id, 0, -1), (99, 0, -1))})
            self.assertEqual([record.ids for record in found.duplicate_ids()], [b"%d" % number for number in range(7)])
            self.assertGreater(found.next_id(), places[-1])
        self.assertEqual((session.node_id, session.broker, session.current), (self.rig.store.node_id, "", True))

    def test_what_a_broker_has_inherited_comes_first(self) -> None:
        """As if it were its own, also before it has read it."""
        case = TakenTestCase()
        case.addCleanup = self.addCleanup
        case.setUp()
        case.target.queue("other")
        store = case.target.store
        batch = store.begin()
        body = store.create_large_body(77)
        body.append(b"large")
        body.complete()
        batch.add_message(Message.of(CoreMessage(message_id=77, address="a", durable=True), body), [case.there])
        batch.put_branch(BranchRecord(78, Xid(7, b"q", b"t"), BranchState.PREPARED, 1, ((case.there, 77),)))
        batch.put_address(AddressRecord(76, "a", frozenset({1}), False))
        batch.add_duplicate_id("cache", b"there", 79)
        store.commit(batch)
        [first] = case.store(b"there")
        [second] = case.store(b"here", rig=case.taker)
        switch(case.target, case.taker)
        with contents.snapshot(case.taker.database) as (connection, sessions):
            self.assertEqual([(each.broker, each.current) for each in sessions], [("b2", False), ("b2", True)])
            found = contents.Contents(case.taker.database, connection, sessions)
            rows = list(found.messages())
            self.assertEqual([row.place for row in rows], [first.message_id, 77, second.message_id])
            self.assertEqual({queue_id for row in rows for queue_id, _, _ in row.references}, {case.here})
            self.assertEqual({queue_id for row in rows for queue_id in row.record.queue_ids}, {case.here})
            self.assertEqual(sorted(record.value["name"] for record in found.queues()), ["other", "q"])
            self.assertEqual([record.value["name"] for record in found.addresses()], ["a"])
            [branch] = found.branches()
            self.assertEqual(branch.acknowledged, ((case.here, 77),))
            self.assertEqual([record.ids for record in found.duplicate_ids()], [b"there"])
            self.assertEqual((b"".join(found.body(77, 5)), found.has_body(77, 5), found.has_body(77, 6)), (b"large", True, False))
            self.assertEqual((found.node_id, len(found.inherited)), (case.taker.store.node_id, 1))

    def test_a_database_that_is_away(self) -> None:
        with (
            mock.patch.object(type(self.rig.database), "connect", side_effect=DatabaseAwayError("nobody answers")),
            self.assertRaisesRegex(DatabaseError, "nobody answers"),
            contents.snapshot(self.rig.database),
        ):
            self.fail("nothing can be read")
