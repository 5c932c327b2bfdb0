"""Clients at work: what all of them share, and the senders.  Receivers are in :mod:`tests.simulation.receivers`."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred

from mqclient.core.api import ClientMessage, LocatorSettings
from mqclient.core.consuming.buffers import PriorityBuffer
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.core.session.session import Session
from mqclient.errors import (
    AddressFullError,
    ConnectionTimedOutError,
    DuplicateIdRejectedError,
    InternalError,
    LargeMessageBodyError,
    MQError,
    ProtocolError,
    TransactionRolledBackError,
)
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_GROUP_ID, KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import BYTE, LONG
from tests.simulation import balances
from tests.simulation.client import SimulatedRuntime
from tests.simulation.model import Outcome, Sent, Unit
from tests.simulation.network import Network
from tests.simulation.policies import ARCHIVE, PARCELS, PERISHABLES, queues_of
from tests.simulation.settings import ANYCAST, QUEUES
from tests.simulation.world import Process
from tests.support.disk import DISK_FAILS

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

T = TypeVar("T")

CHUNK = 1024
"""Bytes: a larger body is a large message."""
CALL_TIMEOUT = 4000
"""Milliseconds; a connection that carries nothing is given up earlier, for its time to live."""
UNIT_MAX = 4
"""Messages that a sender has under way at the same time."""
IDENTITY = "identity"
COLOR = "color"
NEVER_RIGHT = (InternalError, ProtocolError, LargeMessageBodyError)
"""Errors that no fault of network, disk or process explains."""


def client_settings(rng: random.Random, **fixed: Any) -> LocatorSettings:
    """Settings as different applications have them; times are short, so that a short run sees them end."""
    drawn: dict[str, Any] = {
        "reconnect_attempts": rng.choice((0, 0, 3, -1, -1)),
        "retry_interval": rng.choice((20, 200)),
        "confirmation_window_size": rng.choice((-1, -1, 2000, 1_000_000)),
        "consumer_window_size": rng.choice((1024 * 1024, -1, 0, 3000)),
        "producer_window_size": rng.choice((64 * 1024, 4000)),
        "compress_large_message": rng.random() < 0.2,
        "min_large_message_size": CHUNK,
        "block_on_acknowledge": True,
        "ack_batch_size": 0,
        "call_timeout": CALL_TIMEOUT,
        "call_failover_timeout": CALL_TIMEOUT,
        "client_failure_check_period": 500,
        "connection_ttl": 1500,
    }
    return LocatorSettings(**{**drawn, **fixed})


@lru_cache(1024)
def body_of(identity: str, size: int) -> bytes:
    return random.Random(identity).randbytes(size)


class Actor:
    """One client process, which does its work in spite of all that fails."""

    def __init__(self, simulation: Simulation, name: str, **settings: Any) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.ledger = simulation.ledger
        self.name = name
        self.rng = simulation.world.generator(name)
        self.doing = "nothing yet"
        self.finished = False
        self.process = Process(self.world, name, self.world.generator(f"{name}, client"))
        self.runtime: SimulatedRuntime = simulation.runtime(self.process)
        self.settings = client_settings(self.rng, **settings)
        self.settings.ha = len(simulation.connectors) > 1
        self.locator = Locator(self.runtime, simulation.connectors, self.settings)
        self.session_options: dict[str, Any] = {}
        self.factory: SessionFactory | None = None
        self.current: Session | None = None
        self.buffers: dict[Consumer, Buffer] = {}
        self.failures = 0
        """How often a connection was lost."""
        self.mortal = False
        """May the process end at any time, and never come back?"""

    @property
    def broker(self) -> Any:
        """The broker that it is connected to."""
        return self.simulation.broker

    def start(self) -> None:
        done: Deferred[None] = Deferred.fromCoroutine(self._run())
        done.addErrback(lambda failure: self.world.violation(f"{self.name} failed while {self.doing}: {failure.value!r}"))

    def die(self, machine: bool) -> None:
        """The process ends, or its machine stops: no one is told, and it never comes back."""
        if self.finished:
            return
        self.world.note(f"{self.name} dies{' with its machine' if machine else ''} while it is to {self.doing}")
        self.finished = True
        self.process.end()
        self.simulation.network.client_died(self.process, machine)
        self.ledger.counts.left(self.name, False)

    async def _run(self) -> None:
        await self.pause(self.rng.uniform(0, 0.5))
        await self.work()
        await balances.judge(self)
        await self.leave()
        self.finished = True
        self.doing = "nothing any more"

    async def work(self) -> None:
        raise NotImplementedError

    # --- what actors are made of

    async def call(self, what: str, function: Callable[[], Awaitable[T]]) -> T:
        """Make a call of the client and note how it ended."""
        self.doing = what
        self.world.note(f"{self.name}: {what}")
        try:
            result = await function()
        except MQError as error:
            self.world.note(f"{self.name}: {what}: {type(error).__name__}")
            if isinstance(error, NEVER_RIGHT) and DISK_FAILS not in str(error):
                self.world.violation(f"{self.name}: {what}: {error!r}")
            raise
        self.world.note(f"{self.name}: {what}: done")
        return result

    async def pause(self, seconds: float) -> None:
        future = self.runtime.create_future()
        self.process.call_later(seconds, self.runtime.resolve, future, None)
        await future

    async def session(self) -> Session:
        """The session, opened (again) when there is none; tries until there is one."""
        while self.current is None or self.current.closed:
            await self.leave()
            try:
                await self._connect()
            except MQError:
                await self.pause(0.1)
        return self.current

    async def _connect(self) -> None:
        factory: SessionFactory = await self.call("connect", self.locator.create_session_factory)
        self.factory = factory
        self.current = await self.call("create session", lambda: factory.create_session(**self.session_options))
        self.current.add_failure_listener(self)

    async def consume(self, session: Session, queue: str, selector: str | None = None, priority: int = 0) -> Consumer:
        buffer = Buffer(self.simulation.network)
        consumer: Consumer = await self.call(
            f"consume {queue}", lambda: session.create_consumer(queue, selector, priority=priority, buffer=buffer)
        )
        self.buffers[consumer] = buffer
        self.ledger.counts.opened(queue, self.name)
        return consumer

    async def close_consumer(self, consumer: Consumer) -> None:
        cleanly = await self._ends(consumer.session, "close consumer", consumer.close)
        self.ledger.counts.closed(consumer.queue_name, self.name, cleanly)

    async def close_session(self, session: Session) -> bool:
        """Has the broker said that the session is closed?"""
        cleanly = await self._ends(session, "close session", session.close)
        self.ledger.counts.left(self.name, cleanly)
        return cleanly

    async def _ends(self, session: Session, what: str, close: Callable[[], Awaitable[None]]) -> bool:
        """Was the connection there all the time, and the call answered?

        The client only warns when no answer has come, and that before the connection counts as failed.  A session that is not restored yet
        is closed without a word to the broker.
        """
        connection, there = session.factory.connection, not (session.closed or session.channel.locked)
        warnings = self.runtime.warnings
        await self.call(what, close)
        stayed = connection is not None and connection is session.factory.connection and connection.error is None
        return there and stayed and self.runtime.warnings == warnings

    # Every actor listens to the failures of its connection.

    def before_reconnect(self, error: MQError) -> None:
        self.failures += 1
        self.ledger.counts.connection_failed(self.name)
        self.world.note(f"{self.name}: connection failed: {type(error).__name__}: {error}")
        self.check_timeout(error)

    def check_timeout(self, error: MQError) -> None:
        """A call may go without an answer only when its client or the broker stood still."""
        held_up = max(self.process.paused_until, self.simulation.broker.held_up_until)
        paused = held_up > self.world.now - CALL_TIMEOUT / 1000
        if isinstance(error, ConnectionTimedOutError) and "callTimeout" in str(error) and not paused:
            self.world.violation(f"{self.name}: the broker does not answer, although it is there: {error}")

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        pass

    async def leave(self) -> None:
        factory, session = self.factory, self.current
        self.factory = self.current = None
        if session is not None:
            await self.close_session(session)
        if factory is not None:
            await self.call("close", factory.close)


class Buffer(PriorityBuffer):
    """The client's own buffer, which also knows when the broker had sent what comes in."""

    __slots__ = ("_network", "_sent")

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self._sent: dict[int, tuple[float, int]] = {}

    def put(self, message: ClientMessage) -> None:
        assert self._network.sent_by is not None
        self._sent[message.message_id] = (self._network.sent_at, self._network.sent_by.life)
        super().put(message)

    @property
    def messages(self) -> list[ClientMessage]:
        """Those that were not taken yet."""
        return [message for level in self._levels for message in level]

    def sent(self, message: ClientMessage) -> tuple[float, int]:
        """When, and in which of its lives, the broker had sent it."""
        return self._sent[message.message_id]


