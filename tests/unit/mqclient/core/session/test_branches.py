"""Distributed transactions: what goes to the broker, what comes back, and what a failed connection does to a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient import xa
from mqclient.core.session.session import Session
from mqclient.errors import IllegalStateError
from mqclient.wire.packets import (
    Acknowledge,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionV2,
    ExceptionResponse,
    Packet,
    ReattachSessionResponse,
    Rollback,
    SessionSend,
    SessionStart,
    XaCommit,
    XaEnd,
    XaFailed,
    XaForget,
    XaGetTimeout,
    XaGetTimeoutResponse,
    XaInDoubtXids,
    XaInDoubtXidsResponse,
    XaJoin,
    XaPrepare,
    XaResponse,
    XaResume,
    XaRollback,
    XaSetTimeout,
    XaSetTimeoutResponse,
    XaStart,
    XaSuspend,
)
from mqclient.wire.primitives import Xid as WireXid
from mqclient.xa import XAError, Xid
from tests.support.network import ScriptedBroker, World, message, pending

CHANNEL = 10
ONE, TWO = Xid(7, b"gtx", b"one"), Xid(7, b"gtx", b"two")
OK = XaResponse(False, 0)
REQUESTS = (XaStart, XaJoin, XaResume, XaEnd, XaSuspend, XaPrepare, XaCommit, XaRollback, XaForget)


def refuse(code: int, text: str | None = None) -> Callable[[Any], Packet]:
    return lambda _: XaResponse(True, code, text)


class XaTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers.update({kind: lambda _: OK for kind in REQUESTS})
        self.world = World(self.broker, **{"reconnect_attempts": -1, "retry_interval": 100, "max_retry_interval": 100, **settings})
        self.factory = self.world.factory()
        self.session: Session = self.world.session(self.factory, xa=True)
        self.resource = self.session.xa_resource

    def finish(self, awaitable: Any) -> Any:
        return self.world.finish(awaitable)

    def refused(self, code: int, awaitable: Any) -> XAError:
        error: XAError = self.assertRaises(XAError, self.finish, awaitable)
        self.assertEqual(error.error_code, code, str(error))
        return error

    def work(self, xid: Xid = ONE) -> None:
        """Start a branch and send a message in it."""
        self.finish(self.resource.start(xid))
        producer = self.finish(self.session.create_producer("a"))
        self.finish(producer.send(self.session.create_message()))

    def cut(self) -> None:
        """The connection fails; the broker can be reached and has lost the session."""
        self.world.network.link.cut()
        self.world.advance(0.2)  # a connection that was lost again soon is not made again at once

    def cut_during(self, kind: type[Packet], call: Callable[[], Any]) -> Any:
        """Make the call, lose the connection before its answer, and let the broker answer from then on."""
        answer = self.broker.answers.pop(kind)
        self.broker.silent.add(kind)
        made = call()
        self.world.network.stir()
        self.assertTrue(pending(made))
        self.broker.silent.discard(kind)
        self.broker.answers[kind] = answer
        self.cut()
        return made

    def xa_names(self) -> list[str]:
        return [name for name in self.broker.names(CHANNEL) if "XA" in name or name in ("SESS_ROLLBACK", "SESS_STOP", "SESS_START")]


class CallTests(XaTestCase):
    def test_the_session_is_made_for_branches(self) -> None:
        [request] = self.broker.got(CreateSession, CreateSessionV2)
        self.assertEqual((request.xa, request.auto_commit_sends, request.auto_commit_acks), (True, False, False))
        local = self.world.session(self.factory)
        self.assertIn("xa=True", str(self.assertRaises(IllegalStateError, lambda: local.xa_resource)))

    def test_two_phases(self) -> None:
        self.work()
        self.assertEqual(self.resource.current, ONE)
        self.finish(self.resource.end(ONE))
        self.assertIsNone(self.resource.current)
        self.assertEqual(self.finish(self.resource.prepare(ONE)), xa.XA_OK)
        self.finish(self.resource.commit(ONE))
        self.assertEqual(self.xa_names(), ["SESS_XA_START", "SESS_XA_END", "SESS_XA_PREPARE", "SESS_XA_COMMIT"])
        self.assertEqual([(p.xid, p.one_phase) for p in self.broker.got(XaCommit)], [(ONE.to_wire(), False)])

    def test_flags_become_packets(self) -> None:
        self.finish(self.resource.start(ONE))
        self.finish(self.resource.end(ONE, xa.TMSUSPEND))
        self.finish(self.resource.start(ONE, xa.TMRESUME))
        self.finish(self.resource.end(ONE, xa.TMFAIL))
        self.finish(self.resource.start(TWO, xa.TMJOIN))
        self.finish(self.resource.end(TWO, xa.TMSUCCESS))
        self.finish(self.resource.commit(TWO, one_phase=True))
        names = ["START", "SUSPEND", "RESUME", "END", "JOIN", "END", "COMMIT"]
        self.assertEqual(self.xa_names(), [f"SESS_XA_{name}" for name in names])
        self.assertEqual([p.failed for p in self.broker.got(XaEnd)], [True, False])
        self.assertTrue(self.broker.got(XaCommit)[0].one_phase)

    def test_other_flags_are_refused(self) -> None:
        self.refused(xa.XAER_INVAL, self.resource.start(ONE, xa.TMSUCCESS))
        self.finish(self.resource.start(ONE))
        self.refused(xa.XAER_INVAL, self.resource.end(ONE, xa.TMJOIN))
        self.refused(xa.XAER_INVAL, self.resource.recover(xa.TMJOIN))
        self.refused(xa.XAER_INVAL, self.resource.set_transaction_timeout(-1))
        self.assertEqual((self.resource.current, self.xa_names()), (ONE, ["SESS_XA_START"]))

    def test_one_branch_at_a_time(self) -> None:
        self.finish(self.resource.start(ONE))
        self.refused(xa.XAER_PROTO, self.resource.start(TWO))
        self.refused(xa.XAER_PROTO, self.resource.end(TWO, xa.TMSUSPEND))
        self.assertRaises(IllegalStateError, self.finish, self.session.commit())
        self.assertRaises(IllegalStateError, self.finish, self.session.rollback())
        self.assertEqual((self.resource.current, self.xa_names()), (ONE, ["SESS_XA_START"]))

    def test_acknowledgements_leave_before_the_end(self) -> None:
        consumer = self.finish(self.session.create_consumer("q"))
        self.finish(self.session.start())
        self.finish(self.resource.start(ONE))
        self.broker.deliver(CHANNEL, message(1))
        self.finish(self.finish(consumer.receive()).acknowledge())
        self.assertEqual(self.broker.got(Acknowledge), [])
        self.finish(self.resource.end(ONE, xa.TMSUSPEND))
        self.assertEqual(self.broker.names(CHANNEL)[-2:], ["SESS_ACKNOWLEDGE", "SESS_XA_SUSPEND"])

    def test_rollback_takes_buffered_messages_back(self) -> None:
        consumer = self.finish(self.session.create_consumer("q"))
        self.finish(self.session.start())
        self.work()
        self.broker.deliver(CHANNEL, message(1))
        self.finish(self.resource.end(ONE))
        self.finish(self.resource.rollback(ONE))
        self.assertEqual(self.xa_names()[-4:], ["SESS_XA_END", "SESS_STOP", "SESS_XA_ROLLBACK", "SESS_START"])
        self.assertIsNone(self.finish(consumer.receive_immediate()))

    def test_delivery_goes_on_after_a_refused_rollback(self) -> None:
        self.finish(self.session.start())
        self.broker.answers[XaRollback] = refuse(xa.XA_HEURRB)
        self.refused(xa.XA_HEURRB, self.resource.rollback(ONE))
        self.assertEqual(self.xa_names()[-1], "SESS_START")
        self.assertEqual(len(self.broker.got(SessionStart)), 2)

    def test_recover_forget_and_timeouts(self) -> None:
        odd = WireXid(1, b"", b"g" * 100)
        self.broker.answers[XaInDoubtXids] = lambda _: XaInDoubtXidsResponse((ONE.to_wire(), odd, TWO.to_wire()))
        self.broker.answers[XaSetTimeout] = lambda packet: XaSetTimeoutResponse(packet.timeout_seconds == 17)
        self.broker.answers[XaGetTimeout] = lambda _: XaGetTimeoutResponse(300)
        self.assertEqual(self.finish(self.resource.recover()), [ONE, TWO])
        self.assertIn("100 bytes", self.world.runtime.warnings[-1])
        self.assertEqual(self.finish(self.resource.recover(xa.TMENDRSCAN)), [])
        self.assertEqual(len(self.broker.got(XaInDoubtXids)), 1)
        self.finish(self.resource.forget(ONE))
        self.assertTrue(self.finish(self.resource.set_transaction_timeout(17)))
        self.assertFalse(self.finish(self.resource.set_transaction_timeout(0)))
        self.assertEqual(self.finish(self.resource.get_transaction_timeout()), 300)

    def test_what_the_broker_refuses(self) -> None:
        for kind in REQUESTS:
            self.broker.answers[kind] = refuse(xa.XAER_NOTA, "no such branch")
        for call in (
            self.resource.start(ONE, xa.TMJOIN),
            self.resource.end(ONE),
            self.resource.prepare(ONE),
            self.resource.commit(ONE),
            self.resource.commit(ONE, True),
            self.resource.rollback(ONE),
            self.resource.forget(ONE),
        ):
            self.assertIn("no such branch", str(self.refused(xa.XAER_NOTA, call)))
        self.assertIsNone(self.resource.current)

    def test_what_the_broker_fails_with(self) -> None:
        every = (*REQUESTS, XaInDoubtXids, XaSetTimeout, XaGetTimeout)
        for kind in every:
            self.broker.answers[kind] = lambda _: ExceptionResponse(210, "full")
        for code, call in (
            (xa.XAER_RMFAIL, self.resource.start(ONE)),
            (xa.XAER_RMFAIL, self.resource.end(TWO)),
            (xa.XAER_RMFAIL, self.resource.prepare(ONE)),
            (xa.XA_RETRY, self.resource.commit(ONE)),
            (xa.XAER_RMFAIL, self.resource.commit(ONE, one_phase=True)),
            (xa.XAER_RMFAIL, self.resource.rollback(ONE)),
            (xa.XAER_RMFAIL, self.resource.forget(ONE)),
            (xa.XAER_RMFAIL, self.resource.recover()),
            (xa.XAER_RMFAIL, self.resource.set_transaction_timeout(1)),
            (xa.XAER_RMFAIL, self.resource.get_transaction_timeout()),
        ):
            self.assertIn("full", str(self.refused(code, call)))
        self.assertEqual(len(self.broker.got(XaPrepare)), 1, "only what was cut off is made again")

    def test_a_call_in_the_wrong_state(self) -> None:
        """Some brokers say so with an EXCEPTION; asking again and again would not help."""
        self.broker.answers[XaCommit] = lambda _: ExceptionResponse(104, "not prepared")
        self.refused(xa.XAER_PROTO, self.resource.commit(ONE))
        self.refused(xa.XAER_PROTO, self.resource.commit(ONE, one_phase=True))

    def test_end_leaves_the_branch_whatever_the_answer(self) -> None:
        self.work()
        self.broker.answers[XaEnd] = refuse(xa.XA_RBTIMEOUT)
        self.assertTrue(self.refused(xa.XA_RBTIMEOUT, self.resource.end(ONE)).rolled_back)
        self.assertIsNone(self.resource.current)
        self.finish(self.resource.start(TWO))

    def test_a_branch_with_an_unsent_message_is_lost(self) -> None:
        """A shell has found out that a message could not be sent."""
        self.work()
        error = self.refused(xa.XA_RBOTHER, self.resource.end_failed(ONE, OSError("no room")))
        self.assertIn("no room", str(error))
        self.assertTrue(self.broker.got(XaEnd)[0].failed)
        self.refused(xa.XAER_RMFAIL, self.resource.prepare(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.commit(ONE, one_phase=True))
        self.finish(self.resource.rollback(ONE))
        self.work()
        self.finish(self.resource.end(ONE))
        self.finish(self.resource.prepare(ONE))

    def test_same_resource_manager(self) -> None:
        other = self.world.session(self.factory, xa=True).xa_resource
        self.assertTrue(self.resource.is_same_rm(other) and self.resource.is_same_rm(self.resource))
        self.assertTrue(self.resource.is_same_rm(self.world.session(xa=True).xa_resource), "another connection to the same node")
        self.assertFalse(self.resource.is_same_rm(object()))
        foreign = ScriptedBroker()
        foreign.topology = [ClusterTopologyV4(False, "another node", 1, last=True, server_version=136)]
        self.assertFalse(self.resource.is_same_rm(World(foreign).session(xa=True).xa_resource))

    def test_a_closed_session(self) -> None:
        self.finish(self.session.close())
        self.refused(xa.XAER_RMFAIL, self.resource.start(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))
        self.refused(xa.XA_RETRY, self.resource.commit(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.recover())


class FailoverTests(XaTestCase):
    def test_a_branch_that_is_worked_on_is_lost(self) -> None:
        self.work()
        self.cut()
        self.assertEqual(self.xa_names(), ["SESS_XA_FAILED"])
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))
        self.assertEqual(self.xa_names(), ["SESS_XA_FAILED", "SESS_ROLLBACK"])
        self.assertIsNone(self.resource.current)
        self.refused(xa.XAER_RMFAIL, self.resource.prepare(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.commit(ONE, one_phase=True))
        self.finish(self.resource.rollback(ONE))
        self.assertEqual(self.xa_names(), ["SESS_XA_FAILED", "SESS_ROLLBACK", "SESS_XA_ROLLBACK"])

    def test_also_without_work(self) -> None:
        """Another session may have done some; this one cannot know."""
        self.finish(self.resource.start(ONE))
        self.cut()
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))

    def test_preparing_it_is_refused_too(self) -> None:
        self.work()
        self.cut()
        self.refused(xa.XAER_RMFAIL, self.resource.prepare(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.commit(ONE, one_phase=True))
        self.assertEqual(self.broker.got(XaPrepare, XaCommit), [])

    def test_the_broker_is_told_before_delivery_begins(self) -> None:
        self.finish(self.session.start())
        self.work()
        self.cut()
        self.assertEqual(self.xa_names(), ["SESS_XA_FAILED", "SESS_START"])
        self.cut()
        self.assertEqual([packet.xid for packet in self.broker.got(XaFailed)], [ONE.to_wire()], "told again after each failure")

    def test_the_time_limit_holds_in_the_new_session(self) -> None:
        self.broker.answers[XaSetTimeout] = lambda packet: XaSetTimeoutResponse(packet.timeout_seconds == 3600)
        self.finish(self.resource.set_transaction_timeout(3600))
        self.finish(self.resource.set_transaction_timeout(1))
        self.work()
        self.cut()
        self.assertEqual(self.xa_names(), ["SESS_XA_SET_TIMEOUT", "SESS_XA_FAILED"])
        self.assertEqual(self.broker.got(XaSetTimeout), [XaSetTimeout(3600)], "the last one that was accepted")
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))
        self.assertTrue(self.finish(self.resource.set_transaction_timeout(3600)))
        self.work(TWO)
        self.finish(self.resource.end(TWO))

    def test_work_after_it_is_whole(self) -> None:
        self.work()
        self.cut()
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))
        self.work(TWO)
        self.finish(self.resource.end(TWO))
        self.finish(self.resource.prepare(TWO))
        self.finish(self.resource.commit(TWO))

    def test_an_ended_branch_is_the_brokers_to_judge(self) -> None:
        self.work()
        self.finish(self.resource.end(ONE))
        self.cut()
        self.assertEqual(self.xa_names(), [])
        self.broker.answers[XaPrepare] = refuse(xa.XAER_NOTA)
        self.refused(xa.XAER_NOTA, self.resource.prepare(ONE))

    def test_start_is_made_again(self) -> None:
        self.finish(self.cut_during(XaStart, lambda: self.resource.start(ONE)))
        self.assertEqual(self.xa_names(), ["SESS_XA_START"])
        self.assertEqual(self.resource.current, ONE)
        self.finish(self.resource.end(ONE))

    def test_a_branch_that_exists_after_all(self) -> None:
        self.broker.answers[XaStart] = refuse(xa.XAER_DUPID)
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaStart, lambda: self.resource.start(ONE)))
        self.assertIsNone(self.resource.current)
        self.refused(xa.XAER_DUPID, self.resource.start(ONE))

    def test_work_that_was_handed_in_behind_a_start_comes_after_it_also_when_it_is_made_again(self) -> None:
        producer = self.finish(self.session.create_producer("a"))
        self.finish(self.resource.start(TWO))
        self.finish(producer.send(self.session.create_message()))
        self.finish(self.resource.end(TWO))

        def begin() -> Any:
            started = self.resource.start(ONE)
            producer.send(self.session.create_message())
            return started

        self.finish(self.cut_during(XaStart, begin))
        self.finish(self.resource.end(ONE))
        self.assertEqual(
            [packet.NAME for packet in self.broker.got(XaStart, SessionSend, XaEnd)], ["SESS_XA_START", "SESS_SEND", "SESS_XA_END"]
        )

    def test_end_in_flight(self) -> None:
        self.work()
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaEnd, lambda: self.resource.end(ONE)))
        self.assertEqual(self.xa_names(), ["SESS_XA_FAILED"])
        self.refused(xa.XAER_RMFAIL, self.resource.prepare(ONE))
        self.finish(self.resource.rollback(ONE))

    def test_prepare_is_made_again(self) -> None:
        self.work()
        self.finish(self.resource.end(ONE))
        self.assertEqual(self.finish(self.cut_during(XaPrepare, lambda: self.resource.prepare(ONE))), xa.XA_OK)
        self.assertEqual(self.xa_names(), ["SESS_XA_PREPARE"])

    def test_prepare_cut_off_and_then_refused(self) -> None:
        self.broker.answers[XaPrepare] = refuse(xa.XAER_NOTA)
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaPrepare, lambda: self.resource.prepare(ONE)))
        self.assertEqual(self.xa_names(), ["SESS_XA_PREPARE", "SESS_XA_ROLLBACK"])

    def test_prepare_cut_off_twice(self) -> None:
        self.broker.silent.add(XaPrepare)
        self.broker.answers.pop(XaPrepare)
        prepared = self.resource.prepare(ONE)
        self.world.network.stir()
        self.cut()
        self.assertTrue(pending(prepared))
        self.cut()
        self.refused(xa.XAER_RMFAIL, prepared)
        self.assertEqual(self.xa_names(), ["SESS_XA_ROLLBACK"])

    def test_prepare_that_is_never_answered(self) -> None:
        """The connection stays away: the branch is left to a recovery."""
        self.start(call_timeout=1000, call_failover_timeout=1000)
        self.broker.silent.add(XaPrepare)
        self.broker.answers.pop(XaPrepare)
        prepared = self.resource.prepare(ONE)
        self.world.network.stir()
        self.world.network.brokers.clear()
        self.world.advance(3.2)
        self.refused(xa.XAER_RMFAIL, prepared)
        self.assertIn("rolling back a branch", self.world.runtime.warnings[-1])

    def test_commit_in_two_phases_is_to_be_made_again(self) -> None:
        self.refused(xa.XA_RETRY, self.cut_during(XaCommit, lambda: self.resource.commit(ONE)))
        self.finish(self.resource.commit(ONE))

    def test_commit_in_one_phase(self) -> None:
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaCommit, lambda: self.resource.commit(ONE, one_phase=True)))

    def test_commit_of_another_branch_goes_through(self) -> None:
        """What the failure has undone is the branch that the session works on, never a prepared one."""
        self.work(TWO)
        self.cut()
        self.finish(self.resource.commit(ONE))
        self.finish(self.resource.rollback(ONE))
        self.refused(xa.XAER_RMFAIL, self.resource.end(TWO))

    def test_rollback_forget_and_recover_in_flight(self) -> None:
        self.broker.answers[XaInDoubtXids] = lambda _: XaInDoubtXidsResponse(())
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaRollback, lambda: self.resource.rollback(ONE)))
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaForget, lambda: self.resource.forget(ONE)))
        self.refused(xa.XAER_RMFAIL, self.cut_during(XaInDoubtXids, self.resource.recover))

    def test_rollback_that_cannot_be_sent_while_ending(self) -> None:
        self.work()
        self.cut()
        self.broker.answers[Rollback] = lambda _: ExceptionResponse(999, "no")
        self.refused(xa.XAER_RMFAIL, self.resource.end(ONE))
        self.assertIn("rolling back after a connection failure", self.world.runtime.warnings[-1])

    def test_reattached_sessions_notice_nothing(self) -> None:
        self.start(confirmation_window_size=100_000)
        self.broker.reattaches = ReattachSessionResponse(3, True)
        self.work()
        ended = self.cut_during(XaEnd, lambda: self.resource.end(ONE))
        self.finish(ended)
        self.assertEqual(self.broker.got(XaFailed), [])
        self.finish(self.resource.prepare(ONE))
