"""A broker that remembers duplicate ids and has transactions, and a world whose client uses ``exactly_once``."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.once.ids import COMMITS_ADDRESS
from mqclient.core.session.session import Session
from mqclient.wire.message import KEY_DUPLICATE_ID, CoreMessage, decode_headers, decode_message
from mqclient.wire.packets import (
    Acknowledge,
    BindingQuery,
    BindingQueryResponseV5,
    Commit,
    CreateSession,
    CreateSessionV2,
    ExceptionResponse,
    IdCacheQuery,
    IdCacheState,
    NullResponse,
    Packet,
    Rollback,
    SessionClose,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)
from tests.support.network import MemoryLink, ScriptedBroker, World


class _Transaction:
    def __init__(self, transacted: bool) -> None:
        self.transacted = transacted
        self.large: CoreMessage | None = None
        self.forget()

    def forget(self) -> None:
        self.messages: list[CoreMessage] = []
        self.acknowledged: list[int] = []
        self.doomed = 0
        """The code of the refusal that keeps it from being committed."""


class RememberingBroker(ScriptedBroker):
    """``stored`` is what has taken effect.  ``lost_answers`` counts answers to packets of a type that do not reach the client, which loses
    its connection then; with ``lost_requests`` the packet has no effect either."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[tuple[str, object]] = set()
        self.stored: list[CoreMessage] = []
        self.acknowledged: list[int] = []
        self.refused: dict[str, int] = {}
        """Addresses whose messages are refused, with the code."""
        self.cache = IdCacheState(20_000, True)
        self.lost_answers: list[type[Packet]] = []
        self.lost_requests: list[type[Packet]] = []
        self.sessions: dict[tuple[int, int], _Transaction] = {}

    def bodies(self, address: str = "a") -> list[bytes]:
        return [each.body for each in self.stored if each.address == address]

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        if not link.open:
            return
        kind = type(packet)
        if kind in self.lost_requests:
            self.lost_requests.remove(kind)
            link.cut()
            return
        self._link = link, channel
        super().handle(link, channel, packet)
        if kind in self.lost_answers:
            self.lost_answers.remove(kind)
            link.cut()

    def _answers(self, packet: Packet) -> list[Packet]:
        link, channel = self._link
        if isinstance(packet, (CreateSession, CreateSessionV2)):
            self.sessions[id(link), packet.session_channel_id] = _Transaction(not packet.auto_commit_sends)
        if isinstance(packet, BindingQuery):
            return [BindingQueryResponseV5(True, (packet.address,))]
        if isinstance(packet, IdCacheQuery):
            return [self.cache]
        session = self.sessions.get((id(link), channel))
        if session is None:
            return super()._answers(packet)
        if isinstance(packet, SessionSend):
            return self._send(session, decode_message(packet.message), packet)
        if isinstance(packet, SessionSendLarge):
            session.large = decode_headers(packet.headers)
            return []
        if isinstance(packet, SessionSendContinuation):
            assert session.large is not None
            session.large.body += packet.chunk
            if packet.continues:
                return [NullResponse(packet.correlation_id)] if packet.requires_response else []
            return self._send(session, session.large, packet)
        if isinstance(packet, Acknowledge):
            session.acknowledged.append(packet.message_id)
        if isinstance(packet, Commit):
            return [self._commit(session, packet)]
        if isinstance(packet, (Rollback, SessionClose)):
            session.forget()
        return super()._answers(packet)

    def _send(self, session: _Transaction, message: CoreMessage, packet: SessionSend | SessionSendContinuation) -> list[Packet]:
        address = message.address or ""
        key = address, message.get(KEY_DUPLICATE_ID)
        if address in self.refused:
            session.doomed = self.refused[address]
            return [ExceptionResponse(self.refused[address], "refused", packet.correlation_id)]
        if session.transacted:
            session.messages.append(message)
        elif key[1] is None or key not in self.ids:
            self._store(message)
        return [NullResponse(packet.correlation_id)] if packet.requires_response else []

    def _commit(self, session: _Transaction, packet: Commit) -> Packet:
        correlation = -1 if packet.correlation_id is None else packet.correlation_id
        messages, acknowledged, doomed = session.messages, session.acknowledged, session.doomed
        session.forget()
        if any((each.address, each.get(KEY_DUPLICATE_ID)) in self.ids for each in messages):
            return ExceptionResponse(113, "duplicate", correlation)
        if doomed:
            return ExceptionResponse(doomed, "refused", correlation)
        for message in messages:
            self._store(message)
        self.acknowledged += acknowledged
        return NullResponse(correlation)

    def _store(self, message: CoreMessage) -> None:
        duplicate_id = message.get(KEY_DUPLICATE_ID)
        if duplicate_id is not None:
            self.ids.add((message.address or "", duplicate_id))
        if message.address != COMMITS_ADDRESS:
            self.stored.append(message)


class OnceTestCase(SynchronousTestCase):
    session: Session

    def start(self, *, transacted: bool = False, **settings: Any) -> None:
        self.broker = RememberingBroker()
        defaults = {"exactly_once": True, "retry_interval": 100, "max_retry_interval": 1000}
        self.world = World(self.broker, **{**defaults, **settings})
        self.factory = self.world.factory()
        self.session = self.world.session(self.factory, auto_commit_sends=not transacted, auto_commit_acks=not transacted)
        self.producer = self.world.finish(self.session.create_producer("a"))

    def tearDown(self) -> None:
        self.world.finish(self.world.locator.close())
        self.world.advance(6)
        self.assertEqual(self.world.runtime.failures, [])
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def send(self, body: bytes, **values: Any) -> Any:
        message = self.session.create_message()
        message.body = body
        for name, value in values.items():
            setattr(message, name, value)
        return self.producer.send(message)

    def cut(self) -> None:
        self.world.network.link.cut()
        self.world.network.stir()

    def away(self) -> None:
        self.world.network.brokers.clear()
        self.cut()

    def back(self) -> None:
        self.world.network.brokers["61616"] = self.broker
        self.world.advance(1.1)

    def failure(self, kind: type[BaseException], awaitable: Any) -> Any:
        return self.assertRaises(kind, self.world.finish, awaitable)
