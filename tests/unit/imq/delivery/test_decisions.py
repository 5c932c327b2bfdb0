"""Branches at homes end as they were decided, wherever their coordinator and their home are by then."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from mqbroker.imq.delivery.decisions import BRANCH_FORMAT, NothingTaken
from mqbroker.messaging.delivery.branches import COORDINATED_FORMAT, xid_base64
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, Inherited, Recovered, RecoveredBranch, RecoveredReference
from mqclient.wire import packets as wire
from tests.support.broker import Session, message_id
from tests.unit.imq.delivery.test_coordination import CLIENT, CoordinationTestCase
from tests.unit.imq.support import Broker


class DecisionsTestCase(CoordinationTestCase):
    """Messages are at A, their consumer is at B, and C takes over."""

    def begin(self, *, decided: bool) -> Session:
        """B has asked A to prepare; ``decided``: and has decided, but A does not hear of it.  Then the link is gone."""
        session = self.consume(self.a)
        session.publish(b"answer", "other")
        held = self.b if decided else self.a
        held.store.held = True
        self.commit(session)
        self.cluster.cut(2, 1)
        self.sync(held)
        self.assertEqual((self.in_doubt(self.a), self.decisions()), (1, int(decided)))
        return session

    def sync(self, broker: Broker) -> None:
        broker.store.held = False
        broker.store.sync()
        self.cluster.stir()

    def estate(self, lost: Broker) -> Recovered:
        """What a broker has in the database: the queue, its branches with what they hold, and its records of others' branches."""
        queue = lost.world.queue("q")
        found = Recovered(queues=[queue.definition.record(queue.queue_id)])
        for branch in lost.world.messaging.branches.prepared():
            record = branch.transaction.prepared
            assert record is not None
            found.branches.append(RecoveredBranch(record))
            for reference in branch.transaction.acknowledged:
                message = reference.message
                copy = Message.read(bytes(message.buffer), message.headers, message.address, None)
                found.messages.append((copy, [RecoveredReference(queue.queue_id, 1, 0)]))
        stored: dict[int, BranchRecord] = {}
        for entry in (entry for batch in lost.store.log for entry in batch):
            if entry[0] == "branch" and entry[2].format_id == COORDINATED_FORMAT:
                stored[entry[1]] = BranchRecord(entry[1], entry[2], entry[3], 0)
            elif entry[0] == "end branch":
                stored.pop(entry[1], None)
        found.branches += map(RecoveredBranch, stored.values())
        return found

    def adopt(self, taker: Broker, lost: Broker, found: Recovered | None = None) -> None:
        """The data of ``lost``, which is gone, come to ``taker``."""
        found = found or self.estate(lost)
        self.cluster.crash(lost.number)

        def assign(queues: Any) -> dict[tuple[str, int], int]:
            return {}

        def work() -> None:
            taker.world.messaging.adopt(Recovered(inherited=[Inherited(found, assign)]))
            taker.delivery.coordination.restore()

        taker.core.turn.run(work)
        taker.taken.nodes |= lost.taken.nodes
        self.cluster.stir()

    def take_over(self, taker: Broker, lost: Broker) -> None:
        """As :meth:`adopt`, and all others hear of it."""
        self.adopt(taker, lost)
        self.settle(lost)

    def settle(self, *gone: Broker) -> None:
        for broker in self.cluster.brokers.values():
            if broker not in gone:
                broker.core.turn.run(broker.delivery.coordination.decisions.look_everywhere)
        self.cluster.stir()

    def outcome(self, at: Broker) -> tuple[int, int]:
        """Messages and branches in doubt."""
        return at.count(), len(at.world.messaging.branches.in_doubt())

    def undecided(self, *brokers: Broker) -> int:
        return sum(broker.delivery.coordination.undecided for broker in brokers)


class UnknownNodesTests(DecisionsTestCase):
    def test_a_decision_counts_while_the_taker_does_not_know_yet_whose_it_is(self) -> None:
        """As after its start, before the database has told what it had taken over: the home is linked already."""
        self.begin(decided=True)
        self.adopt(self.c, self.b)
        nodes = self.c.taken.nodes & self.b.taken.nodes
        self.c.taken.nodes -= nodes
        self.settle(self.b)
        self.c.taken.nodes |= nodes
        self.settle(self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((0, 0), 0))


