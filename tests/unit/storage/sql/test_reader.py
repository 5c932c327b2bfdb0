"""A queue's place in the rows of a folder."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.ports import PagePlace
from mqbroker.storage.sql.rows import PIECE_ROWS
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.unit.storage.sql.paged import PagedTestCase, body_of


class ReaderTests(PagedTestCase, TestCase):
    def test_order_and_end(self) -> None:
        self.page(PIECE_ROWS + 5)
        found = []
        while (piece := self.reader.read()) is not None:
            found += [body_of(entry.message) for entry in piece]
        self.assertEqual(found, self.bodies)

    def test_a_look_takes_nothing(self) -> None:
        self.page(3)
        look = self.reader.look()
        self.assertEqual(len(look.read() or ()), 3)
        self.assertEqual(self.folder.remaining(self.queue_id), 3)
        self.assertIs(self.reader.look(look), look)
        self.assertEqual(len(self.reader.read() or ()), 3)

    def test_the_end_of_a_look_is_known_without_the_database(self) -> None:
        """Else who asks again and again whether a browser is at the end would wait each time, without end."""
        self.page(2)
        look = self.reader.look()
        self.assertEqual(len(look.read() or ()), 2)
        with mock.patch.object(self.rig.store._reads, "piece", side_effect=AssertionError):
            self.assertIsNone(look.read())
        self.page(1)
        self.assertEqual(len(look.read() or ()), 1)

    def test_a_look_goes_on_when_the_pages_were_consumed_and_begun_anew(self) -> None:
        """Once a browser that stood at the end of the former pages showed nothing of what came later."""
        self.page(1)
        look = self.reader.look()
        self.assertEqual(len(look.read() or ()), 1)
        [entry] = self.reader.read() or ()
        batch = self.rig.store.begin()
        batch.acknowledge(self.queue_id, entry.message)
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual(self.heard.ends, 1)
        self.reader = self.folder.reader(self.queue_id)
        self.page(2)
        look = self.reader.look(look)
        self.assertEqual([body_of(entry.message) for entry in look.read() or ()], self.bodies[1:])
        self.assertIs(self.reader.look(look), look)
        self.assertIsNone(look.read())

    def test_a_place_without_rows_is_looked_at_once(self) -> None:
        self.page(2)
        look = self.reader.look()
        look.read()
        # A message of another queue stands behind those of this one.
        self.folder.readable = self.rig.store.next_id()
        with mock.patch.object(self.rig.store._reads, "piece", return_value=[]) as piece:
            self.assertEqual([look.read(), look.read()], [None, None])
        self.assertEqual(piece.call_count, 1)

    def test_what_was_taken_early_is_not_read_again(self) -> None:
        self.page(3)
        [_, second, _] = [entry.message for entry in self.reader.look().read() or ()]
        place = second.store_state
        assert isinstance(place, PagePlace)
        self.assertFalse(self.reader.passed(place))
        self.reader.take(second)
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], [self.bodies[0], self.bodies[2]])
        self.assertTrue(self.reader.passed(place))

    def test_everything_unread_is_passed_but_for_what_was_taken(self) -> None:
        self.page(4)
        taken = [entry.message for entry in self.reader.look().read() or ()][2]
        self.reader.take(taken)
        batch = self.rig.store.begin()
        self.assertEqual(batch.acknowledge_unread(self.reader), 3)
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertIsNone(self.reader.read())
        self.restart()
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], [self.bodies[2]])

    def test_a_scan_gives_rows_and_takes_nothing(self) -> None:
        messages = self.page(3)
        self.page(1, properties={KEY_SCHEDULED_DELIVERY: (LONG, 5)})
        scan = self.reader.scan()
        copy = scan.copy()
        rows = scan.read()
        assert rows is not None
        self.assertEqual(rows.ids[:3], [message.message_id for message in messages])
        self.assertEqual((rows.keys, list(rows.scheduled)), (rows.ids, [3]))
        self.assertIsNone(scan.read())
        again = copy.read()
        assert again is not None
        self.assertEqual(again.ids, rows.ids)

    def test_a_scan_that_is_behind_the_queue_leaves_out_what_the_queue_has_taken(self) -> None:
        """Else a scheduled message would come into memory once more."""
        [scheduled] = self.page(1, properties={KEY_SCHEDULED_DELIVERY: (LONG, 5)})
        [last] = self.page(1)
        scan = self.reader.scan()
        batch = self.rig.store.begin()
        _, _, taken = batch.acknowledge_until(self.reader, scheduled.message_id)
        self.assertEqual([entry.message.message_id for entry in taken], [scheduled.message_id])
        self.rig.store.commit(batch)
        self.rig.settle()
        rows = scan.read()
        assert rows is not None
        self.assertEqual((rows.ids, rows.scheduled), ([last.message_id], {}))

    def test_a_scan_that_began_before_the_pages_were_consumed_knows_what_is_taken_since(self) -> None:
        """Else the next scan gives the scheduled message again, and the queue has it twice."""
        self.page(1)
        scan = self.reader.scan()
        [entry] = self.reader.read() or ()
        batch = self.rig.store.begin()
        batch.acknowledge(self.queue_id, entry.message)
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual((self.folder.messages, self.heard.ends), (0, 1))
        self.reader = self.folder.reader(self.queue_id)
        [scheduled] = self.page(1, properties={KEY_SCHEDULED_DELIVERY: (LONG, 5)})
        rows = scan.read()
        assert rows is not None
        self.assertEqual((rows.ids, list(rows.scheduled)), ([scheduled.message_id], [0]))
        scheduled.store_state, _ = rows.scheduled[0]
        self.reader.take(scheduled)
        again = self.reader.scan().read()
        assert again is not None
        self.assertEqual(again.ids, [])

    def test_passing_up_to_a_key_leaves_scheduled_messages_to_the_queue(self) -> None:
        first = self.page(1)
        [scheduled] = self.page(1, properties={KEY_SCHEDULED_DELIVERY: (LONG, 5)})
        [third] = self.page(1)
        [last] = self.page(1)
        batch = self.rig.store.begin()
        messages, more, taken = batch.acknowledge_until(self.reader, third.message_id)
        self.assertEqual((messages, more, [entry.message.message_id for entry in taken]), (2, False, [scheduled.message_id]))
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual([entry.message.message_id for entry in self.reader.read() or ()], [last.message_id])
        self.assertEqual(len(first), 1)
        self.assertEqual(self.rig.ask("SELECT COUNT(*) FROM mqbroker_reference"), [(2,)])

    def test_counts_and_times_are_kept(self) -> None:
        self.page(1)
        [entry] = self.reader.read() or ()
        batch = self.rig.store.begin()
        batch.delivery_count(self.queue_id, entry.message, 4)
        self.rig.store.commit(batch)
        self.restart()
        [found] = self.reader.read() or ()
        self.assertEqual((found.delivery_count, found.scheduled), (4, None))
