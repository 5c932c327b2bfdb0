"""A batch of the store changes pages when it is committed, and not before."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqclient.wire.message import KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY, CoreMessage
from mqclient.wire.properties import BYTE, LONG
from tests.support.late_store import read_now
from tests.unit.messaging.paging_support import PagingBroker, Taker, numbered


class UncommittedBatchTests(TestCase):
    """A batch that is never committed: what it would have settled is delivered, counted and kept as if there had been none."""

    def setUp(self) -> None:
        self.broker = PagingBroker()
        self.queue = self.broker.make_queue("q")
        for body in numbered(60):
            self.broker.send(body)

    def remaining(self) -> tuple[int, int]:
        folder = self.broker.rig.store.pager.folder("q")
        return folder.remaining(self.queue.queue_id), folder.remaining(self.queue.queue_id, durable=True)

    def assert_all_there(self, taker: Taker) -> None:
        self.assertEqual(taker.drain(), numbered(60))
        self.assertEqual((self.queue.message_count, self.broker.pages(), self.broker.page_files()), (0, 0, []))

    def test_messages_that_were_taken_stay_taken(self) -> None:
        taker = Taker(self.broker, self.queue, room=20)
        before = self.remaining()
        batch = self.broker.rig.store.begin()
        for reference in taker.references:
            batch.acknowledge(self.queue.queue_id, reference.message)
        self.assertEqual(self.remaining(), before)
        taker.give_room(1000)
        self.assert_all_there(taker)

    def large(self) -> tuple[Any, list[Any]]:
        """A large message that comes to the queue, with its reference, and a batch that pages it."""
        core, store = self.broker.core, self.broker.rig.store
        body = store.create_large_body(store.next_id())
        body.append(b"x" * 100_000)
        body.complete()
        content = CoreMessage(address="q", durable=True, message_id=store.next_id(), properties={KEY_ROUTING_TYPE: (BYTE, 1)}, type=4)
        message = Message.of(content, body)
        references = self.broker.messaging.sending.distribution.references_for(message, (self.queue,), self.queue.address)
        batch = store.begin()
        self.assertTrue(core.paging.page(batch, message, references))
        return batch, references

    def bodies(self) -> list[str]:
        return self.broker.rig.disk.list(self.broker.rig.settings.large_messages_directory)

    def test_the_body_of_a_large_message_goes_with_its_batch(self) -> None:
        self.broker.core.turn.run(self.large)
        self.queue.arriving = 0
        self.broker.settle()
        self.assertEqual(self.bodies(), [])
        self.assert_all_there(Taker(self.broker, self.queue))

    def test_the_body_of_a_large_message_stays_with_its_page(self) -> None:
        self.broker.core.turn.run(lambda: self.broker.rig.store.commit(self.large()[0]))
        self.broker.settle()
        self.assertEqual(len(self.bodies()), 1)
        taker = Taker(self.broker, self.queue)
        self.assertEqual(taker.drain(), [*numbered(60), b"x" * 100_000])
        self.assertEqual(self.bodies(), [])

    def reader(self) -> Any:
        ((_, reader),) = self.queue.pages.readers()
        return reader

    def test_messages_that_were_not_read_are_read(self) -> None:
        before = self.remaining()
        self.assertEqual(self.broker.rig.store.begin().acknowledge_unread(self.reader()), 60)
        self.assertEqual(self.remaining(), before)
        self.assert_all_there(Taker(self.broker, self.queue))

    def test_messages_up_to_a_key_are_read_also_those_that_are_scheduled(self) -> None:
        later = self.broker.rig.clock.wall_ms() + 60_000
        self.broker.send(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, later)})
        messages = taken = 0
        for _ in range(10):
            passed, more, early = read_now(lambda: self.broker.rig.store.begin().acknowledge_until(self.reader(), 1 << 62))
            messages, taken = max(messages, passed), max(taken, len(early))
            if not more:
                break
        self.assertGreater(messages, 0)
        taker = Taker(self.broker, self.queue)
        self.assertEqual(taker.drain(), numbered(60))
        self.broker.rig.clock.advance(61)
        self.broker.settle()
        self.assertEqual(taker.drain(), [b"later"])