class HomeTests(DecisionsTestCase):
    """The home was taken over."""

    def test_what_is_decided_is_committed_at_the_taker(self) -> None:
        self.begin(decided=True)
        self.take_over(self.c, self.a)
        self.assertEqual((self.outcome(self.c), self.undecided(self.b, self.c)), ((0, 0), 0))

    def test_what_is_not_decided_is_rolled_back_at_the_taker(self) -> None:
        """Once the message stayed in the branch for ever."""
        self.begin(decided=False)
        self.take_over(self.c, self.a)
        self.assertEqual((self.outcome(self.c), self.undecided(self.b, self.c)), ((1, 0), 0))

    def test_the_coordinator_itself_is_the_taker(self) -> None:
        self.begin(decided=True)
        self.take_over(self.b, self.a)
        self.assertEqual((self.outcome(self.b), self.undecided(self.b)), ((0, 0), 0))

    def test_the_coordinator_itself_is_the_taker_of_what_it_has_not_decided(self) -> None:
        self.begin(decided=False)
        self.take_over(self.b, self.a)
        self.assertEqual((self.outcome(self.b), self.undecided(self.b)), ((1, 0), 0))

    def test_a_decision_of_later_is_told_to_the_taker(self) -> None:
        session = self.consume(self.a)
        session.publish(b"answer", "other")
        self.b.store.held = True
        self.commit(session)
        self.take_over(self.c, self.a)
        self.assertEqual(self.outcome(self.c), (1, 1))
        self.sync(self.b)
        self.assertEqual((self.outcome(self.c), self.undecided(self.b)), ((0, 0), 0))

    def test_a_decision_of_later_of_the_taker_itself(self) -> None:
        session = self.consume(self.a)
        session.publish(b"answer", "other")
        self.b.store.held = True
        self.commit(session)
        self.take_over(self.b, self.a)
        self.sync(self.b)
        self.assertEqual((self.outcome(self.b), self.undecided(self.b)), ((0, 0), 0))

    def test_a_rollback_of_later(self) -> None:
        for taker in (self.c, self.b):
            with self.subTest(taker=taker.number):
                self.setUp()
                taker = self.cluster[taker.number]
                session = self.consume(self.a, xa=True)
                for packet in (wire.XaEnd(CLIENT), wire.XaPrepare(CLIENT)):
                    self.assertFalse(self.xa(session, packet).error)
                self.take_over(taker, self.a)
                self.assertIn(BRANCH_FORMAT, [xid.format_id for xid in taker.world.messaging.branches.in_doubt()])
                self.assertFalse(self.xa(session, wire.XaRollback(CLIENT)).error)
                self.assertEqual((self.outcome(taker), self.undecided(self.b)), ((1, 0), 0))

    def test_a_decision_is_kept_until_the_taker_has_everything(self) -> None:
        """Once it would have been forgotten, and the branch rolled back, when the taker had not read all yet."""
        self.begin(decided=True)
        found = self.estate(self.a)
        self.cluster.crash(1)
        self.settle(self.a)
        self.assertEqual(self.decisions(), 1)
        self.adopt(self.c, self.a, found)
        self.settle(self.a)
        self.assertEqual((self.outcome(self.c), self.decisions()), ((0, 0), 0))

    def test_a_decision_that_the_home_has_heard_of_is_forgotten(self) -> None:
        self.begin(decided=True)
        found = self.estate(self.a)
        found.branches.clear()
        found.messages.clear()
        self.adopt(self.c, self.a, found)
        self.settle(self.a)
        self.assertEqual(self.decisions(), 0)

    def test_a_taker_whose_link_is_lost_is_asked_again(self) -> None:
        self.begin(decided=True)
        self.adopt(self.c, self.a)
        self.cluster.cut(2, 3)
        self.settle(self.a)
        self.assertEqual((self.outcome(self.c), self.decisions()), ((1, 1), 1))
        self.cluster.link(2, 3)
        self.assertEqual((self.outcome(self.c), self.decisions()), ((0, 0), 0))

    def test_where_nobody_takes_over_every_home_keeps_its_branches(self) -> None:
        nothing = NothingTaken("own")
        asked = Deferred.fromCoroutine(nothing.at("member", [bytes(16)]))
        self.assertEqual((nothing.nodes, self.successResultOf(asked)), (("own",), ()))


class CoordinatorTests(DecisionsTestCase):
    """The coordinator was taken over."""

    def test_its_decision_is_told_by_the_taker(self) -> None:
        self.begin(decided=True)
        self.take_over(self.c, self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((0, 0), 0))
        self.assertTrue(any(entry[0] == "end branch" for batch in self.c.store.log for entry in batch))

    def test_what_it_has_not_decided_is_rolled_back_by_the_taker(self) -> None:
        self.begin(decided=False)
        self.take_over(self.c, self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((1, 0), 0))

    def test_what_it_did_before_it_noticed_ends_when_a_member_is_back(self) -> None:
        """It had only stood still, and went on for a moment: it had a branch prepared after its taker had asked everybody."""
        self.begin(decided=False)
        self.adopt(self.c, self.b)
        self.assertEqual(self.outcome(self.a), (1, 1))
        self.cluster.brokers[4] = back = Broker(self.cluster, 4)
        back.session().create_queue("q")
        self.cluster.link(3, 4)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((1, 0), 0))

    def test_nobody_else_ends_its_branches(self) -> None:
        self.begin(decided=True)
        self.cluster.crash(2)
        self.settle(self.b)
        self.assertEqual(self.outcome(self.a), (1, 1))

    def test_the_home_itself_is_the_taker(self) -> None:
        for decided in (True, False):
            with self.subTest(decided=decided):
                self.setUp()
                self.begin(decided=decided)
                self.take_over(self.a, self.b)
                self.assertEqual((self.outcome(self.a), self.undecided(self.a)), ((int(not decided), 0), 0))

    def test_home_and_coordinator_have_one_taker(self) -> None:
        for decided in (True, False):
            for first, second in ((1, 2), (2, 1)):
                with self.subTest(decided=decided, first=first):
                    self.setUp()
                    self.begin(decided=decided)
                    self.adopt(self.c, self.cluster[first])
                    self.adopt(self.c, self.cluster[second])
                    self.settle(self.a, self.b)
                    self.assertEqual((self.outcome(self.c), self.undecided(self.c)), ((int(not decided), 0), 0))

    def test_what_management_has_ended_otherwise_is_forgotten(self) -> None:
        self.begin(decided=True)
        (branch,) = self.a.world.messaging.branches.prepared()
        self.a.world.messaging.branches.decide(xid_base64(branch.xid), commit=False)
        self.take_over(self.a, self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.a)), ((1, 0), 0))


