"""The client does what the Java client was recorded doing: same packets, same numbers, in the same order."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient import xa
from mqclient.core.api import ROUTING_ANYCAST, QueueConfiguration
from mqclient.core.session.session import Session
from mqclient.xa import XAError, Xid
from tests.support.network import RecordedBroker, World


class RecordingTests(SynchronousTestCase):
    def check(self, broker: RecordedBroker) -> None:
        self.assertEqual(broker.problems, [])
        self.assertTrue(broker.finished, "the recording goes on")

    def test_receive_immediate(self) -> None:
        broker = RecordedBroker("jms-2.44.0/core-receive-immediate")
        world = World(broker)
        session = world.session()
        world.finish(session.create_queue(QueueConfiguration(name="c.imm")))
        consumer = world.finish(session.create_consumer("c.imm"))
        world.finish(session.start())
        self.assertIsNone(world.finish(consumer.receive_immediate()))
        self.assertIsNone(world.finish(consumer.receive_immediate()))
        producer = world.finish(session.create_producer("c.imm"))
        world.finish(producer.send(session.create_message()))
        world.finish(session.stop())
        world.finish(session.start())
        self.assertIsNotNone(world.finish(consumer.receive_immediate()))
        world.finish(consumer.close())
        world.finish(session.close())
        self.check(broker)

    def test_transaction_with_acknowledgements(self) -> None:
        broker = RecordedBroker("jms-2.44.0/core-tx-acks")
        world = World(broker)
        session = world.session(auto_commit_sends=False, auto_commit_acks=False)
        world.finish(session.create_queue(QueueConfiguration(name="c.tx")))
        producer = world.finish(session.create_producer("c.tx"))
        sends = []
        for number in range(6):
            message = session.create_message()
            message.put("n", number)
            sends.append(producer.send(message))
        world.network.stir()
        self.assertTrue(all(send.called for send in sends))
        world.finish(session.commit(block=False))
        consumer = world.finish(session.create_consumer("c.tx"))
        world.finish(session.start())
        for _ in range(3):
            received = world.finish(consumer.receive(100))
            world.finish(received.acknowledge())
        world.finish(session.rollback(consider_last_message_as_delivered=True))
        for number in range(2):
            received = world.finish(consumer.receive(100))
            self.assertEqual((received.get("n"), received.delivery_count), (number, 2))
            world.finish(received.individual_acknowledge())
        world.finish(session.commit())
        world.finish(consumer.close())
        second = world.finish(session.create_consumer("c.tx"))
        self.assertEqual(world.finish(second.receive(100)).get("n"), 2)
        world.finish(session.close())
        # The one packet that differs: a commit that is not waited for carries a number, so that its answer is not taken for another's.
        self.assertEqual(broker.problems.pop(0), "SESS_COMMIT number 17: correlation_id is 1, recorded was None")
        self.check(broker)


class XaRecordingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def play(self, broker: RecordedBroker) -> None:
        self.world.network.brokers["61616"] = broker

    def check(self, *brokers: RecordedBroker) -> None:
        for broker in brokers:
            self.assertEqual(broker.problems, [])
            self.assertTrue(broker.finished, "the recording goes on")

    def refused(self, code: int, call: Any) -> None:
        self.assertEqual(self.assertRaises(XAError, self.world.finish, call).error_code, code)

    def send(self, producer: Any, session: Session) -> None:
        self.world.finish(producer.send(session.create_message()))

    def prepare_queue(self, session: Session, name: str) -> Any:
        """As a Java producer does: look, create, look again."""
        finish = self.world.finish
        finish(session.queue_query(name))
        finish(session.address_query(name))
        finish(session.create_address(name, [ROUTING_ANYCAST], auto_created=True))
        finish(session.queue_query(name))
        finish(session.create_queue(QueueConfiguration(name=name, auto_created=True)))
        return finish(session.create_producer(name))

    def test_heuristic_outcomes(self) -> None:
        broker = RecordedBroker("jms-2.44.0/core-xa-heuristic")
        self.play(broker)
        finish, factory = self.world.finish, self.world.factory()
        session, administrator = self.world.session(factory, xa=True), self.world.session(factory)
        branches = [Xid(21, b"g-commit", b"b"), Xid(22, b"g-rollback", b"b")]
        resource = session.xa_resource
        finish(session.create_queue(QueueConfiguration(name="c.xa")))
        producer = finish(session.create_producer("c.xa"))
        for branch in branches:
            finish(resource.start(branch))
            self.send(producer, session)
            finish(resource.end(branch))
            finish(resource.prepare(branch))
        finish(administrator.start())
        management = finish(administrator.create_producer("activemq.management"))
        replies = "activemq.management.replies"
        finish(administrator.create_queue(QueueConfiguration(name=replies, durable=False, temporary=True)))
        consumer = finish(administrator.create_consumer(replies))
        for _ in range(3):
            finish(management.send(administrator.create_message(durable=False)))
            self.assertIsNotNone(finish(consumer.receive(100)))
        self.assertEqual(finish(resource.recover()), branches)
        self.refused(xa.XA_HEURCOM, resource.commit(branches[0]))
        self.refused(xa.XA_HEURRB, resource.rollback(branches[1]))
        for branch in branches:
            finish(resource.forget(branch))
        self.assertEqual(finish(resource.recover()), [])
        finish(administrator.close())
        finish(session.close())
        self.check(broker)

    def test_the_connection_fails_inside_a_branch(self) -> None:
        before, after = (RecordedBroker("jms-2.44.0/recreate-xa", number) for number in (0, 1))
        self.world = World(reconnect_attempts=-1)
        self.play(before)
        finish, factory = self.world.finish, self.world.factory()
        hidden = self.world.session(factory, auto_commit_sends=False, auto_commit_acks=False)
        finish(hidden.add_metadata("jms-session", ""))
        session = self.world.session(factory, xa=True)
        producer = self.prepare_queue(session, "v.recreate.xa")
        branch = Xid(7, b"gtx-re", b"bq")
        finish(session.xa_resource.start(branch))
        self.send(producer, session)
        self.play(after)
        self.world.network.link.cut()
        self.world.network.stir()
        self.refused(xa.XAER_RMFAIL, session.xa_resource.end(branch))
        finish(session.xa_resource.rollback(branch))
        finish(hidden.close())
        finish(session.close())
        self.check(before, after)

    def test_every_call(self) -> None:
        broker = RecordedBroker("jms-2.44.0/xa")
        self.play(broker)
        finish, factory = self.world.finish, self.world.factory()
        hidden = self.world.session(factory, auto_commit_sends=False, auto_commit_acks=False)
        finish(hidden.add_metadata("jms-session", ""))
        session = self.world.session(factory, xa=True)
        resource = session.xa_resource
        finish(session.start())
        producer = self.prepare_queue(session, "v.xa")
        a, b, d, e, f, g = (
            *(Xid(7, b"gtx-a", b"bq-a"), Xid(7, b"gtx-b", b"bq-b"), Xid(8, b"gtx-d"), Xid(8, b"gtx-e", b"bq")),
            *(Xid(9, b"gtx-f", b"bq-f"), Xid(10, b"gtx-g", b"bq-g")),
        )
        for branch, one_phase in ((a, False), (b, True)):
            finish(resource.start(branch))
            self.send(producer, session)
            finish(resource.end(branch))
            if not one_phase:
                self.assertEqual(finish(resource.prepare(branch)), xa.XA_OK)
            finish(resource.commit(branch, one_phase))
        finish(session.address_query("v.xa"))
        finish(session.queue_query("v.xa"))
        consumer = finish(session.create_consumer("v.xa"))
        for branch, end in ((d, xa.TMFAIL), (e, xa.TMSUCCESS)):
            finish(resource.start(branch))
            finish(finish(consumer.receive()).acknowledge())
            finish(resource.end(branch, end))
            if end == xa.TMSUCCESS:
                finish(resource.prepare(branch))
            finish(resource.rollback(branch))
        finish(resource.start(f))
        finish(finish(consumer.receive()).acknowledge())
        finish(resource.end(f, xa.TMSUSPEND))
        finish(resource.start(f, xa.TMRESUME))
        finish(finish(consumer.receive()).acknowledge())
        finish(resource.end(f))
        second = self.world.session(factory, xa=True)
        finish(second.start())
        self.assertTrue(second.xa_resource.is_same_rm(resource))
        finish(second.xa_resource.start(f, xa.TMJOIN))
        joined = finish(second.create_producer("v.xa"))
        self.send(joined, second)
        finish(second.xa_resource.end(f))
        finish(resource.commit(f, one_phase=True))
        finish(resource.start(g))
        self.send(producer, session)
        finish(resource.end(g))
        finish(resource.prepare(g))
        self.assertEqual(finish(resource.recover()), [g])
        self.refused(xa.XAER_NOTA, resource.forget(g))
        finish(resource.commit(g))
        self.check_errors(session, second)
        self.assertEqual(finish(resource.get_transaction_timeout()), 300)
        self.assertTrue(finish(resource.set_transaction_timeout(17)))
        self.assertEqual(finish(resource.get_transaction_timeout()), 300)
        finish(second.close())
        finish(hidden.close())
        finish(session.close())
        self.check(broker)

    def check_errors(self, session: Session, second: Session) -> None:
        unknown, resource = Xid(11, b"unknown", b"x"), session.xa_resource
        for call in (
            resource.commit,
            resource.rollback,
            resource.prepare,
            resource.end,
            lambda xid: resource.start(xid, xa.TMJOIN),
            lambda xid: resource.start(xid, xa.TMRESUME),
            resource.forget,
        ):
            self.refused(xa.XAER_NOTA, call(unknown))  # type: ignore[no-untyped-call]
        self.world.finish(resource.start(unknown))
        self.refused(xa.XAER_DUPID, second.xa_resource.start(unknown))
        self.world.finish(resource.end(unknown))
        self.world.finish(resource.rollback(unknown))
