"""A walk through the store contract: random batches, reads, stops, crashes, and what must be there after each start.

The model is a list of states, one for each ticket.  After an orderly stop the last one must be found; after a crash one of those from the
last durable ticket on: whole batches, in order, and no more than what was handed over.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import (
    AddressRecord,
    BranchRecord,
    BranchState,
    PagedMessage,
    PageReader,
    QueueRecord,
    Recovered,
    Store,
    StoreBatch,
)
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.primitives import Xid

ADDRESSES = ("a", "b")
PAGE_SIZE = 900
LARGE_SIZE = 3000

T = TypeVar("T")


class StoreRig(Protocol):
    """One broker process after the other on a store."""

    store: Any
    failures: list[str]

    def start(self) -> Recovered: ...

    def settle(self) -> None: ...

    def restart(self) -> Recovered: ...


@dataclass
class State:
    """What the store has to keep.  ``messages``: by queue and message id (body, deliveries, due, whether it outlives the broker)."""

    queues: dict[int, str] = field(default_factory=dict)
    messages: dict[int, dict[int, tuple[bytes, int, int, bool]]] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    settings: dict[tuple[str, str], str] = field(default_factory=dict)
    duplicates: dict[int, tuple[str, tuple[bytes, ...]]] = field(default_factory=dict)
    branches: dict[int, dict[int, tuple[bytes, tuple[int, ...]]]] = field(default_factory=dict)
    held: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By branch: (queue id, message id) of what it has acknowledged."""

    def after_a_start(self) -> State:
        """What outlives the broker."""
        kept = deepcopy(self)
        kept.messages = {
            queue_id: {number: entry for number, entry in found.items() if entry[3]} for queue_id, found in self.messages.items()
        }
        return kept

    def differences(self, wanted: State) -> list[str]:
        """Where this state differs from another one, in few words."""
        told: list[str] = []
        for entry in fields(State):
            ours, theirs = getattr(self, entry.name), getattr(wanted, entry.name)
            for key in {*ours, *theirs}:
                one, other = ours.get(key), theirs.get(key)
                if isinstance(one, dict) and isinstance(other, dict):
                    keys = sorted(each for each in {*one, *other} if one.get(each) != other.get(each))
                    told += [f"{entry.name}[{key}][{each}] {_short(one.get(each))} for {_short(other.get(each))}" for each in keys]
                elif one != other:
                    told.append(f"{entry.name}[{key}] {_short(one)} for {_short(other)}")
        return told


def _short(value: object) -> str:
    return str(value) if len(str(value)) < 60 else f"{str(value)[:20]}…{str(value)[-30:]}"


