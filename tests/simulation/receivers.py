"""Clients at work: those that receive, and the final drain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mqclient.core.api import ClientMessage
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import MQError, QueueDoesNotExistError, TransactionRolledBackError
from mqclient.wire.message import KEY_ORIGINAL_ADDRESS, KEY_ORIGINAL_QUEUE
from tests.simulation import diverting
from tests.simulation.model import DRAIN, Copy, Ledger, Outcome, Receipt, Sent, Unit
from tests.simulation.policies import DIVERT, OWN_QUEUES, PERISHABLES, RETURNS
from tests.simulation.reading import remove_readers
from tests.simulation.settings import QUEUES
from tests.simulation.workload import COLOR, IDENTITY, Actor, Sender, body_of

if TYPE_CHECKING:
    from tests.simulation.run import Simulation


ALL_QUEUES = frozenset(queue for queues in QUEUES.values() for queue in queues)
SORTED_BY_SENDER = frozenset(("orders", "jobs", "shipped", "stock", RETURNS, *QUEUES["news"], *diverting.ALL_GOODS))
"""Queues that give what one producer has sent in its order."""
ON_THE_WAY = "$.artemis.internal.sf."
"""Beginning of the queues in which messages wait for other nodes."""
REFUSED_MAX = 3
"""Receives in a row that may come too early for the same message."""


def copy_of(message: ClientMessage, queue: str, ledger: Ledger) -> Copy:
    """Which copy this is, also as a dead letter; what a divert has made is a copy of its own."""
    origin = message.get(KEY_ORIGINAL_QUEUE)
    if origin is None or origin == DIVERT or origin in diverting.NAMES:
        origin = queue
    elif str(origin).startswith(ON_THE_WAY):
        # It has expired between two nodes: the queue for which it was meant has the name of its address.
        origin = message.get(KEY_ORIGINAL_ADDRESS)
    return ledger.key(str(origin)), str(message.get(IDENTITY))


async def read(actor: Actor, consumer: Consumer, message: ClientMessage) -> Copy:
    """Read the body, check it and enter the receipt; raises MQError when the rest of a large body does not come."""
    copy = copy_of(message, consumer.queue_name, actor.ledger)
    if message.large is not None:
        large = message.large
        try:
            body = await actor.call(f"read the body of {copy[1]}", large.read)
        except MQError as error:
            actor.check_timeout(error)
            raise
    else:
        body = message.plain_body()
    sent, life = actor.buffers[consumer].sent(message)
    receipt = Receipt(
        actor.world.now,
        sent,
        copy,
        consumer.queue_name,
        message.message_id,
        message.delivery_count,
        actor.name,
        life,
    )
    actor.world.note(f"{actor.name}: received {copy} as {message.message_id}, delivery {message.delivery_count}")
    if consumer.queue_name == PERISHABLES and actor.simulation.broker.plan.wrong_expiration(message.expiration):
        actor.world.violation(f"{copy} has the expiration {message.expiration} against the settings of its address")
    if consumer.queue_name in diverting.MARKED and message.get(diverting.MARK) != consumer.queue_name:
        actor.world.violation(f"{copy} was not changed by the transformer of its divert")
    wrong = actor.ledger.receive(receipt)
    if wrong is not None:
        actor.world.violation(wrong)
    sent = actor.ledger.sent.get(copy[1])
    if body != body_of(copy[1], len(body)) or (sent is not None and sent.size not in (-1, len(body))):
        actor.world.violation(f"the body of {copy} was damaged ({len(body)} bytes)")
    return copy


class Receiver(Actor):
    """Receives from one queue until ``stop_at``.  ``alone``: no other actor consumes from that queue."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool, **settings: Any) -> None:
        super().__init__(simulation, name, **settings)
        self.queue = queue
        self.stop_at = self.rng.uniform(2.0, 6.0)
        colors = ("",) if queue == "stock" or queue not in ALL_QUEUES else ("", "", "", "red", "green")
        self._color = self.rng.choice(colors)
        """The color of the messages that it selects, "" = all."""
        self._priority = self.rng.choice((0, 0, 5))
        self._alone = alone and not self._color
        self._consumer: Consumer | None = None
        self._sole = False
        """Since the consumer was made nobody else can have messages of the queue."""
        self._sequence: list[str] | None = None
        # Others wait for whoever takes from the address that takes little.
        self.mortal = queue != "stock"
        self._failures_before = 0
        """Of the connection, when the transaction began."""
        self._refused = (0, 0)
        """Id of the message that waited although nothing was received, and how often that was seen."""

    def has_company(self) -> None:
        """Another actor consumes from the queue, too."""
        self._alone = False

    async def work(self) -> None:
        while not self.is_over():
            try:
                session = await self.session()
                consumer = await self._open(session)
                await self.receive(session, consumer)
                if self.rng.random() < 0.1:
                    self._end_sequence()
                    await self.close_consumer(consumer)
                await self.pause(self.rng.uniform(0, 0.2))
            except MQError:
                await self.pause(0.05)

    def is_over(self) -> bool:
        """On the address that takes little, others wait for this one."""
        senders = [actor for actor in self.simulation.actors if isinstance(actor, Sender) and actor.address == self.queue == "stock"]
        return self.world.now >= self.stop_at and all(sender.finished for sender in senders)

    async def receive(self, session: Session, consumer: Consumer) -> None:
        """One piece of work."""
        raise NotImplementedError

    # What receivers in transactions do.

    def begin(self, name: str) -> Unit:
        self._failures_before = self.failures
        return self.ledger.unit(f"{self.name}, {name} at {self.world.now:.3f}")

    async def commit(self, session: Session, unit: Unit) -> None:
        unit.asked = self.world.now
        life = self.simulation.broker.starts
        try:
            await self.call(f"commit {unit.acknowledged}", session.commit)
        except TransactionRolledBackError:
            self.ledger.finish(unit, Outcome.NEVER)
            self.begin_sequence()
        else:
            self.ledger.finish(unit, Outcome.DONE, self.world.now)
            if any(self.ledger.sent[identity].durable for _, identity in unit.acknowledged):
                self.ledger.counts.durable(life, unit.asked)

    async def roll_back(self, session: Session, unit: Unit, entries: list[tuple[ClientMessage, Copy]], last_too: bool = False) -> None:
        """``entries`` are those for which the broker then has to count a delivery."""
        self.ledger.finish(unit, Outcome.NEVER)
        # While the connection is away, it is not known yet that the broker has them back.
        copies = [] if session.channel.locked else [copy for message, copy in entries if not self.returned(message)]
        life = self.simulation.broker.starts
        try:
            await self.call(f"roll back{', with the last one' if last_too else ''}", lambda: session.rollback(last_too))
        except MQError:
            await self.leave()
        else:
            self.begin_sequence()
            if self._failures_before == self.failures:
                self.ledger.counts.in_vain(self.queue, copies, life, self.world.now)

    async def _open(self, session: Session) -> Consumer:
        consumer = self._consumer
        if consumer is None or consumer.closed or consumer.session is not session:
            self._end_sequence()
            consumer = self._consumer = await self.consume(
                session, self.queue, f"{COLOR} = '{self._color}'" if self._color else None, self._priority
            )
            self._sole = self._is_sole()
            self.begin_sequence()
            await self.call("start", session.start)
        return consumer

    def _is_sole(self, consumers: int = 1) -> bool:
        """Has the broker just these consumers of the queue, and will there be no other one?"""
        broker = self.broker
        found = broker.messaging.core.queues.get(self.queue) if broker.serves else None
        return self._alone and found is not None and found.consumer_count == consumers

    # The order holds for a consumer that is alone: what another one, or the session of a connection that only the broker takes to be
    # alive, gives back comes late.

    def begin_sequence(self) -> None:
        """All that was received before was given back, if it was not acknowledged: what comes now is in order."""
        if self._sole:
            self._sequence = []
            self.ledger.sequences.append((f"{self.name} at {self.world.now:.3f}", self._sequence))

    def _end_sequence(self) -> None:
        self._sole = False
        self._sequence = None

    def before_reconnect(self, error: MQError) -> None:
        super().before_reconnect(error)
        self._end_sequence()

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        self._end_sequence()

    async def next(self, consumer: Consumer) -> tuple[ClientMessage, Copy] | None:
        timeout = self.rng.choice((0, 50, 300))
        message: ClientMessage | None = await self.call(f"receive from {self.queue}", lambda: consumer.receive(timeout))
        if message is None:
            self._check_fed()
            return None
        self._refused = (0, 0)
        if self._color and message.get(COLOR) != self._color:
            self.world.violation(f"{self.name} has selected {self._color} and got a message with {message.get(COLOR)}")
        if self._sequence is not None and not (self.queue == "jobs" and self.simulation.broker.plan.redelivery_delay):
            self._sequence.append(str(message.get(IDENTITY)))
        return message, await self.read(consumer, message)

    async def read(self, consumer: Consumer, message: ClientMessage) -> Copy:
        try:
            return await read(self, consumer, message)
        except MQError:
            if not self.returned(message):
                # A later acknowledgement would include it: it was taken, although not read.
                await self.close_consumer(consumer)
            raise

    def _check_fed(self) -> None:
        """Who gets nothing, again and again, although a message waits for it, has lost its credits, or is forgotten.

        A message without a filter may go to others, and one of a group to the consumer that has the group.
        """
        selects = self._color and self.queue != "jobs"
        waiting = self.simulation.broker.first_waiting(self.queue, self._color) if self._sole or selects else 0
        message_id, times = self._refused
        self._refused = (waiting, times + 1 if message_id == waiting else 1) if waiting else (0, 0)
        if self._refused[1] > REFUSED_MAX:
            self.world.violation(f"{self.name} does not get message {waiting}, which waits in {self.queue} for it")

    def returned(self, message: ClientMessage) -> bool:
        """Has the broker taken the message back?  Its acknowledgement then does nothing, as the client's interface says."""
        consumer = message.consumer
        assert isinstance(consumer, Consumer)
        return consumer.closed or message.incarnation != consumer.incarnation


