"""A client that works in branches of distributed transactions, with a transaction manager that never forgets what it has decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mqclient.core.api import ClientMessage
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from mqclient.xa import XAER_NOTA, XAER_PROTO, XAError, Xid
from tests.simulation.model import Outcome, Sent, Unit
from tests.simulation.policies import ARCHIVE
from tests.simulation.receivers import read
from tests.simulation.settings import QUEUES
from tests.simulation.workload import COLOR, IDENTITY, Actor, body_of

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

FORMAT = 4711
SOURCE, TARGETS = "shipped", ("orders", "jobs", "news", ARCHIVE)


class BranchWorker(Actor):
    """Receives and sends in branches; commits them in one phase or two, or rolls them back, prepared or not."""

    targets: tuple[str, ...] = TARGETS
    """The addresses to which it sends."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self.session_options = {"xa": True}
        self._number = 0
        self._branches = 0

    async def work(self) -> None:
        for _ in range(self.rng.randrange(2, 8)):
            await self.pause(self.rng.uniform(0, 0.6))
            await self._branch()

    async def _branch(self) -> None:
        self._branches += 1
        xid = Xid(FORMAT, f"{self.name}/{self._branches}".encode(), b"simulated")
        unit = self.ledger.unit(f"{self.name}, branch {self._branches}")
        self.simulation.decisions[xid] = False
        try:
            session = await self.session()
            await self._work(session, xid, unit)
            if self.rng.random() < 0.2:
                await self._one_phase(session, xid, unit)
                return
            if self.rng.random() < 0.8:
                await self.call(f"prepare {unit.name}", lambda: session.xa_resource.prepare(xid))
        except (MQError, XAError) as error:
            # Whatever the broker has of it is never to be committed.
            self.world.note(f"{self.name}: {unit.name} has failed: {error}")
            await self._decide(xid, unit, commit=False)
            return
        prepared = self.doing.startswith("prepare")
        if self.rng.random() < 0.3:
            await self.pause(self.rng.uniform(0, 1.0))
        await self._decide(xid, unit, commit=prepared and self.rng.random() < 0.75)

    async def _work(self, session: Session, xid: Xid, unit: Unit) -> None:
        resource = session.xa_resource
        await self.call(f"start {unit.name}", lambda: resource.start(xid))
        if self.rng.random() < 0.6:
            await self._receive(session, unit)
        address = self.rng.choice(self.targets)
        producer = await self.call("create producer", lambda: session.create_producer(address))
        for _ in range(self.rng.randrange(4)):
            self._number += 1
            identity = f"{self.name}-{self._number}"
            message = ClientMessage(durable=True, body=body_of(identity, self.rng.choice((50, 50, 2000))))
            message.put(IDENTITY, identity)
            color = self.rng.choice(("red", "green"))
            message.put(COLOR, color)
            now = self.world.now
            # Branches end in another order than they send: no order is expected.
            sent = Sent(identity, self.name, self._number, 4, True, self.queues(address), Outcome.UNKNOWN, address, color, False, now)
            sent.size = len(message.plain_body())
            self.ledger.send(sent)
            unit.sends.append(identity)
            await self.call(f"send {identity}", lambda message=message: producer.send(message))
        await self.call("close producer", producer.close)
        await self.call(f"end {unit.name}", lambda: resource.end(xid))

    def queues(self, address: str) -> tuple[str, ...]:
        return QUEUES[address]

    async def _receive(self, session: Session, unit: Unit) -> None:
        consumer = await self.consume(session, SOURCE)
        await self.call("start", session.start)
        for _ in range(self.rng.randrange(1, 3)):
            message = await self.call(f"receive from {SOURCE}", lambda: consumer.receive(100))
            if message is None:
                break
            copy = await read(self, consumer, message)
            unit.acknowledged.append(copy)
            self.ledger.counts.tried(SOURCE, copy)
            await self.call(f"acknowledge {copy[1]}", message.acknowledge)
        await self.close_consumer(consumer)

    async def _one_phase(self, session: Session, xid: Xid, unit: Unit) -> None:
        unit.asked = self.world.now
        try:
            await self.call(f"commit {unit.name} in one phase", lambda: session.xa_resource.commit(xid, one_phase=True))
        except XAError as error:
            self.world.note(f"{self.name}: {error}")
            if error.rolled_back:
                self.ledger.finish(unit, Outcome.NEVER)
        else:
            self.ledger.finish(unit, Outcome.DONE, self.world.now)

    async def _decide(self, xid: Xid, unit: Unit, commit: bool) -> None:
        """Tell the broker until it has understood."""
        self.simulation.decisions[xid] = commit
        unit.asked = self.world.now
        if not commit:
            self.ledger.finish(unit, Outcome.NEVER)
        while not await self._told(xid, unit.name, commit):
            await self.leave()
            await self.pause(0.1)
        if commit:
            self.ledger.finish(unit, Outcome.DONE, self.world.now)

    async def _told(self, xid: Xid, name: str, commit: bool) -> bool:
        session = await self.session()
        resource = session.xa_resource
        tell: Callable[[], Awaitable[None]] = (lambda: resource.commit(xid)) if commit else (lambda: resource.rollback(xid))
        try:
            await self.call(f"{'commit' if commit else 'roll back'} {name}", tell)
        except XAError as error:
            self.world.note(f"{self.name}: {error}")
            if commit and error.error_code == XAER_PROTO:
                self.world.violation(f"{name} was prepared, and cannot be committed: {error}")
            return self.is_over(xid, error)
        except MQError:
            return False
        return True

    def is_over(self, xid: Xid, error: XAError) -> bool:
        """Is there nothing to be told any more, by this answer?"""
        return error.error_code == XAER_NOTA or error.rolled_back
