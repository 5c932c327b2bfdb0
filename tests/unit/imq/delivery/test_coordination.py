"""Transactions that have consumed from other members end alike everywhere."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.delivery.coordination import BRANCH_FORMAT
from mqbroker.messaging.delivery.branches import COORDINATED_FORMAT, xid_base64
from mqbroker.messaging.ports import BranchRecord, BranchState, Recovered, RecoveredBranch
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from mqclient.wire.primitives import Xid
from tests.support.broker import Session, message_id
from tests.unit.imq.support import Broker, Cluster

CLIENT = Xid(7, b"branch", b"global")


class CoordinationTestCase(SynchronousTestCase):
    """Messages are at A and C; the consumer of both is at B."""

    def setUp(self) -> None:
        self.cluster = Cluster(3)
        self.a, self.b, self.c = (self.cluster[number] for number in (1, 2, 3))

    def consume(self, *homes: Broker, **request: Any) -> Session:
        """A session that has acknowledged a message of each home in its transaction."""
        for home in homes:
            home.session().publish(b"from %d" % home.number)
        session = self.b.session(**(request or {"auto_commit_acks": False, "auto_commit_sends": False}))
        session.consume()
        self.cluster.stir()
        if request:
            received = session.received()
            self.xa(session, wire.XaStart(CLIENT))
        else:
            received = session.received()
        for packet in received:
            session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.cluster.stir()
        return session

    def xa(self, session: Session, packet: wire.Packet) -> wire.XaResponse:
        session.send(packet)
        self.cluster.stir()
        answers = [each for each in session.take() if isinstance(each, wire.XaResponse)]
        self.assertEqual(len(answers), 1)
        return answers[0]

    def commit(self, session: Session) -> list[wire.Packet]:
        session.send(wire.Commit())
        self.cluster.stir()
        return [each for each in session.take() if each.RESPONSE]

    def in_doubt(self, broker: Broker) -> int:
        return len(broker.world.messaging.branches.prepared())

    def state(self) -> tuple[int, int, int]:
        """Messages of each queue."""
        return self.a.count(), self.b.count(), self.c.count()

    def decisions(self) -> int:
        return self.b.delivery.coordination.undecided


class LocalTests(CoordinationTestCase):
    def test_one_home_and_no_work_here_needs_no_decision(self) -> None:
        session = self.consume(self.a)
        before = len(self.b.store.log)
        self.assertIsInstance(self.commit(session)[0], wire.NullResponse)
        self.assertEqual((self.state(), self.b.store.log[before:], self.decisions()), ((0, 0, 0), [], 0))

    def test_several_homes_and_work_here_commit_together(self) -> None:
        session = self.consume(self.a, self.c)
        session.publish(b"answer", "other")
        session.publish(b"answer")
        self.assertEqual(self.state(), (1, 0, 1))
        self.assertIsInstance(self.commit(session)[0], wire.NullResponse)
        self.assertEqual((self.a.count(), self.c.count()), (0, 0))
        self.assertEqual((self.decisions(), self.in_doubt(self.a), self.in_doubt(self.c)), (0, 0, 0))

    def test_the_decision_is_in_one_batch_with_the_own_part(self) -> None:
        session = self.consume(self.a, self.c)
        session.publish(b"answer")
        before = len(self.b.store.log)
        self.commit(session)
        batch = self.b.store.log[before]
        kinds = [entry[0] for entry in batch]
        self.assertEqual((kinds.count("branch"), kinds.count("message")), (2, 1))

    def test_a_home_that_is_lost_before_the_commit_rolls_all_back(self) -> None:
        session = self.consume(self.a, self.c)
        session.publish(b"answer")
        self.cluster.cut(2, 3)
        (answer,) = self.commit(session)
        self.assertIsInstance(answer, wire.ExceptionResponse)
        self.cluster.link(2, 3)
        self.assertEqual((self.state(), self.decisions()), ((1, 0, 1), 0))

    def test_what_the_client_has_not_used_then_comes_behind_what_comes_again(self) -> None:
        for home, bodies in ((self.a, (b"1", b"2")), (self.c, (b"3",))):
            for body in bodies:
                home.session().publish(body)
        session = self.b.session(auto_commit_acks=False, auto_commit_sends=False)
        session.consume()
        self.cluster.stir()
        received = {decode_message(packet.message).body: packet for packet in session.received()}
        for body in (b"1", b"3"):
            session.send(wire.IndividualAcknowledge(0, message_id(received[body]), False))
        self.cluster.cut(2, 3)
        self.assertIsInstance(self.commit(session)[0], wire.ExceptionResponse)
        self.assertEqual((len(received), session.bodies()), (3, []))
        session.send(wire.SessionStop())
        session.send(wire.Rollback(False))
        session.send(wire.SessionStart())
        self.cluster.stir()
        self.assertEqual(session.bodies(), [b"1", b"2"])

    def test_a_home_that_is_lost_while_it_prepares_rolls_all_back(self) -> None:
        session = self.consume(self.a, self.c)
        session.publish(b"answer")
        self.c.store.held = True
        self.commit(session)
        self.cluster.cut(2, 3)
        self.c.store.held = False
        self.c.store.sync()
        self.cluster.stir()
        (answer,) = [each for each in session.take() if each.RESPONSE]
        self.assertIsInstance(answer, wire.ExceptionResponse)
        self.assertEqual(self.in_doubt(self.c), 1)
        self.cluster.link(2, 3)
        self.assertEqual((self.state(), self.in_doubt(self.a), self.in_doubt(self.c)), ((1, 0, 1), 0, 0))

    def test_a_home_that_is_lost_after_the_decision_commits_when_it_is_back(self) -> None:
        session = self.consume(self.a, self.c)
        session.publish(b"answer")
        self.b.store.held = True
        self.commit(session)
        self.assertEqual((self.in_doubt(self.a), self.in_doubt(self.c)), (1, 1))
        self.cluster.cut(2, 3)
        self.b.store.held = False
        self.b.store.sync()
        self.cluster.stir()
        self.assertIsInstance(session.take()[0], wire.NullResponse)
        self.assertEqual((self.a.count(), self.decisions(), self.in_doubt(self.c)), (0, 1, 1))
        self.cluster.link(2, 3)
        self.assertEqual((self.c.count(), self.decisions(), self.in_doubt(self.c)), (0, 0, 0))

    def test_a_client_that_goes_while_homes_prepare_leaves_nothing(self) -> None:
        session = self.consume(self.a, self.c)
        self.c.store.held = True
        self.commit(session)
        session.peer.lose()
        self.cluster.stir()
        self.c.store.held = False
        self.c.store.sync()
        self.cluster.stir()
        self.assertEqual((self.state(), self.in_doubt(self.a), self.in_doubt(self.c), self.decisions()), ((1, 0, 1), 0, 0, 0))

    def test_an_outcome_that_only_the_lost_home_knows_is_unknown(self) -> None:
        session = self.consume(self.a)
        self.a.store.held = True
        self.commit(session)
        self.cluster.cut(2, 1)
        (answer,) = [each for each in session.take() if each.RESPONSE]
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual(answer.error_code, 115)


class XATests(CoordinationTestCase):
    def prepared(self) -> Session:
        session = self.consume(self.a, self.c, xa=True)
        self.assertFalse(self.xa(session, wire.XaEnd(CLIENT)).error)
        self.assertFalse(self.xa(session, wire.XaPrepare(CLIENT)).error)
        return session

    def test_a_clients_branch_takes_those_at_the_homes_along(self) -> None:
        session = self.prepared()
        self.assertEqual((self.in_doubt(self.a), self.in_doubt(self.b), self.in_doubt(self.c)), (1, 1, 1))
        self.assertFalse(self.xa(session, wire.XaCommit(CLIENT)).error)
        self.assertEqual((self.state(), self.in_doubt(self.a), self.in_doubt(self.b), self.decisions()), ((0, 0, 0), 0, 0, 0))

    def test_also_back(self) -> None:
        session = self.prepared()
        self.assertFalse(self.xa(session, wire.XaRollback(CLIENT)).error)
        self.assertEqual((self.in_doubt(self.a), self.in_doubt(self.b), self.in_doubt(self.c), self.decisions()), (0, 0, 0, 0))
        self.assertEqual(self.a.count() + self.c.count(), 2)

    def test_what_waits_here_comes_behind_what_was_rolled_back(self) -> None:
        for body in (b"1", b"2"):
            self.a.session().publish(body)
        session = self.b.session(xa=True)
        session.consume(credits=1)
        self.cluster.stir()
        (packet,) = session.received()
        self.xa(session, wire.XaStart(CLIENT))
        session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        for step in (wire.XaEnd(CLIENT), wire.XaPrepare(CLIENT), wire.XaRollback(CLIENT)):
            self.assertFalse(self.xa(session, step).error)
        session.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.assertEqual(session.bodies(), [b"1", b"2"])

    def test_in_one_phase_too(self) -> None:
        session = self.consume(self.a, self.c, xa=True)
        self.assertFalse(self.xa(session, wire.XaEnd(CLIENT)).error)
        self.assertFalse(self.xa(session, wire.XaCommit(CLIENT, True)).error)
        self.assertEqual((self.state(), self.in_doubt(self.a), self.in_doubt(self.c), self.decisions()), ((0, 0, 0), 0, 0, 0))

    def test_management_commits_it_everywhere(self) -> None:
        self.prepared()
        self.b.world.messaging.branches.decide(xid_base64(CLIENT), commit=True)
        self.cluster.stir()
        self.assertEqual((self.state(), self.in_doubt(self.a), self.in_doubt(self.c), self.decisions()), ((0, 0, 0), 0, 0, 0))

    def test_what_management_has_ended_otherwise_at_a_home_is_forgotten(self) -> None:
        session = self.prepared()
        branches = self.a.world.messaging.branches
        (branch,) = branches.prepared()
        branches.decide(xid_base64(branch.xid), commit=False)
        self.assertFalse(self.xa(session, wire.XaCommit(CLIENT)).error)
        self.assertEqual((branches.in_doubt(), self.decisions(), self.c.count(), self.a.count()), ([], 0, 0, 1))

    def test_while_it_is_undecided_it_stays_prepared_at_the_homes(self) -> None:
        session = self.prepared()
        self.cluster.cut(2, 3)
        self.cluster.link(2, 3)
        self.assertEqual((self.in_doubt(self.c), self.decisions()), (1, 2))
        self.assertFalse(self.xa(session, wire.XaCommit(CLIENT)).error)
        self.assertEqual((self.in_doubt(self.c), self.decisions()), (0, 0))


class RestartTests(SynchronousTestCase):
    """What the coordinator has stored decides after its restart."""

    def setUp(self) -> None:
        self.cluster = Cluster(2)
        self.a = self.cluster[1]
        own = bytes.fromhex(self.cluster[2].store.node_id.replace("-", ""))
        home = bytes.fromhex(self.a.store.node_id.replace("-", ""))
        self.branch = Xid(BRANCH_FORMAT, home, own + bytes(15) + b"\1")
        self.cluster.crash(2)
        session = self.a.session(xa=True)
        self.a.session().publish(b"1")
        session.consume()
        for packet in (wire.XaStart(self.branch), None, wire.XaEnd(self.branch), wire.XaPrepare(self.branch)):
            if packet is None:
                (received,) = session.received()
                session.send(wire.IndividualAcknowledge(0, message_id(received), False))
            else:
                session.send(packet)
        session.peer.lose()
        self.assertEqual(len(self.a.world.messaging.branches.prepared()), 1)

    def restart(self, *records: BranchRecord) -> Broker:
        recovered = Recovered(branches=[RecoveredBranch(record) for record in records])
        broker = self.cluster.brokers[2] = Broker(self.cluster, 2, recovered)
        self.cluster.link(2, 1)
        return broker

    def record(self, state: BranchState) -> BranchRecord:
        return BranchRecord(5, self.branch._replace(format_id=COORDINATED_FORMAT), state, 0)

    def test_what_is_decided_is_committed_and_then_forgotten(self) -> None:
        broker = self.restart(self.record(BranchState.COMMITTED))
        self.assertEqual((self.a.count(), self.a.world.messaging.branches.prepared()), (0, []))
        self.assertEqual((broker.delivery.coordination.undecided, broker.world.messaging.branches.in_doubt()), (0, []))
        self.assertIn(("end branch", 5, False), [entry for batch in broker.store.log for entry in batch])

    def test_what_has_no_decision_is_rolled_back(self) -> None:
        self.restart()
        self.assertEqual((self.a.waiting(), self.a.world.messaging.branches.prepared()), ([b"1"], []))

    def test_branches_of_others_are_left_alone(self) -> None:
        foreign = Xid(BRANCH_FORMAT, self.branch.branch_qualifier, b"another broker's" + bytes(16))
        session = self.a.session(xa=True)
        for packet in (wire.XaStart(foreign), wire.XaEnd(foreign), wire.XaPrepare(foreign)):
            session.send(packet)
        self.restart()
        self.assertEqual([branch.xid for branch in self.a.world.messaging.branches.prepared()], [foreign])
