"""Random work on paging addresses, and a crash at any moment that loses or tears any part of what was not synced.

The journal is one row of commits.  After a crash every queue holds what it held after some commit, none before the last durable one.
"""

from __future__ import annotations

import random
from copy import deepcopy
from unittest import TestCase

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqclient.wire.message import CoreMessage
from tests.support.disk import SimulatedCrash
from tests.unit.messaging.paging_support import PagingBroker, Taker, body_of, unread
from tests.unit.storage.support import Rig

QUEUES = {"q": ("q", 1), "t1": ("t", 0), "t2": ("t", 0)}
OPERATIONS = 60

State = dict[str, list[bytes]]


def content(queue: Queue) -> list[bytes]:
    """Everything on a queue that nobody has been given, in order."""
    messages = [reference.message for reference in (*queue.references, *queue.scheduled)]
    messages += unread(queue)
    return [body_of(message) for message in messages]


class Walk:
    """One disk, one broker process after the other, and what it should hold."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        address = {"max_size_messages": rng.choice((0, 0, 3)), "page_size_bytes": rng.choice((300, 1000, 5000))}
        rig = Rig(
            seed,
            journal_file_size=rng.choice((1024, 4096)),
            journal_compact_min_files=rng.choice((0, 1, 3)),
            journal_compact_percentage=rng.choice((30, 100)),
            compress_pages=rng.random() < 0.3,
            purge_page_folders=rng.random() < 0.3,
        )
        self.broker = PagingBroker({"#": {**address, "max_delivery_attempts": -1, "auto_delete_queues": False}}, rig=rig)
        for name, (address_name, kind) in QUEUES.items():
            self.broker.make_queue(name, address_name, kind)
        self.number = 0
        self.state: State = {name: [] for name in QUEUES}
        self.volatile: set[bytes] = set()
        self.history: list[tuple[int, State]] = []
        self.takers: dict[str, Taker] = {}
        self.note()

    def note(self) -> None:
        """The state after the last commit."""
        self.history.append((self.broker.rig.store.last, deepcopy(self.state)))

    def queue(self, name: str) -> Queue:
        return self.broker.core.queues[name]  # type: ignore[no-any-return]

    # --- operations

    def send(self, transaction: Transaction | None = None) -> None:
        address, kind = self.rng.choice((("q", 1), ("t", 0)))
        self.number += 1
        body = b"%05d" % self.number + b"x" * self.rng.choice((0, 10, 200))
        durable = self.rng.random() < 0.8
        if self.rng.random() < 0.1:
            self.send_large(body, address, kind, transaction)
            durable = True
        else:
            self.broker.send(body, address, transaction, settle=False, durable=durable, routing_type=kind)
        if not durable:
            self.volatile.add(body)
        for name, (its_address, _) in QUEUES.items():
            if its_address == address:
                self.state[name].append(body)

    def send_large(self, body: bytes, address: str, kind: int, transaction: Transaction | None) -> None:
        store = self.broker.rig.store
        number = store.next_id()
        large = store.create_large_body(number)
        large.append(body)
        large.complete()
        message = Message.of(CoreMessage(message_id=number, address=address, durable=True), large)
        self.broker.messaging.sending.send(message, address, None, kind, self.broker.context, transaction)

    def commit(self) -> None:
        transaction = Transaction()
        for _ in range(self.rng.randrange(4)):
            self.send(transaction)
        for taker in self.takers.values():
            self.take_out(taker, self.some(taker), transaction)
        self.broker.messaging.settlement.commit(transaction, self.broker.context)

    def some(self, taker: Taker) -> list[Reference]:
        """Some of what a consumer holds: the first ones, or any."""
        held = taker.references
        if self.rng.random() < 0.6:
            return held[: self.rng.randrange(len(held) + 1)]
        return [reference for reference in held if self.rng.random() < 0.4]

    def take_out(self, taker: Taker, references: list[Reference], transaction: Transaction | None = None) -> None:
        for reference in references:
            taker.references.remove(reference)
            self.state[taker.queue.name].remove(body_of(reference.message))
        if transaction is None:
            self.broker.messaging.settlement.acknowledge(references)
        else:
            transaction.acknowledged += references

    def acknowledge(self) -> None:
        if self.takers:
            taker = self.rng.choice(list(self.takers.values()))
            self.take_out(taker, self.some(taker))

    def consume(self) -> None:
        name = self.rng.choice(list(QUEUES))
        if name in self.takers:
            taker = self.takers[name]
            taker.room += self.rng.randrange(20)
            taker.ready = taker.room > 0
            self.broker.core.turn.mark_queue(taker.queue)
        else:
            self.takers[name] = Taker(self.broker, self.queue(name), self.rng.randrange(30), settle=False)

    def give_back(self) -> None:
        if self.takers:
            taker = self.rng.choice(list(self.takers.values()))
            returned, taker.references = taker.references, []
            if self.rng.random() < 0.5:
                self.broker.messaging.settlement.redeliver(returned)
            else:
                self.broker.messaging.settlement.cancel(returned)

    def purge(self) -> None:
        """As one step: it is more than one commit."""
        crash_after, self.broker.rig.disk.crash_after = self.broker.rig.disk.crash_after, None
        self.broker.settle()
        name = self.rng.choice(list(QUEUES))
        self.broker.messaging.removal.purge(self.queue(name))
        held = self.takers[name].references if name in self.takers else []
        self.state[name] = sorted(body_of(reference.message) for reference in held)
        self.broker.settle()
        self.broker.rig.disk.crash_after = crash_after

    def progress(self) -> None:
        choice = self.rng.random()
        if choice < 0.4:
            self.broker.settle()
        elif choice < 0.8:
            self.broker.core.turn.end()
            if self.rng.random() < 0.5:
                self.broker.rig.writer.run_one()
        else:
            self.broker.rig.clock.run_due()

    # --- lives

    def check(self, synced: int) -> None:
        """Is what is there the state after some commit, none before the last durable one?"""
        found = {name: content(self.queue(name)) for name in QUEUES}
        counts = {name: self.queue(name).message_count for name in QUEUES}
        assert counts == {name: len(bodies) for name, bodies in found.items()}, f"counts {counts}, found {found}"
        safe = max(index for index, (ticket, _) in enumerate(self.history) if ticket <= synced)
        possible = [self.survivors(state) for _, state in self.history[safe:]]
        assert found in possible, f"found {found}\nsafe {possible[0]}\nlast {possible[-1]}"
        self.state = found
        self.history = []
        self.volatile.clear()
        self.takers = {}
        self.note()
        self.broker.settle()

    def survivors(self, state: State) -> State:
        return {name: [body for body in bodies if body not in self.volatile] for name, bodies in state.items()}

    def crash(self) -> None:
        synced = self.broker.rig.store.synced
        while True:
            self.broker.rig.disk.crash()
            if self.rng.random() < 0.2:
                self.broker.rig.disk.crash_after = self.rng.randrange(40)
            try:
                self.broker.start()
                self.broker.rig.disk.crash_after = None
                break
            except SimulatedCrash:
                continue
        self.check(synced)

    def restart(self) -> None:
        self.broker.restart()
        self.check(1 << 60)

    def run(self) -> None:
        operations = [self.send] * 8 + [self.commit] * 3 + [self.consume] * 4 + [self.acknowledge] * 6 + [self.give_back, self.purge]
        for _ in range(OPERATIONS):
            try:
                if self.rng.random() < 0.03:
                    self.broker.rig.disk.crash_after = self.rng.randrange(30)
                roll = self.rng.random()
                if roll < 0.03:
                    self.crash()
                elif roll < 0.06:
                    self.broker.rig.disk.crash_after = None
                    self.restart()
                else:
                    self.rng.choice(operations)()
                    self.note()
                    self.progress()
            except SimulatedCrash:
                self.crash()
            assert not self.broker.rig.failures, self.broker.rig.failures
        self.finish()

    def finish(self) -> None:
        """Everything comes to its consumers once, and nothing is left on the disk."""
        self.broker.rig.disk.crash_after = None
        self.restart()
        for name in QUEUES:
            assert Taker(self.broker, self.queue(name)).drain() == self.state[name]
        self.broker.settle()
        assert self.broker.page_files() == []
        assert self.broker.rig.disk.list("/data/large-messages") == []
        assert self.broker.core.global_memory.size == 0
        assert not self.broker.rig.failures


class CrashTests(TestCase):
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,), derandomize=True)
    @given(st.integers(0, 2**32))
    def test_any_crash_leaves_the_state_after_some_commit(self, seed: int) -> None:
        Walk(seed).run()
