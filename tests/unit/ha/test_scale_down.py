"""Scale-down in memory: links that are cut at any byte, refusals, targets that do not come back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha import moving, scale_down
from mqbroker.ha.places import members_after
from mqbroker.ha.scale_down import ScaleDown
from mqclient.core.api import LocatorSettings, QueueQueryResult
from mqclient.core.session.session import Session
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.bridge_support import Pair, connector
from tests.unit.server.support import World

LEAVER = "10000000-0000-0000-0000-000000000000"
HEIR = "20000000-0000-0000-0000-000000000000"


def world(clock: FakeClock, node_id: str, **settings: Any) -> World:
    configuration = Configuration(security_enabled=False)
    configuration.address_settings = {"#": settings}
    made = World(configuration, clock=clock)
    made.store.node_id = node_id
    return made


class Leaving(Pair):
    """Broker A leaves, and broker B takes its messages over."""

    def __init__(self, scale_down: ScaleDownConfiguration | None = None, **target: Any) -> None:
        clock = FakeClock()
        super().__init__(source=world(clock, LEAVER), target=world(clock, HEIR, **target))
        self.configuration = scale_down or ScaleDownConfiguration()
        self.places = [connector(1)]
        self.leaving = self.leave_again()

    def leave_again(self) -> ScaleDown:
        settings = LocatorSettings(ha=True, use_topology_for_load_balancing=False, producer_window_size=1 << 20)
        self.leaving = ScaleDown(self.a.server, self.runtime, self.configuration, settings, lambda: self.places)  # type: ignore[arg-type]
        return self.leaving

    def find(self) -> str | None:
        found: list[str | None] = []
        Deferred.fromCoroutine(self.leaving.find()).addCallback(found.append)
        self.stir()
        assert found, "still looking"
        return found[0]

    def run(self, piece: int = 1 << 20, seconds: float = 120.0) -> None:
        """Move everything, or wait until it is given up."""
        done = self.leaving.run()
        self.stir(piece)
        while not done.called and seconds > 0:
            self.clock.advance(0.5)
            self.stir(piece)
            seconds -= 0.5
        assert done.called, "it does not end"

    def beginnings(self) -> list[bytes]:
        """The first three bytes of the bodies in B's queue, in order."""
        messages = [reference.message for reference in self.b.queue("q").references]
        return [each.decoded().body[:3] if each.large is None else each.large.read(0, 3) for each in messages]


