"""One damaged row among many."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, BranchState
from mqbroker.storage.sql.damage import DAMAGE, check_message
from mqbroker.storage.sql.rows import PIECE_ROWS
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.taken import TakenTestCase
from tests.unit.storage.support import make_message

XID = Xid(1, b"branch", b"global")


class DamageTests(TakenTestCase, TestCase):
    def damage(self, statement: str) -> None:
        connection = self.target.database.connect()
        self.assertEqual(connection.run(statement), 1)
        connection.close()

    def aside(self, name: str) -> list[tuple[object, ...]]:
        return self.taker.ask(f"SELECT COUNT(*) FROM mqbroker_{name} WHERE session < 0")

    def test_a_message_is_set_aside_and_the_others_are_read(self) -> None:
        messages = self.store(*(b"%d" % number for number in range(PIECE_ROWS + 5)))
        self.damage(f"UPDATE mqbroker_message SET buffer = X'0102' WHERE place = {messages[3].message_id}")
        self.assign(self.take())
        self.assertEqual(self.consume(), [b"%d" % number for number in range(PIECE_ROWS + 5) if number != 3])
        self.assertEqual((self.aside("message"), self.aside("reference")), ([(1,)], [(1,)]))
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_session"), [(1,)])
        pager = self.taker.store.pager
        assert pager is not None
        self.assertEqual((pager.folder("a").remaining(self.here), list(pager.folders())), (0, []))

    def test_an_own_message_is_set_aside_as_well(self) -> None:
        messages = self.store(b"1", b"2", rig=self.taker)
        self.taker.stop()
        self.damage(f"UPDATE mqbroker_message SET headers = 9999 WHERE place = {messages[0].message_id}")
        self.taker.start()
        self.assertEqual(self.read(), [b"2"])
        self.taker.settle()
        self.assertEqual(self.aside("message"), [(1,)])

    def test_a_message_for_the_memory_is_set_aside(self) -> None:
        [message, other] = self.store(b"1", b"2")
        batch = self.target.store.begin()
        for each in (message, other):
            batch.schedule(self.there, each, 10**15)
        self.target.store.commit(batch)
        self.target.settle()
        self.damage(f"UPDATE mqbroker_message SET buffer = X'' WHERE place = {message.message_id}")
        inherited = self.take()
        self.assertEqual([found.message_id for found, _ in inherited.found.messages], [other.message_id])
        self.assign(inherited)
        self.assertEqual(self.aside("message"), [(1,)])

    def test_a_queue_is_set_aside_and_its_messages_stay(self) -> None:
        self.store(b"1")
        batch = self.target.store.begin()
        batch.put_address(AddressRecord(self.target.store.next_id(), "a", frozenset({1})))
        self.target.store.commit(batch)
        self.target.settle()
        self.damage("UPDATE mqbroker_queue SET value = '{' WHERE id = (SELECT MIN(id) FROM mqbroker_queue)")
        self.damage("UPDATE mqbroker_address SET value = '[]'")
        inherited = self.take()
        self.assertEqual((inherited.found.queues, inherited.found.addresses), ([], []))
        inherited.assign({})
        self.taker.settle()
        self.assertEqual((self.aside("queue"), self.aside("message")), ([(1,)], [(0,)]))
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])

    def test_an_own_queue_that_is_damaged_loses_no_message(self) -> None:
        self.store(b"1", rig=self.taker)
        self.taker.stop()
        self.damage(f"UPDATE mqbroker_queue SET value = '{{' WHERE id = {self.here}")
        recovered = self.taker.start()
        self.taker.settle()
        self.assertEqual((recovered.queues, self.aside("queue")), ([], [(1,)]))
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message WHERE session > 0"), [(1,)])

    def test_a_branch_is_set_aside_with_its_messages(self) -> None:
        self.store(b"1")
        branch_id = self.target.store.next_id()
        batch = self.target.store.begin()
        batch.put_branch(BranchRecord(branch_id, XID, BranchState.PREPARED, 5))
        batch.add_prepared(branch_id, make_message(self.target.store, b"sent"), [self.there])
        self.target.store.commit(batch)
        self.target.settle()
        self.damage("UPDATE mqbroker_branch SET record = X'FFFF'")
        inherited = self.take()
        self.assertEqual(inherited.found.branches, [])
        named = inherited.found.unreadable
        self.assertEqual([line[: line.index(" of")] for line in named], [f"the row {branch_id}"])
        self.assertEqual(self.assign(inherited), {("a", self.here): 1})
        self.assertEqual((self.aside("branch"), self.aside("message")), ([(1,)], [(1,)]))
        self.assertEqual(self.consume(), [b"1"])
        [again] = self.taker.restart().inherited
        self.assertEqual(again.found.unreadable, named, "it is not forgotten at the next start, though nothing else is left")

    def test_bytes_that_are_no_message(self) -> None:
        whole = make_message(self.target.store, b"body")
        check_message(whole)
        for buffer, headers in ((whole.buffer[:-3], whole.headers), (whole.buffer, 0), (b"", 0)):
            with self.assertRaises(DAMAGE):
                check_message(Message.read(buffer, headers))