class AcknowledgingReceiver(Receiver):
    """Acknowledges each message, or several together, and waits for the answer."""

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool) -> None:
        super().__init__(simulation, name, queue, alone)
        self._together = self.rng.choice((1, 1, 3))
        self._individually = self.rng.random() < 0.3
        self._got: list[tuple[ClientMessage, Copy]] = []

    async def receive(self, session: Session, consumer: Consumer) -> None:
        for _ in range(self._together):
            entry = await self.next(consumer)
            if entry is None:
                break
            self._got.append(entry)
        if self.rng.random() < 0.3:
            await self.pause(self.rng.uniform(0, 0.5))
        # What was got before a failure is still to be acknowledged if the session lived on, and an acknowledgement of all includes it.
        got, self._got = [entry for entry in self._got if not self.returned(entry[0])], []
        if not self._individually:
            await self._acknowledge(got)
            return
        for entry in got:
            if not self.returned(entry[0]):
                await self._acknowledge([entry])

    async def _acknowledge(self, entries: list[tuple[ClientMessage, Copy]]) -> None:
        if not entries:
            return
        message = entries[-1][0]
        unit = self.ledger.unit(f"{self.name}, acknowledgement of {entries[-1][1][1]}")
        unit.acknowledged += [copy for _, copy in entries]
        unit.asked = self.world.now
        acknowledge = message.individual_acknowledge if self._individually else message.acknowledge
        await self.call(f"acknowledge {[copy[1] for copy in unit.acknowledged]}", acknowledge)
        self.ledger.finish(unit, Outcome.DONE, self.world.now)