class Sender(Actor):
    """Sends messages to one address, one after the other.  With ``duplicates`` each has an id and is sent until that is confirmed."""

    def __init__(self, simulation: Simulation, name: str, address: str, **settings: Any) -> None:
        super().__init__(simulation, name, **settings)
        self.address = address
        self.number = 0
        self.left = self.rng.randrange(5, 14)
        # The ids go with their address.
        self.duplicates = self.rng.random() < 0.5 and address != PARCELS
        self.volatile = 0.07
        """The part of the messages that is not durable."""
        self.large = 0.15
        """The part of the messages that is large."""
        self.mortal = True

    def may_repeat(self, identity: str) -> bool:
        """Is a second message of this name refused if the first one was stored?  Others may bring ids before it comes."""
        message = self.ledger.sent.get(identity)
        others = [each for each in self.simulation.actors if isinstance(each, Sender) and each.address == self.address and each.duplicates]
        coming = UNIT_MAX * (len(others) - 1)
        return self.duplicates and (message is None or self.ledger.knows_id_of(message, coming))

    def next_identity(self) -> str:
        self.number += 1
        return f"{self.name}-{self.number}"

    def message(self, identity: str) -> ClientMessage:
        """The message of that name, the same at every attempt, entered into the ledger."""
        rng = random.Random(f"{self.world.seed}/{identity}")
        priority = 4 if rng.random() < 0.7 else rng.randrange(10)
        durable = rng.random() >= self.volatile
        large = rng.random() < self.large
        body = body_of(identity, rng.randrange(CHUNK, 6 * CHUNK) if large else rng.randrange(200))
        message = ClientMessage(durable=durable, priority=priority, body=body)
        color = rng.choice(("red", "green", "blue"))
        message.put(IDENTITY, identity)
        message.put(COLOR, color)
        if self.duplicates:
            message.put(KEY_DUPLICATE_ID, identity)
        if self.address == "jobs" and rng.random() < 0.3:
            message.put(KEY_GROUP_ID, f"group {rng.randrange(3)}")
        late = self.address in ("orders", "jobs", "stock", ARCHIVE) and rng.random() < 0.05
        due = [self.runtime.wall_clock_ms() + rng.randrange(50, 2000)] if late else []
        if late:
            message.put(KEY_SCHEDULED_DELIVERY, due[0], LONG)
        if self.address in ("orders", "jobs") and rng.random() < 0.07:
            message.expiration = self.runtime.wall_clock_ms() + rng.randrange(50, 3000)
        if self.address == PERISHABLES and rng.random() < 0.3:
            message.expiration = self.runtime.wall_clock_ms() + rng.randrange(50, 3000)
        if self.address == PARCELS:
            message.put(KEY_ROUTING_TYPE, ANYCAST, BYTE)
        number = int(identity.rpartition("-")[2])
        queues = queues_of(self.address, QUEUES.get(self.address, (self.address,)), color)
        drops = self.simulation.broker.plan.drops(self.address)
        # What was dropped once may be taken when it is sent again, later.
        ordered = not late and not drops
        sent = Sent(identity, self.name, number, priority, durable, queues, Outcome.UNKNOWN, self.address, color, ordered, self.world.now)
        sent.drops = drops
        sent.size, sent.remembered, sent.due = len(body), self.duplicates, due
        self.ledger.send(sent)
        return message

    async def send(self, session: Session, message: ClientMessage, identity: str) -> None:
        producer = next(iter(session.producers), None) or await session.create_producer(self.address)
        await self.call(f"send {identity}", lambda: producer.send(message))


