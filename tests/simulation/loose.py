"""Receivers that do not wait for what becomes of their acknowledgements, and those that have the broker acknowledge before it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from tests.simulation.model import Outcome, Unit
from tests.simulation.receivers import Receiver

if TYPE_CHECKING:
    from tests.simulation.run import Simulation


class LooseReceiver(Receiver):
    """Acknowledges in batches, or without an answer.  It knows what became of that when the broker has said that the session is closed."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool) -> None:
        super().__init__(simulation, name, queue, alone)
        self.settings.block_on_acknowledge = self.rng.random() < 0.3
        self.settings.ack_batch_size = self.rng.choice((0, 600, 1024 * 1024))
        self._individually = self.rng.random() < 0.3
        self._open_units: list[tuple[ClientMessage, Unit]] = []

    async def receive(self, session: Session, consumer: Consumer) -> None:
        for _ in range(self.rng.randrange(1, 5)):
            entry = await self.next(consumer)
            if entry is None:
                break
            message, copy = entry
            if self.returned(message):
                continue
            unit = self.ledger.unit(f"{self.name}, acknowledgement of {copy[1]}")
            unit.acknowledged.append(copy)
            unit.asked = self.world.now
            self._open_units.append((message, unit))
            acknowledge = message.individual_acknowledge if self._individually else message.acknowledge
            await self.call(f"acknowledge {copy[1]}", acknowledge)
        if self.rng.random() < 0.2:
            await self.call("flush acknowledgements", session.flush_acknowledgements)
        if self.rng.random() < 0.25:
            await self.close_session(session)

    async def close_session(self, session: Session) -> bool:
        units = [unit for message, unit in self._open_units if not self.returned(message)]
        self._open_units = []
        cleanly = await super().close_session(session)
        for unit in units if cleanly else ():
            self.ledger.finish(unit, Outcome.DONE, self.world.now)
        return cleanly


class ForgettingReceiver(Receiver):
    """The broker forgets a message before it sends it: what is lost with the connection is lost, and nothing comes a second time."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool) -> None:
        super().__init__(simulation, name, queue, alone)
        self.session_options = {"pre_acknowledge": True}

    async def receive(self, session: Session, consumer: Consumer) -> None:
        entry = await self.next(consumer)
        if entry is not None:
            life = self.buffers[consumer].sent(entry[0])[1]
            self.ledger.forgotten[entry[1]] = life
