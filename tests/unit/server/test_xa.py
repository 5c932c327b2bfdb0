"""XA over the wire: what a transaction manager asks, in every state of a branch, and what is left after a restart."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.configuration import Configuration
from mqbroker.messaging.branches import XACode
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from mqclient.wire.primitives import Xid
from tests.unit.server.support import Peer, Session, World, message_id
from tests.unit.storage.support import Rig

NOTA, PROTO, DUPID = XACode.UNKNOWN_XID, XACode.WRONG_STATE, XACode.DUPLICATE_XID


def xid(name: str, qualifier: bytes = b"b") -> Xid:
    return Xid(7, qualifier, name.encode())


class XASession:
    """The client end of an XA session."""

    def __init__(self, peer: Peer, **request: Any) -> None:
        values = {"xa": True, "auto_commit_sends": False, "auto_commit_acks": False, **request}
        self.session: Session = peer.open(**values)

    def ask(self, packet: wire.Packet) -> int:
        """The code of the answer, 0 = done."""
        answer = self.session.call(packet)
        assert isinstance(answer, wire.XaResponse), answer
        assert answer.error is (answer.response_code != 0), answer
        return answer.response_code

    def start(self, name: str) -> int:
        return self.ask(wire.XaStart(xid(name)))

    def end(self, name: str) -> int:
        return self.ask(wire.XaEnd(xid(name)))

    def prepare(self, name: str) -> int:
        return self.ask(wire.XaPrepare(xid(name)))

    def commit(self, name: str, one_phase: bool = False) -> int:
        return self.ask(wire.XaCommit(xid(name), one_phase))

    def rollback(self, name: str) -> int:
        return self.ask(wire.XaRollback(xid(name)))

    def in_doubt(self) -> list[str]:
        answer = self.session.call(wire.XaInDoubtXids())
        assert isinstance(answer, wire.XaInDoubtXidsResponse), answer
        return [each.global_transaction_id.decode() for each in answer.xids]

    def acknowledge(self, packet: wire.SessionReceive) -> None:
        self.session.send(wire.IndividualAcknowledge(packet.consumer_id, message_id(packet), False))

    def sends(self, name: str, *bodies: bytes, prepare: bool = False, **headers: Any) -> None:
        """A branch that has sent these, ended and perhaps prepared."""
        assert self.start(name) == 0
        for body in bodies:
            self.session.publish(body, **headers)
        assert self.end(name) == 0
        if prepare:
            assert self.prepare(name) == 0

    def takes(self, name: str, count: int = 1, *, prepare: bool = False) -> list[wire.SessionReceive]:
        """A branch that has acknowledged the next messages of the session's consumer."""
        found = self.session.received()[:count]
        assert len(found) == count
        assert self.start(name) == 0
        for packet in found:
            self.acknowledge(packet)
        assert self.end(name) == 0
        if prepare:
            assert self.prepare(name) == 0
        return found


class Broker:
    """A broker on a simulated disk, which can be started again."""

    def __init__(self, **settings: Any) -> None:
        self.rig = Rig(**settings)
        self.world = self._start(self.rig.start())

    def _start(self, recovered: Any) -> World:
        return World(Configuration(security_enabled=False), store=self.rig.store, clock=self.rig.clock, recovered=recovered)

    def settle(self) -> None:
        self.rig.settle()

    def restart(self) -> None:
        self.world.messaging.stop()
        self.rig.stop()
        self.world = self._start(self.rig.start())

    def crash(self) -> None:
        """The machine stops: what was not synced is lost."""
        self.world = self._start(self.rig.crash())


class RestartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = Broker()
        self.open()
        self.session.session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        self.broker.settle()
        self.session.session.take()

    def open(self) -> None:
        self.session = XASession(self.broker.world.peer())

    def ask(self, packet: wire.Packet) -> int:
        self.session.session.send(packet)
        self.broker.settle()
        answers = [each for each in self.session.session.take() if isinstance(each, wire.XaResponse)]
        self.assertEqual(len(answers), 1)
        return answers[0].response_code

    def prepared(self, name: str = "t", *bodies: bytes) -> None:
        self.assertEqual(self.ask(wire.XaStart(xid(name))), 0)
        for body in bodies or (b"one", b"two"):
            self.session.session.publish(body)
        self.assertEqual(self.ask(wire.XaEnd(xid(name))), 0)
        self.assertEqual(self.ask(wire.XaPrepare(xid(name))), 0)

    def consumed(self) -> list[bytes]:
        reader = self.broker.world.session()
        reader.consume()
        self.broker.settle()
        bodies = reader.bodies()
        reader.peer.lose()
        self.broker.settle()
        return bodies

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
