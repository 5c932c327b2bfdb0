"""The client does what the Java client was recorded doing: same packets, same numbers, in the same order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import QueueConfiguration
from tests.unit.client.core_support import RecordedBroker, World


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