class BlockingSender(Sender):
    """Waits for the answer to each send."""

    async def work(self) -> None:
        while self.left:
            self.left -= 1
            identity = self.next_identity()
            await self.pause(self.rng.uniform(0, 0.4))
            sent = False
            while not sent:
                sent = await self._attempt(identity) or not self.may_repeat(identity)
        # What was confirmed long ago is known still.
        for number in range(1, self.number + 1, 3) if self.duplicates else ():
            if self.may_repeat(f"{self.name}-{number}"):
                await self._attempt(f"{self.name}-{number}")

    async def _attempt(self, identity: str) -> bool:
        session = await self.session()
        message = self.message(identity)
        try:
            await self.send(session, message, identity)
        except MQError:
            await self.pause(0.02)
            return False
        if message.durable:  # the client does not wait for the answer to others
            self.ledger.decide(identity, Outcome.DONE, self.world.now)
        return True


class AsynchronousSender(Sender):
    """Waits for nothing; a handler is told what became of each send."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, address, confirmation_window_size=2000)
        self.duplicates = False
        self._open: set[str] = set()

    async def work(self) -> None:
        while self.left:
            self.left -= 1
            identity = self.next_identity()
            if self.rng.random() < 0.5:
                await self.pause(self.rng.uniform(0, 0.6))
            session = await self.session()
            session.set_send_acknowledgement_handler(self)
            self._open.add(identity)
            try:
                await self.send(session, self.message(identity), identity)
            except MQError:
                self._open.discard(identity)
        while self._open:
            self.doing = f"waiting to hear what became of {sorted(self._open)}"
            await self.pause(0.2)
            if self.current is not None and self.current.closed:
                await self.pause(0.2)
                if self._open:
                    self.world.violation(f"{self.name} is never told what became of {sorted(self._open)}")
                return

    def send_acknowledged(self, message: ClientMessage) -> None:
        identity = str(message.get(IDENTITY))
        self.world.note(f"{self.name}: {identity} is acknowledged")
        self._open.discard(identity)
        self.ledger.decide(identity, Outcome.DONE, self.world.now)

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        identity = str(message.get(IDENTITY))
        self.world.note(f"{self.name}: {identity} failed: {type(error).__name__}")
        self._open.discard(identity)


class TransactedSender(Sender):
    """Sends in transactions, some of which it rolls back."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, address)
        self.session_options = {"auto_commit_sends": False, "auto_commit_acks": False}
        self.volatile = 0.0

    async def work(self) -> None:
        while self.left > 0:
            identities = [self.next_identity() for _ in range(self.rng.randrange(1, 5))]
            self.left -= len(identities)
            await self.pause(self.rng.uniform(0, 0.5))
            unit = self.ledger.unit(f"{identities[0]}…{identities[-1]}")
            commit = self.rng.random() < 0.8
            while not await self._attempt(unit, identities, commit):
                pass

    async def _attempt(self, unit: Unit, identities: list[str], commit: bool) -> bool:
        """Make the transaction; true when it is to be made no more."""
        session = await self.session()
        in_doubt = unit.asked != float("inf")
        try:
            for identity in identities:
                message = self.message(identity)
                if identity not in unit.sends:
                    unit.sends.append(identity)
                await self.send(session, message, identity)
        except MQError as error:
            await self._roll_back(session, unit)
            return self._not_done(unit, in_doubt, error)
        if not commit:
            await self._roll_back(session, unit)
            self.ledger.finish(unit, Outcome.NEVER)
            return True
        unit.asked = min(unit.asked, self.world.now)
        try:
            await self.call(f"commit {unit.name}", session.commit)
        except (TransactionRolledBackError, AddressFullError) as error:
            return self._not_done(unit, in_doubt, error)
        except DuplicateIdRejectedError:
            if not in_doubt:
                self.world.violation(f"{unit.name} is refused as known, although it was never committed")
        except MQError:
            return not self._may_repeat_all(unit)
        self.ledger.finish(unit, Outcome.DONE, self.world.now)
        return True

    def _may_repeat_all(self, unit: Unit) -> bool:
        return all(self.may_repeat(identity) for identity in unit.sends)

    def _not_done(self, unit: Unit, in_doubt: bool, error: MQError) -> bool:
        """This attempt has not taken effect.  An earlier one may have; it is tried again when ids make that safe, and there is room."""
        over = not self.duplicates or isinstance(error, AddressFullError) or (in_doubt and not self._may_repeat_all(unit))
        if not in_doubt:
            unit.asked = float("inf")
            if over:
                self.ledger.finish(unit, Outcome.NEVER)
        return over

    async def _roll_back(self, session: Session, unit: Unit) -> None:
        try:
            await self.call(f"roll back {unit.name}", session.rollback)
        except MQError:
            await self.leave()
