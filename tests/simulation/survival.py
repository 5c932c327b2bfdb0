"""What must be on the disks at a moment of a run, by what clients were told until then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.model import DRAIN, Copy, Ledger, Outcome, Sent, Subscription, Unit
from tests.simulation.policies import LATER
from tests.simulation.workload import body_of

NEVER = float("inf")


@dataclass(slots=True)
class Found:
    """A message on a queue of a broker that has lost its power.  ``scheduled`` is ms since the epoch, 0 = at once."""

    queue: str
    node: str
    message_id: int
    scheduled: int
    delivery_count: int
    body: bytes


@dataclass(slots=True)
class Kept:
    """What the starts have found, over all brokers.

    ``copies`` are by (queue, identity), the queue being that of which a dead letter tells; ``moving`` are the identities on their way to
    other brokers, ``undecided`` those of branches, ``remembered`` duplicate ids.
    """

    copies: dict[Copy, list[Found]] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    remembered: set[str] = field(default_factory=set)
    delayed: set[str] = field(default_factory=set)
    """Queues whose messages are put off when they come back."""
    next_ids: dict[str, int] = field(default_factory=dict)
    settled: dict[tuple[str, str], int] = field(default_factory=dict)
    """By broker and queue: what all readers have settled is removed, up to this message id."""

    def has(self, copy: Copy) -> bool:
        return copy in self.copies or copy[1] in self.moving


def judge(ledger: Ledger, kept: Kept, now: float) -> list[str]:
    """Everything that contradicts what clients were told until ``now``."""
    return list(_Judge(ledger, kept, now).problems())


class _Judge:
    def __init__(self, ledger: Ledger, kept: Kept, now: float) -> None:
        self._ledger = ledger
        self._kept = kept
        self._now = now
        self._open = {identity: unit for unit in ledger.units if unit.asked == NEVER for identity in unit.sends}
        self._taken = {self._name(receipt.copy) for receipt in ledger.receipts if receipt.who == DRAIN}
        """What was taken at the end, without a word to the ledger about acknowledgements."""
        self._received = {self._name(copy) for copy, receipts in ledger.by_copy.items() if receipts}
        self._asked: dict[Copy, list[Unit]] = defaultdict(list)
        for unit in ledger.units:
            for copy in unit.acknowledged if unit.outcome is not Outcome.NEVER and unit.asked <= now else ():
                self._asked[self._name(copy)].append(unit)

    def problems(self) -> Iterator[str]:
        ledger = self._ledger
        for message in ledger.sent.values():
            if ledger.is_excused(message.identity):
                continue
            for queue in message.queues:
                yield from self._copy(message, (queue, message.identity), None)
            for subscription in ledger.subscriptions.values():
                if subscription.takes(message):
                    yield from self._copy(message, (subscription.key, message.identity), subscription)
            stored = message.outcome is Outcome.DONE and message.durable and not message.drops
            if message.remembered and stored and message.identity not in self._kept.remembered and ledger.knows_id_of(message):
                yield f"the duplicate id of {message.identity} would be forgotten: its send was confirmed to {message.producer}"
        for copy, found in self._kept.copies.items():
            if copy[1] in ledger.sent and not ledger.is_excused(copy[1]):
                yield from self._contents(copy, found)
        for subscription in ledger.subscriptions.values():
            if subscription.created <= self._now and subscription.deleting == NEVER and subscription.queue not in self._kept.queues:
                yield f"queue {subscription.queue} would be gone, which was created and not deleted"
        for unit in ledger.units:
            yield from self._unit(unit)
        yield from self._ids()

    def _name(self, copy: Copy) -> Copy:
        """A copy by the name of its queue: at one moment it has one life."""
        subscription = self._ledger.subscriptions.get(copy[0])
        return copy if subscription is None else (subscription.queue, copy[1])

    def _copy(self, message: Sent, copy: Copy, subscription: Subscription | None) -> Iterator[str]:
        ledger, there = self._ledger, self._name(copy)
        units = self._asked.get(there, [])
        if there in self._kept.copies:
            done = [unit for unit in units if unit.outcome is Outcome.DONE]
            removed = all(found.message_id <= self._kept.settled.get((found.node, found.queue), 0) for found in self._kept.copies[there])
            if done and not removed and not ledger.may_be_twice(there):
                yield f"{copy} would be back in {self._places(there)}: its acknowledgement by {done[0].name} was confirmed"
            if message.outcome is Outcome.NEVER:
                yield f"{copy} would be there in {self._places(there)}, although it was rolled back"
            elif message.outcome is Outcome.UNKNOWN and message.identity in self._open:
                name = self._open[message.identity].name
                yield f"{copy} would be there in {self._places(there)}, of {name}, whose end nobody has asked for"
            return
        deleted = subscription is not None and subscription.deleting < NEVER
        gone = bool(units) or deleted or there in self._taken or there[1] in self._kept.moving
        if gone or not message.durable or ledger.may_be_missing(message, copy, subscription):
            return
        routed = subscription is None or message.asked >= subscription.created
        if routed and message.outcome is Outcome.DONE and not message.drops:
            branch = ", and is in a branch that is not decided" if message.identity in self._kept.undecided else ""
            yield f"{copy} would be lost: it was confirmed to {message.producer}, and nobody has acknowledged it{branch}"
        elif (receipts := ledger.by_copy.get(copy)) and message.drops != LATER:
            yield f"{copy} would be lost: {receipts[0].who} has received it, and nobody has acknowledged it"

    def _places(self, copy: Copy) -> str:
        return " and ".join(f"{found.queue} of {found.node} as {found.message_id}" for found in self._kept.copies[copy])

    def _contents(self, copy: Copy, places: list[Found]) -> Iterator[str]:
        """Are all copies what was sent?"""
        message = self._ledger.sent[copy[1]]
        if len(places) > 1 and not self._ledger.may_be_twice(copy):
            yield f"{copy} would be stored {len(places)} times: {self._places(copy)}"
        for found in places:
            if found.body != body_of(copy[1], len(found.body)) or message.size not in (-1, len(found.body)):
                yield f"the body of {copy} would be damaged ({len(found.body)} of {message.size} bytes)"
            yield from self._schedule(message, copy, found)

    def _schedule(self, message: Sent, copy: Copy, found: Found) -> Iterator[str]:
        """Is it due when its sender said?  After a delivery it may have been put off."""
        put_off = found.scheduled and found.queue in self._kept.delayed
        if put_off or found.queue != copy[0] or copy in self._received:
            return
        if found.scheduled in message.due or (not found.scheduled and not message.due):
            return
        if found.scheduled or min(message.due) > self._ledger.latest_ms(message.asked, self._now):
            yield f"{copy} would be due at {found.scheduled}; it was sent for {message.due or 'at once'}"

    def _unit(self, unit: Unit) -> Iterator[str]:
        """All or nothing."""
        ledger, kept = self._ledger, self._kept
        # Damage may take a part.
        sends = [ledger.sent[identity] for identity in unit.sends if not ledger.is_excused(identity)]
        if unit.outcome is Outcome.NEVER or unit.asked > self._now or not sends:
            return
        missing = [message for message in sends if not self._seen(message)]
        if len(missing) < len(sends):
            lost = [message.identity for message in missing if not message.drops and not ledger.unsure_of(message)]
            if lost:
                yield f"of transaction {unit.name} only a part would be there: {lost} are missing of {unit.sends}"
            back = [copy for copy in unit.acknowledged if self._name(copy) in kept.copies and not ledger.is_excused(copy[1])]
            back = [copy for copy in back if not ledger.may_be_twice(copy)]
            if back:
                yield f"of transaction {unit.name} the sends would be there, and {back}, which it acknowledged, too"
        elif not any(message.drops or ledger.unsure_of(message) for message in sends):
            for copy in unit.acknowledged:
                message, others = ledger.sent[copy[1]], self._asked[self._name(copy)]
                alone = all(other is unit for other in others) and self._name(copy) not in self._taken
                kept_for_sure = message.durable and message.drops != LATER and not ledger.is_excused(copy[1])
                if alone and kept_for_sure and not kept.has(self._name(copy)):
                    yield f"of transaction {unit.name} no send would be there, and {copy}, which it acknowledged, neither"

    def _seen(self, message: Sent) -> bool:
        """Has the send taken effect, as far as anybody knows?"""
        ledger, identity = self._ledger, message.identity
        if ledger.is_excused(identity) or identity in self._kept.moving:
            return True
        names = (*message.queues, *(each.queue for each in ledger.subscriptions.values()))
        return any((name, identity) in self._kept.copies for name in names) or ledger.seen(identity)

    def _ids(self) -> Iterator[str]:
        """No id of a stored message is given out twice; others do not wait until their block of ids is on the disk."""
        for receipt in self._ledger.receipts:
            if not self._ledger.sent[receipt.copy[1]].durable:
                continue
            home = self._ledger.home_of(receipt)
            following = self._kept.next_ids.get(home) if home else min(self._kept.next_ids.values())
            if following is not None and following <= receipt.message_id:
                yield f"the next id would be {following}, and {receipt.copy} has been {receipt.message_id}"
                return
