"""What a restart finds again."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase as TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, QueueRecord, RecoveredDuplicateId, RecoveredReference
from mqclient.wire.message import CoreMessage, encode_message
from tests.unit.storage.support import Rig, ids, make_message


class RecoveryTests(TestCase):
    def test_everything_comes_back(self) -> None:
        rig = Rig()
        rig.start()
        store = rig.store
        batch = store.begin()
        address = AddressRecord(store.next_id(), "orders.ä", frozenset({0, 1}), auto_created=True)
        queue = QueueRecord(
            store.next_id(), "q", "orders.ä", 0, "color = 'red'", {"exclusive": True, "max-consumers": 3, "user": None, "g": "x"}
        )
        batch.put_address(address)
        batch.put_queue(queue)
        other = QueueRecord(store.next_id(), "other", "orders.ä", 1)
        batch.put_queue(other)
        batch.put_setting("address-settings", "orders.#", '{"a":1}')
        batch.add_duplicate_id("orders.ä", b"\x00one", store.next_id())
        batch.add_duplicate_id("orders.ä", b"two", store.next_id())
        first = make_message(store, b"first", "orders.ä")
        both = make_message(store, b"both", "orders.ä")
        batch.add_message(first, [queue.queue_id])
        batch.add_message(both, [queue.queue_id, other.queue_id])
        batch.delivery_count(queue.queue_id, both, 7)
        batch.schedule(other.queue_id, both, 1_800_000_000_000)
        store.commit(batch)
        for recovered in (rig.restart(), rig.crash(), rig.restart()):
            self.assertEqual(recovered.addresses, [address])
            self.assertEqual(recovered.queues, [queue, other])
            self.assertEqual(recovered.settings, {("address-settings", "orders.#"): '{"a":1}'})
            self.assertEqual(
                [(entry.cache, entry.duplicate_id) for entry in recovered.duplicate_ids], [("orders.ä", b"\x00one"), ("orders.ä", b"two")]
            )
            self.assertEqual(ids(recovered), [first.message_id, both.message_id])
            for before, (after, _) in zip((first, both), recovered.messages, strict=True):
                self.assertEqual((after.buffer, after.headers, after.address), (before.buffer, before.headers, before.address))
            self.assertEqual(recovered.messages[0][1], [RecoveredReference(queue.queue_id)])
            self.assertEqual(
                recovered.messages[1][1],
                [RecoveredReference(queue.queue_id, 7), RecoveredReference(other.queue_id, 0, 1_800_000_000_000)],
            )

    def test_what_is_done_with_does_not_come_back(self) -> None:
        rig = Rig()
        rig.start()
        store = rig.store
        queue, other = rig.queue("q"), rig.queue("other")
        one, shared, kept = rig.add(queue), rig.add(queue, other), rig.add(queue)
        record_id = store.next_id()
        batch = store.begin()
        batch.acknowledge(queue, one)
        batch.acknowledge(queue, shared)
        batch.add_duplicate_id("a", b"gone", record_id)
        batch.put_setting("users", "bob", "{}")
        batch.put_address(AddressRecord(900, "gone", frozenset({1})))
        store.commit(batch)
        batch = store.begin()
        batch.delete_duplicate_id(record_id)
        batch.delete_setting("users", "bob")
        batch.delete_address(900)
        store.commit(batch)
        recovered = rig.restart()
        self.assertEqual(ids(recovered), [shared.message_id, kept.message_id])
        self.assertEqual(recovered.messages[0][1], [RecoveredReference(other)])
        self.assertEqual((recovered.duplicate_ids, recovered.settings, recovered.addresses), ([], {}, []))
        (message, _) = recovered.messages[0]
        rig.acknowledge(other, message)
        self.assertEqual(ids(rig.restart()), [kept.message_id])

    def test_messages_of_a_deleted_queue_are_gone(self) -> None:
        rig = Rig()
        rig.start()
        queue, other = rig.queue("q"), rig.queue("other")
        rig.add(queue)
        shared = rig.add(queue, other)
        batch = rig.store.begin()
        batch.delete_queue(queue)
        rig.store.commit(batch)
        rig.settle()
        recovered = rig.restart()
        self.assertEqual(
            [(message.message_id, refs) for message, refs in recovered.messages], [(shared.message_id, [RecoveredReference(other)])]
        )

    def test_more_references_can_be_added_later(self) -> None:
        rig = Rig()
        rig.start()
        queue, other = rig.queue("q"), rig.queue("other")
        message = rig.add(queue)
        batch = rig.store.begin()
        batch.add_message(message, [other])
        batch.acknowledge(queue, message)
        rig.store.commit(batch)
        recovered = rig.restart()
        self.assertEqual(recovered.messages[0][1], [RecoveredReference(other)])

    def test_an_address_that_differs_from_the_one_in_the_message_survives(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        encoded = encode_message(CoreMessage(address="from.the.client", durable=True))
        batch = rig.store.begin()
        batch.add_message(Message.received(encoded, rig.store.next_id(), "a"), [queue])
        batch.add_message(Message.received(encode_message(CoreMessage()), rig.store.next_id(), "b\ud800"), [queue])
        rig.store.commit(batch)
        recovered = rig.restart()
        self.assertEqual([message.address for message, _ in recovered.messages], ["a", "b\ud800"])

    def test_duplicate_ids_come_oldest_first_whatever_was_moved(self) -> None:
        rig = Rig(journal_compact_min_files=1, journal_compact_percentage=100)
        rig.start()
        queue = rig.queue()
        for number in range(10):
            batch = rig.store.begin()
            batch.add_duplicate_id("a", b"%d" % number, rig.store.next_id())
            rig.store.commit(batch)
            rig.acknowledge(queue, rig.add(queue, body=bytes(1500)))
            rig.settle()
        recovered = rig.restart()
        self.assertEqual([entry.duplicate_id for entry in recovered.duplicate_ids], [b"%d" % number for number in range(10)])
        self.assertIsInstance(recovered.duplicate_ids[0], RecoveredDuplicateId)
