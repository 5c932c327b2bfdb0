"""Clients at work with ``exactlyOnce``: no send and no commit of theirs ends without its outcome, whatever fails, and nothing is doubled.

The ledger knows what was confirmed, and that nothing else may be there; here any error that is no refusal is a violation.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mqclient.core.api import ClientMessage
from mqclient.core.session.session import Session
from mqclient.errors import MQError, TransactionRolledBackError
from tests.simulation.model import Copy, Outcome, Unit
from tests.simulation.receivers import TransactedReceiver, not_alone
from tests.simulation.workload import IDENTITY, Actor, Sender

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

T = TypeVar("T")

WINDOWS = (16 * 1024 * 1024, 16 * 1024 * 1024, 8000)
"""Bytes that a session holds: with the last one some transactions are rolled back instead of being repeated."""


def once_settings(simulation: Simulation, name: str) -> dict[str, Any]:
    window = simulation.world.generator(f"{name}, exactly once").choice(WINDOWS)
    return {"exactly_once": True, "exactly_once_window_size": window, "reconnect_attempts": -1}


async def certain(actor: Actor, what: str, function: Callable[[], Awaitable[T]]) -> T:
    """Make a call that ends only when its outcome is known.  A rollback is one."""
    try:
        return await actor.call(what, function)
    except TransactionRolledBackError:
        raise
    except MQError as error:
        actor.world.violation(f"{actor.name}: with exactlyOnce it is not known what became of {what}: {error!r}")
        raise


class CertainSender(Sender):
    """Gives no ids: the client does."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, address, **once_settings(simulation, name))
        self.duplicates = False

    async def _send(self, session: Session, message: ClientMessage) -> None:
        producer = next(iter(session.producers), None) or await session.create_producer(self.address)
        await producer.send(message)


class OnceSender(CertainSender):
    """Waits for each send, or has a handler told of it."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, address)
        self._waits = self.rng.random() < 0.5
        self._open: set[str] = set()

    async def work(self) -> None:
        while self.left:
            self.left -= 1
            if self._waits or self.rng.random() < 0.5:
                await self.pause(self.rng.uniform(0, 0.5))
            session = await self.session()
            if not self._waits:
                session.set_send_acknowledgement_handler(self)
            identity = self.next_identity()
            message = self.message(identity)
            self._open.add(identity)
            await certain(self, f"send {identity}", partial(self._send, session, message))
            if self._waits:
                self._open.discard(identity)
                self.ledger.decide(identity, Outcome.DONE, self.world.now)
        while self._open:
            self.doing = f"waiting to hear what became of {sorted(self._open)}"
            await self.pause(0.2)

    def send_acknowledged(self, message: ClientMessage) -> None:
        identity = str(message.get(IDENTITY))
        self.world.note(f"{self.name}: {identity} is acknowledged")
        if identity not in self._open:
            self.world.violation(f"{self.name} is told twice what became of {identity}")
        self._open.discard(identity)
        self.ledger.decide(identity, Outcome.DONE, self.world.now)

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self.world.violation(f"{self.name}: with exactlyOnce the send of {message.get(IDENTITY)} has failed: {error!r}")


class OnceTransactedSender(CertainSender):
    """Sends in transactions; one that was rolled back is made again, with the same messages."""

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
            while not await self._attempt(unit, identities):
                unit.asked = float("inf")

    async def _attempt(self, unit: Unit, identities: list[str]) -> bool:
        session = await self.session()
        unit.sends[:] = []
        for identity in identities:
            message = self.message(identity)
            unit.sends.append(identity)
            await certain(self, f"send {identity}", partial(self._send, session, message))
        unit.asked = self.world.now
        try:
            await certain(self, f"commit {unit.name}", session.commit)
        except TransactionRolledBackError:
            return False
        self.ledger.finish(unit, Outcome.DONE, self.world.now)
        return True


class OnceWorker(TransactedReceiver):
    """Receives, and sends one message on for each, in transactions that the client makes again after a rollback."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool, forward_to: str | None = None) -> None:
        super().__init__(simulation, name, queue, alone, forward_to, **once_settings(simulation, name))

    async def receive(self, session: Session, consumer: Any) -> None:
        units: list[Unit] = []
        failures: list[MQError] = []

        async def work(session: Session) -> None:
            if units:
                self._undone(units[-1])
            units.append(self.begin(f"try {len(units) + 1}"))
            try:
                for _ in range(self.rng.randrange(1, 4)):
                    entry = await self.next(consumer)
                    if entry is None:
                        break
                    await self._take(session, units[-1], *entry)
            except MQError as error:
                failures.append(error)
                raise
            units[-1].asked = self.world.now

        try:
            await self.call("transaction", lambda: session.transaction(work))
        except MQError as error:
            self._undone(units[-1])
            # What the function itself has raised, and a rollback, are told when everything is undone.
            if error not in failures and not isinstance(error, TransactionRolledBackError):
                self.world.violation(f"{self.name}: with exactlyOnce it is not known what became of {units[-1].name}: {error!r}")
            raise
        self.ledger.finish(units[-1], Outcome.DONE, self.world.now)

    async def _take(self, session: Session, unit: Unit, message: ClientMessage, copy: Copy) -> None:
        if self.returned(message):
            return
        unit.acknowledged.append(copy)
        self.ledger.counts.tried(self.queue, copy)
        await self.call(f"acknowledge {copy[1]}", message.acknowledge)
        if self._forward_to is not None:
            await self._forward(session, unit, self._forward_to)

    def _undone(self, unit: Unit) -> None:
        """The transaction is being made again: what it did has not taken effect, and never will."""
        self.world.note(f"{self.name}: {unit.name} is undone")
        self.ledger.finish(unit, Outcome.NEVER)
        self.begin_sequence()


def people(
    simulation: Any,
    rng: random.Random,
    addresses: Sequence[str],
    queues: Sequence[tuple[str, str | None]],
    label: str = "",
    senders: Sequence[type[CertainSender]] = (OnceSender, OnceSender, OnceTransactedSender),
    worker: type[OnceWorker] = OnceWorker,
) -> list[Actor]:
    """Some clients with exactlyOnce, of these kinds, whose names begin with ``label``.

    ``queues`` are those to receive from, and where their messages are sent on.
    """
    found: list[Actor] = []
    for number in range(rng.choice((1, 2, 2))):
        kind = rng.choice(senders)
        found.append(kind(simulation, f"{label}once{number}", rng.choice(addresses)))
    if rng.random() < 0.7:
        queue, forward_to = rng.choice(queues)
        found.append(worker(simulation, f"{label}once-worker", queue, False, forward_to))
        not_alone(simulation.actors, queue)
    return found
