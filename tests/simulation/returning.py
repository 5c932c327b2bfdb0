"""Receivers that acknowledge some messages alone and others together, keep some, and roll back, also what they have not acknowledged.

The address ``returns`` sends to the dead letters what was tried too often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from tests.simulation.model import Copy, Outcome, Unit
from tests.simulation.receivers import Receiver

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

HELD_MAX = 4
"""Messages that a receiver keeps without acknowledging them."""


class MixedReceiver(Receiver):
    """With ``transacted`` it rolls back often: at times its last message counts as delivered although it was not acknowledged."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool, transacted: bool) -> None:
        super().__init__(simulation, name, queue, alone)
        self._transacted = transacted
        if transacted:
            self.session_options = {"auto_commit_sends": False, "auto_commit_acks": False}
            if self.rng.random() < 0.5:
                # Then the message that was taken last is the only one that the broker has sent, and not had acknowledged.
                self.settings.consumer_window_size = 0
        self._held: list[tuple[ClientMessage, Copy]] = []
        """Taken and not acknowledged, in order."""

    async def receive(self, session: Session, consumer: Consumer) -> None:
        unit = self.begin("transaction")
        done: list[tuple[ClientMessage, Copy]] = []
        try:
            for _ in range(self.rng.randrange(1, 4)):
                entry = await self.next(consumer)
                if entry is None:
                    break
                self._held.append(entry)
                if self.rng.random() < 0.6:
                    await self._acknowledge_some(unit, done)
            while len(self._held) > HELD_MAX:
                await self._acknowledge_some(unit, done)
        except MQError:
            if self._transacted:
                await self.roll_back(session, unit, done)
            raise
        if self._transacted:
            await self._end(session, unit, done)

    async def _acknowledge_some(self, unit: Unit, done: list[tuple[ClientMessage, Copy]]) -> None:
        """One message alone, or one and all before it."""
        self._held = [entry for entry in self._held if not self.returned(entry[0])]
        if not self._held:
            return
        number = self.rng.randrange(len(self._held))
        alone = self.rng.random() < 0.5
        entries = self._held[number if alone else 0 : number + 1]
        del self._held[number if alone else 0 : number + 1]
        message, copies = entries[-1][0], [copy for _, copy in entries]
        if not self._transacted:
            unit = self.ledger.unit(f"{self.name}, acknowledgement of {[copy[1] for copy in copies]}")
            unit.asked = self.world.now
        unit.acknowledged += copies
        for copy in copies if self._transacted else ():
            self.ledger.counts.tried(self.queue, copy)
        acknowledge = message.individual_acknowledge if alone else message.acknowledge
        await self.call(f"acknowledge {[copy[1] for copy in copies]}{' alone' if alone else ''}", acknowledge)
        done += entries
        if not self._transacted:
            self.ledger.finish(unit, Outcome.DONE, self.world.now)

    async def _end(self, session: Session, unit: Unit, done: list[tuple[ClientMessage, Copy]]) -> None:
        if self.rng.random() < 0.4:
            await self.commit(session, unit)
            return
        self._held = [entry for entry in self._held if not self.returned(entry[0])]
        last_too = self.rng.random() < 0.5 and bool(self._held)
        if last_too and self.settings.consumer_window_size == 0:
            # Of each consumer it is the first that was not acknowledged.
            self.ledger.counts.tried(self.queue, self._held[0][1])
            done = [*done, self._held[0]]
        elif last_too:
            self.ledger.counts.tried_something(self.queue)
        failures = self.failures
        self._held = []
        await self.roll_back(session, unit, done, last_too)
        if last_too and failures != self.failures:
            self.ledger.counts.tried_something(self.queue)
