"""Clients of an enhanced cluster: they begin at one member, and follow its data to whoever has them.

The order of messages is judged where it can be known: at a consumer that is alone in the whole cluster, for what the data of its own
broker give it, from one connection of the client to the next.
"""

from __future__ import annotations

from typing import Any

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from tests.simulation.cluster.actors import AtNode, ClusterReceiver, ClusterSubscriber, ClusterTransactedReceiver
from tests.simulation.cluster.branches import ClusterBranchWorker
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.database.member_ledger import MemberLedger, Stay
from tests.simulation.database.members import MemberNode
from tests.simulation.imq.actors import HomeAsynchronousSender, HomeBlockingSender, HomeSender, HomeTransactedSender
from tests.simulation.imq.sharing import ClientIdUser, HomeTemporaryUser
from tests.simulation.model import Copy, Outcome
from tests.simulation.once import OnceSender, OnceTransactedSender, OnceWorker
from tests.simulation.receivers import Receiver
from tests.simulation.world import Process


class AtMember(AtNode):
    """Knows the member that it is connected to, and tells the ledger which data that has at each of its arrivals."""

    ledger: MemberLedger

    @property
    def broker(self) -> MemberNode:
        factory, cluster = self.factory, self.simulation.cluster
        host = self.simulation.broker.name if factory is None else cluster.fabric.network_of(factory.connector).host
        found: MemberNode = next(node for node in cluster.nodes if node.name == host)
        return found

    async def _connect(self) -> None:
        await super()._connect()
        self._arrived()

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        super().connection_failed(error, failed_over)
        if failed_over:
            self._arrived()

    def _arrived(self) -> None:
        self.ledger.stays[self.name] = self.broker.stay


# --- senders


class MemberSender(AtMember, HomeSender):
    """Its next attempt may come to another member, which knows nothing of the duplicate ids of the first one."""

    def may_repeat(self, identity: str) -> bool:
        return False

    def message(self, identity: str) -> ClientMessage:
        self.ledger.routed(identity, self.broker.unread)
        return super().message(identity)

    def _arrived(self) -> None:
        """What is not answered may be sent once more here, by the library itself."""
        super()._arrived()
        unread = self.broker.unread
        for message in self.ledger.sent.values():
            if message.producer == self.name and message.outcome is Outcome.UNKNOWN:
                self.ledger.routed(message.identity, unread)


class MemberBlockingSender(MemberSender, HomeBlockingSender):
    pass


class MemberAsynchronousSender(MemberSender, HomeAsynchronousSender):
    pass


class MemberTransactedSender(MemberSender, HomeTransactedSender):
    pass


class MemberOnceSender(MemberSender, OnceSender):
    """What it has to repeat the taker knows."""

    in_order = True


class MemberOnceTransactedSender(MemberSender, OnceTransactedSender):
    in_order = True


# --- receivers


class MemberReceiving(AtMember, Receiver):
    """Goes on at any member.  A *stretch* is what it got in order there."""

    _stretch: list[tuple[str, Stay]] | None = None
    _process: Process | None = None
    """Of the broker at which the consumer was made."""

    async def _open(self, session: Session) -> Consumer:
        consumer = await super()._open(session)
        self._process = self._process or self.broker.process
        return consumer

    def begin_sequence(self) -> None:
        self._stretch = self.ledger.stretch(f"{self.name} at {self.world.now:.3f}") if self._sole else None

    def _end_sequence(self) -> None:
        super()._end_sequence()
        self._stretch = self._process = None

    def before_reconnect(self, error: MQError) -> None:
        former = self._process
        super().before_reconnect(error)
        self._process = former

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        """Where another process goes on with the data, everything that was not settled comes again, from the beginning."""
        former = self._process
        super().connection_failed(error, failed_over)
        consumer, process = self._consumer, self.broker.process
        if failed_over and consumer is not None and not consumer.closed and former not in (None, process):
            self._process = process
            # Its consumer is about to be made.  One of a link may be left, whose broker has died: what that has comes back late.
            self._sole = self._is_sole(0)
            self.begin_sequence()

    async def receive(self, session: Session, consumer: Consumer) -> None:
        """An acknowledgement without an answer may be void: its messages come again, from the member that takes the home over."""
        try:
            await super().receive(session, consumer)
        except MQError:
            self.begin_sequence()
            raise

    async def next(self, consumer: Consumer) -> tuple[ClientMessage, Copy] | None:
        entry = await super().next(consumer)
        if entry is not None and self._stretch is not None:
            message, (_, identity) = entry
            broker = self.broker
            stay = broker.stay
            comes_again = self.returned(message) or (broker.name, message.message_id) in self.ledger.taken_back
            if stay is not None and not comes_again:
                self._stretch.append((identity, stay))
        return entry


class MemberReceiver(MemberReceiving, ClusterReceiver):
    pass


class StreamReceiver(MemberReceiver):
    """Is alone on its queue until ``stop_at``, and at times behind with its work: then more is with a broker that fails."""

    def __init__(self, simulation: Any, name: str, queue: str, stop_at: float) -> None:
        super().__init__(simulation, name, queue, True)
        self._color = ""
        self._alone = True
        self.stop_at, self.mortal = stop_at, False

    async def receive(self, session: Session, consumer: Consumer) -> None:
        await super().receive(session, consumer)
        if self.rng.random() < 0.1:
            await self.pause(self.rng.uniform(0.5, 3.0))


class MemberTransactedReceiver(MemberReceiving, ClusterTransactedReceiver):
    pass


class MemberOnceWorker(MemberReceiving, OnceWorker):
    pass


class MemberSubscriber(MemberReceiving, ClusterSubscriber):
    """Its messages may be with several members."""

    def is_gone(self) -> None:
        self.world.note(f"{self.name}: this member has not heard of {self.queue} yet")


# --- others


class MemberBranchWorker(AtMember, ClusterBranchWorker):
    """What is prepared at one member is decided where its data are by then: the transaction manager tells all that may have them."""

    targets = ("orders", "jobs")

    def may_know(self, node: ClusterNode) -> bool:
        assert isinstance(node, MemberNode)
        return not node.away or node.is_owner

    def _lives(self) -> list[int]:
        return [*super()._lives(), len(self.broker.server_of_data.takings)]


class MemberClientIdUser(AtMember, ClientIdUser):
    pass


class MemberTemporaryUser(AtMember, HomeTemporaryUser):
    """``awaited`` is the destination to which it is trying to come back."""

    @property
    def awaited(self) -> str:
        session: Any = self.current
        lost = not self.finished and session is not None and not session.closed and session.channel.locked
        return f"temporary.{self.name}.{self._number}" if lost and not self.doing.startswith(("create", "delete")) else ""
