"""A client that changes the broker while it runs: queues that come, change and go, decided branches, messages moved about.

All of that happens on addresses of its own.  What it sends is of no meaning to the ledger; but nothing may be refused for an internal
failure, and when it is done nothing may be left of it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from mqclient.core.api import ClientMessage, QueueConfiguration
from mqclient.core.session.session import Session
from mqclient.errors import MQError
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_GROUP_ID, KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY, TYPE_TEXT
from mqclient.wire.properties import BYTE, INT, LONG
from mqclient.xa import TMJOIN, TMRESUME, TMSUSPEND, XAER_NOTA, XAER_RMFAIL, XAError, Xid
from tests.simulation.branches import FORMAT
from tests.simulation.others import Manager
from tests.simulation.settings import ANYCAST, MULTICAST

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

ADDRESS, QUEUE, OTHER, WILD, SECOND = "admin.work", "admin.work", "admin.other", "admin.wild", "admin.second"
SHARED = "admin.shared"
LONG_TEXT = 70_000
"""Characters of a property that makes the broker count all of them."""
DIVERT = {"name": "admin.divert", "address": ADDRESS, "forwarding-address": f"{OTHER}, {WILD}"}
QUEUE_KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"exclusive": True},
    {"group-rebalance": True, "group-rebalance-pause-dispatch": True},
    {"group-buckets": 2},
    {"max-consumers": 2},
    {"group-first-key": "first"},
    {"purge-on-no-consumers": True},
    {"filter-string": "number >= 0"},
    {"consumers-before-dispatch": 2, "delay-before-dispatch": 300},
)
CHANGES: tuple[tuple[str, str | None, tuple[Any, ...]], ...] = (
    (f"queue.{QUEUE}", "changeMessagesPriority", ("number > 1", 7)),
    (f"queue.{QUEUE}", "moveMessages", ("number = 2", OTHER)),
    (f"queue.{QUEUE}", "sendMessagesToDeadLetterAddress", ("number = 3",)),
    (f"queue.{QUEUE}", "expireMessages", ("number = 4",)),
    (f"queue.{QUEUE}", "removeMessages", ("number = 5",)),
    (f"queue.{OTHER}", "removeAllMessages", ()),
    (f"queue.{QUEUE}", "retryMessages", ("number = 3",)),
    (f"queue.{QUEUE}", "countMessages", ("number BETWEEN 1 AND 4", "number")),
    (f"queue.{QUEUE}", "peekFirstMessageAsJSON", ()),
    (f"queue.{QUEUE}", "listConsumersAsJSON", ()),
    (f"queue.{QUEUE}", "listGroupsAsJSON", ()),
    (f"queue.{QUEUE}", "resetAllGroups", ()),
    (f"queue.{QUEUE}", "resetGroup", ("group 1",)),
    (f"queue.{QUEUE}", "disable", ()),
    (f"queue.{QUEUE}", "enable", ()),
    (f"address.{ADDRESS}", "pause", ()),
    (f"address.{ADDRESS}", "resume", ()),
    (f"address.{ADDRESS}", "clearDuplicateIdCache", ()),
    (f"address.{ADDRESS}", "purge", ()),
    ("broker", "listQueues", ("", 1, 50)),
    ("broker", "listPreparedTransactionDetailsAsJSON", ()),
    ("broker", "createDivert", (json.dumps({**DIVERT, "exclusive": True, "filter-string": "number = 1"}),)),
    ("broker", "createDivert", (json.dumps(DIVERT),)),
    ("broker", "updateDivert", (json.dumps({"name": DIVERT["name"], "forwarding-address": OTHER, "filter-string": "number > 0"}),)),
    ("broker", "destroyDivert", (DIVERT["name"],)),
    (f"divert.{DIVERT['name']}", None, ("Filter",)),
    ("broker", "updateAddress", (ADDRESS, "ANYCAST,MULTICAST")),
    ("broker", "updateAddress", (ADDRESS, "MULTICAST")),
    ("broker", "deleteAddress", (ADDRESS,)),
    ("broker", "deleteAddress", ("admin.nowhere", True)),
    ("broker", "destroyQueue", (SECOND,)),
    (f"queue.{QUEUE}", "copyMessage", (1, OTHER)),
    (f"queue.{SECOND}", "listMessages", ("",)),
)


class Administrator(Manager):
    """Makes queues, works with them a little while they change, and removes them."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self._branches = 0

    def refused(self, what: str, reply: ClientMessage) -> None:
        """After a crash, what it asks for may not be there, or be there already."""
        self.world.note(f"{self.name}: {what} was refused")

    async def work(self) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            await self._make_queues()
            for _ in range(self.rng.randrange(2, 8)):
                await self.rng.choice((self._change, self._change, self._update, self._send, self._receive, self._branch, self._share))()
                await self.pause(self.rng.uniform(0, 0.3))
            await self._try("broker", "destroyDivert", (DIVERT["name"],))
            await self._remove_queues()

    async def _make_queues(self) -> None:
        kind = self.rng.choice(QUEUE_KINDS)
        second = ((SECOND, ADDRESS, "ANYCAST"),) if self.rng.random() < 0.5 else ()
        for name, address, routing in ((QUEUE, ADDRESS, "ANYCAST"), *second, (OTHER, OTHER, "ANYCAST"), (WILD, "admin.#", "MULTICAST")):
            definition = {"name": name, "address": address, "routing-type": routing, "durable": True, **(kind if name == QUEUE else {})}
            await self._try("broker", "createQueue", (json.dumps(definition), True))
        await self._send()

    async def _update(self) -> None:
        kind = self.rng.choice(QUEUE_KINDS)
        await self._try("broker", "updateQueue", (json.dumps({"name": QUEUE, "address": ADDRESS, "routing-type": "ANYCAST", **kind}),))

    async def _change(self) -> None:
        await self._try(*self.rng.choice(CHANGES))

    async def _remove_queues(self) -> None:
        """Until the broker says that they are not there."""
        names = {QUEUE, OTHER, WILD, SECOND, SHARED}
        while names:
            for name in sorted(names):
                try:
                    session = await self.session()
                    if not (await self.call(f"ask for {name}", lambda name=name, session=session: session.queue_query(name))).exists:
                        names.discard(name)
                        continue
                except MQError:
                    await self.pause(0.05)
                    continue
                await self._try("broker", "destroyQueue", (name, True, True))

    async def _share(self) -> None:
        """A shared queue, which may be there, with another filter or elsewhere, when it is asked for again."""
        address, selector = self.rng.choice(((ADDRESS, None), (ADDRESS, None), (ADDRESS, "number > 1"), (OTHER, None)))
        queue = QueueConfiguration(name=SHARED, address=address, routing_type=MULTICAST, filter_string=selector, durable=False)
        try:
            session = await self.session()
            await self.call(f"share {SHARED}", lambda: session.create_shared_queue(queue))
            consumer = await self.consume(session, SHARED)
            await self.call("delete what is used", lambda: session.delete_queue(SHARED))
            await self.call("close consumer", consumer.close)
        except MQError:
            await self.leave()

    async def _send(self) -> None:
        try:
            session = await self.session()
            address = self.rng.choice((ADDRESS, ADDRESS, ADDRESS, f"{ADDRESS}::{QUEUE}", OTHER))
            producer = await self.call("create producer", lambda: session.create_producer(address))
            for number in range(self.rng.randrange(1, 7)):
                await self.call(f"send {number}", lambda number=number: producer.send(self._message(number)))
            await self.call("close producer", producer.close)
        except MQError:
            await self.pause(0.05)

    def _message(self, number: int) -> ClientMessage:
        message = ClientMessage(durable=self.rng.random() < 0.7, type=TYPE_TEXT, body=encode_text("x" * self.rng.choice((5, 5, 2000))))
        message.put("number", number, INT)
        if self.rng.random() < 0.1:
            message.put("text", "x" * LONG_TEXT)
        if self.rng.random() < 0.2:
            message.put(KEY_ROUTING_TYPE, self.rng.choice((ANYCAST, MULTICAST)), BYTE)
        if self.rng.random() < 0.5:
            message.put(KEY_GROUP_ID, f"group {number % 3}")
            if self.rng.random() < 0.2:
                message.put("_AMQ_GROUP_SEQUENCE", -1, INT)
        if self.rng.random() < 0.5:
            message.put(KEY_DUPLICATE_ID, str(self.rng.randrange(20)) * self.rng.choice((1, 1, 200)))
        if self.rng.random() < 0.1:
            message.put(KEY_SCHEDULED_DELIVERY, self.runtime.wall_clock_ms() + 300, LONG)
        return message

    async def _receive(self) -> None:
        """With two consumers in two sessions of one connection."""
        sessions: list[Session] = []
        try:
            await self.session()
            factory = self.factory
            assert factory is not None
            consumers = []
            for queue in (QUEUE, QUEUE, WILD):
                session: Session = await self.call("create another session", factory.create_session)
                sessions.append(session)
                consumers.append(await self.consume(session, queue))
                await self.call("start", session.start)
            for _ in range(self.rng.randrange(1, 6)):
                consumer = self.rng.choice(consumers)
                message = await self.call("receive", lambda consumer=consumer: consumer.receive(50))
                if message is not None and self.rng.random() < 0.8:
                    await self.call("acknowledge", message.acknowledge)
            for session in sessions:
                await self.call("close session", session.close)
        except MQError:
            await self.leave()

    async def _branch(self) -> None:
        """A branch that is suspended, joined, decided by management or left to its timeout."""
        self._branches += 1
        xid = Xid(FORMAT, f"{self.name}/{self._branches}".encode(), b"administered")
        self.simulation.decisions[xid] = False
        way = self.rng.randrange(4)
        try:
            await self.session()
            factory = self.factory
            assert factory is not None
            session = await self.call("create session for branches", lambda: factory.create_session(xa=True))
            resource = session.xa_resource
            if way == 0:
                await self.call("set the timeout", lambda: resource.set_transaction_timeout(1))
            await self.call("start branch", lambda: resource.start(xid))
            producer = await self.call("create producer", lambda: session.create_producer(ADDRESS))
            await self.call("send in branch", lambda: producer.send(self._message(1)))
            if self.rng.random() < 0.5:
                await self.call("suspend", lambda: resource.end(xid, TMSUSPEND))
                await self.call("resume", lambda: resource.start(xid, TMRESUME))
            await self.call("end branch", lambda: resource.end(xid))
            if self.rng.random() < 0.5:
                await self.call("join", lambda: resource.start(xid, TMJOIN))
                await self.call("end branch", lambda: resource.end(xid))
            if way == 0:
                await self.pause(1.5)
            await self.call("prepare", lambda: resource.prepare(xid))
            if way == 1:
                await self._try("broker", "commitPreparedTransaction", (_name_of(xid),))
            elif way == 2:
                await self._try("broker", "rollbackPreparedTransaction", (_name_of(xid),))
        except (MQError, XAError) as error:
            self.world.note(f"{self.name}: {error}")
        while not await self._forgotten(xid):
            await self.leave()
            await self.pause(0.1)

    async def _forgotten(self, xid: Xid) -> bool:
        """Roll the branch back, and have the broker forget what management has decided."""
        for call in ("rollback", "forget"):
            try:
                await self.session()
                factory = self.factory
                assert factory is not None
                session = await self.call("create session for branches", lambda factory=factory: factory.create_session(xa=True))
                resource = session.xa_resource
                await self.call(f"{call} {xid.global_transaction_id!r}", lambda call=call, resource=resource: getattr(resource, call)(xid))
            except XAError as error:
                self.world.note(f"{self.name}: {error}")
                if error.error_code == XAER_RMFAIL or (call == "forget" and error.error_code != XAER_NOTA):
                    return False
            except MQError:
                return False
        return True


def _name_of(xid: Xid) -> str:
    """As the broker lists it."""
    number, digits = xid.format_id, bytearray()
    for _ in range(4):
        digits.append(number % 255)
        number >>= 8
    return base64.urlsafe_b64encode(xid.branch_qualifier + xid.global_transaction_id + bytes(digits)).decode()
