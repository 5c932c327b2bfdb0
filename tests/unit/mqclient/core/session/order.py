"""A session whose packets are told in the order in which they are written."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.consuming.consumers import Consumer
from mqclient.core.message import ClientMessage
from mqclient.core.sending.producers import Producer
from mqclient.core.session.session import Session
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
from tests.support.network import ScriptedBroker, World, message

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
