"""What was read becomes messages in memory and accounts of pages."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import BranchRecord, BranchState, PagePlace
from mqbroker.storage.sql.batch import KeptElsewhere
from mqbroker.storage.sql.bodies import SqlLargeBody
from mqbroker.storage.sql.reader import SqlPageReader
from mqbroker.storage.sql.rows import PIECE_ROWS
from mqclient.wire.message import CoreMessage
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.taken import TakenTestCase
from tests.unit.storage.support import make_message

XID = Xid(1, b"branch", b"global")


class InheritedStateTests(TakenTestCase, TestCase):
    def reader(self) -> SqlPageReader:
        pager = self.taker.store.pager
        assert pager is not None
        return pager.folder("a").reader(self.here)

    def test_pages_go_on_from_one_session_to_the_next(self) -> None:
        self.store(*(b"%d" % number for number in range(PIECE_ROWS + 3)))
        self.store(b"own", rig=self.taker)
        self.taker.restart()
        self.assign(self.take())
        bodies = [*(b"%d" % number for number in range(PIECE_ROWS + 3)), b"own"]
        reader = self.reader()
        look, scan, ids = reader.look(), reader.scan(), []
        self.assertEqual([entry.message.decoded().body for piece in iter(look.read, None) for entry in piece], bodies)
        while (rows := scan.read()) is not None:
            ids += rows.ids
            self.assertEqual(rows.keys, sorted(rows.keys))
        self.assertEqual(len(ids), len(bodies))
        self.assertIs(reader.look(look), look)
        first = (reader.read() or [])[0].message.store_state
        assert isinstance(first, PagePlace)
        self.assertTrue(reader.passed(first) and look.passed(first))
        self.assertEqual(self.read(), bodies[PIECE_ROWS:])

    def test_everything_unread_of_all_sessions_is_passed(self) -> None:
        self.store(b"1", b"2")
        self.store(b"own", rig=self.taker)
        self.taker.restart()
        self.assign(self.take())
        batch = self.taker.store.begin()
        self.assertEqual(batch.acknowledge_unread(self.reader()), 3)
        self.taker.store.commit(batch)
        self.taker.settle()
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_session"), [(1,)])

    def test_passing_up_to_a_key_goes_on_in_the_next_session(self) -> None:
        self.store(b"1", b"2")
        self.store(b"own", rig=self.taker)
        self.taker.restart()
        self.assign(self.take())
        reader, passed, more = self.reader(), 0, True
        scan, keys = reader.scan(), []
        while (rows := scan.read()) is not None:
            keys += rows.keys
        while more:
            batch = self.taker.store.begin()
            messages, more, _ = batch.acknowledge_until(reader, keys[-1])
            self.taker.store.commit(batch)
            passed += messages
        self.taker.settle()
        self.assertEqual((passed, self.taker.ask("SELECT COUNT(*) FROM mqbroker_message")), (3, [(0,)]))

    def test_counts_and_times_are_kept_in_the_rows_of_their_session(self) -> None:
        self.store(b"1")
        self.assign(self.take())
        [entry] = self.reader().read() or ()
        batch = self.taker.store.begin()
        batch.delivery_count(self.here, entry.message, 4)
        batch.schedule(self.here, entry.message, 10**15)
        self.taker.store.commit(batch)
        [inherited] = self.taker.restart().inherited
        [(message, [reference])] = inherited.found.messages
        self.assertEqual((reference.delivery_count, reference.scheduled), (4, 10**15))
        self.assertIsInstance(message.store_state, KeptElsewhere)

    def test_what_a_branch_has_acknowledged_is_found_by_its_id(self) -> None:
        """Also where it was in pages, and so at another place than its id."""
        self.store(b"0", b"plain")
        pager, store = self.target.store.pager, self.target.store
        assert pager is not None
        paged, batch = make_message(store, b"paged"), store.begin()
        batch.add_paged(pager.folder("a"), paged, (self.there,), (self.there,), 1000)
        store.commit(batch)
        plain = self.store(b"other")[0]
        branch_id, batch = store.next_id(), store.begin()
        held = ((self.there, paged.message_id), (self.there, plain.message_id))
        batch.put_branch(BranchRecord(branch_id, XID, BranchState.PREPARED, 5, held))
        store.commit(batch)
        inherited = self.take()
        self.assertEqual([message.message_id for message, _ in inherited.found.messages], [paged.message_id, plain.message_id])
        self.assign(inherited)
        self.assertEqual(self.read(), [b"0", b"plain"])

    def test_a_large_message_is_read_and_copied_from_the_other_session(self) -> None:
        content, store = b"x" * 5000, self.target.store
        large = store.create_large_body(number := store.next_id())
        large.append(content)
        large.complete()
        message, batch = Message.of(CoreMessage(address="a", message_id=number, durable=True), large), store.begin()
        batch.add_message(message, [self.there])
        store.commit(batch)
        self.assign(self.take())
        [entry] = self.reader().read() or ()
        body = entry.message.large
        assert isinstance(body, SqlLargeBody)
        copy, batch = entry.message.duplicate(self.taker.store.next_id()), self.taker.store.begin()
        batch.add_message(copy, [self.here])
        batch.acknowledge(self.here, entry.message)
        self.taker.store.commit(batch)
        self.taker.settle()
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_session"), [(1,)])
        self.taker.kill()
        [entry] = self.reader().read() or ()
        assert entry.message.large is not None
        with self.assertRaises(NotYet):
            entry.message.large.read(0, 1)
        self.taker.settle()
        self.assertEqual(entry.message.large.read(0, 6000), content)
