"""What comes from other brokers goes to the queues that they name."""

from __future__ import annotations

from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.delivery.arriving import has_marks
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from mqclient.errors import IllegalStateError
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import BYTES, STRING
from tests.unit.messaging.cluster_support import Link, Node, texts
from tests.unit.messaging.routing.test_remote import TwoNodes, ids


class ArrivalTests(TwoNodes):
    def test_a_message_that_comes_twice_is_dropped_and_answered(self) -> None:
        self.learned(consumers=1)
        self.b.store.held = True
        self.send(b"1")
        self.link.pump(acknowledge=False)
        self.link.pump()
        self.b.store.sync()
        self.b.turn()
        self.assertEqual(texts(self.far), [b"1"])
        self.assertNotIn("_AMQ_BRIDGE_DUP", next(iter(self.far.references)).message.properties)
        self.assertEqual([entry[1] for entry in self.b.store.entries("duplicate")], [f"{BRIDGE_CACHE}q"])

    def test_a_disabled_queue_takes_what_another_broker_has_accepted_for_it(self) -> None:
        self.learned(consumers=1)
        self.b.messaging.administration.update_queue(self.far, enabled=False)
        self.send(b"1")
        self.b.send(b"2")
        self.link.pump()
        self.assertEqual(texts(self.far), [b"1"])

    def test_success_is_told_once_the_first_one_is_durable(self) -> None:
        self.learned(consumers=1)
        self.b.store.held = True
        self.send(b"1")
        (reference,) = self.link.queue.references
        first = self.b.arrive(Message.received(self.link.encoded(reference.message), self.b.store.next_id()))
        second = self.b.arrive(Message.received(self.link.encoded(reference.message), self.b.store.next_id()))
        self.assertGreater(first, self.b.store.synced)
        self.assertGreaterEqual(second, first)

    def test_the_duplicate_id_of_the_sender_is_not_looked_at(self) -> None:
        self.learned(consumers=1)
        properties = {"_AMQ_DUPL_ID": (STRING, "same")}
        self.b.send(b"0", properties=properties)
        self.send(b"1", properties=properties)
        self.link.pump()
        self.assertEqual(texts(self.far), [b"0", b"1"])

    def test_the_cache_outlives_its_address(self) -> None:
        self.learned(consumers=1)
        self.send(b"1")
        self.link.pump(acknowledge=False)
        self.b.messaging.administration.delete_queue(self.far)
        self.b.core.forget_duplicate_ids("q")
        self.far = self.b.queue("q")
        self.link.pump()
        self.assertEqual(texts(self.far), [])

    def test_a_duplicate_does_not_spoil_the_transaction_that_brings_it(self) -> None:
        self.learned(consumers=1)
        self.send(b"1")
        (reference,) = self.link.queue.references
        data = self.link.encoded(reference.message)
        for _ in range(2):
            transaction = Transaction()
            self.b.arrive(Message.received(data, self.b.store.next_id()), transaction)
            self.b.messaging.settlement.commit(transaction, self.b.context)
            self.b.turn()
        self.assertEqual(texts(self.far), [b"1"])

    def test_what_says_something_is_known_by_its_bytes(self) -> None:
        for name in ("_AMQ_ROUTE_TO", "_AMQ_ROUTE_TOx", "_AMQ_ACK_ROUTE_TO", "_AMQ_SCALEDOWN_TO", "_AMQ_BRIDGE_DUP"):
            self.assertTrue(has_marks(self.a.message(properties={name: ids(1)})), name)
        usual = {"_AMQ_DUPL_ID": (STRING, "x"), "_AMQ_GROUP_ID": (STRING, "g"), "__AMQ_CID": (STRING, "c")}
        self.assertFalse(has_marks(self.a.message(b"E_E_", properties=usual)))

    def test_a_chain_goes_on(self) -> None:
        c = Node(3)
        far = c.queue("q")
        middle = self.b.learn(c, far, consumers=1)
        self.a.learn(c, far, consumers=1, via=self.b, remote_id=middle.binding_id)
        self.send(b"1")
        self.link.pump()
        self.assertEqual(Link(self.b, c).pump(), 1)
        self.assertEqual(texts(far), [b"1"])

    def test_a_message_for_a_queue_that_is_gone_goes_to_another_of_its_address(self) -> None:
        self.learned(consumers=1)
        self.send(b"1")
        self.b.messaging.administration.delete_queue(self.far)
        again = self.b.queue("q")
        self.link.pump()
        self.assertEqual(texts(again), [b"1"])
        self.assertIn("AMQ222110", [code for code, _ in self.b.reports])

    def test_it_does_not_go_back_while_there_is_a_queue(self) -> None:
        """Even where the broker that sent it has the only consumer; without a queue here it does."""
        self.learned(consumers=1)
        near = self.a.queue("q")
        self.b.learn(self.a, near, consumers=1)
        self.send(b"1")
        self.b.messaging.administration.delete_queue(self.far)
        self.assertEqual(self.link.pump(), 1)
        self.assertEqual(Link(self.b, self.a).pump(), 1)
        self.assertEqual(texts(near), [b"1"])
        self.setUp()
        self.learned(consumers=1)
        self.b.learn(self.a, self.a.queue("q"), consumers=1)
        self.send(b"1")
        self.b.messaging.administration.delete_queue(self.far)
        again = self.b.queue("q")
        self.link.pump()
        self.assertEqual(texts(again), [b"1"])

    def test_a_subscription_that_is_gone_takes_its_messages_along(self) -> None:
        self.learned(name="sub", kind=MULTICAST)
        self.send(b"1", routing_type=MULTICAST)
        self.b.messaging.administration.delete_queue(self.far)
        later = self.b.queue("other", "q", MULTICAST)
        self.link.pump()
        self.assertEqual(texts(later), [])

    def test_what_a_leaving_broker_had_for_others_finds_its_way(self) -> None:
        """The ids of _AMQ_SCALEDOWN_TO are those that the queues have on their own brokers."""
        c = Node(3)
        far = c.queue("q")
        self.b.learn(c, far)
        message = self.b.message(b"1", properties={"_AMQ_SCALEDOWN_TO": ids(far.queue_id)})
        self.b.arrive(message)
        Link(self.b, c).pump()
        self.assertEqual(texts(far), [b"1"])

    def test_what_a_leaving_broker_had_for_one_that_has_left_too_is_refused(self) -> None:
        """Nobody here would get it: the one that leaves has to keep it."""
        self.b.queue("s", "t", MULTICAST)
        properties = {"_AMQ_SCALEDOWN_TO": ids(7), "_AMQ_ACK_ROUTE_TO.for": (BYTES, bytes(range(16)))}
        with self.assertRaises(IllegalStateError):
            self.b.arrive(self.b.message(b"1", "t", routing_type=MULTICAST, properties=properties))
        queue = self.b.queue("q")
        self.b.arrive(self.b.message(b"2", properties=properties))
        self.assertEqual(texts(queue), [b"2"])

    def test_what_a_branch_had_acknowledged_stays_settled_with_it(self) -> None:
        for commits in (True, False):
            node = Node(4)
            first, second = node.queue("s1", "t", MULTICAST), node.queue("s2", "t", MULTICAST)
            transaction = Transaction()
            properties = {
                "_AMQ_ROUTE_TO": ids(first.queue_id, second.queue_id),
                "_AMQ_ACK_ROUTE_TO": ids(second.queue_id),
            }
            node.arrive(node.message(b"1", "t", routing_type=MULTICAST, properties=properties), transaction)
            self.assertEqual((texts(first), texts(second)), ([], []))
            node.messaging.settlement.prepare(transaction, Xid(1, b"branch", b"global"), 0)
            if commits:
                node.messaging.settlement.commit(transaction, node.context)
            else:
                node.messaging.settlement.rollback(transaction)
            node.turn()
            self.assertEqual((texts(first), texts(second)), ([b"1"], []) if commits else ([], [b"1"]))

    def test_without_a_transaction_an_acknowledged_queue_gets_nothing(self) -> None:
        node = Node(4)
        queue = node.queue("q")
        node.arrive(node.message(b"1", properties={"_AMQ_ROUTE_TO": ids(queue.queue_id), "_AMQ_ACK_ROUTE_TO": ids(queue.queue_id)}))
        self.assertEqual((queue.message_count, queue.arriving), (0, 0))

    def test_restored_duplicate_ids_count(self) -> None:
        self.learned(consumers=1)
        definition = QueueDefinition("q", "q", ANYCAST)
        self.send(b"1")
        self.link.pump(acknowledge=False)
        ((_, cache, known),) = self.b.store.entries("duplicate")
        from mqbroker.messaging.ports import RecoveredDuplicateId

        self.b = self.link.target = Node(2)
        self.b.messaging.restore(Recovered(queues=[definition.record(3)], duplicate_ids=[RecoveredDuplicateId(cache, known, 9)]))
        self.link.pump()
        self.assertEqual(texts(self.b.core.queues["q"]), [])
