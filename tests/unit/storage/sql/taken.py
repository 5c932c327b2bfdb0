"""What the tests of a takeover share: two brokers on one database, one of which takes the data of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqbroker.messaging.ports import Inherited, QueueRecord, Recovered
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import transaction
from mqbroker.storage.sql.session import StoreSession
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


def switch(target: SqlRig, taker: SqlRig) -> list[StoreSession]:
    """The switch of a takeover."""
    connection = taker.database.connect()
    try:
        with transaction(connection):
            return session.switch(connection, target.broker_id, taker.broker_id, taker.store.owner)
    finally:
        connection.close()


def inherit(taker: SqlRig, sessions: list[StoreSession]) -> list[Inherited]:
    """What the taker gets to know of these sessions."""
    told: list[tuple[Recovered | None, Exception | None]] = []
    taker.store.inherit(sessions, lambda *found: told.append(found))
    taker.settle()
    [(recovered, error)] = told
    assert recovered is not None, error
    return recovered.inherited


class TakenTestCase:
    """``target`` and ``taker`` have a queue ``q`` each, on the address ``a``."""

    addCleanup: Callable[..., Any]

    def setUp(self) -> None:
        self.target = SqlRig(self.addCleanup, 1, broker_id="b1")
        self.taker = SqlRig(self.addCleanup, 2, database=self.target.database, broker_id="b2")
        self.target.start()
        self.taker.start()
        self.there, self.here = self.target.queue(), self.taker.queue()

    def store(self, *bodies: bytes, rig: SqlRig | None = None) -> list[Any]:
        """The queue of a broker (None = the target) gets messages."""
        rig = rig or self.target
        messages = [make_message(rig.store, body) for body in bodies]
        batch = rig.store.begin()
        batch.add_messages(messages, [self.there if rig is self.target else self.here])
        rig.store.commit(batch)
        rig.settle()
        return messages

    def take(self) -> Inherited:
        """Everything up to the moment when the queues are there."""
        self.target.settle()
        [inherited] = inherit(self.taker, switch(self.target, self.taker))
        return inherited

    def assign(self, inherited: Inherited) -> dict[tuple[str, int], int]:
        came = inherited.assign({self.there: self.here})
        self.taker.settle()
        return came

    def read(self) -> list[bytes]:
        """What the taker's queue has in the pages."""
        pager = self.taker.store.pager
        assert pager is not None
        reader = pager.folder("a").reader(self.here)
        bodies = []
        while (entries := reader.read()) is not None:
            bodies += [entry.message.decoded().body for entry in entries]
        return bodies

    def consume(self) -> list[bytes]:
        """As :meth:`read`, and acknowledge everything."""
        pager = self.taker.store.pager
        assert pager is not None
        reader = pager.folder("a").reader(self.here)
        batch, bodies = self.taker.store.begin(), []
        while (entries := reader.read()) is not None:
            for entry in entries:
                bodies.append(entry.message.decoded().body)
                batch.acknowledge(self.here, entry.message)
        self.taker.store.commit(batch)
        self.taker.settle()
        return bodies

    def record(self) -> QueueRecord:
        return QueueRecord(self.there, "q", "a", 1)
