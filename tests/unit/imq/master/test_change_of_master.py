"""Each outcome of a change of the master [B8.6]."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import fail
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master.change_of_master import TOLD_SECONDS, MasterChangeError, Status
from mqclient.errors import MQError, OperationTimeoutError
from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, THREE, TWO, MemoryPeer, Net, Node, three


class ChangeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three(dynamic_change_master=True)
        self.two.session().send(create("q"))
        self.net.settle()

    def change(self, node: Node, master: str) -> list[Any]:
        found: list[Any] = []
        node.shared.change_of_master.change(master).addBoth(found.append)
        self.net.settle()
        return found

    def status(self, node: Node, master: str) -> Status | None:
        [result] = self.change(node, master)
        if result is None:
            return None
        error = result.value
        assert isinstance(error, MasterChangeError), error
        self.assertTrue(str(error).startswith(f"{error.status}: "))
        return error.status

    def masters(self) -> list[str]:
        return [node.recording.master for node in (self.one, self.two, self.three)]


class DoneTests(ChangeCase):
    def test_all_follow_the_new_master(self) -> None:
        self.assertIsNone(self.status(self.one, TWO))
        self.assertEqual(self.masters(), [TWO] * 3)
        self.assertEqual([node.recording.state for node in self.net.nodes.values()], ["running", "running_master", "running"])
        session = self.one.session()
        session.send(create("r"))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q", "r"]] * 3)

    def test_it_holds_after_restarts_until_the_files_name_another_one(self) -> None:
        self.change(self.one, TWO)
        for node in (self.one, self.two, self.three):
            node.restart()
        for node in (self.one, self.two, self.three):
            self.net.link_all(node)
        self.net.settle()
        self.assertEqual(self.masters(), [TWO] * 3)
        self.assertEqual(self.two.recording.state, "running_master")

    def test_who_was_away_hears_of_it_from_the_old_master(self) -> None:
        self.three.stop()
        self.change(self.one, TWO)
        self.two.session().ok(create("r"))
        self.three.start()
        self.net.link(self.one, self.three)
        self.net.settle()
        self.net.link(self.two, self.three)
        self.net.settle()
        self.assertEqual((self.three.recording.master, self.three.recording.state), (TWO, "running"))
        self.assertEqual(self.three.queues, ["q", "r"])

    def test_who_has_no_link_to_the_old_master_hears_of_it_from_the_new_one(self) -> None:
        self.net.cut(self.one, self.three)
        self.change(self.one, TWO)
        self.one.stop()
        self.assertEqual(self.three.recording.master, ONE)
        self.net.settle(TOLD_SECONDS)
        self.assertEqual((self.three.recording.master, self.three.recording.state), (TWO, "running"))

    def test_nobody_hears_of_it_while_another_one_is_made_the_master(self) -> None:
        """The next one would have given that up again."""
        self.change(self.one, TWO)
        self.net.settle(TOLD_SECONDS - 0.5)
        self.two.store.held = True  # type: ignore[union-attr]
        found: list[Any] = []
        self.two.shared.change_of_master.change(THREE).addBoth(found.append)
        told: list[str] = []
        self.patch(MemoryPeer, "ask", self.noting(MemoryPeer.ask, told))
        self.net.settle(1.0)
        self.assertEqual((found, told), ([], []))
        self.two.store.held = False  # type: ignore[union-attr]
        self.two.store.sync()  # type: ignore[union-attr]
        self.net.settle(2 * TOLD_SECONDS)
        self.assertEqual((found, self.masters()), ([None], [THREE] * 3))

    @staticmethod
    def noting(ask: Any, told: list[str]) -> Any:
        def noted(peer: Any, operation: str, *values: Any) -> Any:
            if operation == "newMaster":
                told.append(values[2])
            return ask(peer, operation, *values)

        return noted

    def test_who_was_away_hears_that_it_is_the_one_of_the_files_again(self) -> None:
        self.change(self.one, TWO)
        self.net.cut_off(self.three)
        self.assertIsNone(self.status(self.two, ONE))
        self.assertEqual(self.masters(), [ONE, ONE, TWO])
        self.net.link_all(self.three)
        self.net.settle()
        self.assertEqual((self.masters(), self.three.recording.state), ([ONE] * 3, "running"))

    def test_back_again(self) -> None:
        self.change(self.one, TWO)
        self.assertIsNone(self.status(self.two, ONE))
        self.assertEqual(self.masters(), [ONE] * 3)
        self.assertEqual(len(self.one.recording.keeping.record), 1)

    def test_changes_wait_meanwhile(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        self.one.session().send(create("r"))
        found: list[Any] = []
        self.one.shared.change_of_master.change(TWO).addBoth(found.append)
        here, there = self.one.session(), self.three.session()
        here.send(create("s"))
        there.send(create("t"))
        self.net.settle()
        self.assertEqual((found, here.take(), there.take()), ([], [], []))
        self.one.store.held = False  # type: ignore[union-attr]
        self.one.store.sync()  # type: ignore[union-attr]
        self.net.settle(6)
        self.assertEqual(found, [None])
        self.assertEqual([each.NAME for each in here.take() + there.take()], ["NULL_RESPONSE"] * 2)
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q", "r", "s", "t"]] * 3)

    def test_who_waits_at_a_broker_that_loses_the_master_is_refused(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        self.one.session().send(create("r"))
        self.one.shared.change_of_master.change(TWO)
        self.one.store.held = False  # type: ignore[union-attr]
        session = self.three.session()
        session.send(create("s"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.cut(self.one, self.three)
        self.net.settle(6)
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])

    def test_the_same_master(self) -> None:
        before = self.net.requests.copy()
        self.assertIsNone(self.status(self.one, ONE))
        self.assertEqual(self.net.requests, before)


class RefusedTests(ChangeCase):
    def unchanged(self) -> None:
        self.assertEqual(self.masters(), [ONE] * 3)
        self.assertIsNone(self.one.recording.keeping.blocked)
        session = self.three.session()
        session.send(create("still"))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])

    def test_checks(self) -> None:
        self.assertEqual(self.status(self.one, ""), Status.BAD_REQUEST)
        self.assertEqual(self.status(self.two, THREE), Status.NOT_ALLOWED)
        self.assertEqual(self.status(self.one, "b9:7676"), Status.PRECONDITION_FAILED)
        self.net.cut(self.one, self.two)
        self.assertEqual(self.status(self.one, TWO), Status.PRECONDITION_FAILED)
        self.assertEqual(self.status(self.two, THREE), Status.UNAVAILABLE)
        self.net.link(self.one, self.two)
        self.unchanged()

    def test_where_the_property_is_false(self) -> None:
        _, one, _, _ = three()
        [failure] = [one.shared.change_of_master.change(TWO)]
        self.assertEqual(self.failureResultOf(failure).value.status, Status.NOT_ALLOWED)

    def test_where_a_command_line_names_the_master(self) -> None:
        _, one, _, _ = three(dynamic_change_master=True, master_from_command_line=True)
        failure = self.failureResultOf(one.shared.change_of_master.change(TWO))
        self.assertEqual(failure.value.status, Status.NOT_ALLOWED)
        net = Net(dynamic_change_master=True)
        one = net.add(ONE)
        net.add(TWO, master_from_command_line=True)
        found: list[Any] = []
        one.shared.change_of_master.change(TWO).addBoth(found.append)
        net.settle()
        self.assertIn("NOT_ALLOWED: the command line of this broker gives imq.cluster.masterbroker", str(found[0].value))
        self.assertEqual((one.recording.master, one.recording.keeping.blocked), (ONE, None))

    def test_without_a_master(self) -> None:
        _, one, two, _ = three(master=None, dynamic_change_master=True)
        failure = self.failureResultOf(one.shared.change_of_master.change(TWO))
        self.assertEqual(failure.value.status, Status.PRECONDITION_FAILED)
        self.assertRaises(MQError, two.answer, "newMaster", ["", ONE, ONE, "node"])

    def test_the_new_one_does_not_allow_it(self) -> None:
        net = Net(dynamic_change_master=True)
        one = net.add(ONE)
        net.add(TWO, dynamic_change_master=False)
        found: list[Any] = []
        one.shared.change_of_master.change(TWO).addBoth(found.append)
        net.settle()
        self.assertEqual(found[0].value.status, Status.PRECONDITION_FAILED)
        self.assertEqual((one.recording.master, one.recording.keeping.blocked), (ONE, None))

    def test_the_link_is_lost_before_the_new_one_is_prepared(self) -> None:
        self.two.deaf.add("prepareMaster")
        found: list[Any] = []
        self.one.shared.change_of_master.change(TWO).addBoth(found.append)
        self.net.settle()
        second: list[Any] = []
        self.one.shared.change_of_master.change(THREE).addBoth(second.append)
        self.assertEqual(second[0].value.status, Status.PRECONDITION_FAILED)
        self.net.cut(self.one, self.two)
        self.net.settle()
        self.assertEqual(found[0].value.status, Status.PRECONDITION_FAILED)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.unchanged()

    def test_changes_of_others_wait_no_longer_than_the_change_of_the_master(self) -> None:
        self.two.deaf.add("prepareMaster")
        self.one.shared.change_of_master.change(TWO).addErrback(lambda failure: None)
        session = self.three.session()
        session.send(create("r"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.cut(self.one, self.two)
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])

    def test_who_was_not_linked_hears_that_changes_are_taken_again(self) -> None:
        """The link from the master was lost, not the one to it."""
        self.two.deaf.add("prepareMaster")
        self.one.shared.change_of_master.change(TWO).addErrback(lambda failure: None)
        session = self.two.session()
        session.send(create("r"))
        self.net.settle()
        lost = self.one.peers.members.pop(self.two.node_id)
        self.one.world.server.turn.run(lost.end)
        self.one.world.server.turn.run(self.one.peers.unlinked, lost)
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["NULL_RESPONSE"])

    def test_who_is_linked_meanwhile_hears_who_stays_the_master(self) -> None:
        self.three.stop()
        self.change(self.one, TWO)
        self.net.settle(TOLD_SECONDS)
        self.one.deaf.add("prepareMaster")
        self.two.shared.change_of_master.change(ONE).addErrback(lambda failure: None)
        self.three.start()
        self.net.link(self.two, self.three)
        self.net.settle()
        self.assertEqual(self.three.recording.master, ONE)
        self.net.cut(self.one, self.two)
        self.net.settle()
        self.assertEqual((self.two.recording.master, self.three.recording.master), (TWO, TWO))

    def test_an_answer_that_is_none(self) -> None:
        self.patch(MemoryPeer, "ask", lambda *parameters: fail(ValueError("no JSON")))
        failure = self.failureResultOf(self.one.shared.change_of_master.change(TWO))
        self.assertIsInstance(failure.value, ValueError)
        self.assertIsNone(self.one.recording.keeping.blocked)

    def test_a_stop_while_it_is_prepared(self) -> None:
        self.two.deaf.add("prepareMaster")
        self.one.shared.change_of_master.change(TWO).addErrback(lambda failure: None)
        self.net.settle()
        assert self.one.store is not None
        self.one.shared.stop()
        before = len(self.one.store.log)
        self.net.cut(self.one, self.two)
        self.assertEqual(len(self.one.store.log), before)

    def test_changes_under_way_that_do_not_end(self) -> None:
        self.one.store.held = True  # type: ignore[union-attr]
        self.one.session().send(create("r"))
        found: list[Any] = []
        self.one.shared.change_of_master.change(TWO).addBoth(found.append)
        self.net.settle(181)
        self.assertEqual(found[0].value.status, Status.PRECONDITION_FAILED)
        self.one.store.held = False  # type: ignore[union-attr]
        self.one.store.sync()  # type: ignore[union-attr]
        self.net.settle()
        self.unchanged()

    def test_who_is_not_prepared_does_not_become_the_master(self) -> None:
        self.assertRaises(MQError, self.two.answer, "newMaster", ["c", ONE, TWO, "node"])
        self.assertRaises(MQError, self.two.answer, "prepareMaster", ["c", THREE, [], True])
        self.assertRaises(MQError, self.two.answer, "newMaster", ["", THREE, "b9:7676", "node"])
        self.unchanged()


class UncertainTests(ChangeCase):
    """The new master was told, and its answer is missing."""

    def lose_the_answer(self, *, told: bool) -> None:
        self.lose(self.one, self.two, told)

    def lose(self, old: Node, new: Node, told: bool) -> None:
        store: Any = new.store
        if told:
            store.held = True
        found: list[Any] = []
        if not told:
            new.deaf.add("newMaster")
        old.shared.change_of_master.change(new.place).addBoth(found.append)
        self.net.settle()
        if told and new.recording.state != "running_master":
            store.sync()
            self.net.settle()
        self.net.cut(old, new)
        self.net.settle()
        self.assertEqual(found[0].value.status, Status.ERROR)
        store.held = False
        store.sync()
        new.deaf.clear()

    def test_nobody_takes_changes_until_it_is_known(self) -> None:
        self.lose_the_answer(told=False)
        session = self.one.session()
        session.send(create("r"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.settle(200)
        [answer] = session.take()
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertIn(TWO, str(answer.message))

    def test_who_hears_of_it_from_the_new_master_takes_changes_when_it_is_the_master_again(self) -> None:
        self.lose_the_answer(told=True)
        self.assertIsNotNone(self.one.recording.keeping.blocked)
        self.one.shared.change_of_master.answer_new_master("", TWO, TWO, "")
        self.assertIsNone(self.one.recording.keeping.blocked)

    def test_it_was_not_told_and_is_told_again(self) -> None:
        self.lose_the_answer(told=False)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual(self.masters(), [TWO] * 3)

    def test_it_is_asked_after_what_is_noted_of_it_is_durable(self) -> None:
        """Or the old master would take itself back after a crash, beside the new one."""
        self.one.shared.change_of_master.change(TWO).addErrback(lambda failure: None)
        while not self.net.requests["prepareMaster"]:
            self.net.clock.run_due()
        store: Any = self.one.store
        store.held = True
        self.net.settle()
        self.net.cut(self.one, self.two)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual((self.net.requests["newMaster"], self.masters()), (0, [ONE] * 3))
        store.held = False
        store.sync()
        self.net.settle()
        self.assertEqual(self.masters(), [TWO] * 3)

    def test_it_is_asked_again_over_the_same_link(self) -> None:
        self.two.deaf.add("newMaster")
        self.one.shared.change_of_master.change(TWO).addErrback(lambda failure: None)
        self.net.settle()
        peer = self.one.peers.members[self.two.node_id]
        (asked,) = peer._waiting
        peer._waiting.clear()
        self.one.world.server.turn.run(asked.errback, OperationTimeoutError("no answer"))
        self.assertIsNotNone(self.one.recording.keeping.blocked)
        self.two.deaf.clear()
        self.net.settle(TOLD_SECONDS)
        self.assertEqual((self.masters(), self.one.recording.keeping.blocked), ([TWO] * 3, None))

    def test_nobody_hears_of_it_before_it_would_be_the_master_after_a_crash(self) -> None:
        """There would be no master any more."""
        store: Any = self.two.store
        store.held = True
        self.one.shared.change_of_master.change(TWO)
        self.net.settle(TOLD_SECONDS + 1)
        self.assertEqual(self.masters(), [ONE, TWO, ONE])
        store.held = False
        store.sync()
        self.net.settle()
        self.assertEqual(self.masters(), [TWO] * 3)

    def test_it_has_become_the_master(self) -> None:
        self.lose_the_answer(told=True)
        self.assertEqual(self.two.recording.state, "running_master")
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual(self.masters(), [TWO] * 3)

    def test_it_has_forgotten_the_change(self) -> None:
        self.lose_the_answer(told=False)
        self.two.restart(crash=True)
        self.net.link_all(self.two)
        self.net.settle()
        self.assertEqual(self.masters(), [ONE] * 3)
        self.assertIsNone(self.one.recording.keeping.blocked)

    def test_who_may_not_be_the_master_any_more_tells_nobody_that_it_is(self) -> None:
        """A member that believed it would go back to a record that does not know its own, and would be ended for that."""
        self.change(self.one, TWO)
        self.net.settle(TOLD_SECONDS)
        self.lose(self.two, self.three, told=True)
        self.net.settle(TOLD_SECONDS)
        self.assertEqual(self.masters(), [THREE, TWO, THREE])
        self.net.cut(self.one, self.two)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual((self.one.recording.master, self.one.left), (THREE, []))
        self.net.link(self.two, self.three)
        self.net.settle()
        self.assertEqual(self.masters(), [THREE] * 3)

    def hand_on(self) -> None:
        """The broker that has become the master hands the record over to the third one, and the first one hears of nothing."""
        self.lose_the_answer(told=True)
        self.net.cut_off(self.one)
        self.net.settle(TOLD_SECONDS)
        self.assertIsNone(self.status(self.two, THREE))
        self.assertEqual(self.masters(), [ONE, THREE, THREE])

    def test_it_has_handed_the_record_over_since(self) -> None:
        """Who said that it was not prepared would let the old master take itself back."""
        self.hand_on()
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual((self.one.recording.master, self.one.recording.state), (THREE, "running_without_master"))
        session = self.one.session()
        session.send(create("r"))
        self.net.settle()
        self.assertEqual([each.NAME for each in session.take()], ["EXCEPTION"])
        self.net.link_all(self.one)
        self.net.settle(6)
        self.assertEqual(self.masters(), [THREE] * 3)
        self.assertEqual(self.one.recording.state, "running")

    def test_another_one_tells_who_is_the_master_while_it_is_asked(self) -> None:
        for lost in (False, True):
            with self.subTest(lost=lost):
                self.setUp()
                self.hand_on()
                self.two.deaf.add("newMaster")
                self.net.link(self.one, self.two)
                self.net.settle()
                self.net.link(self.one, self.three)
                self.net.settle()
                self.assertEqual(self.one.recording.master, THREE)
                if lost:
                    self.net.cut(self.one, self.two)
                self.net.settle()
                self.assertEqual((self.masters(), self.one.recording.keeping.blocked), ([THREE] * 3, None))
                self.assertIsNone(self.status(self.three, ONE))
                self.one.session().ok(create("r"))

    def test_the_old_master_restarts_meanwhile(self) -> None:
        self.lose_the_answer(told=True)
        self.one.restart(crash=True)
        session = self.one.session()
        session.send(create("r"))
        self.net.settle()
        self.assertEqual(session.take(), [])
        self.net.link_all(self.one)
        self.net.settle(6)
        self.assertEqual(self.masters(), [TWO] * 3)
        self.assertEqual(len(session.take()), 1)
