"""A broker at its start and on its return: it serves administrators only until it has the record, or may not join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.imq.record import record as record_module
from mqclient.errors import SessionCreationRejectedError
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, THREE, TWO, Net, Node, three


def refusal(node: Node, **request: Any) -> str | None:
    """The reason why a client gets no session."""
    session = node.world.peer().session(**request)
    answer = session.peer.take(SESSION_CHANNEL)[-1]
    if isinstance(answer, wire.ExceptionResponse):
        assert answer.error_code == SessionCreationRejectedError.code
        return str(answer.message)
    return None


class StartTests(SynchronousTestCase):
    def test_administrators_only_until_the_record_is_there(self) -> None:
        net = Net(security=True)
        two = net.add(TWO)
        self.assertEqual(two.recording.state, "waiting_master")
        self.assertIn(f"the master broker {ONE}", str(refusal(two, username="nobody", password="nothing")))
        self.assertIsNone(refusal(two, username="admin", password="secret"))
        net.add(ONE)
        self.assertEqual(two.recording.state, "running")
        self.assertIsNone(refusal(two, username="nobody", password="nothing"))

    def test_the_log_says_again_and_again_that_the_master_is_away(self) -> None:
        net = Net()
        two = net.add(TWO)
        for seconds in (60, 180, 180):
            self.assertEqual(two.recording.state, "waiting_master")
            net.settle(seconds)
        net.add(ONE)
        net.settle(200)
        self.assertEqual(two.recording.state, "running")

    def test_a_broker_that_does_not_wait_serves_all_and_lets_wait_what_needs_the_record(self) -> None:
        net = Net(nowait_for_master=True)
        two = net.add(TWO)
        session = two.session()
        session.publish(b"1", "auto", reply=True)
        session.take()
        session.send(create("q"))
        net.settle(89)
        self.assertEqual(session.take(), [])
        net.settle(2)
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn(ONE, str(answer.message))
        session.send(create("r"))
        net.settle(30)
        one = net.add(ONE)
        net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.assertIn("r", one.queues)

    def test_a_master_without_a_record_begins_one_with_what_it_has(self) -> None:
        net = Net(master=None)
        one = net.add(ONE)
        one.session().ok(create("q"), create("auto", auto_created=True))
        one.cluster = replace(one.cluster, master=ONE)
        one.restart()
        record = one.recording.keeping.record
        self.assertEqual([change.name for change in record.definitions], ["queue q"])
        self.assertEqual(record.reset.position, 1)

    def test_a_master_that_cannot_answer_is_asked_again(self) -> None:
        net = Net()
        one = net.add(ONE)
        two = net.add(TWO, link=False)
        two.cluster = replace(two.cluster)
        one.recording.keeping.end()
        net.link(one, two)
        net.settle(12)
        self.assertEqual((two.recording.state, net.requests["join"]), ("syncing", 3))
        one.recording.keeping.begin()
        net.settle(5)
        self.assertEqual(two.recording.state, "running")

    def test_a_record_that_is_damaged_is_said(self) -> None:
        net = Net()
        one = net.add(ONE)
        assert one.store is not None
        one.stop()
        one.store.settings["imq-change", "000000000001"] = "{}"
        error = self.assertRaises(ValueError, one.start)
        self.assertIn("the change record in the store", str(error))


class JoinTests(SynchronousTestCase):
    def test_who_joins_takes_over_everything(self) -> None:
        net, one, two, _ = three()
        two.session().send(create("q"))
        two.session().send(wire.CreateQueueV2("topic", "me.sub", durable=True, routing_type=0))
        net.settle()
        four = net.add("b4:7676")
        self.assertEqual(four.queues, ["me.sub", "q"])
        self.assertEqual(four.recording.standing.position, one.recording.keeping.record.last)

    def test_what_the_record_does_not_have_goes(self) -> None:
        net = Net(master=None)
        two = net.add(TWO)
        session = two.session()
        session.ok(create("old"), wire.CreateAddress("empty", (1,), True))
        session.ok(wire.CreateAddress("DLQ", (1,), True))
        session.ok(wire.CreateQueueV2("DLQ", "dead", durable=True, routing_type=1))
        net.cluster = replace(net.cluster, master=ONE)
        one = net.add(ONE, link=False)
        one.session().ok(create("q"))
        two.stop()
        two.cluster = replace(two.cluster, master=ONE)
        two.configured = (QueueConfiguration("mine", "mine", 1),)
        two.start()
        net.link(one, two)
        net.settle()
        self.assertEqual(two.queues, ["dead", "mine", "q"])
        self.assertNotIn("empty", two.addresses)
        self.assertEqual(one.queues, ["mine", "q"])

    def test_what_a_file_defines_stays_with_its_messages_and_comes_on_record(self) -> None:
        net = Net(master=None)
        two = net.add(TWO, QueueConfiguration("mine", "mine", 1))
        queue_id = two.world.queue("mine").queue_id
        one = Node(replaced(net, ONE), ONE)
        net.nodes[ONE] = one
        two.stop()
        two.cluster = replace(two.cluster, master=ONE)
        two.start()
        net.link(one, two)
        net.settle()
        self.assertEqual(two.world.queue("mine").queue_id, queue_id)
        self.assertEqual(one.queues, ["mine"])

    def test_what_a_broker_has_forgotten_comes_back(self) -> None:
        """A start with -reset durables removes subscriptions that the record has."""
        net, one, _, last = three()
        one.session().ok(wire.CreateQueueV2("topic", "me.sub", durable=True, routing_type=0))
        net.settle()
        for node in (last, one):
            node.stop()
            assert node.store is not None
            node.store.queues.clear()
            node.prepare = lambda shared: shared.forget()
            node.start()
            net.link_all(node)
            net.settle()
            self.assertEqual(node.queues, ["me.sub"])

    def test_everything_comes_in_pages(self) -> None:
        self.patch(record_module, "PAGE_MAX", 2)
        self.patch(record_module.ChangeRecord.since, "__defaults__", (2,))
        self.patch(record_module.ChangeRecord.following, "__defaults__", (2,))
        net = Net()
        one = net.add(ONE)
        for number in range(6):
            one.session().ok(create(f"q{number}"))
        two = net.add(TWO)
        self.assertEqual(two.queues, one.queues)
        self.assertGreater(net.requests["changes"], 2)
        net.cut(one, two)
        for number in range(6):
            one.session().ok(create(f"r{number}"))
        net.link(one, two)
        net.settle()
        self.assertEqual(two.queues, one.queues)

    def test_who_has_followed_the_record_of_another_cluster_may_not_join(self) -> None:
        other = Net(master="x1:7676")
        other.add("x1:7676")
        two = other.add(TWO)
        two.stop()
        net = Net()
        one = net.add(ONE)
        two.net, two.cluster = net, replace(two.cluster, master=ONE)
        net.nodes[TWO] = two
        other.clock = net.clock
        two.start()
        net.link(one, two)
        net.settle()
        self.assertEqual(two.recording.state, "exited")
        [reason] = two.left
        for part in ("B3095", TWO, ONE, "x1:7676", "-reset store"):
            self.assertIn(part, reason)

    def test_a_master_that_has_lost_its_store_is_followed_as_its_record_says(self) -> None:
        net, one, two, _ = three()
        two.session().send(create("q"))
        net.settle()
        one.stop()
        one.store = None
        one.start()
        net.link_all(one)
        net.settle()
        self.assertEqual([node.queues for node in net.nodes.values()], [[], [], []])
        self.assertEqual(two.left, [])

    def test_an_answer_of_a_link_that_was_lost_counts_no_more(self) -> None:
        net = Net()
        one = net.add(ONE)
        one.session().ok(create("q"))
        two = net.add(TWO, link=False)
        one.store.held = True  # type: ignore[union-attr]
        one.session().send(create("r"))
        net.link(one, two)
        net.settle()
        self.assertEqual((two.recording.state, two.queues), ("syncing", []))
        net.cut(one, two)
        self.assertEqual(two.recording.state, "waiting_master")
        one.store.held = False  # type: ignore[union-attr]
        one.store.sync()  # type: ignore[union-attr]
        net.link(one, two)
        net.settle()
        self.assertEqual((two.recording.state, two.queues), ("running", ["q", "r"]))


def replaced(net: Net, master: str) -> Net:
    net.cluster = replace(net.cluster, master=master)
    return net


class CompressionTests(SynchronousTestCase):
    def test_a_member_that_missed_dropped_changes_takes_over_everything(self) -> None:
        from mqbroker.imq.master import own_record

        self.patch(own_record, "SLACK_MAX", 2)
        net, one, two, third = three()
        one.session().ok(create("gone"))
        net.settle()
        net.cut_off(third)
        one.session().ok(wire.DeleteQueue("gone"))
        for _ in range(4):
            one.session().ok(create("q"))
            one.session().ok(wire.DeleteQueue("q"))
        one.session().ok(create("q"))
        net.settle()
        self.assertGreater(one.recording.keeping.record.floor, third.recording.standing.position)
        one.restart(crash=True)
        net.link_all(one)
        net.link_all(third)
        net.settle()
        self.assertEqual([node.queues for node in (one, two, third)], [["q"]] * 3)
        self.assertEqual(net.nodes[THREE].recording.state, "running")