class Walk:
    """One walk by a seed.  ``crash`` is the rig's way to lose what is not durable."""

    def __init__(self, rig: StoreRig, crash: Callable[[], Recovered], seed: int) -> None:
        self.rig = rig
        self.crash = crash
        self.rng = random.Random(seed)
        self.state = State()
        self.states: dict[int, State] = {}
        self.memory: dict[tuple[int, int], Message] = {}
        """Messages in memory, by queue and message id; those of branches are not among them."""
        self.waiting: dict[int, Message] = {}
        """Messages of prepared branches, by id."""
        self.readers: dict[tuple[str, int], PageReader] = {}
        self.paged: dict[int, dict[int, str]] = {}
        """By queue: the messages in pages that were not read, with the address of their folder, in order."""
        self.greatest = 0
        self.steps: list[tuple[Callable[[], None], int]] = [
            (self.batch, 40),
            (self.settle, 12),
            (self.read, 14),
            (self.pass_unread, 1),
            (self.pass_until, 3),
            (self.abandon, 4),
            (self.delete_queue, 1),
            (self.stop, 3),
            (self.die, 4),
        ]
        self.actions: list[Callable[[StoreBatch], object]] = [
            *[self.add] * 4,
            *[self.add_paged] * 4,
            *[self.acknowledge] * 4,
            self.count,
            self.schedule,
            self.add_duplicate,
            self.delete_duplicate,
            self.prepare,
            self.end_branch,
            self.put_setting,
            self.delete_setting,
            self.put_address,
        ]

    @property
    def store(self) -> Store:
        found: Store = self.rig.store
        return found

    def run(self, steps: int) -> None:
        self.begin(self.rig.start())
        self.make_queues()
        for _ in range(steps):
            self.rng.choices(
                (
                    self.batch,
                    self.settle,
                    self.read,
                    self.pass_unread,
                    self.pass_until,
                    self.abandon,
                    self.delete_queue,
                    self.stop,
                    self.die,
                ),
                (40, 12, 14, 1, 3, 4, 1, 3, 4),
            )[0]()
            assert not self.rig.failures, self.rig.failures
        self.stop()

    # --- starts and ends

    def begin(self, recovered: Recovered) -> None:
        self.states = {0: deepcopy(self.state)}
        self.memory, self.waiting, self.readers, self.paged = {}, {}, {}, {}
        for message, references in recovered.messages:
            for reference in references:
                self.memory[reference.queue_id, message.message_id] = message
        for branch in recovered.branches:
            for message, _ in branch.messages:
                self.waiting[message.message_id] = message
        pager = self.store.pager
        for folder in [] if pager is None else pager.folders():
            for queue_id in folder.queue_ids():
                reader = self.readers[folder.address, queue_id] = folder.reader(queue_id)
                looked = self.look(reader)
                assert len(looked) == folder.remaining(queue_id), (len(looked), folder.remaining(queue_id))
                for entry in looked:
                    self.paged.setdefault(queue_id, {})[entry.message.message_id] = folder.address
            folder.listener = self.listener(folder.address)

    def make_queues(self) -> None:
        while len(self.state.queues) < 3:
            queue_id = self.store.next_id()
            address = self.rng.choice(ADDRESSES)
            batch = self.store.begin()
            batch.put_queue(QueueRecord(queue_id, f"q{queue_id}", address, 1, None, {"exclusive": True}))
            self.state.queues[queue_id] = address
            self.state.messages[queue_id] = {}
            self.commit(batch)

    def stop(self) -> None:
        recovered = self.rig.restart()
        self.expect(recovered, [self.state])

    def die(self) -> None:
        if self.rng.random() < 0.5:
            self.rig.settle()
        states = self.possible()
        self.expect(self.crash(), states)

    def possible(self) -> list[State]:
        """One of these is what the store has kept so far."""
        first = max(ticket for ticket in self.states if ticket <= self.store.synced)
        return [state for ticket, state in sorted(self.states.items()) if ticket >= first]

    def expect(self, recovered: Recovered, states: list[State]) -> None:
        """One of these states is there; the walk goes on from it."""
        found = self.found(recovered)
        wanted = [state.after_a_start() for state in states]
        assert found in wanted, (
            f"{len(wanted)} states would do; to the last: {found.differences(wanted[-1])}; to the first: {found.differences(wanted[0])}"
        )
        self.state = found
        number = self.store.next_id()
        assert number > self.greatest, (number, self.greatest)
        self.begin(recovered)
        self.make_queues()

    def found(self, recovered: Recovered) -> State:
        state = State()
        state.queues = {record.queue_id: record.address for record in recovered.queues}
        assert all(record.attributes == {"exclusive": True} for record in recovered.queues)
        state.addresses = {record.address_id: record.name for record in recovered.addresses}
        state.settings = dict(recovered.settings)
        state.messages = {queue_id: {} for queue_id in state.queues}
        for entry in recovered.duplicate_ids:
            cache, earlier = state.duplicates.get(entry.record_id, (entry.cache, ()))
            state.duplicates[entry.record_id] = (cache, (*earlier, entry.duplicate_id))
        assert [message.message_id for message, _ in recovered.messages] == sorted(message.message_id for message, _ in recovered.messages)
        for message, references in recovered.messages:
            for each in references:
                state.messages[each.queue_id][message.message_id] = (self.body(message), each.delivery_count, each.scheduled, True)
        for branch in recovered.branches:
            record = branch.record
            assert record.xid == _xid(record.branch_id)
            state.held[record.branch_id] = record.acknowledged
            state.branches[record.branch_id] = {
                message.message_id: (self.body(message), tuple(sorted(each.queue_id for each in references)))
                for message, references in branch.messages
            }
        pager = self.store.pager
        for folder in [] if pager is None else pager.folders():
            for queue_id in folder.queue_ids():
                for entry in self.look(folder.reader(queue_id)):
                    due = entry.scheduled or 0
                    found = (self.body(entry.message), entry.delivery_count, due, True)
                    assert entry.message.message_id not in state.messages[queue_id], "a message in memory and in pages"
                    state.messages[queue_id][entry.message.message_id] = found
        return state

    def look(self, reader: PageReader) -> list[PagedMessage]:
        """All messages that a reader has still to read."""
        ahead = reader.look()
        found: list[PagedMessage] = []
        while (piece := self.now(ahead.read)) is not None:
            found += piece
        return found

    def now(self, read: Callable[[], T]) -> T:
        """What ``read`` gives once it is there."""
        for _ in range(100):
            try:
                return read()
            except NotYet as pending:
                came: list[bool] = []
                pending.when_there(lambda came=came: came.append(True))  # type: ignore[misc]
                self.rig.settle()
                assert came, "what was asked for has not come"
        raise AssertionError("a read never ends")

    def body(self, message: Message) -> bytes:
        if message.large is None:
            return message.decoded().body
        large = message.large
        return self.now(lambda: large.read(0, LARGE_SIZE + 10))

    # --- steps

    def batch(self) -> None:
        batch = self.store.begin()
        for _ in range(self.rng.randrange(1, 4)):
            self.rng.choice(self.actions)(batch)
        self.commit(batch)

    def abandon(self) -> None:
        """A batch that is never committed changes nothing."""
        batch = self.store.begin()
        state, memory, waiting, paged = self.state, self.memory, self.waiting, self.paged
        self.state, self.memory, self.waiting, self.paged = deepcopy(state), dict(memory), dict(waiting), deepcopy(paged)
        self.rng.choice([self.add, self.acknowledge, self.add_duplicate, self.put_setting])(batch)
        self.state, self.memory, self.waiting, self.paged = state, memory, waiting, paged

    def commit(self, batch: StoreBatch) -> None:
        ticket = self.store.commit(batch)
        self.greatest = max(self.greatest, self.store.next_id())
        self.states[ticket] = deepcopy(self.state)
        if self.rng.random() < 0.3:
            self.rig.settle()

    def settle(self) -> None:
        self.rig.settle()
        assert self.store.synced == self.store.ticket()
        pager = self.store.pager
        for queue_id, waiting in self.paged.items():
            counted = sum(pager.folder(name).remaining(queue_id) for name in ADDRESSES) if pager is not None else 0
            assert counted == len(waiting), (queue_id, counted, len(waiting))

    def read(self) -> None:
        """A reader reads a piece; the messages are in memory then."""
        found = [key for key in self.readers if self.paged.get(key[1])]
        if not found:
            return
        key = self.rng.choice(found)
        messages = self.now(self.readers[key].read)
        for entry in messages or ():
            number = entry.message.message_id
            assert self.paged[key[1]].pop(number) == key[0]
            _, count, due, _ = self.state.messages[key[1]][number]
            assert (entry.delivery_count, entry.scheduled or 0) == (count, due)
            self.memory[key[1], number] = entry.message

    def pass_unread(self) -> None:
        found = [key for key in self.readers if self.paged.get(key[1])]
        if not found:
            return
        self.rig.settle()
        name, queue_id = self.rng.choice(found)
        gone = [number for number, folder in self.paged[queue_id].items() if folder == name]
        batch = self.store.begin()
        assert batch.acknowledge_unread(self.readers[name, queue_id]) == len(gone)
        for number in gone:
            del self.paged[queue_id][number], self.state.messages[queue_id][number]
        self.commit(batch)

    def pass_until(self) -> None:
        found = [key for key in self.readers if self.paged.get(key[1])]
        if not found:
            return
        self.rig.settle()
        name, queue_id = self.rng.choice(found)
        reader = self.readers[name, queue_id]
        unread = [number for number, folder in self.paged[queue_id].items() if folder == name]
        if not unread:
            return
        keys = self.keys(reader, unread)
        key = self.rng.choice(keys)
        wanted = [number for number, greatest in zip(unread, keys, strict=True) if greatest <= key]
        more = True
        while more:
            batch = self.store.begin()
            messages, more, taken = self.now(lambda batch=batch: batch.acknowledge_until(reader, key))  # type: ignore[misc]
            for entry in taken:
                number = entry.message.message_id
                assert self.state.messages[queue_id][number][2], "not a scheduled message"
                wanted.remove(number)
                self.memory[queue_id, number] = entry.message
                del self.paged[queue_id][number]
            for number in wanted[:messages]:
                del self.paged[queue_id][number], self.state.messages[queue_id][number]
            wanted = wanted[messages:]
            self.commit(batch)
        assert not wanted, f"up to {key} of {unread} these are left: {wanted}"

    def keys(self, reader: PageReader, unread: list[int]) -> list[int]:
        """The key of a message is the greatest id up to it."""
        return list(accumulate(unread, max))

    def delete_queue(self) -> None:
        queue_id = self.rng.choice([*self.state.queues])
        if any(queue_id in queues for branch in self.state.branches.values() for _, queues in branch.values()):
            return
        if any(queue_id == held for pairs in self.state.held.values() for held, _ in pairs):
            return
        batch = self.store.begin()
        batch.delete_queue(queue_id)
        del self.state.queues[queue_id], self.state.messages[queue_id]
        self.memory = {key: message for key, message in self.memory.items() if key[0] != queue_id}
        self.paged.pop(queue_id, None)
        self.commit(batch)
        for name, owner in [key for key in self.readers if key[1] == queue_id]:
            del self.readers[name, owner]
            assert self.store.pager is not None
            self.store.pager.folder(name).forget(queue_id)
        self.make_queues()

    # --- what a batch has

    def add(self, batch: StoreBatch) -> None:
        message, queue_ids, body = self.message()
        if queue_ids:
            batch.add_message(message, queue_ids)
            for queue_id in queue_ids:
                self.state.messages[queue_id][message.message_id] = (body, 0, 0, True)
                self.memory[queue_id, message.message_id] = message

    def add_paged(self, batch: StoreBatch) -> None:
        kept = self.rng.random() < 0.8
        message, queue_ids, body = self.message(durable=kept)
        pager = self.store.pager
        if not queue_ids or pager is None:
            return
        folder = pager.folder(message.address)
        if folder.listener is None:
            folder.listener = self.listener(message.address)
        for queue_id in queue_ids:
            if (message.address, queue_id) not in self.readers:
                self.readers[message.address, queue_id] = folder.reader(queue_id)
            self.state.messages[queue_id][message.message_id] = (body, 0, 0, kept)
            self.paged.setdefault(queue_id, {})[message.message_id] = message.address
        batch.add_paged(folder, message, queue_ids, queue_ids if kept else (), PAGE_SIZE)

    def listener(self, name: str) -> Listener:
        return Listener(lambda: self.emptied(name))

    def emptied(self, name: str) -> None:
        """The readers of a folder without pages are of no use any more."""
        for key in [key for key in self.readers if key[0] == name]:
            del self.readers[key]
        pager = self.store.pager
        assert pager is not None
        pager.folder(name).listener = None

    def message(self, durable: bool = True) -> tuple[Message, tuple[int, ...], bytes]:
        address = self.rng.choice(ADDRESSES)
        queue_ids = [queue_id for queue_id, bound in self.state.queues.items() if bound == address]
        self.rng.shuffle(queue_ids)
        chosen = tuple(queue_ids[: self.rng.choice((1, 1, 2))])
        number = self.store.next_id()
        if self.rng.random() < 0.15:
            body = self.rng.randbytes(LARGE_SIZE)
            large = self.store.create_large_body(number)
            large.append(body[:1000])
            large.append(body[1000:])
            large.complete()
            return Message.of(CoreMessage(address=address, message_id=number, durable=durable), large), chosen, body
        body = self.rng.randbytes(self.rng.randrange(200))
        return Message.received(encode_message(CoreMessage(address=address, durable=durable, body=body)), number), chosen, body

    def acknowledge(self, batch: StoreBatch) -> None:
        found = self.free()
        if found:
            key = self.rng.choice(found)
            batch.acknowledge(key[0], self.memory.pop(key))
            del self.state.messages[key[0]][key[1]]

    def free(self) -> list[tuple[int, int]]:
        """Messages in memory that no branch holds."""
        held = {pair for pairs in self.state.held.values() for pair in pairs}
        return [key for key in self.memory if key not in held]

    def count(self, batch: StoreBatch) -> None:
        self._change(batch, lambda entry, value: (entry[0], value, entry[2], entry[3]), batch.delivery_count)

    def schedule(self, batch: StoreBatch) -> None:
        self._change(batch, lambda entry, value: (entry[0], entry[1], value, entry[3]), batch.schedule)

    def _change(self, batch: StoreBatch, changed: Callable[[Any, int], Any], tell: Callable[[int, Message, int], None]) -> None:
        found = self.free()
        if found:
            queue_id, number = self.rng.choice(found)
            value = self.rng.randrange(1, 1000)
            entry = self.state.messages[queue_id][number]
            self.state.messages[queue_id][number] = changed(entry, value)
            tell(queue_id, self.memory[queue_id, number], value)

    def add_duplicate(self, batch: StoreBatch) -> None:
        record = self.store.next_id()
        size = self.rng.randrange(1, 20)
        ids = tuple(self.rng.randbytes(size) for _ in range(self.rng.randrange(1, 4)))
        if len(ids) == 1:
            batch.add_duplicate_id("cache", ids[0], record)
        else:
            batch.add_duplicate_ids("cache", size, b"".join(ids), record)
        self.state.duplicates[record] = ("cache", ids)

    def delete_duplicate(self, batch: StoreBatch) -> None:
        if self.state.duplicates:
            record = self.rng.choice([*self.state.duplicates])
            batch.delete_duplicate_id(record)
            del self.state.duplicates[record]

    def prepare(self, batch: StoreBatch) -> None:
        if len(self.state.branches) >= 2:
            return
        branch_id = self.store.next_id()
        found = [key for key in self.free() if self.state.messages[key[0]][key[1]][3]]
        held = tuple(self.rng.sample(found, min(len(found), 1)))
        batch.put_branch(BranchRecord(branch_id, _xid(branch_id), BranchState.PREPARED, 5, held))
        self.state.held[branch_id] = held
        self.state.branches[branch_id] = {}
        for _ in range(self.rng.randrange(1, 3)):
            message, queue_ids, body = self.message()
            if queue_ids:
                batch.add_prepared(branch_id, message, queue_ids)
                self.state.branches[branch_id][message.message_id] = (body, tuple(sorted(queue_ids)))
                self.waiting[message.message_id] = message

    def end_branch(self, batch: StoreBatch) -> None:
        if not self.state.branches:
            return
        branch_id = self.rng.choice([*self.state.branches])
        commit = self.rng.random() < 0.6
        held = self.state.held.pop(branch_id)
        if commit and any(key not in self.memory for key in held):
            self.state.held[branch_id] = held
            return  # the held message is in pages since a start, and would have to be read first
        batch.end_branch(branch_id, commit)
        for number, (body, queue_ids) in self.state.branches.pop(branch_id).items():
            message = self.waiting.pop(number)
            for queue_id in queue_ids if commit else ():
                self.state.messages[queue_id][number] = (body, 0, 0, True)
                self.memory[queue_id, number] = message
        for queue_id, number in held if commit else ():
            batch.acknowledge(queue_id, self.memory.pop((queue_id, number)))
            del self.state.messages[queue_id][number]

    def put_setting(self, batch: StoreBatch) -> None:
        key = self.rng.choice(("x", "y"))
        self.state.settings["kind", key] = value = str(self.rng.random())
        batch.put_setting("kind", key, value)

    def delete_setting(self, batch: StoreBatch) -> None:
        key = self.rng.choice(("x", "y"))
        self.state.settings.pop(("kind", key), None)
        batch.delete_setting("kind", key)

    def put_address(self, batch: StoreBatch) -> None:
        number = self.rng.choice([*self.state.addresses] or [self.store.next_id()])
        self.state.addresses[number] = name = f"address {self.rng.random()}"
        batch.put_address(AddressRecord(number, name, frozenset({0, 1})))


class Listener:
    """Hears of pages, as paging does."""

    def __init__(self, emptied: Callable[[], object]) -> None:
        self._emptied = emptied

    def arrived(self, queue_id: int, messages: int) -> None:
        pass

    def lost(self, queue_id: int, messages: int) -> None:
        raise AssertionError(f"{messages} messages of queue {queue_id} are lost")

    def emptied(self) -> None:
        self._emptied()


def _xid(branch_id: int) -> Xid:
    return Xid(1, b"branch", branch_id.to_bytes(8, "big"))
