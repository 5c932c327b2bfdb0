"""What clients were told and what they saw, and what must follow from it.

A message is known by the identity that the workload gave it; a *copy* is that message on one queue.  The ledger holds, for each message,
whether its sender was told of success; for each copy, whether its receiver was told that the acknowledgement holds; and every receipt.
It knows nothing of the broker's inside: two receipts are of two stored messages when their message ids differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from tests.simulation.counting import Counts
from tests.simulation.policies import ID_CACHE, LATER
from tests.simulation.world import WALL_START_MS

Copy = tuple[str, str]
"""(queue, identity)"""

DRAIN = "drain"


class Outcome(Enum):
    UNKNOWN = "unknown"
    """Nobody can say: it may have taken effect, or still take effect."""
    DONE = "done"
    """The broker has said so."""
    NEVER = "never"
    """It was not asked for, or was taken back: it must not take effect."""


@dataclass(slots=True)
class Sent:
    """A message; ``number`` ascends per producer.

    ``queues`` are those that always get it; ``ordered``: it is to be delivered at once; ``asked`` is when it was sent first.
    """

    identity: str
    producer: str
    number: int
    priority: int
    durable: bool
    queues: tuple[str, ...]
    outcome: Outcome = Outcome.UNKNOWN
    address: str = ""
    color: str = ""
    ordered: bool = True
    asked: float = 0.0
    done: float = float("inf")
    """When the broker had said so."""
    drops: str = ""
    """When its address may drop it, see :mod:`tests.simulation.policies`."""
    size: int = -1
    """Bytes of its body, -1 = not noted."""
    remembered: bool = False
    """It has its identity for a duplicate id."""
    due: list[int] = field(default_factory=list)
    """The times (ms since the epoch) for which it was scheduled, one for each attempt to send it; empty = at once."""


@dataclass(slots=True)
class Subscription:
    """One life of a queue that a client creates and deletes; ``color`` is what its selector asks for, "" = everything.

    It is there for sure from ``created`` to ``deleting``, and may be from ``asked`` on.
    """

    queue: str
    key: str
    address: str
    color: str
    asked: float
    created: float = float("inf")
    deleting: float = float("inf")

    def takes(self, message: Sent) -> bool:
        return message.address == self.address and self.color in ("", message.color)


@dataclass(slots=True)
class Unit:
    """Sends and acknowledgements that take effect together: a transaction, or one acknowledgement.

    ``asked`` is when its end was asked for.
    """

    name: str
    sends: list[str] = field(default_factory=list)
    acknowledged: list[Copy] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    asked: float = float("inf")


@dataclass(frozen=True, slots=True)
class Receipt:
    """``place`` is the queue that it came from: the copy's own, or where it was put as a dead letter.

    ``sent`` is when the broker had written it to the connection: clients keep messages for a while, also those that the broker has taken
    back when it gave up the connection.
    """

    time: float
    sent: float
    copy: Copy
    place: str
    message_id: int
    delivery_count: int
    who: str
    life: int = 1
    """The broker that has sent it had been started so often; 0 for one who only reads along."""


class Ledger:
    """Filled during a run; :meth:`problems` judges it when every queue was drained.  ``lost_memory``: the broker has crashed in the run."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.units: list[Unit] = []
        self.receipts: list[Receipt] = []
        self.by_copy: dict[Copy, list[Receipt]] = defaultdict(list)
        self.sequences: list[tuple[str, list[str]]] = []
        """Identities in the order in which one consumer, alone on its queue, got them."""
        self.lost_memory = False
        self._done_with: dict[Copy, Unit] = {}
        self._excused: set[str] = set()
        self.subscriptions: dict[str, Subscription] = {}
        """By key."""
        self._lives: dict[str, list[Subscription]] = defaultdict(list)
        """By name of the queue."""
        self.counts = Counts()
        self._clocks: dict[str, list[tuple[float, int]]] = defaultdict(list)
        """By broker: when its wall clock was set, and by how many ms it is ahead since."""
        self.on_confirmed: Callable[[], object] = _nothing
        """Called when a client was told of a success, which is entered already."""
        self.id_cache = ID_CACHE
        """How many duplicate ids an address has remembered at least, in all lives."""
        self.forgotten: dict[Copy, int] = {}
        """In which life the broker had sent what it was to forget with that."""

    # --- while the run goes on

    def send(self, message: Sent) -> None:
        """A message is about to be sent, perhaps not for the first time."""
        known = self.sent.setdefault(message.identity, message)
        if known is not message:
            known.due += message.due

    def subscribe(self, queue: str, address: str, color: str, now: float) -> Subscription:
        """A queue is about to be created."""
        lives = self._lives[queue]
        subscription = Subscription(queue, f"{queue}, life {len(lives) + 1}", address, color, now)
        lives.append(subscription)
        self.subscriptions[subscription.key] = subscription
        return subscription

    def queues_lost(self, names: Iterable[str], now: float) -> None:
        """The operator was told that these queues are gone."""
        for name in names:
            for subscription in self._lives.get(name, ()):
                subscription.deleting = min(subscription.deleting, now)

    def key(self, queue: str) -> str:
        """What a copy on this queue is known by now: lives of a queue have nothing to do with each other."""
        lives = self._lives.get(queue)
        return lives[-1].key if lives else queue

    def unit(self, name: str) -> Unit:
        unit = Unit(name)
        self.units.append(unit)
        return unit

    def finish(self, unit: Unit, outcome: Outcome, now: float = 0.0) -> None:
        """The broker has said what became of it."""
        unit.outcome = outcome
        for identity in unit.sends:
            self._decide(identity, outcome, now)
        if outcome is Outcome.DONE:
            for copy in unit.acknowledged:
                self._done_with[copy] = unit
            self.on_confirmed()

    def decide(self, identity: str, outcome: Outcome, now: float = 0.0) -> None:
        """What became of a send; a success is never taken back by a later attempt."""
        self._decide(identity, outcome, now)
        if outcome is Outcome.DONE:
            self.on_confirmed()

    def _decide(self, identity: str, outcome: Outcome, now: float) -> None:
        message = self.sent[identity]
        if message.outcome is Outcome.UNKNOWN:
            message.outcome = outcome
            message.done = now

    def clock_is_ahead(self, broker: str, milliseconds: int, now: float) -> None:
        """The wall clock of a broker is wrong by so much from now on."""
        self._clocks[broker].append((now, milliseconds))

    def latest_ms(self, since: float, now: float) -> int:
        """The latest time that a broker's clock has shown from ``since`` until now, in ms since the epoch."""
        ahead = []
        for steps in self._clocks.values():
            before = [milliseconds for when, milliseconds in steps if when <= since]
            ahead += before[-1:] + [milliseconds for when, milliseconds in steps if when > since]
        return WALL_START_MS + int(now * 1000) + max(ahead)

    def excuse(self, identities: Iterable[str]) -> None:
        """Damaged files have cost something of these messages, and the operator was told so: nothing is promised of them."""
        self._excused.update(identities)

    def is_excused(self, identity: str) -> bool:
        """Is nothing promised of the message any more?"""
        return identity in self._excused

    def knows_id_of(self, message: Sent, coming: int = 0) -> bool:
        """Is the duplicate id of a message known, if it was stored, also when ``coming`` others have come?  The oldest ones go first."""
        others = (each for each in self.sent.values() if each.remembered and each.address == message.address and each is not message)
        return sum(each.done > message.asked for each in others) + coming < self.id_cache

    def may_be_missing(self, message: Sent, copy: Copy, subscription: Subscription | None) -> bool:
        """Can nobody say whether the message has ever come to the queue?"""
        return False

    def may_be_twice(self, copy: Copy) -> bool:
        """Do two brokers have the copy for sure, since the one that gave its messages to the other was interrupted?"""
        return False

    def unsure_of(self, message: Sent) -> bool:
        """Can nobody say so of any of its queues?"""
        return bool(message.queues) and all(self.may_be_missing(message, (queue, message.identity), None) for queue in message.queues)

    def home_of(self, receipt: Receipt) -> str:
        """The broker that gave the message its id; "" = there is but one."""
        return ""

    def seen(self, identity: str) -> bool:
        """Has anybody received the message?"""
        return self._seen(identity)

    def receive(self, receipt: Receipt) -> str | None:
        """A consumer got a message.  Returns what is wrong with that at once."""
        self.receipts.append(receipt)
        self.by_copy[receipt.copy].append(receipt)
        queue, identity = receipt.copy
        message = self.sent.get(identity)
        subscription = self.subscriptions.get(queue)
        if message is None or (queue not in message.queues and (subscription is None or not subscription.takes(message))):
            return f"{receipt.copy} was never sent"
        if subscription is not None and message.done < subscription.asked and identity not in self._excused:
            return f"{receipt.copy} was sent before this life of the queue began"
        if identity in self._excused:
            return None
        early = min(message.due) - self.latest_ms(message.asked, receipt.sent) if message.due else 0
        if early > 0 and receipt.place == queue:
            return f"{receipt.copy} was sent to {receipt.who} {early} ms before its time"
        if self.forgotten.get(receipt.copy) == receipt.life:
            return f"{receipt.copy} was sent to {receipt.who} although the broker was to forget it when it had sent it before"
        unit = self._done_with.get(receipt.copy)
        wrong = None if unit is None or self.may_be_twice(receipt.copy) else _came_again(receipt, unit)
        return wrong or self._wrong_count(receipt)

    def _wrong_count(self, receipt: Receipt) -> str | None:
        return self.counts.problem(receipt) if receipt.life else None

    # --- at the end

    def problems(self) -> list[str]:
        """Everything that contradicts what clients were told."""
        found: list[str] = []
        asked = self._acknowledgements()
        for message in self.sent.values():
            for queue in message.queues if message.identity not in self._excused else ():
                found += self._check_copy(message, (queue, message.identity), asked)
        for subscription in self.subscriptions.values():
            for message in self.sent.values():
                if subscription.takes(message) and message.identity not in self._excused:
                    found += self._check_copy(message, (subscription.key, message.identity), asked, subscription)
        for unit in self.units:
            found += self._check_unit(unit)
        found += self._check_ids()
        for who, identities in self.sequences:
            found += self._check_order(who, identities)
        return found

    def _acknowledgements(self) -> dict[Copy, list[Unit]]:
        asked: dict[Copy, list[Unit]] = defaultdict(list)
        for unit in self.units:
            if unit.outcome is not Outcome.NEVER and not self._did_not_happen(unit):
                for copy in unit.acknowledged:
                    asked[copy].append(unit)
        return asked

    def _did_not_happen(self, unit: Unit) -> bool:
        """Its sends tell of a unit with unknown outcome that it was not carried out."""
        return unit.outcome is Outcome.UNKNOWN and bool(unit.sends) and not any(self._seen(identity) for identity in unit.sends)

    def _seen(self, identity: str) -> bool:
        queues = (*self.sent[identity].queues, *self.subscriptions)
        return identity in self._excused or any((queue, identity) in self.by_copy for queue in queues)

    def _check_copy(self, message: Sent, copy: Copy, asked: dict[Copy, list[Unit]], subscription: Subscription | None = None) -> list[str]:
        receipts = self.by_copy.get(copy, [])
        drained = [receipt for receipt in receipts if receipt.who == DRAIN]
        found = []
        if message.outcome is Outcome.NEVER and receipts:
            found.append(f"{copy} was received by {receipts[0].who} although it was rolled back")
        twice = self.may_be_twice(copy)
        if len(drained) > 1 and not twice:
            found.append(f"{copy} was in its queue {len(drained)} times")
        units = asked.get(copy, [])
        if units:
            done = [unit for unit in units if unit.outcome is Outcome.DONE and not twice]
            found += [text for unit in done for receipt in receipts if (text := _came_again(receipt, unit)) is not None]
        elif not drained and (subscription is None or subscription.deleting == float("inf")):
            routed = subscription is None or message.asked >= subscription.created
            kept = message.durable or not self.lost_memory
            if routed and message.outcome is Outcome.DONE and kept and not message.drops:
                found.append(f"{copy} is lost: it was confirmed to {message.producer}, and nobody acknowledged it")
            elif receipts and kept and message.drops != LATER:
                found.append(f"{copy} is lost: {receipts[0].who} has received it, and nobody acknowledged it")
        return found

    def _check_unit(self, unit: Unit) -> list[str]:
        """All or nothing."""
        # Damage may take a part.
        sends = [identity for identity in unit.sends if identity not in self._excused]
        missing = [identity for identity in sends if not self._seen(identity) and not self.sent[identity].drops]
        if unit.outcome is Outcome.NEVER or len(missing) == len(sends):
            return []
        found = []
        if missing:
            found.append(f"of transaction {unit.name} only a part is there: {missing} are missing of {unit.sends}")
        for copy in unit.acknowledged:
            if copy[1] in self._excused or self.may_be_twice(copy):
                continue
            later = [receipt for receipt in self.by_copy[copy] if receipt.sent > unit.asked]
            if later:
                found.append(f"of transaction {unit.name} the sends took effect, but {copy} was received again by {later[0].who}")
        return found

    def _check_ids(self) -> list[str]:
        """A copy is one stored message all its life, and a message id belongs to one message for ever."""
        found = []
        owners: dict[int, str] = {}
        stored: dict[tuple[Copy, str], int] = {}
        buried: set[Copy] = set()
        for receipt in self.receipts:
            identity = receipt.copy[1]
            if identity in self._excused:
                continue
            owner = owners.setdefault(receipt.message_id, identity)
            if owner != identity:
                found.append(f"message id {receipt.message_id} was used for {owner} and for {identity}")
            first = stored.setdefault((receipt.copy, receipt.place), receipt.message_id)
            if first != receipt.message_id:
                found.append(f"{receipt.copy} was stored twice on {receipt.place}, as {first} and {receipt.message_id}")
            if receipt.place != receipt.copy[0]:
                buried.add(receipt.copy)
            elif receipt.copy in buried:
                found.append(f"{receipt.copy} was received again after it had become a dead letter")
        return found

    def _check_order(self, who: str, identities: list[str]) -> list[str]:
        """Of one producer and priority, in the order of their sends; where a send was in doubt, the client cannot know its place."""
        found = []
        earlier: dict[tuple[str, int], list[Sent]] = defaultdict(list)
        for identity in identities:
            message = self.sent.get(identity)
            if message is None or message.outcome is not Outcome.DONE or not message.ordered or identity in self._excused:
                continue
            of_producer = earlier[message.producer, message.priority]
            before = next((each for each in of_producer if each.number >= message.number and self.comes_behind(each, message)), None)
            if before is not None:
                found.append(f"{who} got {before.identity} before {identity}")
            of_producer.append(message)
        return found

    def comes_behind(self, message: Sent, earlier: Sent) -> bool:
        """Does a message come behind what its producer has sent before?"""
        return True


def _nothing() -> None:
    pass


def _came_again(receipt: Receipt, unit: Unit) -> str | None:
    """What is wrong when ``unit``, which has acknowledged the copy, was carried out."""
    if receipt.sent <= unit.asked:
        return None
    return f"{receipt.copy} was sent to {receipt.who} although its acknowledgement by {unit.name} was confirmed"