class MovingTests(SynchronousTestCase):
    def test_behind_what_is_there(self) -> None:
        pair = Leaving()
        pair.receiver.publish(b"there")
        pair.publish(b"1", b"2", b"3")
        self.assertEqual(pair.find(), HEIR)
        pair.run()
        self.assertEqual((pair.arrived(), pair.waiting()), ([b"there", b"1", b"2", b"3"], []))
        self.assertEqual(pair.leaving.progress.queues, {"q": 3})

    def test_a_delay_that_only_this_broker_knows(self) -> None:
        """A message that waits for its redelivery is not tried earlier elsewhere."""
        pair = Leaving()
        pair.publish(b"1")
        queue = pair.a.queue("q")
        reference = queue.references.head()
        assert reference is not None
        queue.take(reference)
        queue.put_back_later(reference, START_MS + 60_000)
        pair.find()
        pair.run()
        self.assertEqual([each.scheduled for each in pair.b.queue("q").scheduled], [START_MS + 60_000])

    def test_many_scheduled_messages(self) -> None:
        pair = Leaving()
        for number in range(50):
            pair.publish(b"%d" % number, properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS + 3_600_000 - number)})
        pair.find()
        pair.run()
        self.assertEqual((pair.a.queue("q").message_count, pair.b.queue("q").scheduled.count), (0, 50))

    def test_transactions_are_no_longer_than_asked_for(self) -> None:
        pair = Leaving(ScaleDownConfiguration(commit_interval=4))
        pair.publish(*[b"%d" % number for number in range(30)])
        pair.find()
        pair.run()
        steps = [sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log]
        self.assertEqual((sum(steps), max(steps) <= 4), (30, True))

    def test_only_so_many_are_under_way_without_a_commit_interval(self) -> None:
        self.patch(scale_down, "IN_FLIGHT_MESSAGES_MAX", 7)
        self.patch(moving, "MESSAGES_PER_TURN", 5)
        pair = Leaving()
        pair.publish(*[b"%d" % number for number in range(100)])
        pair.find()
        pair.run()
        self.assertEqual(pair.arrived(), [b"%d" % number for number in range(100)])
        self.assertLessEqual(max(sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log), 7)

    def test_messages_of_several_addresses_in_one_queue(self) -> None:
        """Large ones among them, too: the order stays."""
        pair = Leaving()
        pair.sender.create_queue("w", "w.#", routing_type=0)
        addresses = ["w.a", "w.a", "w.b", "w.a", "w.b", "w.b", "w.a"]
        sizes = [1, 120_000, 5, 1, 120_000, 130_000, 2]
        for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
            pair.publish(b"%03d" % number + bytes(size), address=address, routing_type=0)
        pair.find()
        pair.run()
        messages = [reference.message for reference in pair.b.queue("w").references]
        found = [(each.address, (each.large.read(0, 3) if each.large else each.decoded().body[:3])) for each in messages]
        self.assertEqual(found, [(address, b"%03d" % number) for number, address in enumerate(addresses)])

    def test_many_messages_leave_together(self) -> None:
        pair = Leaving()
        pair.publish(*[b"%d" % number for number in range(600)])
        pair.find()
        pair.run()
        steps = [sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log]
        self.assertEqual(sum(steps), 600)
        self.assertLess(sum(step > 0 for step in steps), 10)

    def test_a_full_target_keeps_what_it_refuses_here(self) -> None:
        pair = Leaving(max_size_bytes=5_000, address_full_policy="FAIL")
        pair.publish(*[bytes([number]) * 1000 for number in range(20)])
        pair.find()
        pair.run()
        arrived, waiting = pair.arrived(), pair.waiting()
        self.assertTrue(arrived and waiting)
        self.assertEqual(arrived + waiting, [bytes([number]) * 1000 for number in range(20)])

    def test_a_target_that_gives_no_credits_for_one_address_gets_the_others(self) -> None:
        pair = Leaving(max_size_bytes=50_000, address_full_policy="FAIL")
        pair.sender.create_queue("z")
        bodies = [bytes([number]) * 30_000 for number in range(60)]
        pair.publish(*bodies)
        pair.publish(b"other", address="z")
        pair.find()
        pair.run(seconds=300)
        arrived, waiting = pair.arrived(), pair.waiting()
        self.assertTrue(arrived and waiting)
        self.assertEqual(arrived + waiting, bodies)
        self.assertEqual([each.queue("z").message_count for each in (pair.a, pair.b)], [0, 1])