class DamagedRecordTests(DecisionsTestCase):
    """A record of a branch cannot be read: nobody knows whether it was the decision."""

    RECORD = "the row 5 of session -2 in mqbroker_branch"

    def lose_decision(self, taker: Broker) -> list[str]:
        """B has decided, and its taker cannot read that.  Returns the errors of the log."""
        self.begin(decided=True)
        found = self.estate(self.b)
        found.branches = [each for each in found.branches if each.record.xid.format_id != COORDINATED_FORMAT]
        found.unreadable.append(self.RECORD)
        with capturedLogs() as events:
            self.adopt(taker, self.b, found)
            for _ in range(2):
                self.settle(self.b)
        return [str(formatEvent(event)) for event in events if self.RECORD in str(formatEvent(event))]

    def test_a_branch_whose_decision_may_be_lost_stays_undecided(self) -> None:
        """Once it was rolled back, although it was to be committed."""
        for taker in (self.c, self.a):
            with self.subTest(taker=taker.number):
                self.setUp()
                taker = self.cluster[taker.number]
                (line,) = self.lose_decision(taker)
                (branch,) = self.a.world.messaging.branches.prepared()
                self.assertIn(xid_base64(branch.xid), line)
                self.assertEqual((self.outcome(self.a), self.undecided(taker)), ((1, 1), 1))

    def test_an_operator_decides_and_removes_the_record(self) -> None:
        self.lose_decision(self.c)
        (branch,) = self.a.world.messaging.branches.prepared()
        self.a.core.turn.run(lambda: self.a.world.messaging.branches.decide(xid_base64(branch.xid), commit=True))
        self.c.world.messaging.branches.unreadable.clear()  # as at the next start
        for _ in range(2):
            self.settle(self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((0, 0), 0))

    def test_it_is_not_that_of_a_transaction_that_was_begun_later(self) -> None:
        self.b.world.messaging.branches.unreadable.append(self.RECORD)
        self.begin(decided=False)
        self.sync(self.a)
        self.cluster.link(2, 1)
        self.assertEqual((self.outcome(self.a), self.undecided(self.b)), ((1, 0), 0))


class XATests(DecisionsTestCase):
    """The coordinator had prepared a client's branch when it was lost."""

    def prepare(self) -> Session:
        session = self.consume(self.a, xa=True)
        for packet in (wire.XaEnd(CLIENT), wire.XaPrepare(CLIENT)):
            self.assertFalse(self.xa(session, packet).error)
        return session

    def client(self) -> Session:
        return self.c.session(xa=True)

    def test_the_client_commits_at_the_taker(self) -> None:
        self.prepare()
        self.take_over(self.c, self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((1, 1), 1))
        self.assertFalse(self.xa(self.client(), wire.XaCommit(CLIENT)).error)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((0, 0), 0))

    def test_the_client_rolls_back_at_the_taker(self) -> None:
        self.prepare()
        self.take_over(self.c, self.b)
        self.assertFalse(self.xa(self.client(), wire.XaRollback(CLIENT)).error)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((1, 0), 0))

    def test_what_waits_behind_another_branch_of_the_same_xid_is_not_rolled_back_meanwhile(self) -> None:
        self.prepare().peer.lose()
        self.a.session().publish(b"for C")
        other = self.client()
        other.consume()
        self.cluster.stir()
        (received,) = other.received()
        self.xa(other, wire.XaStart(CLIENT))
        other.send(wire.IndividualAcknowledge(0, message_id(received), False))
        for packet in (wire.XaEnd(CLIENT), wire.XaPrepare(CLIENT)):
            self.assertFalse(self.xa(other, packet).error)
        self.take_over(self.c, self.b)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((2, 2), 2))
        self.assertFalse(self.xa(other, wire.XaCommit(CLIENT)).error)
        self.assertEqual((self.outcome(self.a), self.undecided(self.c)), ((1, 1), 1))
