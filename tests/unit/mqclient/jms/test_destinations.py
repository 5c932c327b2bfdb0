"""Names of destinations: kinds, options, fully qualified names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import QueueConfiguration
from mqclient.jms.destinations import (
    ANYCAST,
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    as_destination,
    parse_destination,
)
from mqclient.jms.exceptions import InvalidDestinationException
from mqclient.jms.lookup import SUBSCRIPTION, apply_options

NAMES = st.text(st.characters(exclude_characters="?:"), min_size=1)


class NameTests(SynchronousTestCase):
    @given(NAMES, st.sampled_from([Queue, Topic, TemporaryQueue, TemporaryTopic]))
    def test_the_text_tells_the_kind(self, name: str, kind: type[Destination]) -> None:
        found = parse_destination(kind(name).text)
        self.assertIs(type(found), kind)
        self.assertEqual(found, kind(name))

    def test_a_name_without_prefix(self) -> None:
        self.assertIs(type(parse_destination("x")), Destination)
        self.assertEqual(as_destination("x"), Queue("x"))
        self.assertEqual(as_destination("topic://x"), Topic("x"))
        self.assertNotEqual(Queue("x"), Topic("x"))
        self.assertNotEqual(Queue("x"), TemporaryQueue("x"))

    def test_fully_qualified(self) -> None:
        queue = Queue("a::q")
        self.assertEqual((queue.address, queue.queue_name, queue.fully_qualified), ("a", "q", True))
        self.assertEqual((Queue("a").queue_name, Queue("a").fully_qualified), ("a", False))
        for wrong in ("", "?x=1", "::q", "a::"):
            self.assertRaises(InvalidDestinationException, Queue, wrong)

    def test_a_temporary_destination_of_another_connection_is_not_deleted(self) -> None:
        self.assertRaises(InvalidDestinationException, TemporaryQueue("x").delete)


class OptionTests(SynchronousTestCase):
    def test_options_set_queue_attributes(self) -> None:
        queue = Queue("q?max-consumers=4&last-value=true&routing-type=anycast;ring-size=10&consumer-priority=-3&new-attribute=1")
        wanted = apply_options(QueueConfiguration(name="q", routing_type=0), queue)
        self.assertEqual(
            (wanted.max_consumers, wanted.last_value, wanted.ring_size, wanted.routing_type, wanted.exclusive), (4, True, 10, ANYCAST, None)
        )
        self.assertEqual(queue.consumer_priority, -3)
        self.assertEqual((queue.name, Queue("q").consumer_priority), ("q", 0))

    def test_a_subscription_keeps_its_own_properties(self) -> None:
        topic = Topic("t?durable=false&exclusive=true")
        wanted = apply_options(QueueConfiguration(name="t"), topic, SUBSCRIPTION)
        self.assertEqual((wanted.durable, wanted.exclusive), (True, True))

    def test_bad_values_are_named(self) -> None:
        for option in ("max-consumers=many", "exclusive=yes", "routing-type=any"):
            with self.assertRaisesRegex(InvalidDestinationException, option):
                apply_options(QueueConfiguration(name="q"), Queue(f"q?{option}"))
        with self.assertRaisesRegex(InvalidDestinationException, "consumer-priority=x"):
            _ = Queue("q?consumer-priority=x").consumer_priority
