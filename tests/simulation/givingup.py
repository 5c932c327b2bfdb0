"""Clients that give up large messages half-way: in the middle of sending one, or of reading one.  Nothing may stay of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from tests.simulation.model import Outcome
from tests.simulation.receivers import Receiver, copy_of
from tests.simulation.workload import CHUNK, BlockingSender, body_of

if TYPE_CHECKING:
    from tests.simulation.run import Simulation


class _GivenUpError(Exception):
    """The application cannot go on with the body that it sends."""


class GivingUpSender(BlockingSender):
    """Ends some uploads: with an error of its own, or by closing the session under them.  At times it then sends the whole message."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, address)
        self.large = 0.6

    async def _attempt(self, identity: str) -> bool:
        if identity.endswith(("1", "4", "7")) and identity not in self.ledger.sent:
            await self._begin_only(identity)
            if self.rng.random() < 0.5:
                self.ledger.decide(identity, Outcome.NEVER)
                return True
        sent = self.ledger.sent.get(identity)
        if sent is not None and sent.outcome is Outcome.NEVER:
            return True
        return await super()._attempt(identity)

    async def _begin_only(self, identity: str) -> None:
        session = await self.session()
        message = self.message(identity)
        pieces = self.rng.randrange(4)
        closes = self.rng.random() < 0.5
        message.body_source = self._body(identity, pieces, session if closes else None)
        self.world.note(f"{self.name}: {identity} ends after {pieces} pieces, {'with the session' if closes else 'with an error'}")
        try:
            await self.send(session, message, identity)
        except (_GivenUpError, MQError) as error:
            self.world.note(f"{self.name}: {identity} was given up: {error!r}")
        else:
            self.world.violation(f"{identity} was sent, although its body never came to an end")

    async def _body(self, identity: str, pieces: int, closing: Session | None) -> AsyncIterator[bytes]:
        for number in range(pieces):
            yield body_of(f"{identity}/{number}", CHUNK)
            await self.pause(0.01)
        if closing is not None:
            # Closing may wait for what was begun before.
            self.runtime.spawn(self.close_session(closing))
            for number in range(3):
                await self.pause(0.05)
                yield body_of(f"{identity}/late {number}", CHUNK)
        raise _GivenUpError(identity)


class GivingUpReceiver(Receiver):
    """Reads the beginning of a body, and closes its consumer or session, or goes on to the next message."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool) -> None:
        super().__init__(simulation, name, queue, alone)
        # What is not read must not keep what the next message needs.
        self.settings.consumer_window_size = self.rng.choice((0, 3000, 3000, 1024 * 1024))

    async def receive(self, session: Session, consumer: Consumer) -> None:
        message: ClientMessage | None = await self.call(f"receive from {self.queue}", lambda: consumer.receive(200))
        if message is None:
            return
        if message.large is not None and self.rng.random() < 0.7:
            await self._read_some(session, consumer, message)
            return
        copy = await self.read(consumer, message)
        unit = self.ledger.unit(f"{self.name}, acknowledgement of {copy[1]}")
        unit.acknowledged.append(copy)
        unit.asked = self.world.now
        if not self.returned(message):
            await self.call(f"acknowledge {copy[1]}", message.individual_acknowledge)
            self.ledger.finish(unit, Outcome.DONE, self.world.now)

    async def _read_some(self, session: Session, consumer: Consumer, message: ClientMessage) -> None:
        assert message.large is not None
        copy = copy_of(message, self.queue, self.ledger)
        chunks = aiter(message.large)
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            try:
                await self.call(f"read a part of {copy[1]}", lambda: anext(chunks))
            except StopAsyncIteration:
                break
        way = self.rng.choice(("consumer", "session", "nothing", "nothing"))
        self.world.note(f"{self.name}: {copy[1]} is given up in the middle of its body, and {way} is closed")
        if way == "consumer":
            await self.close_consumer(consumer)
        elif way == "session":
            await self.close_session(session)
