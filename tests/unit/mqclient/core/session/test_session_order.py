"""What a session has begun comes before the commit, the end of a branch or the close that is called after it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.consuming.consumers import Consumer
from mqclient.core.message import ClientMessage
from mqclient.core.sending.producers import Producer
from mqclient.core.session.session import Session
from mqclient.errors import ObjectClosedError, TransactionRolledBackError
from mqclient.wire.packets import (
    Acknowledge,
    Commit,
    ConsumerClose,
    Packet,
    ProducerCredits,
    Rollback,
    SessionClose,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    XaEnd,
    XaPrepare,
    XaResponse,
    XaStart,
    XaSuspend,
)
from mqclient.xa import Xid
from tests.unit.mqclient.core_support import ScriptedBroker, World, message, pending

CHANNEL = 10
BRANCH = Xid(7, b"gtx", b"one")
TOLD: tuple[type[Packet], ...] = (
    *(Acknowledge, Commit, ConsumerClose, Rollback, SessionClose, SessionSend, SessionSendLarge, SessionSendContinuation),
    *(XaStart, XaEnd, XaSuspend, XaPrepare),
)


class OrderTestCase(SynchronousTestCase):
    session: Session
    producer: Producer
    consumer: Consumer

    def start(self, *, transacted: bool = False, branches: bool = False, window: int = 1024 * 1024, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        for kind in (XaStart, XaEnd, XaSuspend, XaPrepare):
            self.broker.answers[kind] = lambda _: XaResponse(False, 0)
        self.world = World(self.broker, producer_window_size=window, **settings)
        self.session = self.world.session(auto_commit_sends=not transacted, auto_commit_acks=not transacted, xa=branches)
        self.producer = self.world.finish(self.session.create_producer("a"))
        self.consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())

    def block(self) -> None:
        """The broker grants nothing from now on; what is left is used up."""
        self.world.network.stir()
        self.broker.credits = False
        self.session.flow._addresses["a"].credits.balance = 0

    def grant(self, size: int = 1_000_000, address: str = "a") -> None:
        self.broker.credits = True
        self.broker.deliver(CHANNEL, ProducerCredits(size, address))

    def sends(self, count: int, producer: Producer | None = None, **values: Any) -> list[Any]:
        return [(producer or self.producer).send(self.session.create_message(**values)) for _ in range(count)]

    def receive(self, *ids: int) -> list[ClientMessage]:
        for number in ids:
            self.broker.deliver(CHANNEL, message(number))
        return [self.world.finish(self.consumer.receive_immediate()) for _ in ids]

    def close(self, what: str) -> Any:
        return attrgetter(what)(self).close()

    def end_turn(self) -> None:
        self.world.clock.advance(0)
        self.world.network.stir()

    def told(self) -> list[str]:
        """Names of what the broker was told over the connection made last, repetitions counted."""
        self.world.network.stir()
        found: list[tuple[str, int]] = []
        for packet in self.broker.got(*TOLD):
            if found and found[-1][0] == packet.NAME:
                found[-1] = (packet.NAME, found[-1][1] + 1)
            else:
                found.append((packet.NAME, 1))
        return [name if count == 1 else f"{name} {count}" for name, count in found]

    def failure(self, kind: type[BaseException], awaitable: Any) -> Any:
        return self.assertRaises(kind, self.world.finish, awaitable)


class CloseTests(OrderTestCase):
    def test_it_waits_for_what_was_begun(self) -> None:
        for what in ("producer", "session", "session.factory", "world.locator"):
            self.start()
            self.block()
            sends = self.sends(3, durable=False)
            closing = self.close(what)
            self.world.network.stir()
            self.assertTrue(pending(closing))
            self.grant()
            self.world.finish(closing)
            for send in sends:
                self.world.finish(send)
            self.assertEqual(len(self.broker.got(SessionSend)), 3)

    def test_what_is_begun_after_it_is_refused(self) -> None:
        self.start()
        self.block()
        [send] = self.sends(1, durable=False)
        closing = self.session.close()
        self.failure(ObjectClosedError, self.producer.send(self.session.create_message()))
        self.grant()
        self.world.finish(closing)
        self.world.finish(send)

    def test_an_open_transaction_is_not_waited_for(self) -> None:
        self.start(transacted=True)
        self.block()
        sends = self.sends(2)
        commit = self.session.commit()
        self.world.finish(self.session.close())
        for call in (*sends, commit):
            self.assertRaises((ObjectClosedError, TransactionRolledBackError), self.world.finish, call)
        self.assertNotIn("SESS_COMMIT", self.told())

    def test_a_connection_that_is_away_is_not_waited_for(self) -> None:
        self.start(reconnect_attempts=-1)
        self.block()
        [send] = self.sends(1)
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.world.finish(self.session.close())
        self.failure(ObjectClosedError, send)

    def test_several_blocked_sessions_are_waited_for_at_once(self) -> None:
        self.start(call_timeout=1000)
        second = self.world.session(self.session.factory)
        producer = self.world.finish(second.create_producer("a"))
        self.block()
        second.flow._addresses["a"].credits.balance = 0
        sends = [*self.sends(1), producer.send(second.create_message())]
        closing = self.world.locator.close()
        self.world.advance(1.1)
        self.world.finish(closing)
        for send in sends:
            self.failure(ObjectClosedError, send)
