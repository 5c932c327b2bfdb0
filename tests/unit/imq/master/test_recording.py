"""Changes on their way into the record: at the master, at other brokers, and while the master is away."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.imq.master import own_record
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import AddressExistsError, IllegalStateError, MQError, QueueExistsError
from mqclient.wire import packets as wire
from tests.support.broker import Session
from tests.unit.imq.net import ONE, THREE, TWO, MemoryPeer, Net, Node, three


def create(name: str, **attributes: object) -> wire.CreateQueueV2:
    return wire.CreateQueueV2(name, name, **{"durable": True, "routing_type": 1, **attributes})


class RunningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()

    def all_have(self, *names: str) -> None:
        self.assertEqual([node.queues for node in (self.one, self.two, self.three)], [sorted(names)] * 3)
        self.assertEqual(sorted(each.key for each in self.record() if each.key.startswith("queue:")), sorted(f"queue:{n}" for n in names))
        positions = {node.recording.standing.position for node in (self.one, self.two, self.three)}
        self.assertEqual(positions, {self.one.recording.keeping.record.last})

    def record(self) -> list[object]:
        found: list[object] = self.one.recording.keeping.record.definitions
        return found

    def test_a_change_at_the_master_is_made_everywhere(self) -> None:
        self.one.session().ok(create("q"))
        self.net.settle()
        self.all_have("q")

    def test_a_change_elsewhere_waits_for_the_master_and_is_made_everywhere(self) -> None:
        session = self.two.session()
        session.send(create("q"))
        self.assertEqual((session.take(), self.two.queues, self.one.queues), ([], [], []))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.all_have("q")
        [change] = self.record()
        self.assertEqual(change.origin, TWO)  # type: ignore[attr-defined]

    def test_a_queue_whose_end_this_broker_has_not_heard_of_is_made_anew(self) -> None:
        """Once it was told to be there, and ended then."""
        self.one.session().ok(create("q"))
        self.net.settle()
        self.three.deaf.add("recordHas")
        self.one.session().ok(wire.DeleteQueue("q"))
        self.net.settle()
        self.assertEqual(self.three.queues, ["q"])
        former = self.three.world.queue("q")
        session = self.three.session()
        session.send(create("q"))
        self.three.deaf.clear()
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.assertTrue(former.deleted)
        self.all_have("q")

    def test_a_queue_that_is_on_record_is_there(self) -> None:
        for name in ("q", "r"):
            self.one.session().ok(create(name))
        self.net.settle()
        former, session = self.two.world.queue("q"), self.two.session()
        for packet in (create("q"), create("r", filter_string="a = 1")):
            session.send(packet)
            self.net.settle()
            [answer] = session.take()
            self.assertEqual(answer.error_code, QueueExistsError.code)  # type: ignore[attr-defined]
        self.assertIs(self.two.world.queue("q"), former)
        self.all_have("q", "r")

    def test_it_is_recorded_before_it_is_made(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        session = self.two.session()
        session.send(create("q"))
        self.net.settle()
        self.assertEqual((session.take(), self.two.queues, self.three.queues), ([], [], []))
        self.one.store.sync()  # type: ignore[union-attr]
        self.net.settle()
        self.assertEqual(len(session.take()), 1)
        self.all_have("q")

    def test_others_are_told_when_the_master_has_stored_its_own_change(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        self.one.session().send(create("q"))
        self.net.settle()
        self.assertEqual((self.one.queues, self.two.queues), (["q"], []))
        self.one.store.sync()  # type: ignore[union-attr]
        self.net.settle()
        self.all_have("q")

    def test_updates_and_deletions(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        queue = self.three.world.queue("q")
        definitions = self.three.world.messaging.definitions
        undecided = self.assertRaises(Undecided, definitions.update_queue, queue, max_consumers=3)
        undecided.when_known(lambda: definitions.update_queue(queue, max_consumers=3))
        self.net.settle()
        self.assertEqual([node.world.queue("q").definition.max_consumers for node in self.net.nodes.values()], [3] * 3)
        self.one.session().ok(wire.DeleteQueue("q"))
        self.net.settle()
        self.all_have()

    def test_changes_of_two_brokers_at_once_come_in_the_order_of_the_record(self) -> None:
        sessions = [node.session() for node in (self.two, self.three)]
        for number in range(3):
            for letter, session in zip("ab", sessions, strict=True):
                session.send(create(f"{letter}{number}"))
        self.net.settle()
        for session in sessions:
            self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"] * 3)
        self.all_have("a0", "a1", "a2", "b0", "b1", "b2")

    def ask_and_change(self, asked: wire.Packet, *changes: wire.Packet) -> Session:
        """The second broker asks, and has the answer; before it reads the record the master changes the same."""
        session, ask, once = self.two.session(), MemoryPeer.ask, [changes]

        def asking(peer: MemoryPeer, operation: str, *parameters: object) -> Deferred[object]:
            if operation == "changes" and peer is self.two.peers.at(ONE) and once:
                self.one.session().ok(*once.pop())
            return ask(peer, operation, *parameters)

        self.patch(MemoryPeer, "ask", asking)
        session.send(asked)
        self.net.settle()
        self.two.deaf.clear()
        self.net.settle()
        return session

    def test_a_deletion_that_was_on_record_spares_what_is_made_again_behind_it(self) -> None:
        self.one.session().ok(create("q"))
        self.net.settle()
        self.two.deaf.add("recordHas")
        self.one.session().ok(wire.DeleteQueue("q"))
        session = self.ask_and_change(wire.DeleteQueue("q"), create("q"))
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])
        self.all_have("q")

    def test_a_creation_that_was_on_record_is_not_made_again_behind_a_deletion(self) -> None:
        self.two.deaf.add("recordHas")
        self.one.session().ok(create("q"))
        session = self.ask_and_change(create("q"), wire.DeleteQueue("q"))
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])
        self.all_have()

    def test_own_changes_come_before_a_whole_record_that_has_gone_on(self) -> None:
        """The record was compressed before this broker read on."""
        self.patch(own_record, "SLACK_MAX", 3)
        for name in ("p", "q"):
            self.one.session().ok(create(name))
        self.net.settle()
        self.three.session().send(wire.DeleteQueue("p"))
        session = self.two.session()
        session.send(wire.DeleteQueue("q"))
        self.three.session().send(create("q"))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.all_have("q")

    def test_what_was_on_record_is_refused_where_a_whole_record_has_gone_on(self) -> None:
        self.patch(own_record, "SLACK_MAX", 1)
        self.one.session().ok(create("q"))
        self.net.settle()
        self.two.deaf.add("recordHas")
        self.one.session().ok(wire.DeleteQueue("q"))
        session = self.ask_and_change(wire.DeleteQueue("q"), create("q"), wire.DeleteQueue("q"), create("q"))
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn("try again", str(answer.message))
        self.all_have("q")

    def test_a_request_that_is_carried_out_late_asks_again(self) -> None:
        """Its client does not read, and others have made the queue anew meanwhile."""
        self.one.session().ok(create("q"))
        self.net.settle()
        session = self.two.session()
        session.send(wire.DeleteQueue("q"))
        resume = session.peer.connection.pause_frames()
        self.net.settle()
        self.one.session().ok(create("q"))
        self.net.settle()
        resume()
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.all_have()

    def test_who_comes_behind_one_that_fails_with_the_link_is_refused_too(self) -> None:
        session = self.two.session()
        for name in ("q", "r"):
            session.send(create(name))
        self.net.cut(self.one, self.two)
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"] * 2)

    def test_the_same_name_at_once(self) -> None:
        """The definition that comes first counts; the other client is told that the queue is there."""
        sessions = [node.session() for node in (self.two, self.three)]
        for session in sessions:
            session.send(create("q"))
        self.net.settle()
        answers = [each for session in sessions for each in session.take()]
        self.assertEqual(sorted(each.NAME for each in answers), ["EXCEPTION", "NULL_RESPONSE"])
        self.all_have("q")

    def test_the_same_name_defined_differently(self) -> None:
        first, second = self.two.session(), self.three.session()
        first.send(create("q"))
        second.send(create("q", max_consumers=1))
        self.net.settle()
        [answer] = second.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual(answer.error_code, QueueExistsError.code)
        self.assertIn(TWO, str(answer.message))
        self.assertIn(THREE, str(answer.message))
        self.all_have("q")

    def test_two_clients_of_one_broker_who_want_the_same(self) -> None:
        first, second = self.two.session(), self.two.session()
        first.send(create("q"))
        second.send(create("q"))
        self.net.settle()
        self.assertEqual([each.NAME for each in first.take() + second.take()], ["NULL_RESPONSE", "EXCEPTION"])
        self.assertEqual(self.net.requests["append"], 2, "one for both, and one whether it is there still")
        self.all_have("q")

    def test_one_that_is_there_and_wanted_otherwise_is_not_asked_for(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        session = self.two.session()
        session.send(create("q", filter_string="this is no filter"))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])
        self.assertEqual(self.net.requests["append"], 1)

    def test_who_goes_before_the_answer_leaves_the_change_on_record(self) -> None:
        session = self.two.session()
        session.send(create("q"))
        session.peer.lose()
        self.net.settle()
        self.all_have("q")

    def test_what_is_made_automatically_is_not_recorded(self) -> None:
        self.two.session().ok(create("q", auto_created=True))
        self.two.session().ok(create("t", durable=False, temporary=True))
        self.net.settle()
        self.assertEqual((self.record(), self.net.requests["append"]), ([], 0))
        self.assertEqual((self.one.queues, self.two.queues), (["t"], ["q", "t"]))

    def test_an_automatic_queue_becomes_the_recorded_one(self) -> None:
        self.three.session().ok(create("q", auto_created=True))
        self.three.session().publish(b"1")
        self.two.session().send(create("q"))
        self.net.settle()
        queue = self.three.world.queue("q")
        self.assertEqual((queue.definition.auto_created, queue.message_count), (False, 1))
        self.all_have("q")

    def test_a_queue_of_another_kind_is_made_anew(self) -> None:
        self.three.session().ok(create("q", auto_created=True, last_value=True, last_value_key="k"))
        self.two.session().send(create("q"))
        self.net.settle()
        self.assertFalse(self.three.world.queue("q").definition.last_value)
        self.all_have("q")

    def test_addresses(self) -> None:
        session = self.two.session()
        session.send(wire.CreateAddress("a", (0,), True))
        self.net.settle()
        session.send(wire.CreateAddress("a", (0, 1), True))
        self.net.settle()
        self.assertEqual(len(session.take()), 2)
        types = {node.world.messaging.core.addresses["a"].routing_types for node in self.net.nodes.values()}
        self.assertEqual(types, {frozenset((0, 1))})
        self.one.session().send(wire.CreateAddress("b", (0,), True))
        session.send(wire.CreateAddress("b", (1,), True))
        self.net.settle()
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual(answer.error_code, AddressExistsError.code)

    def test_a_telling_that_was_lost_is_made_up_for(self) -> None:
        self.three.deaf.add("recordHas")
        self.two.session().send(create("q"))
        self.net.settle()
        self.assertEqual(self.three.queues, [])
        self.three.deaf.clear()
        self.net.cut(self.two, self.three)
        self.net.link(self.two, self.three)
        self.net.settle()
        self.all_have("q")

    def test_an_invalid_request_of_a_member_is_refused(self) -> None:
        for operation, parameters in (
            ("append", [TWO, {"action": "create"}, "g", 1, False]),
            ("join", [None, None, None, None, "many"]),
            ("change", [TWO, {}]),
        ):
            self.assertRaises(MQError, self.one.answer, operation, parameters)
        self.assertEqual(self.record(), [])


class AwayTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()

    def refused(self, node: Node, packet: wire.Packet) -> str:
        answer = node.session().call(packet)
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual(answer.error_code, IllegalStateError.code)
        return str(answer.message)

    def test_what_needs_the_record_is_refused_at_once_and_names_the_master(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        self.one.stop()
        self.assertIn(f"the master broker {ONE} is not linked", self.refused(self.two, create("r")))
        self.assertIn("B4094", self.refused(self.three, wire.DeleteQueue("q")))
        self.assertEqual((self.two.queues, self.three.queues), (["q"], ["q"]))

    def test_everything_else_goes_on(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        self.one.stop()
        session = self.two.session()
        session.publish(b"1")
        session.consume()
        self.assertEqual(session.bodies(), [b"1"])
        session.ok(create("auto", auto_created=True), create("t", durable=False, temporary=True))

    def test_a_request_under_way_fails_and_its_change_comes_when_the_master_is_back(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        session = self.two.session()
        session.send(create("q"))
        self.net.settle()
        self.net.cut(self.one, self.two)
        self.one.store.held = False  # type: ignore[union-attr]
        self.one.store.sync()  # type: ignore[union-attr]
        self.net.settle()
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((self.one.queues, self.two.queues), (["q"], []))
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual(self.two.queues, ["q"])

    def test_a_master_that_does_not_answer(self) -> None:
        self.one.deaf.add("append")
        session = self.two.session()
        session.send(create("q"))
        self.net.settle(100)
        self.assertEqual(session.take(), [])
        self.net.cut(self.one, self.two)
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)

    def test_the_master_that_returns_knows_its_record(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        self.one.restart(crash=True)
        self.net.link_all(self.one)
        self.two.session().send(create("r"))
        self.net.settle()
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q", "r"]] * 3)

    def test_a_member_that_missed_changes_gets_those_alone(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        self.three.stop()
        for name in ("r", "s"):
            self.one.session().ok(create(name))
        self.one.session().ok(wire.DeleteQueue("q"))
        self.net.settle()
        self.three.start()
        self.net.link_all(self.three)
        self.net.settle()
        self.assertEqual(self.three.queues, ["r", "s"])
        self.assertEqual(self.three.recording.state, "running")

    def test_what_was_deleted_and_made_again_is_made_anew_once(self) -> None:
        self.two.session().send(create("q"))
        self.net.settle()
        before = self.three.world.queue("q").queue_id
        self.three.stop()
        self.one.session().ok(wire.DeleteQueue("q"), create("q"))
        self.three.start()
        self.net.link_all(self.three)
        self.net.settle()
        anew = self.three.world.queue("q").queue_id
        self.assertNotEqual(anew, before)
        self.three.restart(crash=True)
        self.net.link_all(self.three)
        self.net.settle()
        self.assertEqual((self.three.world.queue("q").queue_id, self.three.recording.state), (anew, "running"))


class ConfigurationTests(SynchronousTestCase):
    def test_queues_of_files_are_one_definition(self) -> None:
        net = Net()
        for place in (ONE, TWO, THREE):
            net.add(place, QueueConfiguration("q", "q", 1, configuration_managed=True))
        self.assertEqual([node.queues for node in net.nodes.values()], [["q"]] * 3)
        self.assertEqual(len(net.nodes[ONE].recording.keeping.record), 2)

    def test_a_different_one_is_refused_with_both_origins(self) -> None:
        net = Net()
        net.add(ONE, QueueConfiguration("q", "q", 1, max_consumers=1))
        two = net.add(TWO, QueueConfiguration("q", "q", 1, max_consumers=2))
        self.assertEqual(two.world.queue("q").definition.max_consumers, 1)
        self.assertEqual(net.nodes[ONE].world.queue("q").definition.max_consumers, 1)

    def test_a_file_that_changes_changes_it_everywhere(self) -> None:
        net = Net()
        net.add(ONE)
        two = net.add(TWO, QueueConfiguration("q", "q", 1, max_consumers=1))
        two.configured = (QueueConfiguration("q", "q", 1, max_consumers=2),)
        two.restart()
        net.link_all(two)
        net.settle()
        self.assertEqual([node.world.queue("q").definition.max_consumers for node in net.nodes.values()], [2, 2])

    def test_it_waits_for_a_master_that_is_away(self) -> None:
        net = Net()
        two = net.add(TWO, QueueConfiguration("q", "q", 1))
        net.settle(1000)
        self.assertEqual(two.queues, [])
        one = net.add(ONE)
        self.assertEqual((one.queues, two.queues), (["q"], ["q"]))

    def test_it_waits_also_when_the_master_goes_meanwhile(self) -> None:
        net = Net()
        one = net.add(ONE)
        two = net.add(TWO, QueueConfiguration("q", "q", 1), link=False)
        one.deaf.add("append")
        net.link(one, two)
        net.settle()
        net.cut(one, two)
        one.deaf.clear()
        net.settle()
        self.assertEqual((two.queues, two.recording.state), ([], "running_without_master"))
        net.link(one, two)
        net.settle()
        self.assertEqual((one.queues, two.queues), (["q"], ["q"]))


class UnprotectedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three(master=None)

    def test_changes_reach_whoever_is_linked(self) -> None:
        self.net.cut_off(self.three)
        self.two.session().ok(create("q"))
        self.net.settle()
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q"], ["q"], []])
        self.net.link_all(self.three)
        self.net.settle()
        self.assertEqual(self.three.queues, [])
        self.one.session().ok(wire.DeleteQueue("q"))
        self.net.settle()
        self.assertEqual(self.two.queues, [])

    def test_a_change_that_cannot_be_made_there_is_a_warning(self) -> None:
        self.three.session().ok(create("q", auto_created=True))
        self.three.world.queue("q").needed_for = "something"
        self.two.session().ok(create("q"))
        self.two.session().ok(wire.DeleteQueue("q"))
        self.net.settle()
        self.assertEqual((self.three.queues, self.one.queues), (["q"], []))

    def test_a_broker_with_a_record_takes_no_changes_from_one_without(self) -> None:
        _, one, _, _ = three()
        self.assertRaises(MQError, one.answer, "change", [TWO, {}])
