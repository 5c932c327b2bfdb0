"""Diverts: copies of messages, or the messages themselves, go to other addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.delivery.distribution import DIVERTED_MAX
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.routing.diverts import DivertError
from mqbroker.messaging.routing.remote import LoadBalancing
from mqclient.errors import AddressFullError, InternalError, SecurityError
from mqclient.wire.message import CoreMessage, encode_headers
from mqclient.wire.properties import BYTE, LONG, STRING
from tests.unit.messaging.cluster_support import Link, Node, texts
from tests.unit.messaging.support import Collector


def shout(message: CoreMessage, properties: Mapping[str, str]) -> CoreMessage:
    message.body = message.body.upper()
    message.properties["by"] = (STRING, properties["by"])
    return message


def whisper(message: CoreMessage, properties: Mapping[str, str]) -> None:
    message.body = message.body.lower()


def fail(message: CoreMessage, properties: Mapping[str, str]) -> CoreMessage:
    raise LookupError("nothing found")


HERE = __name__


class DivertCase(SynchronousTestCase):
    settings: dict[str, Any] = {}

    def setUp(self) -> None:
        self.node = Node(1, settings=self.settings)
        self.source = self.node.queue("q")
        self.target = self.node.queue("t")

    def divert(self, name: str = "d", *targets: str, address: str = "q", **options: Any) -> None:
        self.node.messaging.deploy_diverts([DivertConfiguration(name, address, targets or ("t",), **options)])


class DivertTests(DivertCase):
    def test_a_copy_goes_to_the_other_address_as_well(self) -> None:
        self.divert()
        self.node.send(b"1", expiration=1_900_000_000_000, priority=7, properties={"kept": (STRING, "v")})
        self.assertEqual((texts(self.source), texts(self.target)), ([b"1"], [b"1"]))
        original, copy = next(iter(self.source.references)).message, next(iter(self.target.references)).message
        self.assertNotEqual(copy.message_id, original.message_id)
        self.assertEqual((copy.address, copy.expiration, copy.priority), ("t", 1_900_000_000_000, 7))
        self.assertEqual(
            copy.properties,
            {
                "kept": (STRING, "v"),
                "_AMQ_ORIG_ADDRESS": (STRING, "q"),
                "_AMQ_ORIG_QUEUE": (STRING, "d"),
                "_AMQ_ORIG_MESSAGE_ID": (LONG, original.message_id),
                "_AMQ_ORIG_ROUTING_TYPE": (BYTE, ANYCAST),
            },
        )

    def test_a_message_whose_routing_type_is_none_goes_through_it_as_others(self) -> None:
        self.divert()
        self.node.send(b"1", routing_type=None, properties={"_AMQ_ROUTING_TYPE": (STRING, "ANYCAST")})
        self.assertEqual((texts(self.source), texts(self.target)), ([b"1"], [b"1"]))
        self.assertEqual([name for name in next(iter(self.target.references)).message.properties if name.endswith("ROUTING_TYPE")], [])

    def test_both_are_one_stored_step(self) -> None:
        self.divert()
        self.node.send(b"1")
        self.assertEqual([entry[0] for entry in self.node.store.log[-1]], ["message", "message"])

    def test_an_exclusive_divert_takes_the_message_away(self) -> None:
        self.divert(exclusive=True, filter_string="colour = 'red'")
        self.node.send(b"red", properties={"colour": (STRING, "red")})
        self.node.send(b"blue", properties={"colour": (STRING, "blue")})
        self.assertEqual((texts(self.source), texts(self.target)), ([b"blue"], [b"red"]))

    def test_it_is_not_a_dead_letter_then(self) -> None:
        self.settings = {"q": {"send_to_dla_on_no_route": True, "dead_letter_address": "dead"}}
        self.setUp()
        dead = self.node.queue("dead")
        self.divert(exclusive=True)
        self.node.send(b"1")
        self.assertEqual((texts(self.target), texts(dead)), ([b"1"], []))

    def test_several_forwarding_addresses(self) -> None:
        other = self.node.queue("u")
        self.divert("d", "t", "q", "u")
        self.node.send(b"1")
        self.assertEqual((texts(self.source), texts(self.target), texts(other)), ([b"1"], [b"1"], [b"1"]))

    def test_diverts_of_one_routing_name_take_turns(self) -> None:
        other = self.node.queue("u")
        self.divert("d1", "t", routing_name="same")
        self.divert("d2", "u", routing_name="same")
        for body in (b"1", b"2", b"3"):
            self.node.send(body)
        self.assertEqual((texts(self.source), texts(self.target), texts(other)), ([b"1", b"2", b"3"], [b"1", b"3"], [b"2"]))

    def test_routing_types(self) -> None:
        expected = {"STRIP": None, "PASS": ANYCAST, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST}
        for kind, found in expected.items():
            self.setUp()
            self.node.messaging.administration.create_address("t", {ANYCAST, MULTICAST})
            self.node.queue("sub", "t", MULTICAST)
            self.divert(routing_type=kind)
            self.node.send(b"1")
            queue = self.node.core.queues["sub" if kind == "MULTICAST" else "t"]
            self.assertEqual([each.message.routing_type for each in queue.references], [found], kind)
        with self.assertRaisesRegex(DivertError, "divert x: the routing type SIDEWAYS is none of STRIP, PASS"):
            self.divert("x", routing_type="SIDEWAYS")

    def test_loops_end(self) -> None:
        self.divert("there", "t")
        self.divert("back", "q", address="t")
        self.node.send(b"1")
        # The original, and what comes back; neither meets a divert twice.
        self.assertEqual((texts(self.source), texts(self.target)), ([b"1", b"1"], [b"1"]))
        self.assertEqual((self.source.arriving, self.target.arriving), (0, 0))

    def test_diverts_that_multiply_are_stopped(self) -> None:
        names = [f"a{number}" for number in range(8)]
        for name in names:
            self.node.queue(name)
            self.divert(f"d-{name}", *names, address=name)
        self.node.send(b"1", "a0")
        self.assertLessEqual(sum(self.node.core.queues[name].message_count for name in names), DIVERTED_MAX + 1)
        self.assertIn("AMQ222056", [code for code, _ in self.node.reports])

    def test_a_chain_of_exclusive_diverts(self) -> None:
        last = self.node.queue("u")
        self.divert("d1", "t", exclusive=True)
        self.divert("d2", "u", address="t", exclusive=True)
        self.node.send(b"1")
        self.assertEqual((texts(self.source), texts(self.target), texts(last)), ([], [], [b"1"]))
        self.assertEqual(next(iter(last.references)).message.property("_AMQ_ORIG_ADDRESS"), "t")

    def test_wildcard_addresses(self) -> None:
        self.node.queue("news.uk")
        self.divert("d", "t", address="news.#")
        self.node.send(b"1", "news.uk")
        self.assertEqual(texts(self.target), [b"1"])

    def test_a_forwarding_address_without_queues_drops_the_copy(self) -> None:
        self.divert("d", "nowhere")
        self.node.send(b"1")
        self.assertEqual(texts(self.source), [b"1"])

    def test_the_forwarding_address_is_made_where_that_is_allowed(self) -> None:
        self.divert("d", "new", routing_type="ANYCAST")
        self.node.send(b"1")
        self.assertEqual(texts(self.node.core.queues["new"]), [b"1"])

    def test_a_sender_who_may_not_make_it_loses_only_the_copy(self) -> None:
        def may(permission: str, address: str, queue: str | None) -> None:
            raise SecurityError(f"no {permission}")

        self.divert("d", "new", routing_type="ANYCAST")
        self.node.messaging.sending.send(self.node.message(b"1"), "q", None, ANYCAST, self.node.context, may=may)
        self.node.turn()
        self.assertEqual((texts(self.source), "new" in self.node.core.addresses), ([b"1"], False))

    def test_a_transaction_takes_copies_along(self) -> None:
        self.divert()
        for commits in (False, True):
            transaction = Transaction()
            self.node.send(b"1", transaction=transaction)
            if commits:
                self.node.messaging.settlement.commit(transaction, self.node.context)
            else:
                self.node.messaging.settlement.rollback(transaction)
            self.node.turn()
            self.assertEqual((texts(self.source), texts(self.target)), ([b"1"], [b"1"]) if commits else ([], []))
        self.assertEqual((self.source.arriving, self.target.arriving), (0, 0))

    def test_large_messages_share_their_body(self) -> None:
        for exclusive, holders in ((False, 2), (True, 1)):
            self.setUp()
            self.divert(exclusive=exclusive)
            self.divert("lost", "nowhere")
            body = self.node.store.create_large_body(77)
            self.node.send_message(Message.read(encode_headers(CoreMessage(message_id=77, address="q", durable=True)), 0, large=body))
            self.assertEqual(body.holders, holders)
            for queue in (self.source, self.target):
                self.node.messaging.removal.purge(queue)
            self.assertEqual(body.holders, 0)

    def test_a_full_forwarding_address_refuses_everything(self) -> None:
        self.settings = {"t": {"max_size_bytes": 1000, "address_full_policy": "FAIL"}}
        self.setUp()
        other = self.node.queue("u")
        self.divert("d", "u", "t")
        self.node.send(b"x" * 500, "t")
        before = self.node.core.addresses["q"].memory.size
        self.assertRaises(AddressFullError, self.node.send, b"1")
        self.assertEqual((texts(self.source), texts(other), self.node.core.addresses["q"].memory.size), ([], [], before))

    def test_copies_go_to_other_brokers(self) -> None:
        b = Node(2)
        far = b.queue("r", "t", MULTICAST)
        self.node.learn(b, far, LoadBalancing.ON_DEMAND)
        self.divert("d", "t", routing_type="MULTICAST")
        self.node.send(b"1")
        Link(self.node, b).pump()
        self.assertEqual(texts(far), [b"1"])


class TransformerTests(DivertCase):
    def transform(self, name: str, **options: Any) -> None:
        self.divert(transformer=TransformerConfiguration(f"{HERE}:{name}", {"by": "me"}), **options)

    def test_it_changes_the_copy(self) -> None:
        self.transform("shout")
        self.node.send(b"quiet")
        self.assertEqual((texts(self.source), texts(self.target)), ([b"quiet"], [b"QUIET"]))
        self.assertEqual(next(iter(self.target.references)).message.property("by"), "me")

    def test_it_may_change_the_message_it_gets(self) -> None:
        self.transform("whisper")
        self.node.send(b"LOUD")
        self.assertEqual(texts(self.target), [b"loud"])

    def test_one_that_fails_fails_the_send(self) -> None:
        self.transform("fail", exclusive=True)
        self.assertRaisesRegex(InternalError, "nothing found", self.node.send, b"1")
        self.assertEqual((self.source.message_count, self.target.message_count), (0, 0))

    def test_java_classes_and_what_is_not_there_are_named(self) -> None:
        for path, reason in (
            ("org.foo.Transformer", "this broker runs no Java"),
            ("no.such.module:run", "cannot be imported"),
            (f"{HERE}:missing", "has no missing"),
            (f"{HERE}:HERE", "neither a class"),
        ):
            with self.assertRaisesRegex(DivertError, f"divert d.*{reason}"):
                self.divert(transformer=TransformerConfiguration(path))


class BrokersOwnCopiesTests(DivertCase):
    """Dead letters and expired messages have no sender who could be refused: a divert behind their address does not keep them."""

    settings = {
        "q": {"max_delivery_attempts": 1, "dead_letter_address": "DLQ", "expiry_address": "DLQ"},
        "t": {"max_size_bytes": 1000, "address_full_policy": "FAIL"},
    }

    def setUp(self) -> None:
        super().setUp()
        self.letters = self.node.queue("DLQ")

    def fill(self) -> None:
        self.node.send(b"x" * 1000, "t")

    def reject(self, *bodies: bytes) -> None:
        consumer = Collector(self.node, self.source)
        for body in bodies:
            self.node.send(body)
        consumer.ready = False
        self.node.messaging.settlement.redeliver(consumer.references)
        self.node.turn()
        consumer.leave()

    def test_a_full_forwarding_address_takes_dead_letters(self) -> None:
        self.divert("d", "t", address="DLQ")
        self.fill()
        self.reject(b"1", b"2")
        self.assertEqual((texts(self.letters), texts(self.target)[1:]), ([b"1", b"2"], [b"1", b"2"]))
        self.assertEqual((self.source.delivering, self.node.core.addresses["q"].memory.size), (0, 0))

    def test_a_full_forwarding_address_takes_expired_messages(self) -> None:
        self.divert("d", "t", address="DLQ", exclusive=True)
        self.fill()
        self.node.send(b"1", expiration=self.node.clock.wall_ms() + 10)
        self.node.messaging.start()
        self.node.clock.advance(60)
        self.assertEqual(texts(self.target)[1:], [b"1"])
        self.assertEqual((self.source.message_count, self.node.core.addresses["q"].memory.size), (0, 0))

    def test_what_a_transformer_cannot_change_goes_on_as_it_is(self) -> None:
        self.divert("d", "u", address="DLQ", exclusive=True, transformer=TransformerConfiguration(f"{HERE}:fail", {}))
        other = self.node.queue("u")
        self.reject(b"1", b"2")
        self.assertEqual((texts(other), self.source.delivering, self.source.message_count), ([b"1", b"2"], 0, 0))
        self.assertTrue(any("nothing found" in text for _, text in self.node.reports))

    def test_one_that_is_moved_may_go_there_too(self) -> None:
        self.divert("d", "t", address="DLQ")
        self.fill()
        self.node.send(b"1")
        self.node.messaging.settlement.move(next(iter(self.source.references)), "DLQ", None)
        self.assertEqual((texts(self.letters), self.source.message_count, self.source.delivering), ([b"1"], 0, 0))
