"""Redistribution: messages go where consumers are, and stay there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery import redistribution
from mqbroker.messaging.delivery.redistribution import MOVED_MAX, PATIENCE_SECONDS, REPORT_SECONDS, serves
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.message import CoreMessage, encode_headers
from mqclient.wire.properties import LONG, STRING
from tests.support.clock import START_MS
from tests.unit.messaging.cluster_support import Link, Node, texts
from tests.unit.messaging.support import Collector

NOW: dict[str, Any] = {"#": {"redistribution_delay": 0}}


class SharedQueue(SynchronousTestCase):
    settings = NOW

    def setUp(self) -> None:
        self.a, self.b = Node(1, settings=self.settings), Node(2, settings=self.settings)
        self.to_b, self.to_a = Link(self.a, self.b), Link(self.b, self.a)

    def share(
        self,
        name: str = "q",
        kind: int = ANYCAST,
        address: str = "q",
        balancing: LoadBalancing = LoadBalancing.ON_DEMAND,
        **attributes: Any,
    ) -> None:
        """A queue on both, known to both."""
        self.near = self.a.queue(name, address, kind, **attributes)
        self.far = self.b.queue(name, address, kind, **attributes)
        self.at_b = self.a.learn(self.b, self.far, balancing)
        self.at_a = self.b.learn(self.a, self.near, balancing)

    def send(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.a.send(body, **headers)


class RedistributionTests(SharedQueue):
    def test_a_consumer_that_comes_elsewhere_gets_what_waits_here(self) -> None:
        self.share()
        self.send(b"1", b"2", b"3")
        self.a.appear(self.at_b)
        self.assertEqual((texts(self.near), self.near.messages_redistributed), ([], 3))
        self.to_b.pump()
        self.assertEqual(texts(self.far), [b"1", b"2", b"3"])
        self.assertEqual(self.a.redistributed, [("q", self.b.node_id, 3)])

    def test_the_copy_and_the_acknowledgement_are_one_stored_step(self) -> None:
        self.share()
        self.send(b"1")
        self.a.appear(self.at_b)
        self.assertEqual([entry[0] for entry in self.a.store.log[-1]], ["message", "ack"])

    def test_what_waits_for_the_disk_is_not_forwarded_before(self) -> None:
        self.share()
        self.send(b"1")
        self.a.store.held = True
        self.a.appear(self.at_b)
        self.assertEqual(self.to_b.pump(), 0)
        self.a.store.sync()
        self.assertEqual(self.to_b.pump(), 1)

    def test_the_last_consumer_here_leaves(self) -> None:
        self.share()
        consumer = Collector(self.a, self.near, room=0)
        self.a.appear(self.at_b)
        for number in range(4):
            self.send(b"%d" % number)
        self.assertEqual((self.near.message_count, self.to_b.queue.message_count), (2, 2))
        consumer.leave()
        self.a.turn()
        self.assertEqual((self.near.message_count, self.to_b.queue.message_count), (0, 4))

    def test_a_queue_that_is_made_after_its_consumers_elsewhere(self) -> None:
        far = self.b.queue("q")
        self.a.learn(self.b, far, LoadBalancing.OFF_WITH_REDISTRIBUTION, consumers=1)
        self.a.queue("q")
        self.send(b"1")
        self.assertEqual(self.to_b.pump(), 1)

    def test_what_comes_later_follows_with_off_with_redistribution(self) -> None:
        self.share(balancing=LoadBalancing.OFF_WITH_REDISTRIBUTION)
        self.a.appear(self.at_b)
        self.send(b"1")
        self.assertEqual(self.to_b.pump(), 1)

    def test_strict_and_off_move_nothing(self) -> None:
        for balancing in (LoadBalancing.STRICT, LoadBalancing.OFF):
            self.setUp()
            self.share(balancing=balancing)
            self.at_b.connected = False
            self.send(b"1")
            self.at_b.connected = True
            self.a.appear(self.at_b)
            self.assertEqual(texts(self.near), [b"1"])

    def test_a_lost_link_gets_nothing_until_it_is_back(self) -> None:
        self.share()
        self.at_b.connected = False
        self.send(b"1")
        self.a.appear(self.at_b)
        self.assertEqual(texts(self.near), [b"1"])
        self.at_b.connected = True
        self.a.turn()
        self.assertEqual(texts(self.near), [])

    def test_only_what_a_consumer_there_would_take(self) -> None:
        """Consumers with filters on both sides; nobody takes green."""
        self.share()
        Collector(self.a, self.near, "colour = 'red'", room=0)
        for colour in ("red", "blue", "green"):
            self.send(colour.encode(), properties={"colour": (STRING, colour)})
        self.a.appear(self.at_b, "colour = 'blue'")
        self.to_b.pump()
        self.assertEqual((texts(self.near), texts(self.far)), ([b"red", b"green"], [b"blue"]))

    def test_the_five_steps_of_the_chapter(self) -> None:
        """Two brokers with queue foo; a message with 10; a consumer for 5 here, then one for 10 there.

        The chapter says that the message stays; the brokers that it describes move it, and so does this one.
        """
        self.share("foo", ANYCAST, "foo")
        self.send(b"1", address="foo", properties={"myProperty": (LONG, 10)})
        here = Collector(self.a, self.near, "myProperty=5")
        there = Collector(self.b, self.far, "myProperty=10")
        self.a.appear(self.at_b, "myProperty=10")
        self.to_b.pump()
        self.assertEqual((here.bodies, there.bodies), ([], [b"1"]))

    def test_short_lived_consumers_do_not_pull_messages_about(self) -> None:
        """Consumers with filters that match nothing come and go on both brokers."""
        self.share("foo", ANYCAST, "foo")
        self.send(b"1", address="foo", properties={"myProperty": (LONG, 10)})
        for number in range(20):
            there = Collector(self.b, self.far, f"myProperty={number + 100}")
            self.a.appear(self.at_b, f"myProperty={number + 100}")
            here = Collector(self.a, self.near, f"myProperty={number + 200}")
            here.leave()
            there.leave()
            self.at_b.consumer_removed(f"myProperty={number + 100}")
            self.a.turn()
        self.assertEqual((self.to_b.pump(), self.to_a.pump(), texts(self.near)), (0, 0, [b"1"]))

    def test_a_consumer_with_another_filter_here_does_not_keep_what_it_does_not_take(self) -> None:
        self.share()
        self.a.appear(self.at_b, "colour = 'blue'")
        self.at_b.connected = False
        self.send(b"blue", properties={"colour": (STRING, "blue")})
        Collector(self.a, self.near, "colour = 'red'")
        self.at_b.connected = True
        self.a.turn()
        self.assertEqual(texts(self.near), [])

    def test_groups_stay(self) -> None:
        self.share()
        self.send(b"grouped", properties={"_AMQ_GROUP_ID": (STRING, "g")})
        self.send(b"free")
        self.a.appear(self.at_b)
        self.assertEqual(texts(self.near), [b"grouped"])
        self.assertEqual(self.to_b.pump(), 1)

    def test_a_subscription_that_is_on_both(self) -> None:
        self.share("sub", MULTICAST, "t")
        other = self.a.queue("other", "t", MULTICAST)
        self.send(b"1", address="t", routing_type=MULTICAST)
        self.a.appear(self.at_b)
        self.to_b.pump()
        self.assertEqual((texts(self.near), texts(other), texts(self.far)), ([], [b"1"], [b"1"]))

    def test_a_topic_with_many_subscriptions(self) -> None:
        """Each consumer that comes to one of them concerns that one: the others are not looked at."""
        looked_at: list[Queue] = []

        def counted(binding: RemoteBinding, queue: Queue) -> bool:
            looked_at.append(queue)
            return serves(binding, queue)

        self.patch(redistribution, "serves", counted)
        for number in range(100):
            self.share(f"sub {number}", MULTICAST, "t")
        self.send(b"1", address="t", routing_type=MULTICAST)
        self.a.appear(self.at_b)
        self.assertEqual((looked_at, self.near.message_count), ([self.near], 0))
        self.at_b.connected = False
        self.at_b.connected = True
        self.assertEqual(looked_at, [self.near, self.near])

    def test_an_anycast_queue_with_a_name_of_its_own(self) -> None:
        self.share("x", ANYCAST, "q")
        self.send(b"1")
        self.a.appear(self.at_b)
        self.to_b.pump()
        self.assertEqual(texts(self.far), [b"1"])

    def test_what_was_sent_to_a_fully_qualified_name_stays_with_that_name(self) -> None:
        self.share("x", ANYCAST, "q")
        other = self.b.queue("y", "q")
        binding = self.a.learn(self.b, other)
        message = self.a.message(b"1", "q::x")
        self.a.messaging.sending.send(message, "q", "x", ANYCAST, self.a.context)
        self.a.turn()
        self.a.appear(binding)
        self.assertEqual(texts(self.near), [b"1"])
        self.a.appear(self.at_b)
        self.to_b.pump()
        self.assertEqual((texts(self.far), texts(other)), ([b"1"], []))

    def test_large_messages_go_with_their_body(self) -> None:
        self.share()
        body = self.a.store.create_large_body(77)
        body.append(b"x" * 10)
        self.a.send_message(Message.read(encode_headers(CoreMessage(message_id=77, address="q", durable=True)), 0, large=body))
        self.a.appear(self.at_b)
        (reference,) = self.to_b.queue.references
        self.assertIs(reference.message.large, body)
        self.assertEqual(body.holders, 1)
        self.to_b.pump()
        (arrived,) = self.far.references
        self.assertIs(arrived.message.large, body)

    def test_scheduled_messages_go_when_they_are_due(self) -> None:
        self.share()
        self.send(b"1", properties={"_AMQ_SCHED_DELIVERY": (LONG, START_MS + 5000)})
        self.a.appear(self.at_b)
        self.assertEqual(self.near.message_count, 1)
        self.a.clock.advance(6)
        self.assertEqual(self.to_b.pump(), 1)

    def test_paused_queues_keep_what_they_have(self) -> None:
        self.share()
        self.near.paused = True
        self.send(b"1")
        self.a.appear(self.at_b)
        self.assertEqual(texts(self.near), [b"1"])

    def test_consumers_before_dispatch_do_not_strand_messages(self) -> None:
        self.share(consumers_before_dispatch=2)
        self.send(b"1")
        self.a.appear(self.at_b)
        self.assertEqual(texts(self.near), [])

    def test_internal_queues_are_left_alone(self) -> None:
        internal = self.a.queue("$.artemis.internal.x", internal=True)
        far = self.b.queue("$.artemis.internal.x")
        self.a.send(b"1", "$.artemis.internal.x")
        self.a.learn(self.b, far, consumers=1)
        self.assertEqual(texts(internal), [b"1"])
        for name in ("activemq.management.x", "activemq.notifications"):
            near = self.a.queue(name)
            self.a.send(b"1", name)
            self.a.learn(self.b, self.b.queue(name), consumers=1)
            self.assertEqual(texts(near), [b"1"])

    def test_many_messages_go_in_several_turns(self) -> None:
        self.share()
        for _ in range(MOVED_MAX + 10):
            self.a.messaging.sending.send(self.a.message(), "q", None, ANYCAST, self.a.context)
        self.a.appear(self.at_b)
        self.assertEqual(self.near.message_count, 10)
        self.a.clock.advance(0)
        self.assertEqual(self.near.message_count, 0)

    def test_a_message_that_cannot_be_read_is_passed_over(self) -> None:
        self.share()
        broken = self.a.message(b"broken", properties={"_AMQ_ROUTE_TOx": (STRING, "x")})
        at = broken.properties_offset + 1
        broken.buffer = broken.buffer[:at] + b"\x00\x00\x00\x05" + broken.buffer[at + 4 :]
        self.a.messaging.sending.deliver(self.a.messaging.sending.distribution.references_for(broken, [self.near], self.near.address))
        self.send(b"1")
        self.a.appear(self.at_b)
        self.assertEqual((self.near.message_count, self.to_b.queue.message_count), (1, 1))

    def test_moves_are_told_now_and_then(self) -> None:
        self.share(balancing=LoadBalancing.OFF_WITH_REDISTRIBUTION)
        self.a.appear(self.at_b)
        for _ in range(5):
            self.send(b"1")
        self.a.clock.advance(REPORT_SECONDS)
        self.assertEqual([count for _, _, count in self.a.redistributed], [1, 4])

    def test_the_end_leaves_no_timers(self) -> None:
        self.share()
        self.send(b"1", b"2")
        self.a.appear(self.at_b)
        self.send(b"3")
        self.a.clock.advance(0)
        self.a.messaging.stop()
        self.assertEqual(self.a.clock.pending, 0)


class DelayTests(SharedQueue):
    """The same waits for the delay first."""

    settings: dict[str, Any] = {"#": {"redistribution_delay": 1000}}

    def test_it_begins_anew_when_a_consumer_here_goes(self) -> None:
        self.share()
        self.send(b"1")
        self.a.appear(self.at_b)
        self.a.clock.advance(0.9)
        Collector(self.a, self.near, room=0).leave()
        self.a.clock.advance(0.9)
        self.assertEqual(texts(self.near), [b"1"])
        self.a.clock.advance(0.1)
        self.assertEqual(texts(self.near), [])

    def test_consumers_that_come_and_go_elsewhere_do_not_put_it_off(self) -> None:
        """As those do that ask for one message at a time: what waits here would wait for ever."""
        self.share()
        self.send(b"1")
        for _ in range(4):
            self.a.appear(self.at_b)
            self.a.clock.advance(0.2)
            self.at_b.consumer_removed(None)
            self.a.clock.advance(0.1)
        self.a.appear(self.at_b)
        self.assertEqual(texts(self.near), [])

    def test_a_queue_that_is_deleted_is_forgotten(self) -> None:
        self.share()
        self.send(b"1")
        self.a.clock.advance(0)
        before = self.a.clock.pending
        self.a.appear(self.at_b)
        self.assertEqual(self.a.clock.pending, before + 1)
        self.a.messaging.administration.delete_queue(self.near)
        self.a.clock.advance(0)
        self.assertEqual(self.a.clock.pending, before)

    def test_a_consumer_that_comes_back_in_time_keeps_its_messages(self) -> None:
        self.share()
        consumer = Collector(self.a, self.near, room=0)
        self.send(b"1")
        self.a.appear(self.at_b)
        consumer.leave()
        self.a.clock.advance(0.5)
        Collector(self.a, self.near, room=0)
        self.a.clock.advance(5)
        self.assertEqual(texts(self.near), [b"1"])

    def test_settings_that_change(self) -> None:
        self.share()
        self.send(b"1")
        self.near.address.settings = replace(self.near.address.settings, redistribution_delay=-1)
        self.a.appear(self.at_b)
        self.a.clock.advance(5)
        self.assertEqual(texts(self.near), [b"1"])
        self.a.core.apply_settings()
        self.a.clock.advance(1)
        self.assertEqual(texts(self.near), [])


class PingPongTests(SynchronousTestCase):
    """Two brokers that both believe that the other one has the consumer."""

    def setUp(self) -> None:
        self.a, self.b = Node(1, settings=NOW), Node(2, settings=NOW)
        self.to_b, self.to_a = Link(self.a, self.b), Link(self.b, self.a)
        self.near, self.far = self.a.queue("q"), self.b.queue("q")
        self.at_b = self.a.learn(self.b, self.far)
        self.at_a = self.b.learn(self.a, self.near)

    def settle(self) -> int:
        """Let the links carry what there is.  Returns how many messages they have carried."""
        carried = 0
        for _ in range(20):
            carried += self.to_b.pump() + self.to_a.pump()
            self.a.turn()
            self.b.turn()
        return carried

    def advance(self, seconds: float) -> None:
        self.a.clock.advance(seconds)
        self.b.clock.advance(seconds)

    def test_wrong_knowledge_does_not_keep_a_message_going(self) -> None:
        self.a.send(b"1")
        self.a.appear(self.at_b)
        self.b.appear(self.at_a)
        self.assertEqual(self.settle(), 1)
        self.assertEqual((texts(self.near), texts(self.far)), ([], [b"1"]))
        total = 0
        for _ in range(360):
            self.advance(10)
            total += self.settle()
        # Ten seconds, twenty, and so on: less and less often.
        self.assertLess(total, 20)

    def test_a_consumer_that_comes_later_gets_it_at_once(self) -> None:
        self.a.send(b"1")
        self.a.appear(self.at_b)
        self.b.appear(self.at_a)
        self.settle()
        consumer = Collector(self.a, self.near)
        self.b.appear(self.at_a)
        self.settle()
        self.assertEqual(consumer.bodies, [b"1"])

    def test_one_that_crossed_with_its_consumer_is_not_stranded(self) -> None:
        """The consumer went over to the other broker while the message was on its way from there."""
        self.a.send(b"1")
        self.a.appear(self.at_b)
        self.b.appear(self.at_a)
        consumer = Collector(self.a, self.near)
        self.settle()
        self.assertEqual(consumer.bodies, [])
        self.advance(PATIENCE_SECONDS)
        self.settle()
        self.assertEqual(consumer.bodies, [b"1"])

    def test_a_message_in_the_hands_of_a_consumer_says_nothing_of_its_way(self) -> None:
        consumer = Collector(self.b, self.far)
        self.a.send(b"1")
        self.a.appear(self.at_b)
        self.settle()
        self.assertEqual(set(consumer.references[0].message.properties), {"_AMQ_ROUTING_TYPE"})

    def test_consumers_that_move_take_everything_along(self) -> None:
        """Each time the only consumer is on the other side."""
        for number in range(3):
            self.a.send(b"%d" % number)
        for _ in range(4):
            self.a.appear(self.at_b)
            self.settle()
            self.assertEqual((self.near.message_count, self.far.message_count), (0, 3))
            self.at_b.reset_consumers()
            self.b.appear(self.at_a)
            self.settle()
            self.assertEqual((self.near.message_count, self.far.message_count), (3, 0))
            self.at_a.reset_consumers()
