"""Scale-down in memory: links that are cut at any byte, refusals, targets that do not come back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha import scale_down
from mqbroker.ha.scale_down import ScaleDown
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.core.api import LocatorSettings, QueueQueryResult
from mqclient.core.session.session import Session
from mqclient.wire.packets import XaCommit, XaEnd, XaPrepare, XaStart
from mqclient.wire.primitives import Xid
from mqclient.xa import XAER_RMFAIL, XAError
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import Pair, connector

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


class NameTests(SynchronousTestCase):
    def test_a_queue_that_only_by_its_name_waits_for_a_member_keeps_nothing_else_here(self) -> None:
        pair = Leaving()
        pair.sender.create_queue("$.artemis.internal.sf.mine")
        pair.publish(b"1", address="$.artemis.internal.sf.mine")
        pair.publish(b"2")
        self.assertEqual(pair.find(), HEIR)
        pair.run()
        self.assertEqual((pair.arrived(), pair.waiting(), pair.a.queue("$.artemis.internal.sf.mine").message_count), ([b"2"], [], 1))


class DisabledQueueTests(SynchronousTestCase):
    """A queue of the target that takes no messages: it would answer for each as if it had it."""

    def test_its_messages_stay(self) -> None:
        pair = Leaving()
        pair.b.messaging.administration.update_queue(pair.b.queue("q"), enabled=False)
        pair.sender.create_queue("other")
        pair.publish(b"1", b"2")
        pair.sender.publish(b"3", address="other")
        pair.find()
        with capturedLogs() as events:
            pair.run()
        self.assertEqual((pair.waiting(), pair.arrived(), pair.arrived("other")), ([b"1", b"2"], [], [b"3"]))
        reasons = [(event["queue"], event["reason"]) for event in events if "stays here" in event["log_format"]]
        self.assertEqual(reasons, [("q", "its queue q is disabled, and takes no messages")])

    def test_one_that_is_disabled_here_is_made_and_gets_them(self) -> None:
        pair = Leaving()
        pair.sender.create_queue("off")
        pair.sender.publish(b"1", address="off")
        pair.a.messaging.administration.update_queue(pair.a.queue("off"), enabled=False)
        pair.find()
        pair.run()
        self.assertEqual((pair.arrived("off"), pair.a.queue("off").message_count), ([b"1"], 0))


def know(broker: World, node_id: str, queue: str, remote_id: int) -> Queue:
    """A subscription of another broker to the address "t" becomes known to ``broker``.  Returns the queue in which its messages wait."""
    messaging = broker.messaging
    waits = messaging.administration.create_store_and_forward(f"$.artemis.internal.sf.c.{node_id}")
    routing = messaging.core.routing
    name, number = f"{queue}{node_id}", messaging.core.store.next_id()
    routing.bind_remote(RemoteBinding("t", queue, name, number, remote_id, 1, LoadBalancing.ON_DEMAND, waits, routing))
    return waits


class BranchTests(SynchronousTestCase):
    def test_one_whose_queue_is_another_one_at_the_target_stays_and_the_others_move(self) -> None:
        pair = Leaving()
        pair.sender.create_queue("late")
        pair.receiver.create_queue("late", "elsewhere")
        manager = pair.a.session(xa=True)
        for number, address in enumerate(("late", "q")):
            xid = Xid(1, b"branch", b"global %d" % number)
            manager.call(XaStart(xid))
            manager.publish(b"1", address=address)
            for request in (XaEnd(xid), XaPrepare(xid)):
                manager.call(request)
        pair.find()
        pair.run()
        left, moved = (each.messaging.branches.prepared() for each in (pair.a, pair.b))
        self.assertEqual(([each.xid.global_transaction_id for each in left], len(moved)), ([b"global 0"], 1))
        self.assertTrue(pair.leaving.complete)

    def test_a_link_that_ends_with_a_branch_is_tried_again(self) -> None:
        pair = Leaving()
        pair.publish(b"1")
        manager, xid = pair.a.session(xa=True), Xid(1, b"branch", b"global")
        for request in (XaStart(xid), XaEnd(xid), XaPrepare(xid)):
            manager.call(request)
        move, lost = scale_down.move_branch, [pair]

        async def breaks(*args: Any) -> None:
            if lost:
                lost.pop().runtime.links[-1].cut()
                raise XAError(XAER_RMFAIL, "the connection was lost")
            await move(*args)

        self.patch(scale_down, "move_branch", breaks)
        pair.find()
        pair.run()
        self.assertEqual((lost, pair.leaving.progress.branches, len(pair.b.server.messaging.branches.prepared())), ([], 1, 1))

    def test_one_that_is_committed_there_before_the_answer_has_come_brings_its_messages_once(self) -> None:
        pair = Leaving()
        manager, xid = pair.a.session(xa=True), Xid(1, b"branch", b"global")
        manager.call(XaStart(xid))
        manager.publish(b"1", address="q")
        for request in (XaEnd(xid), XaPrepare(xid)):
            manager.call(request)
        move, lost = scale_down.move_branch, [pair]

        async def breaks(*args: Any) -> None:
            await move(*args)
            if lost:
                pair.b.session(xa=True).call(XaCommit(xid, False))
                lost.pop().runtime.links[-1].cut()
                raise XAError(XAER_RMFAIL, "the connection was lost")

        self.patch(scale_down, "move_branch", breaks)
        pair.find()
        pair.run()
        again = pair.b.session(xa=True)
        for branch in pair.b.server.messaging.branches.prepared():
            again.call(XaCommit(branch.xid, False))
        self.assertEqual((lost, pair.arrived(), pair.leaving.progress.branches), ([], [b"1"], 1))

    def test_messages_of_a_branch_for_queues_of_other_brokers_go_there(self) -> None:
        """To the queue of the target, and by way of the target to that of a third broker."""
        pair = Leaving()
        third = "30000000-0000-0000-0000-000000000000"
        pair.receiver.create_queue("here", "t", routing_type=0)
        remote_id = pair.b.queue("here").queue_id
        know(pair.a, HEIR, "here", remote_id)
        know(pair.a, third, "there", 77)
        waits = know(pair.b, third, "there", 77)
        manager, xid = pair.a.session(xa=True), Xid(1, b"branch", b"global")
        manager.call(XaStart(xid))
        manager.publish(b"1", address="t", routing_type=0)
        for request in (XaEnd(xid), XaPrepare(xid)):
            manager.call(request)
        pair.find()
        pair.run()
        self.assertEqual((pair.arrived("here"), waits.message_count), ([], 0))
        pair.b.session(xa=True).call(XaCommit(xid, False))
        self.assertEqual((pair.arrived("here"), waits.message_count), ([b"1"], 1))
        self.assertEqual([name for name in pair.b.messaging.core.queues if name.endswith(HEIR)], [])

    def test_a_branch_that_the_target_refuses_is_told_of_at_the_end(self) -> None:
        pair = Leaving()
        manager, xid = pair.a.session(xa=True), Xid(1, b"branch", b"global")
        for request in (XaStart(xid), XaEnd(xid), XaPrepare(xid)):
            manager.call(request)

        async def refuses(*args: Any) -> None:
            raise XAError(XAER_RMFAIL, "refused")

        self.patch(scale_down, "move_branch", refuses)
        pair.find()
        with capturedLogs() as events:
            pair.run()
        outcomes = [event["outcome"] for event in events if "outcome" in event]
        self.assertEqual(outcomes, ["not complete, 0 messages and 1 XA branches stay on the disk of this broker"])
