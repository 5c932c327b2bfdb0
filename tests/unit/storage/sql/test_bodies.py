"""Bodies of large messages in a database."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.storage.sql import bodies
from mqbroker.storage.sql.bodies import SqlLargeBody
from mqclient.wire.message import CoreMessage
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import LARGE

CONTENT = bytes(range(256)) * 40


class BodyTests(TestCase):
    def setUp(self) -> None:
        patch = bodies.PIECE_SIZE
        bodies.PIECE_SIZE = 1000
        self.addCleanup(setattr, bodies, "PIECE_SIZE", patch)
        self.rig = SqlRig(self.addCleanup, late=True)
        self.rig.start()
        self.queue_id = self.rig.queue()

    def store(self) -> Message:
        store = self.rig.store
        body = store.create_large_body(store.next_id())
        body.append(CONTENT)
        body.complete()
        message = Message.of(CoreMessage(address="a", message_id=store.next_id(), durable=True), body)
        batch = store.begin()
        batch.add_message(message, [self.queue_id])
        store.commit(batch)
        body.release()
        self.rig.settle()
        return message

    def pieces(self) -> int:
        return len(self.rig.ask("SELECT piece FROM mqbroker_body"))

    def test_pieces_come_with_the_message_and_go_with_it(self) -> None:
        message = self.store()
        self.assertEqual(self.pieces(), 11)
        batch = self.rig.store.begin()
        batch.acknowledge(self.queue_id, message)
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.pieces(), 0)

    def test_a_body_is_brought_from_the_database_and_only_its_reader_waits(self) -> None:
        self.store()
        self.rig.kill()
        self.assertEqual(self.rig.disk.list(LARGE), ["server.lock", "serverlock.1"])
        pager = self.rig.store.pager
        assert pager is not None
        [entry] = self._read()
        large = entry.large
        assert large is not None
        with self.assertRaises(NotYet) as caught:
            large.read(0, 10)
        came: list[bytes] = []
        caught.exception.when_there(lambda: came.append(large.read(5, 1500)))
        self.assertEqual(came, [])
        self.rig.settle()
        self.assertEqual(came, [CONTENT[5:1505]])
        self.assertEqual(large.read(len(CONTENT) - 3, 10), CONTENT[-3:])

    def test_a_file_that_is_being_removed_is_brought_again_behind_its_removal(self) -> None:
        """A message for pages is let go as soon as it is stored, and may be read at once, while the disk is busy."""
        first = self._large_of_a_restart()
        first.hold()
        self.bring(first)
        first.release()
        self.rig.clock.run_due()
        assert self.rig.store.pager is not None
        second = self.rig.store.pager.rows.bodies.stored(first.body_id, first.size, first.session)
        second.hold()
        self.assertIsNot(first, second)
        came: list[bytes] = []
        with self.assertRaises(NotYet) as caught:
            second.read(0, 10)
        caught.exception.when_there(lambda: came.append(second.read(0, 10)))
        while self.rig.reading.run_one():
            pass
        self.rig.settle()
        self.assertEqual((came, second.read(10, 10)), ([CONTENT[:10]], CONTENT[10:20]))

    def test_a_reader_goes_on_when_the_local_file_has_gone_with_the_last_message_in_memory(self) -> None:
        body = self._large_of_a_restart()
        body.hold()
        self.bring(body)
        body.release()
        self.rig.clock.run_due()
        self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), ["server.lock", "serverlock.1"])
        came: list[bytes] = []
        with self.assertRaises(NotYet) as caught:
            body.read(0, 10)
        caught.exception.when_there(lambda: came.append(body.read(0, 10)))
        self.rig.settle()
        self.assertEqual((came, body.read(10, 10)), ([CONTENT[:10]], CONTENT[10:20]))

    def test_a_body_that_comes_when_its_reader_has_gone_leaves_no_file(self) -> None:
        body = self._large_of_a_restart()
        body.hold()
        with self.assertRaises(NotYet):
            body.read(0, 10)
        body.release()
        self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), ["server.lock", "serverlock.1"])

    def bring(self, body: SqlLargeBody) -> None:
        with self.assertRaises(NotYet):
            body.read(0, 10)
        self.rig.settle()
        self.assertEqual(body.read(0, 10), CONTENT[:10])

    def test_local_files_of_bodies_that_are_only_looked_at_are_few(self) -> None:
        for _ in range(3):
            self.store()
        self.rig.kill()
        pager = self.rig.store.pager
        assert pager is not None
        reader = pager.folder("a").reader(self.queue_id)
        found: list[LargeBody] = []
        while True:
            look = reader.look()
            try:
                found += [entry.message.large for entry in look.read() or () if entry.message.large is not None]
                break
            except NotYet:
                self.rig.settle()
        with mock.patch.object(bodies, "LOOKED_AT_MAX", 1):
            for body in (*found, *found):
                with self.assertRaises(NotYet):
                    body.read(0, 10)
                self.rig.settle()
                self.assertEqual((body.read(0, 10), body.read(10, 10)), (CONTENT[:10], CONTENT[10:20]))
                self.assertEqual(len(self.rig.disk.list(LARGE)), 3)

    def test_a_body_stays_for_a_copy_that_is_not_stored(self) -> None:
        """As for an expired message that is not durable: no row names the body any more."""
        self.store()
        self.rig.kill()
        [entry] = self._read()
        large = entry.large
        assert large is not None
        large.hold()
        batch = self.rig.store.begin()
        batch.acknowledge(self.queue_id, entry)
        self.rig.store.commit(batch)
        large.release()
        self.rig.settle()
        self.assertEqual((self.pieces(), large.read(0, len(CONTENT))), (0, CONTENT))
        large.release()
        self.rig.settle()
        self.assertEqual(self.rig.disk.list(LARGE), ["server.lock", "serverlock.1"])

    def test_a_body_that_is_asked_for_as_its_pieces_go(self) -> None:
        self.store()
        self.rig.kill()
        [entry] = self._read()
        large = entry.large
        assert large is not None
        large.hold()
        batch = self.rig.store.begin()
        batch.acknowledge(self.queue_id, entry)
        self.rig.store.commit(batch)
        large.release()
        self.rig.clock.run_due()
        self.rig.writer.run_one()
        self.assertEqual(self.pieces(), 0)
        came: list[bytes] = []
        for _ in range(2):
            try:
                came.append(large.read(0, len(CONTENT)))
            except NotYet as pending:
                pending.when_there(lambda: came.append(large.read(0, len(CONTENT))))
        large.release()
        self.rig.settle()
        self.assertEqual(came, [CONTENT] * 2)
        self.assertEqual(self.rig.disk.list(LARGE), ["server.lock", "serverlock.1"])

    def _large_of_a_restart(self) -> SqlLargeBody:
        """The body of a stored message, without a local file and without a holder."""
        self.store()
        self.rig.kill()
        pager = self.rig.store.pager
        assert pager is not None
        rows = self.rig.ask("SELECT body, body_size, session FROM mqbroker_message")
        return pager.rows.bodies.stored(*rows[0])  # type: ignore[arg-type]

    def test_two_messages_share_a_body(self) -> None:
        message = self.store()
        store = self.rig.store
        copy = message.duplicate(store.next_id())
        batch = store.begin()
        batch.add_message(copy, [self.queue_id])
        batch.acknowledge(self.queue_id, message)
        store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.pieces(), 11)
        batch = store.begin()
        batch.acknowledge(self.queue_id, copy)
        store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.pieces(), 0)

    def _read(self) -> list[Message]:
        pager = self.rig.store.pager
        assert pager is not None
        reader = pager.folder("a").reader(self.queue_id)
        for _ in range(3):
            try:
                return [entry.message for entry in reader.read() or ()]
            except NotYet:
                self.rig.settle()
        raise AssertionError("the piece has not come")