class TransactedReceiver(Receiver):
    """Receives in transactions, some of which it rolls back.

    With ``forward_to`` it sends a message on for each one, in the same transaction.
    """

    def __init__(self, simulation: Simulation, name: str, queue: str, alone: bool, forward_to: str | None = None, **settings: Any) -> None:
        super().__init__(simulation, name, queue, alone, **settings)
        self.session_options = {"auto_commit_sends": False, "auto_commit_acks": False}
        self._forward_to = forward_to
        self._number = 0

    async def receive(self, session: Session, consumer: Consumer) -> None:
        unit = self.begin("transaction")
        entries: list[tuple[ClientMessage, Copy]] = []
        try:
            for _ in range(self.rng.randrange(1, 5)):
                entry = await self.next(consumer)
                if entry is None:
                    break
                message, copy = entry
                if self.returned(message):
                    continue
                unit.acknowledged.append(copy)
                self.ledger.counts.tried(self.queue, copy)
                await self.call(f"acknowledge {copy[1]}", message.acknowledge)
                entries.append(entry)
                if self._forward_to is not None:
                    await self._forward(session, unit, self._forward_to)
        except MQError:
            await self.roll_back(session, unit, entries)
            return
        if self.rng.random() < 0.3:
            await self.roll_back(session, unit, entries)
            return
        await self.commit(session, unit)

    async def _forward(self, session: Session, unit: Unit, address: str) -> None:
        self._number += 1
        identity = f"{self.name}-{self._number}"
        self.ledger.send(Sent(identity, self.name, self._number, 4, True, QUEUES[address], asked=self.world.now, address=address))
        unit.sends.append(identity)
        message = ClientMessage(durable=True, body=body_of(identity, 50))
        message.put(IDENTITY, identity)
        producer = next(iter(session.producers), None) or await session.create_producer(address)
        await self.call(f"send {identity}", lambda: producer.send(message))


