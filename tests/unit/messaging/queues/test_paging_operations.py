"""What is done with messages in pages: browsing, removing, moving, expiring, redelivering."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import TestCase, mock

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.queue_control import QueueControl
from mqbroker.server.management.views import address_row
from mqclient.errors import AddressFullError
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_GROUP_ID, KEY_SCHEDULED_DELIVERY, CoreMessage
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import INT, LONG, STRING
from tests.support.late_store import read_now
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, body_of, numbered, unread


def seen(queue: Any) -> list[bytes]:
    return [body_of(reference.message) for reference in queue.references] + ([body_of(message) for message in unread(queue)])


def every(broker: PagingBroker, references: Iterator[Reference | None]) -> list[Reference]:
    """The references that work in steps finds."""

    def steps() -> Steps[list[Reference]]:
        found: list[Reference] = []
        for reference in references:
            if reference is not None:
                found.append(reference)
            yield 1
        return found

    return broker.finish(steps())  # type: ignore[no-any-return]


class OperationTests(TestCase):
    def filled(self, count: int = 100, settings: dict[str, Any] | None = None) -> tuple[PagingBroker, Any]:
        broker = PagingBroker({"#": {**ALWAYS, **(settings or {})}})
        queue = broker.make_queue("q")
        for number, body in enumerate(numbered(count)):
            broker.send(body, properties={"n": (INT, number)})
        return broker, queue

    @staticmethod
    def taken(broker: PagingBroker, queue: Any, text: str) -> list[Reference]:
        filter = parse_filter(text)
        assert filter is not None
        return every(broker, queue.pages.take_each(filter.matches, None))

    def test_removing_by_filter_survives_a_restart(self) -> None:
        broker, queue = self.filled()
        taken = self.taken(broker, queue, "n >= 90 or n = 3")
        broker.messaging.removal.discard(taken)
        broker.settle()
        self.assertEqual(len(taken), 11)
        self.assertEqual(queue.message_count, 89)
        expected = [body for body in numbered(90) if body != b"000003"]
        self.assertEqual(seen(queue), expected)
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual((queue.message_count, seen(queue)), (89, expected))
        self.assertEqual(Taker(broker, queue).drain(), expected)
        self.assertEqual(broker.page_files(), [])

    def test_removing_values_that_replace_each_other(self) -> None:
        """Each is acknowledged once, or counts would fall below zero."""
        broker = PagingBroker({"#": ALWAYS})
        queue = broker.make_queue("q", last_value_key="sym")
        for number, key in enumerate("abacadaaa"):
            broker.send(b"%d" % number, properties={"sym": (STRING, key)})
        control = QueueControl(SimpleNamespace(messaging=broker.messaging), queue)  # type: ignore[arg-type]
        self.assertEqual(broker.finish(control.remove(control._selected("sym = 'a'"))), 1)
        broker.settle()
        self.assertEqual((queue.messages_acknowledged, queue.messages_replaced, queue.total_count), (1, 5, 3))
        self.assertEqual((queue.durable_message_count, queue.persistent_size, queue.delivering), (3, 0, 0))
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(Taker(broker, queue).drain(), [b"1", b"3", b"5"])
        self.assertEqual((queue.total_count, queue.durable_message_count, broker.page_files()), (0, 0, []))

    def test_moving_values_that_were_replaced_already(self) -> None:
        broker = PagingBroker({"#": ALWAYS})
        queue, other = broker.make_queue("q", last_value_key="sym"), broker.make_queue("other")
        for number in range(4):
            broker.send(b"%d" % number, properties={"sym": (STRING, "a"), "n": (INT, number)})
        control = QueueControl(SimpleNamespace(messaging=broker.messaging), queue)  # type: ignore[arg-type]
        newest = unread(queue)[-1].message_id
        self.assertEqual(broker.finish(control.change_priority(control.one(newest), 9)), 1)
        self.assertEqual(broker.finish(control.move(control._selected("n < 3"), "other")), 0)
        broker.settle()
        self.assertEqual((seen(queue), other.message_count, queue.messages_replaced), ([b"3"], 0, 3))
        self.assertEqual((queue.durable_message_count, queue.delivering), (1, 0))
        self.assertEqual(Taker(broker, queue).drain(), [b"3"])
        self.assertEqual((queue.total_count, queue.durable_message_count, queue.address.memory.size, broker.page_files()), (0, 0, 0, []))

    def test_moving_one_by_its_id(self) -> None:
        broker, queue = self.filled()
        other = broker.make_queue("other")
        message_id = next(message.message_id for message in unread(queue) if body_of(message) == b"000050")
        (reference,) = every(broker, queue.pages.take_each(None, (message_id,)))
        broker.messaging.settlement.move(reference, "other", "other")
        broker.settle()
        self.assertEqual((queue.message_count, seen(other)), (99, [b"000050"]))
        self.assertEqual(Taker(broker, queue).drain(), [body for body in numbered(100) if body != b"000050"])

    def test_a_scheduled_message_that_a_reader_has_taken_meanwhile_is_taken_once(self) -> None:
        """Between two steps of the search a reader may read the pages, and takes what is scheduled into memory."""
        broker, queue = self.filled(3)
        broker.send(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, broker.rig.clock.wall_ms() + 60_000)})

        def steps() -> Steps[int]:
            found = 0
            for reference in queue.pages.take_each(None, None):
                found += reference is not None
                if found == 1:
                    read_now(lambda: broker.messaging.readers.read(queue, 0, 1 << 62, 1 << 20, None))
                yield 1
            return found

        self.assertEqual(broker.finish(steps()), 3)
        self.assertEqual((len(list(queue.scheduled)), queue.message_count), (1, 4))

    def test_a_purge_leaves_what_is_in_delivery(self) -> None:
        broker, queue = self.filled()
        taker = Taker(broker, queue, room=5)
        self.taken(broker, queue, "n = 80")
        self.assertEqual(broker.messaging.removal.purge(queue), 95)
        broker.settle()
        self.assertEqual((queue.message_count, queue.messages_added, queue.messages_acknowledged), (5, 100, 95))
        broker.send(b"new")
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(queue.message_count, 6)
        self.assertEqual(Taker(broker, queue).drain(), [*numbered(5), b"new"])
        self.assertEqual(len(taker.references), 5)

    def test_a_queue_that_is_deleted_gives_up_its_pages(self) -> None:
        broker = PagingBroker()
        first, second = broker.make_queue("s1", "t", 0), broker.make_queue("s2", "t", 0)
        for body in numbered(50):
            broker.send(body, "t", routing_type=0)
        self.assertEqual(Taker(broker, first).drain(), numbered(50))
        self.assertGreater(broker.pages("t"), 0)
        broker.messaging.administration.delete_queue(second, remove_consumers=True)
        broker.settle()
        self.assertEqual((broker.pages("t"), broker.page_files()), (0, []))

    def test_a_queue_that_comes_late_sees_what_comes_later(self) -> None:
        broker = PagingBroker()
        broker.make_queue("s1", "t", 0)
        for body in numbered(20):
            broker.send(body, "t", routing_type=0)
        late = broker.make_queue("s2", "t", 0)
        for body in numbered(20, 20):
            broker.send(body, "t", routing_type=0)
        self.assertEqual(late.message_count, 20)
        broker.restart()
        queues = broker.core.queues
        self.assertEqual(Taker(broker, queues["s2"]).drain(), numbered(20, 20))
        self.assertEqual(Taker(broker, queues["s1"]).drain(), numbered(40))
        self.assertEqual(broker.page_files(), [])

    def test_subscriptions_at_the_same_place_share_messages(self) -> None:
        broker = PagingBroker()
        first, second = broker.make_queue("s1", "t", 0), broker.make_queue("s2", "t", 0)
        for body in numbered(5):
            broker.send(body, "t", routing_type=0)
        one, other = Taker(broker, first), Taker(broker, second)
        self.assertIs(one.references[0].message, other.references[0].message)
        self.assertEqual(broker.core.addresses["t"].memory.messages, 5)
        one.acknowledge()
        self.assertEqual(broker.pages("t"), 1)
        self.assertEqual(other.acknowledge(), numbered(5))
        self.assertEqual((broker.pages("t"), broker.core.global_memory.size), (0, 0))

    def test_messages_that_do_not_survive(self) -> None:
        """Non-durable messages and queues are paged too, and are gone after a restart."""
        broker = PagingBroker()
        durable, transient = broker.make_queue("s1", "t", 0), broker.make_queue("s2", "t", 0, durable=False)
        for number, body in enumerate(numbered(20)):
            broker.send(body, "t", routing_type=0, durable=number % 2 == 0)
        self.assertEqual((durable.message_count, transient.message_count), (20, 20))
        self.assertEqual(Taker(broker, transient, room=7).acknowledge(), numbered(7))
        broker.restart()
        self.assertNotIn("s2", broker.core.queues)
        self.assertEqual(broker.core.queues["s1"].message_count, 10)
        self.assertEqual(Taker(broker, broker.core.queues["s1"]).drain(), numbered(20)[::2])
        self.assertEqual(broker.page_files(), [])

    def test_delivery_counts_rollback_and_dead_letters(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "max_delivery_attempts": 3, "dead_letter_address": "dead"}})
        queue, dead = broker.make_queue("q"), broker.make_queue("dead")
        for body in numbered(10):
            broker.send(body)
        taker = Taker(broker, queue, room=2)
        taker.roll_back()
        broker.restart()
        queue, dead = broker.core.queues["q"], broker.core.queues["dead"]
        taker = Taker(broker, queue, room=3)
        self.assertEqual(body_of(taker.references[0].message), b"000000")
        self.assertEqual([each.delivery_count for each in taker.references], [2, 2, 1])
        taker.roll_back()
        taker.give_room(3)
        self.assertEqual([each.delivery_count for each in taker.references], [3, 3, 2])
        taker.roll_back()
        self.assertEqual((queue.message_count, dead.message_count), (8, 2))
        broker.restart()
        self.assertEqual(Taker(broker, broker.core.queues["dead"]).drain(), numbered(2))
        self.assertEqual(Taker(broker, broker.core.queues["q"]).drain(), numbered(8, 2))

    def test_redelivery_delays_survive(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "redelivery_delay": 60_000}})
        broker.make_queue("q")
        for body in numbered(3):
            broker.send(body)
        queue = broker.core.queues["q"]
        taker = Taker(broker, queue, room=1)
        taker.roll_back()
        self.assertEqual((queue.scheduled.count, queue.message_count), (1, 3))
        broker.restart()
        queue = broker.core.queues["q"]
        taker = Taker(broker, queue)
        self.assertEqual(taker.drain(), numbered(2, 1))
        broker.rig.clock.advance(61)
        broker.settle()
        self.assertEqual(taker.drain(), numbered(1))
        self.assertEqual(broker.page_files(), [])

    def test_scheduled_and_expired_messages(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "expiry_address": "old"}})
        queue, old = broker.make_queue("q"), broker.make_queue("old")
        now = broker.rig.clock.wall_ms()
        broker.send(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, now + 5000)})
        broker.send(b"short", expiration=now + 1000)
        broker.send(b"plain")
        broker.rig.clock.advance(2)
        broker.settle()
        broker.messaging.expiry_reaper.scan()
        broker.settle()
        self.assertEqual(old.message_count, 1)
        taker = Taker(broker, queue)
        self.assertEqual(taker.drain(), [b"plain"])
        broker.rig.clock.advance(4)
        broker.settle()
        self.assertEqual(taker.drain(), [b"later"])
        self.assertEqual(seen(old), [b"short"])

    def test_a_scan_for_expired_messages_leaves_most_scheduled_ones_in_their_pages(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "expiry_address": "old"}})
        queue, old = broker.make_queue("q"), broker.make_queue("old")
        now = broker.rig.clock.wall_ms()
        broker.send(b"short", expiration=now + 1000)
        for body in numbered(200):
            broker.send(body, properties={KEY_SCHEDULED_DELIVERY: (LONG, now + 60_000)})
        broker.rig.clock.advance(2)
        for _ in range(3):
            broker.messaging.expiry_reaper.scan()
            broker.settle()
        self.assertEqual((old.message_count, queue.message_count), (1, 200))
        self.assertLess(queue.scheduled.count, 50)
        taker = Taker(broker, queue)
        broker.rig.clock.advance(60)
        broker.settle()
        self.assertEqual(sorted(taker.drain()), numbered(200))

    def test_duplicate_ids(self) -> None:
        broker = PagingBroker()
        queue = broker.make_queue("q")
        for _ in range(2):
            broker.send(b"once", properties={KEY_DUPLICATE_ID: (STRING, "a")})
        broker.restart()
        broker.send(b"once", properties={KEY_DUPLICATE_ID: (STRING, "a")})
        queue = broker.core.queues["q"]
        self.assertEqual(Taker(broker, queue).drain(), [b"once"])

    def test_transactions(self) -> None:
        """Sends and acknowledgements of a transaction on paging addresses are visible together, and undone together."""
        broker = PagingBroker()
        queue, other = broker.make_queue("q"), broker.make_queue("r")
        for body in numbered(5):
            broker.send(body)
        taker = Taker(broker, queue, room=2)
        transaction = Transaction()
        broker.send(b"moved", "r", transaction)
        transaction.acknowledged += taker.references
        self.assertEqual((queue.message_count, other.message_count), (5, 0))
        broker.messaging.settlement.rollback(transaction)
        broker.settle()
        self.assertEqual((queue.message_count, other.message_count), (5, 0))
        taker.references = []
        taker.give_room(2)
        transaction = Transaction()
        broker.send(b"moved", "r", transaction)
        transaction.acknowledged += taker.references
        broker.messaging.settlement.commit(transaction, broker.context)
        broker.settle()
        self.assertEqual((queue.message_count, other.message_count), (3, 1))
        self.assertEqual(other.arriving, 0)
        broker.restart()
        self.assertEqual(seen(broker.core.queues["r"]), [b"moved"])
        self.assertEqual(seen(broker.core.queues["q"]), numbered(3, 2))

    def test_large_messages(self) -> None:
        broker = PagingBroker()
        broker.make_queue("s1", "t", 0)
        broker.make_queue("s2", "t", 0)
        store = broker.rig.store
        number = store.next_id()
        body = store.create_large_body(number)
        body.append(b"large" * 1000)
        body.complete()
        message = Message.of(CoreMessage(message_id=number, address="t", durable=True), body)
        broker.messaging.sending.send(message, "t", None, 0, broker.context)
        broker.settle()
        self.assertEqual(Taker(broker, broker.core.queues["s1"]).drain(), [b"large" * 1000])
        broker.restart()
        self.assertEqual(broker.rig.disk.list("/data/large-messages"), [f"{number}.msg"])
        taker = Taker(broker, broker.core.queues["s2"])
        taker.roll_back()
        taker.give_room(1)
        self.assertEqual(taker.drain(), [b"large" * 1000])
        self.assertEqual((broker.rig.disk.list("/data/large-messages"), broker.page_files()), ([], []))

    def test_wildcard_queue(self) -> None:
        """A queue that is bound to a pattern reads from the pages of each address that it gets messages from."""
        broker = PagingBroker()
        queue = broker.make_queue("w", "news.*", 0)
        broker.make_queue("own", "news.a", 0)
        for body in numbered(10):
            broker.send(body, "news.a", routing_type=0)
            broker.send(body, "news.b", routing_type=0)
        broker.restart()
        queue = broker.core.queues["w"]
        self.assertEqual(queue.message_count, 20)
        self.assertEqual(sorted(Taker(broker, queue).drain()), sorted(numbered(10) * 2))
        self.assertEqual(Taker(broker, broker.core.queues["own"]).drain(), numbered(10))
        self.assertEqual(broker.page_files(), [])


class ManagementTests(TestCase):
    def setUp(self) -> None:
        self.broker = PagingBroker()
        self.queue = self.broker.make_queue("q")
        for number, body in enumerate(numbered(60)):
            self.broker.send(body, properties={"n": (INT, number)})
        core = self.broker.core
        server: Any = SimpleNamespace(messaging=self.broker.messaging, clock=core.clock, store=core.store, turn=core.turn)
        self.control = QueueControl(server, self.queue)
        self.address = core.addresses["q"]

    def test_what_is_seen(self) -> None:
        control = self.control
        self.assertEqual(
            (
                control.count_messages(),
                self.broker.finish(control.count_messages("n < 7")),
                self.broker.finish(control.count_messages("n = 100")),
            ),
            (60, 7, 0),
        )
        self.assertEqual([row["n"] for row in self.broker.finish(control.list_messages("n >= 58"))], [58, 59])
        self.assertEqual(len(self.broker.finish(control.list_messages())), 60)
        self.assertIn('"n": 0', self.broker.finish(control.first_message()))
        self.assertEqual((self.queue.durable_message_count, self.queue.references.count), (60, 0))
        self.assertGreater(self.address.memory.page_count, 1)
        self.assertEqual(address_row(self.address, 0)["paging"], True)

    def test_what_is_done(self) -> None:
        control, operations = self.control, QueueControl.OPERATIONS
        other = self.broker.make_queue("other")
        self.assertEqual(self.broker.finish(operations["removeMessages"].call(control, "n < 10")), 10)
        self.assertEqual(self.broker.finish(operations["moveMessages"].call(control, "n < 20", "other", False, 4)), 4)
        self.assertEqual(self.broker.finish(operations["expireMessages"].call(control, "n = 30")), 1)
        (wanted,) = self.broker.finish(control.list_messages("n = 40"))
        self.assertTrue(self.broker.finish(operations["removeMessage"].call(control, wanted["messageID"])))
        self.broker.settle()
        self.assertEqual((self.queue.message_count, other.message_count), (44, 4))
        self.broker.restart()
        queues = self.broker.core.queues
        left = [body for number, body in enumerate(numbered(60)) if number >= 14 and number not in (30, 40)]
        self.assertEqual(Taker(self.broker, queues["q"]).drain(), left)
        self.assertEqual(Taker(self.broker, queues["other"]).drain(), numbered(4, 10))

    def test_what_cannot_be_moved_stays_as_it_was(self) -> None:
        """Nothing of it counts as taken: the pages go with their last message, and a purge finds what is there."""
        move = QueueControl.OPERATIONS["moveMessages"]
        self.broker.make_queue("picky", filter_string="n > 50")
        self.assertEqual(self.broker.finish(move.call(self.control, "n < 10", "picky")), 0)
        self.assertEqual(self.broker.finish(move.call(self.control, "n = 55", "picky")), 1)
        self.broker.settle()
        self.assertEqual(self.queue.message_count, 59)
        self.assertEqual(self.broker.messaging.removal.purge(self.queue), 59)
        self.broker.settle()
        self.assertEqual((self.queue.message_count, self.queue.paged), (0, 0))
        self.assertEqual(Taker(self.broker, self.broker.core.queues["picky"]).drain(), [numbered(60)[55]])
        self.assertEqual(self.broker.page_files(), [])

    def test_message_groups_stay_together(self) -> None:
        broker = PagingBroker()
        broker.make_queue("g")
        for number, body in enumerate(numbered(20)):
            broker.send(body, "g", properties={KEY_GROUP_ID: (STRING, f"group {number % 2}")})
        broker.restart()
        queue = broker.core.queues["g"]
        one, other = Taker(broker, queue, room=0), Taker(broker, queue, room=0)
        for _ in range(10):
            one.give_room(1)
            other.give_room(1)
        self.assertEqual(sorted([one.bodies, other.bodies]), [numbered(20)[::2], numbered(20)[1::2]])


class LimitTests(TestCase):
    def test_page_limit_by_messages(self) -> None:
        for policy in ("FAIL", "DROP"):
            broker = PagingBroker({"#": {**ALWAYS, "page_limit_messages": 5, "page_full_policy": policy}})
            queue = broker.make_queue("q")
            for number, body in enumerate(numbered(8)):
                if number >= 5 and policy == "FAIL":
                    with self.assertRaisesRegex(AddressFullError, "is full. Message encode size = [0-9]+B; its pages are also full"):
                        broker.send(body)
                else:
                    broker.send(body)
            self.assertEqual(seen(queue), numbered(5))

    def test_page_limit_by_bytes(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "page_size_bytes": 1000, "page_limit_bytes": 3500, "page_full_policy": "DROP"}})
        broker.make_queue("q")
        for _ in range(100):
            broker.send(bytes(100))
        self.assertEqual(broker.pages(), 4)

    def test_a_limit_without_policy_does_not_hold(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "page_limit_messages": 5}})
        queue = broker.make_queue("q")
        for body in numbered(8):
            broker.send(body)
        self.assertEqual(seen(queue), numbered(8))

    def test_global_limit(self) -> None:
        broker = PagingBroker({"#": {"page_size_bytes": 4096}}, global_max_size=1_000_000, global_max_messages=10)
        first, second = broker.make_queue("q"), broker.make_queue("r")
        for body in numbered(10):
            broker.send(body)
        broker.send(b"one", "r")
        broker.send(b"more")
        self.assertEqual((first.references.count, first.paged, second.paged), (10, 1, 1))

    def test_producers_wait_while_the_disk_is_slower(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "page_size_bytes": 10_000_000}})
        broker.make_queue("q")
        memory = broker.core.addresses["q"].memory
        granted: list[int] = []
        self.assertTrue(memory.when_free(lambda: granted.append(1)))
        for _ in range(17):
            broker.send(bytes(1024 * 1024), settle=False)
        self.assertFalse(memory.when_free(lambda: granted.append(2)))
        broker.settle()
        self.assertEqual(granted, [1, 2])


class BranchTests(TestCase):
    def test_prepared_branches_on_paging_addresses(self) -> None:
        """What a prepared branch has acknowledged is not given to anybody after a restart; what it sends is paged at its commit."""
        for commit in (True, False):
            broker = PagingBroker()
            queue, other = broker.make_queue("q"), broker.make_queue("r")
            for body in numbered(6):
                broker.send(body)
            broker.send(b"first", "r")
            taker = Taker(broker, queue, room=2)
            transaction = Transaction()
            broker.send(b"sent", "r", transaction)
            transaction.acknowledged += taker.references
            broker.messaging.settlement.prepare(transaction, Xid(1, b"branch", b"global"), 0)
            broker.settle()
            broker.restart()
            queue, other = broker.core.queues["q"], broker.core.queues["r"]
            rest = Taker(broker, queue, room=2)
            self.assertEqual(rest.bodies, numbered(2, 2))
            branches = broker.messaging.branches
            if commit:
                branches.commit(Xid(1, b"branch", b"global"), False, broker.context)
            else:
                branches.rollback(Xid(1, b"branch", b"global"))
            broker.settle()
            rest.leave()
            for _ in range(2):
                self.assertEqual(seen(other), [b"first", b"sent"] if commit else [b"first"])
                self.assertEqual(other.message_count, 2 if commit else 1)
                broker.restart()
                queue, other = broker.core.queues["q"], broker.core.queues["r"]
            self.assertEqual(Taker(broker, queue).drain(), numbered(4, 2) if commit else numbered(6))
            Taker(broker, other).drain()
            self.assertEqual((broker.page_files(), broker.core.global_memory.size), ([], 0))

    def test_a_commit_that_needs_more_ids_than_a_block_has(self) -> None:
        """A local transaction and a branch: all of their messages come, once, and a crash afterwards loses none."""
        for prepared in (True, False):
            with mock.patch("mqbroker.storage.files.filestore.ID_BLOCK", 32):
                broker = PagingBroker()
                queue = broker.make_queue("q")
                transaction = Transaction()
                for body in numbered(100):
                    broker.send(body, "q", transaction)
                if prepared:
                    broker.messaging.settlement.prepare(transaction, Xid(1, b"branch", b"global"), 0)
                    broker.settle()
                broker.messaging.settlement.commit(transaction, broker.context)
                broker.settle()
                self.assertEqual(queue.message_count, 100)
                broker.crash()
                queue = broker.core.queues["q"]
                self.assertEqual(Taker(broker, queue).drain(), numbered(100))
                self.assertEqual(broker.rig.failures, [])

    def made_anew(self, address: str, *queues: tuple[str, str]) -> PagingBroker:
        """A commit sends more than the address keeps in memory, which was deleted and made anew since the messages were sent."""
        broker = PagingBroker({"#": {"max_size_messages": 3, "page_size_bytes": 4096}})
        transaction = Transaction()
        for name, bound_to in queues:
            broker.make_queue(name, bound_to)
        for body in numbered(4):
            broker.send(body, address, transaction)
        broker.messaging.administration.delete_address(address, force=True)
        broker.make_queue(address)
        broker.messaging.settlement.commit(transaction, broker.context)
        broker.settle()
        return broker

    def test_messages_of_an_address_that_was_made_anew_make_no_pages_that_it_does_not_know(self) -> None:
        broker = self.made_anew("q", ("q", "q"))
        queue = broker.core.queues["q"]
        self.assertEqual((broker.core.paging.addresses, queue.message_count), ({}, 0))
        for body in numbered(5):
            broker.send(body)
        self.assertEqual((queue.references.count, queue.paged), (3, 2))
        broker.messaging.removal.discard(list(queue.references))
        broker.send(b"last")
        self.assertEqual(Taker(broker, queue).drain(), [*numbered(5)[3:], b"last"])

    def test_it_pages_then_where_another_queue_gets_them(self) -> None:
        broker = self.made_anew("a.b", ("a.b", "a.b"), ("all", "a.#"))
        memory = broker.core.addresses["a.b"].memory
        self.assertIs(memory.paging, broker.core.paging.addresses["a.b"])
        broker.send(b"last", "a.b")
        self.assertEqual(Taker(broker, broker.core.queues["all"]).drain(), [*numbered(4), b"last"])
        self.assertEqual(Taker(broker, broker.core.queues["a.b"]).drain(), [b"last"])
        self.assertIsNone(memory.paging)
