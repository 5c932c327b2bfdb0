"""Sessions of a transaction manager, and brokers for them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.delivery.branches import XACode
from mqclient.wire import packets as wire
from mqclient.wire.primitives import Xid
from tests.support.broker import Peer, Session, World, message_id
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


class RestartCase(SynchronousTestCase):
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


class StateCase(SynchronousTestCase):
    """A broker whose store is as fast as the test, with one client that has two XA sessions."""

    settings: dict[str, Any] = {}

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, **self.settings))
        self.peer = self.world.peer()
        self.session, self.other = XASession(self.peer), XASession(self.peer)
        self.session.session.create_queue("q")
        self.plain = self.world.session()
        self.reports: list[tuple[str, str]] = []
        observer = self.world.server.notifications
        self.patch(observer, "message_dropped", lambda code, text: self.reports.append((code, text)))

    @property
    def queue(self) -> Any:
        return self.world.queue("q")

    def visible(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.queue.references]
