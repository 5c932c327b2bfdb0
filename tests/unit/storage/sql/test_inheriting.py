"""A broker takes the data of another one while it serves."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.ports import AddressRecord, BranchRecord, BranchState, QueueRecord
from mqbroker.storage.errors import OwnerChangedError
from mqbroker.storage.sql.database import DatabaseError
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.sql.taken import TakenTestCase, inherit, switch
from tests.unit.storage.support import make_message

XID = Xid(1, b"branch", b"global")
SESSIONS = "SELECT broker, current FROM mqbroker_session ORDER BY session"


class InheritingTests(TakenTestCase, TestCase):
    def test_messages_come_before_everything_that_is_there_unread_and_no_row_of_them_is_written(self) -> None:
        self.store(b"1", b"2")
        self.store(b"own", rig=self.taker)
        self.taker.restart()
        rows = self.taker.ask("SELECT * FROM mqbroker_message ORDER BY place")
        self.assertEqual(self.assign(self.take()), {("a", self.here): 2})
        self.assertEqual(self.taker.ask("SELECT * FROM mqbroker_message ORDER BY place"), rows)
        self.assertEqual(self.read(), [b"1", b"2", b"own"])

    def test_the_order_of_takeovers_is_that_of_the_messages(self) -> None:
        """Also where a third broker takes everything at once, and where it starts again."""
        self.store(b"1", b"2")
        self.assign(self.take())
        self.target.store.abort()
        self.target.settle()
        self.target.start()
        self.there = self.target.queue()
        self.store(b"3")
        self.assign(self.take())
        self.store(b"own", rig=self.taker)
        third = SqlRig(self.addCleanup, 3, database=self.target.database, broker_id="b3")
        third.start()
        queue_id = third.queue()
        found = inherit(third, switch(self.taker, third))
        for _ in range(2):
            for each in found:
                each.assign({record.queue_id: queue_id for record in each.found.queues})
            pager = third.store.pager
            assert pager is not None
            entries = pager.folder("a").reader(queue_id).read
            bodies = [entry.message.decoded().body for piece in iter(entries, None) for entry in piece]
            self.assertEqual(bodies, [b"1", b"2", b"3", b"own"])
            found = third.restart().inherited

    def test_new_ids_are_above_all_that_the_former_owner_may_have_used(self) -> None:
        inherited = self.take()
        last = self.target.store.next_id()
        self.assign(inherited)
        self.assertGreater(self.taker.store.next_id(), last)

    def test_a_session_with_nothing_in_it_goes(self) -> None:
        self.store(b"1")
        self.assign(self.take())
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 0), ("b2", 1)])
        self.assertEqual(self.consume(), [b"1"])
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])
        for name in ("message", "reference", "queue", "address"):
            own = int(name == "queue")
            self.assertEqual(self.taker.ask(f"SELECT COUNT(*) FROM mqbroker_{name}"), [(own,)], name)

    def test_a_queue_that_was_deleted_goes_with_its_messages(self) -> None:
        self.store(b"1", b"2")
        batch = self.target.store.begin()
        other = self.target.store.next_id()
        batch.put_queue(QueueRecord(other, "other", "a", 1))
        batch.add_message(make_message(self.target.store, b"of both"), [self.there, other])
        self.target.store.commit(batch)
        self.assertEqual(self.take().assign({self.there: None, other: self.here}), {("a", self.here): 1})
        self.taker.settle()
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])
        [inherited] = self.taker.restart().inherited
        self.assertEqual([record.name for record in inherited.found.queues], ["other"])
        inherited.assign({other: self.here})
        self.assertEqual(self.consume(), [b"of both"])
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])

    def test_a_session_whose_queues_were_deleted_goes(self) -> None:
        self.store(b"1")
        self.assertEqual(self.take().assign({self.there: None}), {})
        self.taker.settle()
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])
        for name in ("message", "reference", "removal"):
            self.assertEqual(self.taker.ask(f"SELECT COUNT(*) FROM mqbroker_{name}"), [(0,)], name)

    def test_an_empty_session_goes_at_once(self) -> None:
        self.assign(self.take())
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])

    def test_a_branch_keeps_its_session_until_it_has_ended(self) -> None:
        branch_id = self.target.store.next_id()
        batch = self.target.store.begin()
        batch.put_branch(BranchRecord(branch_id, XID, BranchState.PREPARED, 5))
        batch.add_prepared(branch_id, make_message(self.target.store, b"sent"), [self.there])
        self.target.store.commit(batch)
        inherited = self.take()
        self.assign(inherited)
        [branch] = inherited.found.branches
        [(message, _)] = branch.messages
        for commit in (BranchRecord(branch_id, XID, BranchState.COMMITTED, 5), None):
            self.assertEqual(self.taker.ask(SESSIONS), [("b2", 0), ("b2", 1)])
            batch = self.taker.store.begin()
            batch.end_branch(branch_id, commit is not None)
            if commit is not None:
                batch.put_branch(commit)
                batch.acknowledge(self.here, message)
            self.taker.store.commit(batch)
            self.taker.settle()
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])

    def test_a_start_goes_on_with_a_takeover_that_its_process_did_not_end(self) -> None:
        self.store(b"1", b"2")
        switch(self.target, self.taker)
        [inherited] = self.taker.kill().inherited
        self.assertEqual([record.name for record in inherited.found.queues], ["q"])
        self.assign(inherited)
        self.assertEqual(self.read(), [b"1", b"2"])
        [inherited] = self.taker.kill().inherited
        self.assign(inherited)
        self.assertEqual(self.consume(), [b"1", b"2"])
        self.assertEqual(self.taker.restart().inherited, [])

    def test_definitions_and_duplicate_ids_are_the_takers_from_then_on(self) -> None:
        batch = self.target.store.begin()
        batch.put_address(AddressRecord(self.target.store.next_id(), "a", frozenset({1})))
        batch.add_duplicate_id("cache", b"id", record := self.target.store.next_id())
        batch.put_setting("kind", "key", "1")
        self.target.store.commit(batch)
        self.store(b"1")
        inherited = self.take()
        self.assertEqual([entry.name for entry in inherited.found.addresses], ["a"])
        self.assertEqual(inherited.found.settings, {("kind", "key"): "1"})
        self.assign(inherited)
        recovered = self.taker.kill()
        self.assertEqual([entry.record_id for entry in recovered.duplicate_ids], [record])
        self.assertEqual((recovered.settings, recovered.inherited[0].found.addresses), ({}, []))

    def test_settings_that_move_are_the_takers_own_once_it_has_read_them(self) -> None:
        for rig, name, value in ((self.target, "both", "1"), (self.target, "moves", "2"), (self.taker, "both", "3")):
            batch = rig.store.begin()
            batch.put_setting("moving", name, value)
            rig.store.commit(batch)
            rig.settle()
        self.store(b"1")
        switch(self.target, self.taker)
        recovered = self.taker.kill()
        [inherited] = recovered.inherited
        both, moves = ("moving", "both"), ("moving", "moves")
        self.assertEqual((recovered.settings, inherited.found.settings), ({both: "3"}, {both: "1", moves: "2"}))
        self.assign(inherited)
        recovered = self.taker.kill()
        self.assertEqual((recovered.settings, recovered.inherited[0].found.settings), ({both: "3", moves: "2"}, {}))

    def test_a_queue_that_is_deleted_takes_what_it_inherited_along(self) -> None:
        self.store(b"1")
        self.assign(self.take())
        batch = self.taker.store.begin()
        batch.delete_queue(self.here)
        self.taker.store.commit(batch)
        pager = self.taker.store.pager
        assert pager is not None
        pager.folder("a").forget(self.here)
        self.taker.settle()
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 1)])
        self.assertEqual(self.taker.kill().inherited, [])

    def test_messages_of_a_queue_that_nobody_knows_stay(self) -> None:
        self.store(b"1")
        inherited = self.take()
        self.assertEqual(inherited.assign({}), {})
        self.taker.settle()
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])
        self.assertEqual(self.taker.ask(SESSIONS), [("b2", 0), ("b2", 1)])

    def test_what_was_taken_is_not_taken_again(self) -> None:
        self.store(b"1")
        sessions = switch(self.target, self.taker)
        [inherited] = inherit(self.taker, sessions)
        self.assign(inherited)
        self.assertEqual(inherit(self.taker, sessions), [])

    def test_a_database_that_refuses_is_told(self) -> None:
        sessions = switch(self.target, self.taker)
        connection = self.taker.database.connect()
        connection.run("ALTER TABLE mqbroker_branch RENAME TO mqbroker_gone")
        connection.close()
        told: list[object] = []
        self.taker.store.inherit(sessions, lambda recovered, error: told.append((recovered, type(error))))
        self.taker.settle()
        self.assertEqual(told, [(None, DatabaseError)])

    def test_a_taker_that_has_lost_the_data_meanwhile_marks_nothing_in_them(self) -> None:
        pager = self.target.store.pager
        assert pager is not None
        batch = self.target.store.begin()
        batch.add_paged(pager.folder("a"), make_message(self.target.store), (self.there,), (), 1000)
        self.target.store.commit(batch)
        for rig in (self.target, self.taker):
            rig.settle()
        told: list[object] = []
        self.taker.store.inherit(switch(self.target, self.taker), lambda recovered, error: told.append((recovered, type(error))))
        third = SqlRig(self.addCleanup, 3, database=self.target.database, broker_id="b3")
        third.start()
        switch(self.taker, third)
        self.taker.settle()
        self.assertEqual(told, [(None, OwnerChangedError)])
        self.assertEqual(self.taker.ask("SELECT * FROM mqbroker_removal"), [])

    def test_nobody_is_called_after_the_store_was_left(self) -> None:
        told: list[object] = []
        self.taker.store.inherit(switch(self.target, self.taker), lambda *found: told.append(found))
        self.taker.store.abort()
        self.taker.settle()
        self.assertEqual(told, [])

    def test_a_former_owner_is_fenced(self) -> None:
        switch(self.target, self.taker)
        with self.assertRaises(AssertionError):
            self.store(b"1", b"2")
            self.assertEqual(self.target.failures, [])
        self.assertTrue(self.target.store.failed)
        self.assertEqual(self.taker.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])
