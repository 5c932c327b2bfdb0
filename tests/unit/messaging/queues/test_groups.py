"""Message groups and exclusive queues: who gets which message, and when that ends."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import Recovered, RecoveredReference
from mqbroker.messaging.queues import groups
from mqbroker.messaging.queues.groups import GROUP_ID_LENGTH_MAX, bucket_of
from mqbroker.messaging.turns import turn
from mqbroker.messaging.turns.turn import SCANNED_MAX
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_GROUP_ID, KEY_GROUP_SEQUENCE, decode_headers, decode_message
from mqclient.wire.properties import BOOLEAN, INT, STRING
from tests.support.broker import Session, World, message_id
from tests.unit.messaging.support import Bench, Collector


class GroupTestCase(SynchronousTestCase):
    def start(self, **attributes: Any) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q", **attributes)
        self.session.take()

    def consumer(self, credits: int = -1, **more: Any) -> Session:
        session = self.world.peer().open()
        session.consume(credits=credits, **more)
        return session

    def publish(self, body: str, group: str | None = None, sequence: int | None = None, **headers: Any) -> None:
        properties: dict[str, Any] = {}
        if group is not None:
            properties[KEY_GROUP_ID] = (STRING, group)
        if sequence is not None:
            properties[KEY_GROUP_SEQUENCE] = (INT, sequence)
        self.session.publish(body.encode(), properties=properties, **headers)

    @staticmethod
    def got(session: Session) -> str:
        return "".join(decode_message(packet.message).body.decode() for packet in session.received())

    @property
    def queue(self) -> Any:
        return self.world.queue("q")


class GroupTests(GroupTestCase):
    def test_a_queue_without_groups_has_nothing_for_them(self) -> None:
        self.start()
        self.publish("x")
        self.assertIsNone(self.queue.groups)

    def test_each_group_stays_with_one_consumer(self) -> None:
        self.start()
        first, second = self.consumer(), self.consumer()
        for body, group in zip("aAbBcC-+", "lrlrlr", strict=False):
            self.publish(body, group)
        self.assertEqual((self.got(first), self.got(second)), ("abc", "ABC"))
        self.publish("1")
        self.publish("2")
        self.assertEqual((self.got(first), self.got(second)), ("1", "2"))

    def test_a_busy_owner_holds_back_what_stands_behind(self) -> None:
        self.start()
        busy = self.consumer(credits=1)
        self.publish("a", "g")
        other = self.consumer()
        for body, group in (("b", "g"), ("c", None), ("d", "h")):
            self.publish(body, group)
        self.assertEqual((self.got(busy), self.got(other)), ("a", ""))
        busy.send(wire.FlowToken(0, 10000))
        self.assertEqual((self.got(busy), self.got(other)), ("bd", "c"))

    def test_a_closed_group_is_dealt_out_anew(self) -> None:
        self.start()
        first, second = self.consumer(), self.consumer()
        self.publish("a", "g")
        self.publish("b", "g", -1)
        self.publish("c", "g")
        self.assertEqual((self.got(first), self.got(second)), ("ab", "c"))

    def test_groups_of_a_consumer_that_leaves(self) -> None:
        self.start()
        first, second = self.consumer(), self.consumer()
        self.publish("a", "g")
        first.peer.lose()
        self.publish("b", "g")
        self.assertEqual(self.got(second), "ab")

    def test_only_matching_consumers_get_a_group(self) -> None:
        self.start()
        never, always = self.consumer(filter="never = 1"), self.consumer()
        self.publish("a", "g")
        self.publish("b", "h")
        self.assertEqual((self.got(never), self.got(always)), ("", "ab"))

    def test_no_groups_with_no_buckets(self) -> None:
        self.start(group_buckets=0)
        first, second = self.consumer(), self.consumer()
        for body in "ab":
            self.publish(body, "g")
        self.assertEqual((self.got(first), self.got(second)), ("a", "b"))
        self.assertIsNone(self.queue.groups)

    def test_groups_that_are_switched_on_hold_for_the_messages_that_wait(self) -> None:
        self.start(group_buckets=0)
        for body in "abc":
            self.publish(body, "g")
        self.world.messaging.administration.update_queue(self.queue, group_buckets=-1)
        first, second = self.consumer(credits=1), self.consumer()
        self.assertEqual((self.got(first), self.got(second)), ("a", ""))
        first.send(wire.FlowToken(0, 10000))
        self.assertEqual((self.got(first), self.got(second)), ("bc", ""))

    def test_groups_of_one_bucket_go_together(self) -> None:
        self.start(group_buckets=1)
        first, second = self.consumer(), self.consumer()
        for body, group in zip("abc", "lrm", strict=True):
            self.publish(body, group)
        self.assertEqual((self.got(first), self.got(second)), ("abc", ""))
        self.assertEqual(self.queue.groups.count, 1)

    def test_buckets_follow_the_java_hash(self) -> None:
        self.assertEqual([bucket_of(text, 1 << 20) for text in ("", "a", "ab")], [0, 97 * 31, (97 * 31**3 + 98 * 31) % (1 << 20)])
        self.assertEqual(bucket_of("\u00ff" * 40, 7), bucket_of("\u00ff" * 40, 7))

    def test_groups_are_kept_together_after_a_restart(self) -> None:
        self.start()
        for body in "ab":
            self.publish(body, "g")
        queue = self.queue
        messages = [(reference.message, [RecoveredReference(queue.queue_id)]) for reference in queue.references]
        self.world = World(recovered=Recovered(queues=[queue.definition.record(queue.queue_id)], messages=messages))
        first, second = self.consumer(credits=1), self.consumer()
        self.assertEqual((self.got(first), self.got(second)), ("a", ""))

    def test_rebalance_deals_out_anew(self) -> None:
        self.start(group_rebalance=True)
        first = self.consumer()
        self.publish("a", "g")
        second = self.consumer()
        self.assertEqual(self.queue.groups.count, 0)
        self.publish("b", "g")
        self.assertEqual((self.got(first), self.got(second)), ("a", "b"))

    def test_rebalance_with_a_pause_waits_for_the_acknowledgements(self) -> None:
        self.start(group_rebalance=True, group_rebalance_pause_dispatch=True)
        first = self.consumer()
        self.publish("a", "g")
        (packet,) = first.received()
        second = self.consumer()
        self.publish("b", "g")
        self.assertEqual(self.got(first) + self.got(second), "")
        first.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.assertEqual(self.got(first) + self.got(second), "b")

    def test_management_resets_groups(self) -> None:
        self.start()
        first, second = self.consumer(), self.consumer()
        self.publish("a", "g")
        (group,) = json.loads(self.world.registry.invoke("queue.q", "listGroupsAsJSON", []))
        self.assertEqual((group["groupID"], group["sessionID"]), ("g", first.name))
        self.assertEqual(self.world.registry.attribute("queue.q", "GroupCount"), 1)
        self.world.registry.invoke("queue.q", "resetGroup", ["other"])
        self.world.registry.invoke("queue.q", "resetGroup", ["g"])
        self.assertEqual(self.world.registry.attribute("queue.q", "GroupCount"), 0)
        self.publish("b", "g")
        self.world.registry.invoke("queue.q", "resetAllGroups", [])
        self.publish("c", "g")
        self.assertEqual((self.got(first), self.got(second)), ("ac", "b"))

    def test_group_attributes_are_told(self) -> None:
        self.start(group_first_key="first", group_buckets=3, group_rebalance=True)
        answer: Any = self.session.call(wire.QueueQuery("q"))
        self.assertEqual((answer.group_first_key, answer.group_buckets, answer.group_rebalance), ("first", 3, True))
        (row,) = json.loads(self.world.registry.invoke("broker", "listQueues", ["{}", 1, 10]))["data"]
        self.assertEqual((row["groupFirstKey"], row["groupBuckets"], row["groupRebalance"]), ("first", "3", "true"))
        self.assertEqual(self.world.registry.attribute("queue.q", "GroupFirstKey"), "first")


class FirstOfGroupTests(GroupTestCase):
    """``group-first-key``: a consumer is told which message is the first that it gets of a group."""

    @staticmethod
    def told(session: Session) -> str:
        """The bodies that ``session`` got, in upper case those that are marked."""
        found = ""
        for packet in session.received():
            message = decode_message(packet.message)
            marked = message.properties.get("first")
            found += message.body.decode().upper() if marked == (BOOLEAN, True) else message.body.decode()
        return found

    def test_the_first_message_of_each_group_is_marked(self) -> None:
        self.start(group_first_key="first")
        first, second = self.consumer(), self.consumer()
        for body, group in zip("abcdef", "lrlrlr", strict=True):
            self.publish(body, group)
        self.publish("x")
        self.assertEqual((self.told(first), self.told(second)), ("Acex", "Bdf"))

    def test_a_closed_group_begins_anew(self) -> None:
        self.start(group_first_key="first")
        only = self.consumer()
        self.publish("a", "g")
        self.publish("b", "g", -1)
        self.publish("c", "g", -1)
        self.assertEqual(self.told(only), "AbC")

    def test_the_next_owner_is_told_and_the_message_itself_stays_as_it_is(self) -> None:
        self.start(group_first_key="first")
        first = self.consumer()
        self.publish("a", "g")
        self.publish("b", "g")
        self.assertEqual(self.told(first), "Ab")
        first.peer.lose()
        self.assertEqual([reference.message.property("first") for reference in self.queue.references], [None, None])
        self.assertEqual(self.told(self.consumer()), "Ab")

    def test_exclusive_queues_and_rebalancing(self) -> None:
        self.start(exclusive=True, group_first_key="first")
        first, second = self.consumer(), self.consumer()
        for body in "ab":
            self.publish(body)
        self.assertEqual((self.told(first), self.told(second)), ("Ab", ""))
        first.peer.lose()
        self.assertEqual(self.told(second), "Ab")

    def test_a_rebalanced_group_begins_anew(self) -> None:
        self.start(group_rebalance=True, group_first_key="first")
        first = self.consumer()
        self.publish("a", "g")
        second = self.consumer()
        self.publish("b", "g")
        self.assertEqual((self.told(first), self.told(second)), ("A", "B"))

    def test_pre_acknowledged_deliveries_are_marked_too(self) -> None:
        self.start(group_first_key="first")
        session = self.world.peer().open(pre_acknowledge=True)
        session.consume(credits=-1)
        self.publish("a", "g")
        self.publish("b", "g")
        self.assertEqual(self.told(session), "Ab")
        self.assertEqual(self.queue.message_count, 0)

    def test_a_property_of_that_name_gives_way(self) -> None:
        self.start(group_first_key="first")
        only = self.consumer()
        self.session.publish(b"a", properties={KEY_GROUP_ID: (STRING, "g"), "first": (BOOLEAN, False)})
        self.assertEqual(self.told(only), "A")

    def test_a_large_message_is_marked(self) -> None:
        self.start(group_first_key="first")
        only = self.consumer()
        self.session.begin_large(properties={KEY_GROUP_ID: (STRING, "g")})
        self.session.chunk(b"x" * 200_000, 200_000)
        (large,) = [packet for packet in only.take() if isinstance(packet, wire.SessionReceiveLarge)]
        self.assertEqual(decode_headers(large.headers).properties["first"], (BOOLEAN, True))
        self.assertEqual(large.large_message_size, 200_000)

    def test_it_can_be_changed(self) -> None:
        self.start()
        only = self.consumer()
        self.world.messaging.administration.update_queue(self.queue, group_first_key="first")
        self.publish("a", "g")
        self.assertEqual(self.told(only), "A")


class ExclusiveTests(GroupTestCase):
    def test_one_consumer_gets_everything_until_it_leaves(self) -> None:
        self.start(exclusive=True)
        first, second = self.consumer(), self.consumer()
        for body in "abc":
            self.publish(body)
        self.assertEqual((self.got(first), self.got(second)), ("abc", ""))
        first.peer.lose()
        self.assertEqual(self.got(second), "abc")

    def test_it_keeps_the_queue_while_it_is_busy(self) -> None:
        self.start(exclusive=True)
        first, second = self.consumer(credits=1), self.consumer()
        for body in "ab":
            self.publish(body)
        self.assertEqual((self.got(first), self.got(second)), ("a", ""))

    def test_the_highest_priority_is_first(self) -> None:
        self.start(exclusive=True)
        low, high = self.consumer(priority=1), self.consumer(priority=5)
        self.publish("a")
        self.assertEqual((self.got(low), self.got(high)), ("", "a"))

    def test_an_expired_message_leaves_the_queue(self) -> None:
        self.start(exclusive=True)
        self.publish("x", expiration=self.world.clock.wall_ms() + 10)
        self.world.clock.advance(1)
        self.publish("y")
        self.assertEqual(self.got(self.consumer()), "y")

    def test_it_is_told_in_queries_and_can_be_changed(self) -> None:
        self.start(exclusive=True)
        answer: Any = self.session.call(wire.QueueQuery("q"))
        self.assertTrue(answer.exclusive)
        first, second = self.consumer(), self.consumer()
        self.world.messaging.administration.update_queue(self.queue, exclusive=False)
        for body in "ab":
            self.publish(body)
        self.assertEqual((self.got(first), self.got(second)), ("a", "b"))


class ScanTests(SynchronousTestCase):
    """Filters on a queue with groups: what one turn looks at is bounded, and nothing is looked at for ever."""

    def start(self, count: int = 0, **attributes: Any) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q", **attributes)
        for _ in range(count):
            self.send("x", colour="grey")

    def send(self, body: str, group: str | None = "g", colour: str = "red") -> None:
        properties: dict[str, Any] = {"colour": (STRING, colour)}
        if group is not None:
            properties[KEY_GROUP_ID] = (STRING, group)
        self.bench.core.turn.run(self.bench.send_message, self.bench.message(body.encode(), properties=properties))

    def looked_at(self, function: Any, *arguments: Any) -> int:
        """Messages that ``function`` makes the queue look at in its turn."""
        scan = self.bench.core.turn.scan
        granted = 0
        take = type(scan).take

        def counted(budget: Any) -> int:
            nonlocal granted
            given = take(budget)
            granted += given
            return given

        self.patch(type(scan), "take", counted)
        function(*arguments)
        return granted

    @staticmethod
    def text(consumer: Collector) -> str:
        return b"".join(consumer.bodies).decode()

    def test_a_turn_looks_at_so_many_and_goes_on(self) -> None:
        for attributes in ({}, {"exclusive": True}):
            self.start(SCANNED_MAX + 100, **attributes)
            self.send("a")
            consumer = Collector(self.bench, self.queue, "colour = 'red'")
            self.assertEqual(self.text(consumer), "")
            self.bench.clock.advance(1)
            self.assertEqual(self.text(consumer), "a")

    def test_what_nobody_takes_is_looked_at_once(self) -> None:
        self.start(2000)
        consumer = Collector(self.bench, self.queue, "colour = 'red'")
        self.assertLess(self.looked_at(self.send, "a"), 50)
        self.assertEqual(self.text(consumer), "a")

    def test_a_new_consumer_gets_what_others_did_not_take(self) -> None:
        self.start(20)
        Collector(self.bench, self.queue, "colour = 'red'")
        self.send("a", "h")
        everything = Collector(self.bench, self.queue)
        self.assertEqual(self.text(everything), "x" * 20)

    def test_the_end_of_a_group_gives_others_what_its_consumer_did_not_take(self) -> None:
        self.start()
        Collector(self.bench, self.queue, "colour = 'red'")
        grey = Collector(self.bench, self.queue, "colour = 'grey'")
        self.send("a")
        self.send("b", colour="grey")
        self.assertEqual(self.text(grey), "")
        message = self.bench.message(
            b"c", properties={"colour": (STRING, "red"), KEY_GROUP_ID: (STRING, "g"), KEY_GROUP_SEQUENCE: (INT, -1)}
        )
        self.bench.core.turn.run(self.bench.send_message, message)
        self.assertEqual(self.text(grey), "b")

    def test_messages_of_busy_consumers_are_held_in_order(self) -> None:
        self.start()
        red = Collector(self.bench, self.queue, "colour = 'red'", room=0)
        blue = Collector(self.bench, self.queue, "colour = 'blue'")
        for number in range(300):
            self.send(chr(0x100 + number), f"r{number}")
        self.send("1", "b", colour="blue")
        self.send("2", "b", colour="blue")
        self.assertEqual(self.text(blue), "12")
        self.assertLess(self.looked_at(self.send, "3", "b", "blue"), 50)
        for _ in range(3):
            red.give_room(1)
        self.assertEqual(self.text(red), "\u0100\u0101\u0102")
        self.send("4", "b", colour="blue")
        red.give_room(1000)
        self.assertEqual(self.text(red), "".join(chr(0x100 + number) for number in range(300)))
        self.assertEqual(self.text(blue), "1234")

    def test_a_search_that_goes_on_does_not_pass_by_who_became_ready(self) -> None:
        self.start()
        self.send("a", None, "red")
        for _ in range(SCANNED_MAX + 100):
            self.send("x", None, "grey")
        self.send("b", None, "red")
        self.send("1", None, "blue")
        self.queue.keep_groups()
        red = Collector(self.bench, self.queue, "colour = 'red'", room=0)
        blue = Collector(self.bench, self.queue, "colour = 'blue'")
        self.assertEqual(self.text(blue), "")
        red.give_room(1)
        self.assertEqual(self.text(red), "a")
        self.bench.clock.advance(1)
        self.assertEqual(self.text(blue), "1")
        red.give_room(1)
        self.bench.clock.advance(1)
        self.assertEqual(self.text(red), "ab")

    def test_a_returned_message_is_found_again(self) -> None:
        self.start(30)
        consumer = Collector(self.bench, self.queue, "colour = 'red'")
        self.send("a")
        self.bench.messaging.settlement.cancel(consumer.references)
        self.bench.turn()
        self.assertEqual(self.text(consumer), "aa")

    def test_expired_messages_count_too(self) -> None:
        self.start(exclusive=True)
        expiration = self.bench.clock.wall_ms() + 10
        for _ in range(SCANNED_MAX):
            self.bench.core.turn.run(self.bench.send_message, self.bench.message(b"x", expiration=expiration))
        self.bench.clock.advance(1)
        Collector(self.bench, self.queue)
        self.assertGreater(self.queue.references.count, 0)
        self.bench.clock.advance(1)
        self.assertEqual((self.queue.references.count, self.queue.messages_expired), (0, SCANNED_MAX))


class ForcedTests(GroupTestCase):
    def test_a_forced_delivery_waits_for_the_search(self) -> None:
        self.patch(turn, "SCANNED_MAX", 100)
        for attributes in ({"exclusive": True}, {}):
            self.start(**attributes)
            for _ in range(300):
                self.publish("x", "g")
            self.session.publish(b"wanted", properties={KEY_GROUP_ID: (STRING, "h"), "colour": (STRING, "red")})
            consumer = self.consumer(filter="colour = 'red'")
            consumer.take()
            consumer.send(wire.ForceConsumerDelivery(0, 1))
            self.assertEqual(self.got(consumer), "")
            self.world.clock.advance(1)
            (message, marker) = consumer.received()
            self.assertEqual(decode_message(message.message).body, b"wanted")
            self.assertIn("_hornetq.forced.delivery.seq", decode_message(marker.message).properties)


class BoundTests(GroupTestCase):
    """Groups beyond the limit share buckets, and keep their order."""

    def test_further_groups_share_buckets(self) -> None:
        self.patch(groups, "GROUPS_MAX", 3)
        self.patch(groups, "SHARED_BUCKETS", 2)
        self.start()
        consumers = [self.consumer() for _ in range(4)]
        for part in "ab":
            for number in range(20):
                self.publish(f"{number}{part} ", f"group {number}")
        self.assertLessEqual(self.queue.groups.count, 5)
        texts = [self.got(each).split() for each in consumers]
        for number in range(20):
            (place,) = [text for text in texts if f"{number}a" in text]
            self.assertLess(place.index(f"{number}a"), place.index(f"{number}b"))

    def test_the_end_of_one_group_leaves_the_others_of_its_bucket(self) -> None:
        self.patch(groups, "GROUPS_MAX", 0)
        self.patch(groups, "SHARED_BUCKETS", 1)
        self.start()
        first, second = self.consumer(), self.consumer()
        self.publish("a", "g")
        self.publish("b", "h", -1)
        self.publish("c", "g")
        self.assertEqual((self.got(first), self.got(second)), ("abc", ""))

    def test_a_group_that_shares_goes_on_with_it(self) -> None:
        self.patch(groups, "GROUPS_MAX", 1)
        self.start()
        first, second = self.consumer(), self.consumer()
        self.publish("1", "x")
        self.publish("a", "g")
        self.publish("2", "x", -1)
        self.publish("b", "g")
        self.assertEqual((self.got(first), self.got(second)), ("12", "ab"))

    def test_very_long_ids_are_not_kept(self) -> None:
        self.start()
        first, second = self.consumer(), self.consumer()
        for body in "ab":
            self.publish(body, "g" * (GROUP_ID_LENGTH_MAX + 1))
        self.assertEqual((self.got(first), self.got(second)), ("ab", ""))
        self.assertTrue(all(isinstance(slot, int) for slot in self.queue.groups.owners()))
