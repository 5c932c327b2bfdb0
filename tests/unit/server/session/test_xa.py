"""XA branches from their start to their end, by whoever ends them."""

from __future__ import annotations

from typing import Any

from mqbroker.messaging.delivery import branches as messaging_branches
from mqbroker.messaging.delivery.branches import BRANCHES_MAX, XID_PART_LENGTH_MAX, XACode
from mqclient.wire import packets as wire
from mqclient.wire.primitives import Xid
from tests.unit.server.xa import DUPID, NOTA, PROTO, StateCase, XASession, xid


class AssociationTests(StateCase):
    """Which session works in which branch."""

    def test_an_unknown_xid(self) -> None:
        session = self.session
        for packet in (wire.XaEnd, wire.XaJoin, wire.XaResume, wire.XaPrepare, wire.XaCommit, wire.XaRollback, wire.XaForget):
            self.assertEqual(session.ask(packet(xid("?"))), NOTA, packet)
        self.assertEqual(session.ask(wire.XaSuspend()), PROTO)

    def test_all_parts_of_an_xid_count(self) -> None:
        xids = [Xid(1, b"ab", b"c"), Xid(1, b"a", b"bc"), Xid(2, b"ab", b"c"), Xid(-3, b"", b"")]
        for each in xids:
            self.assertEqual(self.session.ask(wire.XaStart(each)), 0)
            self.assertEqual(self.session.ask(wire.XaEnd(each)), 0)
            self.assertEqual(self.session.ask(wire.XaPrepare(each)), 0)
        answer: Any = self.session.session.call(wire.XaInDoubtXids())
        self.assertEqual(list(answer.xids), xids)

    def test_an_xid_that_is_in_use(self) -> None:
        self.assertEqual(self.session.start("t"), 0)
        self.assertEqual((self.session.start("t"), self.other.start("t")), (DUPID, DUPID))
        self.session.session.publish(b"one")
        self.assertEqual(self.session.end("t"), 0)
        self.assertEqual(self.other.start("t"), DUPID)
        self.assertEqual((self.session.prepare("t"), self.other.start("t"), self.session.commit("t")), (0, DUPID, 0))
        self.assertEqual(self.visible(), [b"one"])

    def test_work_that_has_not_ended(self) -> None:
        self.session.start("t")
        for asking in (self.session, self.other):
            self.assertEqual((asking.prepare("t"), asking.commit("t", True)), (PROTO, PROTO))
        self.assertEqual(self.session.rollback("t"), PROTO)
        self.assertEqual((self.session.end("t"), self.session.end("t")), (0, 0), "it may be said twice")
        self.assertEqual((self.session.prepare("t"), self.session.end("t")), (0, PROTO))

    def test_a_rollback_while_another_session_works(self) -> None:
        """As a transaction manager does when it has waited too long: what the session still does comes to nothing."""
        self.session.start("t")
        self.session.session.publish(b"one")
        self.assertEqual(self.other.rollback("t"), 0)
        self.assertEqual(self.queue.arriving, 0)
        self.session.session.publish(b"two")
        self.assertEqual(self.session.end("t"), XACode.ROLLED_BACK)
        self.assertEqual((self.queue.arriving, self.visible(), self.session.rollback("t")), (0, [], NOTA))

    def test_a_start_replaces_what_has_not_ended(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.assertEqual(self.session.start("u"), 0)
        self.assertEqual([code for code, _ in self.reports], ["AMQ222176"])
        self.assertEqual((self.session.end("t"), self.session.rollback("t"), self.queue.arriving), (NOTA, NOTA, 0))

    def test_a_rollback_of_an_unknown_xid_rolls_back_what_the_session_does(self) -> None:
        self.plain.publish(b"one")
        self.session.session.consume()
        (found,) = self.session.session.received()
        self.session.start("t")
        self.session.acknowledge(found)
        self.assertEqual(self.session.rollback("?"), NOTA)
        self.assertEqual([each.delivery_count for each in self.session.session.received()], [2])
        self.assertEqual((self.session.end("t"), self.session.rollback("t")), (0, 0))

    def test_join(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.assertEqual((self.other.ask(wire.XaJoin(xid("t"))), self.other.ask(wire.XaJoin(xid("t")))), (0, 0))
        self.other.session.publish(b"two")
        self.assertEqual((self.session.end("t"), self.session.prepare("t"), self.other.end("t")), (0, PROTO, 0))
        self.assertEqual((self.session.prepare("t"), self.other.ask(wire.XaJoin(xid("t")))), (0, PROTO))
        self.assertEqual((self.session.commit("t"), self.visible()), (0, [b"one", b"two"]))

    def test_a_session_works_in_one_branch(self) -> None:
        self.session.start("t")
        self.other.start("u")
        self.assertEqual(self.other.ask(wire.XaJoin(xid("t"))), PROTO)
        self.assertEqual((self.session.ask(wire.XaSuspend()), self.other.ask(wire.XaResume(xid("t")))), (0, PROTO))

    def test_suspend_and_resume(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.assertEqual(self.session.ask(wire.XaSuspend()), 0)
        self.session.session.publish(b"outside")
        self.assertEqual(self.visible(), [b"outside"])
        for packet in (wire.XaJoin, wire.XaPrepare, wire.XaRollback):
            self.assertEqual(self.session.ask(packet(xid("t"))), PROTO, packet)
        self.assertEqual(self.session.commit("t", True), PROTO)
        self.assertEqual(self.other.ask(wire.XaResume(xid("t"))), 0)
        self.other.session.publish(b"two")
        self.assertEqual((self.other.end("t"), self.other.ask(wire.XaResume(xid("t")))), (0, PROTO))
        self.assertEqual(self.session.commit("t", True), 0)
        self.assertEqual(self.visible(), [b"outside", b"one", b"two"])

    def test_a_suspended_branch_can_be_ended(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.session.ask(wire.XaSuspend())
        self.assertEqual((self.other.end("t"), self.session.commit("t", True)), (0, 0))
        self.assertEqual(self.visible(), [b"one"])

    def test_only_xa_sessions_work_in_branches(self) -> None:
        plain = XASession(self.peer, xa=False, auto_commit_sends=True, auto_commit_acks=True)
        self.session.sends("t", b"one", prepare=True)
        for packet in (wire.XaStart, wire.XaJoin, wire.XaResume):
            self.assertEqual(plain.ask(packet(xid("t"))), PROTO)
        self.assertEqual((plain.in_doubt(), plain.commit("t")), (["t"], 0))

    def test_as_many_branches_as_the_limit(self) -> None:
        branches = self.world.messaging.branches
        for number in range(BRANCHES_MAX):
            branches.start(xid(str(number)), self.peer.connection)
        self.assertEqual(self.session.start("t"), XACode.RESOURCE_ERROR)
        self.assertEqual(XASession(self.world.peer()).start("t"), 0)
        self.assertEqual((self.session.rollback("7"), self.session.start("u")), (0, 0))

    def test_as_many_prepared_branches_as_the_limit(self) -> None:
        self.patch(messaging_branches, "PREPARED_MAX", 2)
        for name in ("a", "b"):
            self.session.sends(name, b"kept", prepare=True)
        XASession(self.world.peer()).sends("c", b"refused")
        answer: Any = self.session.session.call(wire.XaPrepare(xid("c")))
        self.assertEqual((answer.response_code, answer.error), (XACode.ROLLED_BACK, True))
        self.assertIn("2 prepared branches", answer.message)
        self.assertEqual((self.session.in_doubt(), self.world.queue("q").arriving), (["a", "b"], 2))
        self.assertEqual((self.session.prepare("b"), self.session.rollback("c"), self.session.commit("a")), (0, NOTA, 0))
        self.session.sends("d", b"again")
        self.assertEqual(self.session.prepare("d"), 0)

    def test_a_part_of_an_xid_that_is_too_long(self) -> None:
        text = "x" * XID_PART_LENGTH_MAX
        self.assertEqual(self.session.start(text + "x"), XACode.INVALID)
        self.assertEqual(self.session.ask(wire.XaStart(xid("t", text.encode() + b"x"))), XACode.INVALID)
        self.assertEqual(self.session.ask(wire.XaStart(xid(text, text.encode()))), 0)


class EndTests(StateCase):
    """Ends that nobody asked for."""

    def test_the_close_of_a_session_leaves_its_branch(self) -> None:
        self.session.start("t")
        self.session.session.publish(b"one")
        self.session.session.ok(wire.SessionClose())
        self.assertEqual(self.other.commit("t", True), 0)
        self.assertEqual(self.visible(), [b"one"])

    def test_the_end_of_a_connection(self) -> None:
        """What it has not prepared is rolled back, what it has prepared stays."""
        self.plain.publish(b"taken")
        self.session.session.consume()
        (found,) = self.session.session.received()
        self.session.sends("prepared", b"one", prepare=True)
        self.session.sends("ended", b"two")
        self.session.start("active")
        self.session.acknowledge(found)
        self.other.start("suspended")
        self.other.ask(wire.XaSuspend())
        self.peer.lose()
        back = XASession(self.world.peer())
        self.assertEqual((self.queue.arriving, self.queue.delivering, self.visible()), (1, 0, [b"taken"]))
        self.assertEqual([back.commit(name, True) for name in ("ended", "active", "suspended")], [NOTA, NOTA, NOTA])
        self.assertEqual((back.in_doubt(), back.commit("prepared"), self.visible()), (["prepared"], 0, [b"taken", b"one"]))

    def test_a_session_of_another_connection_in_a_branch_that_ends(self) -> None:
        guest = XASession(self.world.peer())
        self.session.start("t")
        guest.ask(wire.XaJoin(xid("t")))
        self.peer.lose()
        guest.session.publish(b"one")
        self.assertEqual((guest.end("t"), self.queue.arriving, self.visible()), (XACode.ROLLED_BACK, 0, []))

    def test_a_client_that_comes_back_keeps_its_branches(self) -> None:
        peer = self.world.peer()
        session = XASession(peer, window_size=100_000)
        session.start("active")
        session.session.publish(b"one")
        peer.lose()
        again = self.world.peer()
        again.send(wire.ReattachSession(session.session.name, -1), 1)
        session.session.peer = again
        again.take(session.session.channel)
        self.assertEqual((session.end("active"), session.prepare("active"), session.commit("active")), (0, 0, 0))
        self.assertEqual(self.visible(), [b"one"])

    def test_a_client_that_comes_back_on_a_new_session(self) -> None:
        """It tells what it was doing: that can only be rolled back."""
        self.session.start("t")
        self.peer.lose()
        back = XASession(self.world.peer())
        back.session.send(wire.XaFailed(xid("t")))
        self.assertEqual(back.end("t"), 0)
        self.assertEqual(back.session.error(wire.XaPrepare(xid("t"))), 111)
        self.assertEqual(back.rollback("t"), 0)

    def test_a_client_that_says_so_too_late(self) -> None:
        """The branch was prepared, and stays so."""
        self.session.sends("t", b"one", prepare=True)
        back = XASession(self.world.peer())
        back.session.send(wire.XaFailed(xid("t")))
        self.assertEqual((back.commit("t"), self.visible()), (0, [b"one"]))

    def test_the_stop_of_the_broker(self) -> None:
        self.session.sends("ended", b"one")
        self.world.messaging.stop()
        self.world.server.stop()
        self.assertEqual(self.queue.arriving, 0)


class TimeoutTests(StateCase):
    settings = {"transaction_timeout": 10_000, "transaction_timeout_scan_period": 2000}

    def test_the_timeout_of_the_broker(self) -> None:
        answer: Any = self.session.session.call(wire.XaGetTimeout())
        self.assertEqual(answer.timeout_seconds, 10)
        self.plain.publish(b"taken")
        self.session.session.consume()
        self.session.takes("taken")
        self.session.sends("ended", b"one")
        self.session.sends("prepared", b"two", prepare=True)
        self.session.start("active")
        self.session.session.publish(b"three")
        self.world.clock.advance(9)
        self.assertEqual((self.queue.arriving, self.reports), (3, []))
        self.world.clock.advance(3)
        self.assertEqual((self.queue.arriving, [code for code, _ in self.reports]), (1, ["AMQ222103"] * 3))
        self.assertEqual([each.delivery_count for each in self.session.session.received()], [2])
        self.session.session.publish(b"four")
        self.assertEqual(self.session.end("active"), XACode.ROLLED_BACK_TIMEOUT)
        self.assertEqual((self.session.prepare("ended"), self.session.rollback("active")), (NOTA, NOTA))
        self.assertEqual((self.session.commit("prepared"), self.session.session.bodies(), self.queue.arriving), (0, [b"taken", b"two"], 0))

    def test_nothing_runs_while_there_is_nothing_to_time_out(self) -> None:
        pending = self.world.clock.pending
        self.session.sends("t", b"one")
        self.assertEqual(self.world.clock.pending, pending + 1)
        self.session.prepare("t")
        self.world.clock.advance(2)
        self.assertEqual(self.world.clock.pending, pending)

    def test_the_timeout_of_a_session(self) -> None:
        """It counts for the branch in work from that moment on, and for later ones; 0 is the broker's again."""

        def ok(seconds: int) -> bool:
            answer: Any = self.session.session.call(wire.XaSetTimeout(seconds))
            return bool(answer.ok)

        self.session.start("t")
        self.world.clock.advance(9)
        self.assertEqual((ok(20), ok(-1)), (True, False))
        self.world.clock.advance(19)
        self.assertEqual((self.session.end("t"), self.session.start("u")), (0, 0))
        self.world.clock.advance(19)
        self.assertEqual((ok(0), self.reports[1:]), (True, []))
        self.world.clock.advance(9)
        self.assertEqual(self.session.end("u"), 0)
        self.assertEqual((self.session.start("v"), self.other.start("w")), (0, 0))
        self.world.clock.advance(12)
        self.assertEqual((self.session.end("v"), self.other.end("w")), (XACode.ROLLED_BACK_TIMEOUT, XACode.ROLLED_BACK_TIMEOUT))


class NoTimeoutTests(StateCase):
    settings = {"transaction_timeout": 0}

    def test_without_a_timeout(self) -> None:
        self.session.sends("t", b"one")
        self.world.clock.advance(50)
        self.assertEqual(self.session.commit("t", True), 0)