class InterruptedTests(SynchronousTestCase):
    @given(
        st.lists(st.integers(2_000, 30_000), max_size=4),
        st.integers(2_000, 50_000),
        st.lists(st.sampled_from((10, 900, 110_000)), min_size=1, max_size=12),
        st.sampled_from((-1, 1, 3)),
        st.booleans(),
    )
    @hypothesis_settings(max_examples=25, deadline=None)
    def test_cut_anywhere_nothing_is_lost_or_doubled(
        self, cuts: list[int], piece: int, sizes: list[int], interval: int, read: bool
    ) -> None:
        pair = Leaving(ScaleDownConfiguration(commit_interval=interval))
        bodies = [b"%03d" % number + bytes(size) for number, size in enumerate(sizes)]
        pair.publish(*bodies)
        if read:
            opened: list[object] = []
            pair.a.messaging.readers.open(pair.a.queue("q"), "r", -1, lambda *told: opened.append(told), self.fail)
            pair.stir()
            self.assertEqual(len(opened), 1)
        self.assertEqual(pair.find(), HEIR)
        pair.link.cut_at = pair.link.carried + cuts[0] if cuts else None
        pair.runtime.cut_next = list(cuts[1:])
        pair.run(piece)
        self.assertEqual((pair.beginnings(), pair.waiting()), ([body[:3] for body in bodies], []))
        self.assertEqual(pair.runtime.failures, [])

    @given(st.integers(0, 20_000), st.booleans())
    @hypothesis_settings(max_examples=25, deadline=None)
    def test_cut_short_and_repeated(self, cut_at: int, by_signal: bool) -> None:
        pair = Leaving()
        bodies = [b"%03d" % number + bytes(700) for number in range(20)]
        pair.publish(*bodies)
        pair.find()
        done = pair.leaving.run()
        for _ in range(200):
            if done.called or pair.link.carried >= cut_at:
                break
            pair.clock.advance(0)
            pair.link.move(500)
        if by_signal:
            pair.leaving.cut_short()
        else:
            pair.runtime.targets.clear()
            pair.link.cut()
            pair.advance(60)
            pair.runtime.targets["1"] = pair.b
        pair.stir()
        self.assertTrue(done.called)
        self.assertEqual(pair.waiting(), bodies[20 - len(pair.waiting()) :], "what is left is in its order")
        pair.leave_again()
        pair.find()
        pair.run()
        self.assertEqual((pair.arrived(), pair.waiting()), (bodies, []))


class QuickerTests(SynchronousTestCase):
    """A client of the target makes a queue between the question whether it is there and its making."""

    def leaving(self, address: str) -> Leaving:
        pair = Leaving()
        pair.sender.create_queue("late")
        pair.sender.publish(b"1", address="late")
        ask = Session.queue_query

        async def and_a_client_is_quicker(session: Session, name: str) -> QueueQueryResult:
            found = await ask(session, name)
            if name == "late" and not found.exists:
                pair.receiver.create_queue("late", address)
            return found

        self.patch(Session, "queue_query", and_a_client_is_quicker)
        pair.find()
        pair.run()
        return pair

    def test_the_same_queue_gets_the_messages(self) -> None:
        pair = self.leaving("late")
        self.assertEqual((pair.arrived("late"), pair.a.queue("late").message_count), ([b"1"], 0))

    def test_for_another_queue_of_that_name_they_stay(self) -> None:
        pair = self.leaving("elsewhere")
        self.assertEqual((pair.arrived("late"), pair.a.queue("late").message_count), ([], 1))


class TargetTests(SynchronousTestCase):
    def test_nobody(self) -> None:
        pair = Leaving()
        pair.places = []
        self.assertIsNone(pair.find())

    def test_the_first_that_answers(self) -> None:
        pair = Leaving()
        pair.places = [connector(7), connector(1)]
        self.assertEqual(pair.find(), HEIR)
        self.assertEqual(pair.runtime.tried, ["7", "1"])

    def test_never_itself(self) -> None:
        pair = Leaving()
        pair.runtime.targets["1"] = pair.a
        self.assertIsNone(pair.find())

    def test_the_next_member_of_the_group(self) -> None:
        def member(node_id: str, group: str | None, port: int | None) -> TopologyMember:
            return TopologyMember(node_id, 1, None if port is None else connector(port), connector(99), None, group)

        members = [member("d", None, 4), member("a", "g", 1), member("b", None, 2), member("c", "g", 3), member("e", "g", None)]
        ports = [dict(each.parameters)["port"] for each in members_after(members, "b", None)]
        self.assertEqual(ports, ["3", "4", "1"], "after the own one, then from the beginning; without those that only have a backup")
        self.assertEqual([dict(each.parameters)["port"] for each in members_after(members, "b", "g")], ["3", "1"])
