"""What is left of XA branches after a restart or a crash."""

from __future__ import annotations

import json

from mqbroker.messaging.delivery.branches import XACode, xid_base64
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import CoreMessage, decode_message, encode_message
from mqclient.wire.properties import STRING
from tests.unit.server.xa import NOTA, RestartCase, XASession, xid


class RestartTests(RestartCase):
    def test_a_prepared_branch_survives_and_is_committed(self) -> None:
        self.prepared()
        for again in (self.broker.restart, self.broker.crash):
            again()
            self.open()
            self.assertEqual(self.session.in_doubt(), ["t"])
            self.assertEqual(self.consumed(), [])
        self.assertEqual(self.ask(wire.XaCommit(xid("t"))), 0)
        self.broker.crash()
        self.open()
        self.assertEqual(self.session.in_doubt(), [])
        self.assertEqual(self.consumed(), [b"one", b"two"])

    def test_a_prepared_branch_survives_and_is_rolled_back(self) -> None:
        self.prepared()
        self.broker.crash()
        self.open()
        self.assertEqual(self.ask(wire.XaRollback(xid("t"))), 0)
        self.broker.crash()
        self.open()
        self.assertEqual(self.session.in_doubt(), [])
        self.assertEqual(self.consumed(), [])

    def test_an_unprepared_branch_does_not(self) -> None:
        self.ask(wire.XaStart(xid("t")))
        self.session.session.publish(b"lost")
        self.ask(wire.XaEnd(xid("t")))
        self.broker.crash()
        self.open()
        self.assertEqual(self.session.in_doubt(), [])
        self.assertEqual(self.ask(wire.XaCommit(xid("t"), True)), NOTA)
        self.assertEqual(self.consumed(), [])

    def test_the_answer_waits_for_the_disk(self) -> None:
        self.ask(wire.XaStart(xid("t")))
        self.session.session.publish(b"one")
        self.ask(wire.XaEnd(xid("t")))
        for request in (wire.XaPrepare(xid("t")), wire.XaCommit(xid("t"))):
            self.session.session.send(request)
            self.assertEqual(self.session.session.take(), [])
            self.broker.settle()
            self.assertEqual(len(self.session.session.take()), 1)

    def test_a_crash_before_the_sync_of_a_prepare(self) -> None:
        """Nobody was told: the branch is gone, as a whole."""
        self.ask(wire.XaStart(xid("t")))
        self.session.session.publish(b"one")
        self.ask(wire.XaEnd(xid("t")))
        self.session.session.send(wire.XaPrepare(xid("t")))
        self.broker.crash()
        self.open()
        self.assertEqual(self.session.in_doubt(), [])
        self.assertEqual(self.consumed(), [])

    def test_nothing_is_answered_after_a_failed_write(self) -> None:
        self.ask(wire.XaStart(xid("t")))
        self.session.session.publish(b"one")
        self.ask(wire.XaEnd(xid("t")))
        self.broker.rig.disk.fail("write", OSError(5, "broken"))
        self.session.session.send(wire.XaPrepare(xid("t")))
        self.broker.settle()
        self.assertEqual(self.session.session.take(), [])
        self.assertTrue(self.broker.rig.store.failed)

    def test_acknowledged_messages_are_blocked_from_everybody(self) -> None:
        writer = self.broker.world.session()
        for body in (b"one", b"two", b"three"):
            writer.publish(body)
        self.broker.settle()
        self.session.session.consume()
        self.broker.settle()
        first = self.session.session.received()[0]
        self.ask(wire.XaStart(xid("t")))
        self.session.acknowledge(first)
        self.ask(wire.XaEnd(xid("t")))
        self.ask(wire.XaPrepare(xid("t")))
        for _ in range(2):
            self.broker.crash()
            queue = self.broker.world.queue("q")
            self.assertEqual((queue.message_count, queue.delivering), (3, 1))
            self.assertEqual(self.consumed(), [b"two", b"three"])
        self.open()
        self.assertEqual(self.ask(wire.XaRollback(xid("t"))), 0)
        self.broker.crash()
        self.session = XASession(self.broker.world.peer(), auto_commit_acks=True)
        self.session.session.consume()
        self.broker.settle()
        found = self.session.session.received()
        self.assertEqual([decode_message(each.message).body for each in found], [b"one", b"two", b"three"])
        self.assertEqual(found[0].delivery_count, 2)

    def test_a_committed_acknowledgement_is_final(self) -> None:
        self.broker.world.session().publish(b"one")
        self.broker.settle()
        self.session.session.consume()
        self.broker.settle()
        found = self.session.session.received()
        self.ask(wire.XaStart(xid("t")))
        self.session.acknowledge(found[0])
        self.ask(wire.XaEnd(xid("t")))
        self.ask(wire.XaPrepare(xid("t")))
        self.broker.crash()
        self.open()
        self.assertEqual(self.ask(wire.XaCommit(xid("t"))), 0)
        self.broker.crash()
        self.assertEqual(self.broker.world.queue("q").message_count, 0)

    def test_a_branch_is_unknown_only_when_its_end_is_durable(self) -> None:
        """A transaction manager that asks again takes that for the end; after a crash the branch must not be back."""
        self.prepared()
        other = XASession(self.broker.world.peer())
        self.broker.settle()
        other.session.take()
        self.session.session.send(wire.XaCommit(xid("t"), False))
        other.session.send(wire.XaCommit(xid("t"), False))
        self.assertEqual((self.session.session.take(), other.session.take()), ([], []))
        self.broker.settle()
        answers = [each.session.take()[0] for each in (self.session, other)]
        self.assertEqual([each.response_code for each in answers if isinstance(each, wire.XaResponse)], [0, NOTA])


class OutcomeRestartTests(RestartCase):
    """What management has decided is remembered, too."""

    def decide(self, operation: str, name: str) -> None:
        sender = self.broker.world.session()
        content = CoreMessage(address="activemq.management", type=3, body=encode_text(json.dumps([xid_base64(xid(name))])))
        content.properties.update(
            _AMQ_ResourceName=(STRING, "broker"), _AMQ_OperationName=(STRING, operation), JMSReplyTo=(STRING, "reply")
        )
        sender.send(wire.CreateQueueV2("reply", "reply", durable=False, temporary=True, routing_type=1))
        sender.consume("reply")
        sender.send(wire.SessionSend(encode_message(content), False, 0))
        self.assertEqual(sender.received(), [])
        self.broker.settle()
        (reply,) = sender.received()
        self.assertEqual(decode_text(decode_message(reply.message).body), "[true]")
        sender.peer.lose()

    def test_outcomes(self) -> None:
        self.prepared("t", b"one")
        self.prepared("u", b"two")
        self.decide("commitPreparedTransaction", "t")
        self.decide("rollbackPreparedTransaction", "u")
        for again in (self.broker.crash, self.broker.restart):
            again()
            self.open()
            self.assertEqual(self.session.in_doubt(), ["t", "u"])
            self.assertEqual(self.ask(wire.XaCommit(xid("t"))), XACode.HEURISTIC_COMMIT)
            self.assertEqual(self.ask(wire.XaCommit(xid("u"))), XACode.HEURISTIC_ROLLBACK)
        self.assertEqual(self.consumed(), [b"one"])
        self.assertEqual((self.ask(wire.XaForget(xid("t"))), self.ask(wire.XaForget(xid("u")))), (0, 0))
        self.broker.crash()
        self.open()
        self.assertEqual((self.session.in_doubt(), self.consumed()), ([], [b"one"]))
