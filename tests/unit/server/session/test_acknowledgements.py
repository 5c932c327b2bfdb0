"""Acknowledgements of every kind, alone and in transactions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import Session, World, message_id


class AcknowledgementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def start(self, count: int = 4, **request: object) -> tuple[Session, list[int]]:
        session = self.world.peer().open(**request)
        session.create_queue("q")
        sender = self.world.session()
        for number in range(count):
            sender.publish(b"%d" % number)
        session.consume()
        return session, [message_id(packet) for packet in session.received()]

    @property
    def left(self) -> int:
        return self.world.queue("q").message_count

    def test_cumulative(self) -> None:
        session, ids = self.start()
        session.send(wire.Acknowledge(0, ids[2], False))
        self.assertEqual(session.take(), [])
        self.assertEqual(self.left, 1)
        self.assertEqual(len(self.world.store.entries("ack")), 3)

    def test_individual(self) -> None:
        session, ids = self.start()
        session.ok(wire.IndividualAcknowledge(0, ids[1], True))
        self.assertEqual(self.left, 3)
        session.peer.lose()
        other = self.world.session()
        other.consume()
        self.assertEqual(other.bodies(), [b"0", b"2", b"3"])

    def test_unknown_messages_are_an_error_and_change_nothing(self) -> None:
        session, ids = self.start()
        self.assertEqual(session.error(wire.Acknowledge(0, 5, True)), 104)
        self.assertEqual(session.error(wire.IndividualAcknowledge(9, ids[0], True)), 104)
        session.send(wire.Acknowledge(0, 5, False))
        self.assertEqual(session.take(), [])
        self.assertEqual(self.left, 4)

    def test_an_unknown_message_makes_the_transaction_fail(self) -> None:
        session, ids = self.start(auto_commit_acks=False)
        session.send(wire.Acknowledge(0, ids[0], False))
        session.send(wire.Acknowledge(0, 5, False))
        self.assertEqual(session.error(wire.Commit(-2)), 104)
        self.assertEqual(self.left, 4)

    def test_close_returns_the_rest_uncounted_and_loss_counted(self) -> None:
        session, _ = self.start(2)
        session.send(wire.ConsumerClose(0))
        session.consume(consumer=1)
        packets = [packet for packet in session.take() if isinstance(packet, wire.SessionReceive)]
        self.assertEqual([packet.delivery_count for packet in packets], [1, 1])
        session.peer.lose()
        other = self.world.session()
        other.consume()
        self.assertEqual([packet.delivery_count for packet in other.received()], [2, 2])

    def test_pre_acknowledged_messages_are_gone_before_they_are_sent(self) -> None:
        session, ids = self.start(pre_acknowledge=True)
        self.assertEqual((self.left, len(ids)), (0, 4))
        session.peer.lose()
        self.assertEqual(self.left, 0)

    def test_expired_by_the_client(self) -> None:
        session, ids = self.start()
        session.send(wire.Expired(0, ids[1]))
        session.send(wire.Expired(0, 77))
        self.assertEqual(session.take(), [])
        self.assertEqual((self.left, self.world.queue("q").messages_expired), (3, 1))


class TransactionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.sender = self.world.session()
        self.sender.create_queue("q")
        for number in range(4):
            self.sender.publish(b"%d" % number)
        self.session = self.world.peer().open(auto_commit_sends=False, auto_commit_acks=False)
        self.session.consume()

    def counts(self) -> list[tuple[bytes, int]]:
        return [(decode_message(packet.message).body, packet.delivery_count) for packet in self.session.received()]

    def test_rollback_counts_what_was_acknowledged(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[1], False))
        self.session.ok(wire.SessionStop(), wire.Rollback(False))
        self.session.send(wire.SessionStart())
        self.assertEqual(self.counts(), [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)])

    def test_recover_counts_the_first_of_the_others_too(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[0], False))
        self.session.ok(wire.SessionStop(), wire.Rollback(True))
        self.session.send(wire.SessionStart())
        self.assertEqual(self.counts(), [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)])

    def test_commit_shows_sends_and_takes_acknowledgements_together(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[3], False))
        self.session.publish(b"new")
        self.assertEqual(self.session.take(), [])
        self.session.ok(wire.Commit(-4))
        self.assertEqual(self.session.bodies(), [b"new"])
        self.assertEqual(self.world.queue("q").message_count, 1)

    def test_a_lost_connection_rolls_back(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[3], False))
        self.session.publish(b"never")
        self.session.peer.lose()
        self.sender.take()
        self.sender.consume()
        packets = self.sender.received()
        self.assertEqual([(decode_message(p.message).body, p.delivery_count) for p in packets], [(b"%d" % n, 2) for n in range(4)])

    def test_close_rolls_back_too(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[0], False))
        self.session.ok(wire.SessionClose())
        self.assertEqual(self.world.queue("q").references.count, 4)

    def test_a_failed_request_spoils_an_open_transaction_only(self) -> None:
        self.session.take()
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.session.ok(wire.Commit(-2))
        self.session.publish(b"x")
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.assertEqual(self.session.error(wire.Commit(-3)), 100)