class Drain(Actor):
    """Takes everything that is left, when nothing fails any more."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(
            simulation, DRAIN, reconnect_attempts=0, consumer_window_size=-1, confirmation_window_size=-1, compress_large_message=False
        )
        self.left = [queue for queues in QUEUES.values() for queue in queues]
        self.left += OWN_QUEUES

    @property
    def _delayed(self) -> bool:
        return self.simulation.broker.plan.redelivery_delay > 0

    async def _end_branches(self) -> None:
        """Only damaged files leave branches that their transaction manager has not ended."""
        self.session_options = {"xa": True}
        resource = (await self.session()).xa_resource
        for xid in await self.call("recover", resource.recover):
            if not self.simulation.broker.was_damaged:
                self.world.violation(f"branch {xid} is still in doubt")
            await (resource.commit(xid) if self.simulation.decisions[xid] else resource.rollback(xid))
        await self.leave()
        self.session_options = {}

    async def work(self) -> None:
        await self._end_branches()
        await remove_readers(self, self.simulation.reading)
        session = await self.session()
        for queue in self.left:
            await self._take(session, queue)
        for queue in dict.fromkeys(subscription.queue for subscription in self.ledger.subscriptions.values()):
            try:
                await self._take(session, queue)
            except QueueDoesNotExistError:
                subscription = self.ledger.subscriptions[self.ledger.key(queue)]
                if subscription.created < float("inf") and subscription.deleting == float("inf"):
                    self.world.violation(f"{queue} is gone, which was created and not deleted")

        await self._remove_what_is_back(session)

    async def _remove_what_is_back(self, session: Session) -> None:
        """Damaged files may bring back queues of the administrator, who has removed them and looks no more."""
        broker = self.simulation.broker
        names = [name for name in broker.messaging.core.queues if name.startswith("admin.")] if broker.was_damaged else []
        for name in names:
            await self.call(f"delete {name}", lambda name=name: session.delete_queue(name))

    async def _take(self, session: Session, queue: str) -> None:
        try:
            consumer = await self.consume(session, queue)
        except QueueDoesNotExistError:
            if queue not in OWN_QUEUES:
                raise
            return
        await session.start()
        await self._drain(queue, consumer)
        await consumer.close()

    async def _drain(self, queue: str, consumer: Consumer) -> None:
        broker = self.simulation.broker
        pages = broker.has_paged or broker.plan.pages(broker.messaging.core.queues[queue].address.name)
        identities: list[str] = []
        priority = 9
        while True:
            message = await self.call(f"receive from {queue}", consumer.receive_immediate)
            if message is None:
                break
            copy = await read(self, consumer, message)
            # Only what has been read from pages is sorted.
            if message.priority > priority and not pages:
                self.world.violation(f"{queue} gave {copy[1]} of priority {message.priority} after one of priority {priority}")
            priority = message.priority
            identities.append(copy[1])
            await message.individual_acknowledge()
        if queue in SORTED_BY_SENDER and not (queue == "jobs" and self._delayed):
            self.ledger.sequences.append((f"the drain of {queue}", identities))


def not_alone(actors: Iterable[Actor], queue: str) -> None:
    """Somebody else receives from the queue, too."""
    for actor in actors:
        if isinstance(actor, Receiver) and actor.queue == queue:
            actor.has_company()
