"""Walks of several brokers on one database, one of which takes the data of another at any moment (:mod:`tests.unit.storage.model`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, Inherited, PageReader, QueueRecord, Recovered, RecoveredBranch, RecoveredReference
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import transaction
from tests.unit.storage.model import State, Walk
from tests.unit.storage.sql.support import SqlRig

NAMES = ("a one", "a two", "b one")
"""Queues; the name begins with the address."""

Entry = tuple[Message, list[RecoveredReference]]


def union(one: State, other: State) -> State:
    """What both have; they share no message."""
    found = deepcopy(one)
    found.queues |= other.queues
    for queue, messages in other.messages.items():
        found.messages.setdefault(queue, {}).update(messages)
    found.duplicates |= other.duplicates
    found.branches |= other.branches
    found.held |= other.held
    return found


class HeirWalk(Walk):
    """A broker of several.  Queues have the same names at all of them, so states are compared by names and not by ids."""

    def __init__(self, rig: SqlRig, seed: int) -> None:
        super().__init__(rig, rig.kill, seed)
        self.sql = rig
        self.names: dict[int, str] = {}
        self.coming: list[State] = [State()]
        """One of these, by names, was given to this broker, which has not taken it over yet."""
        self.foreign: set[int] = set()
        """Ids of messages that were another broker's."""
        self.actions.remove(self.put_address)

    def make_queues(self) -> None:
        for name in NAMES:
            if name not in {self.names[queue_id] for queue_id in self.state.queues}:
                queue_id = self.store.next_id()
                batch = self.store.begin()
                batch.put_queue(QueueRecord(queue_id, name, name[0], 1, None, {"exclusive": True}))
                self.names[queue_id] = name
                self.state.queues[queue_id] = name[0]
                self.state.messages[queue_id] = {}
                self.commit(batch)

    def keys(self, reader: PageReader, unread: list[int]) -> list[int]:
        """What was inherited has greater ids than messages behind it: ask a scan."""
        scan, found = reader.scan(), {}
        while (rows := self.now(scan.read)) is not None:
            found.update(zip(rows.ids, rows.keys, strict=True))
        assert list(found) == unread, (list(found), unread)
        return list(found.values())

    # --- starts

    def expect(self, recovered: Recovered, states: list[State]) -> None:
        recovered = self.joined(recovered)
        found = self.found(recovered)
        wanted = [union(self.named(state.after_a_start()), other) for state in states for other in self.coming]
        assert self.named(found) in wanted, (
            f"{len(wanted)} states would do; to the last: {self.named(found).differences(wanted[-1])}; "
            f"to the first: {self.named(found).differences(wanted[0])}"
        )
        self.coming = [State()]
        self.state = found
        assert self.store.next_id() > self.greatest
        self.begin(recovered)
        self.make_queues()

    def named(self, state: State) -> State:
        """The state with the names of queues in the place of their ids."""
        names = self.names
        found = deepcopy(state)
        found.queues = {names[queue_id]: address for queue_id, address in state.queues.items()}  # type: ignore[misc]
        found.messages = {names[queue_id]: messages for queue_id, messages in state.messages.items()}  # type: ignore[misc]
        found.branches = {
            branch_id: {number: (body, tuple(sorted(names[each] for each in queues))) for number, (body, queues) in messages.items()}
            for branch_id, messages in state.branches.items()
        }  # type: ignore[misc]
        found.held = {branch_id: tuple((names[each], number) for each, number in held) for branch_id, held in state.held.items()}  # type: ignore[misc]
        return found

    def joined(self, recovered: Recovered, known: Iterable[int] = ()) -> Recovered:
        """Take over what was inherited, as messaging does, besides the queues that are ``known``: the result is all of this broker."""
        self.names |= {record.queue_id: record.name for record in recovered.queues}
        own = {self.names[queue_id]: queue_id for queue_id in (*known, *(record.queue_id for record in recovered.queues))}
        for inherited in recovered.inherited:
            self._join(recovered, inherited, own)
        recovered.messages.sort(key=lambda entry: entry[0].message_id)
        recovered.inherited = []
        return recovered

    def _join(self, recovered: Recovered, inherited: Inherited, own: dict[str, int]) -> None:
        found = inherited.found
        for record in found.queues:
            if record.name not in own:
                queue_id = own[record.name] = self.store.next_id()
                self.names[queue_id] = record.name
                batch = self.store.begin()
                batch.put_queue(replace(record, queue_id=queue_id))
                self.store.commit(batch)
                recovered.queues.append(replace(record, queue_id=queue_id))
        here = {record.queue_id: own[record.name] for record in found.queues}
        inherited.assign(here)
        recovered.messages += _translated(found.messages, here)
        recovered.duplicate_ids += found.duplicate_ids
        recovered.branches += [_translated_branch(branch, here) for branch in found.branches]

    # --- a takeover

    def end(self) -> list[State]:
        """The data of this broker are being taken, and it does not know.  Returns what may be there, by names."""
        states = [self.named(state.after_a_start()) for state in self.possible()]
        for state in states:
            state.settings = {}
        return [union(state, other) for state in states for other in self.coming]

    def go_on_in_vain(self) -> None:
        """Whatever this broker does now is refused; then it starts again, with nothing."""
        synced = self.store.synced
        for _ in range(self.rng.randrange(1, 4)):
            self.batch()
        batch = self.store.begin()
        self.put_setting(batch)
        self.commit(batch)
        self.sql.settle()
        assert self.store.failed, "a broker goes on whose data were taken"
        assert self.store.synced == synced, "work was acknowledged that nobody has kept"
        self.sql.failures.clear()
        self.state, self.coming = State(), [State()]
        self.sql.store.abort()
        self.sql.settle()
        recovered = self.sql.start()
        self.expect(recovered, [State()])

    def take_over(self, target: HeirWalk) -> None:
        """Take the data of another broker, which may be at work; end at any point of that."""
        self.coming = [union(one, other) for one in self.coming for other in target.end()]
        for state in self.coming:
            self.foreign.update(*state.messages.values(), *state.branches.values())
        rig = self.sql
        rig.breaking.calm = True
        connection = rig.database.connect()
        with transaction(connection):
            taken = session.switch(connection, target.sql.broker_id, rig.broker_id, rig.store.owner)
        connection.close()
        rig.breaking.calm = False
        assert taken
        target.go_on_in_vain()
        if self.rng.random() < 0.3:
            self.die()
            return
        told: list[tuple[Recovered | None, Exception | None]] = []
        rig.store.inherit(taken, lambda *found: told.append(found))
        for _ in range(self.rng.randrange(3)):
            self.batch()
        if self.rng.random() < 0.2:
            self.die()
            return
        self.sql.settle()
        [(recovered, error)] = told
        assert recovered is not None and error is None, error
        self._merge(recovered)

    def _merge(self, inherited: Recovered) -> None:
        """The data have come, while this broker has served."""
        came = {record.name for each in inherited.inherited for record in each.found.queues}
        part = self.joined(inherited, self.state.queues)
        found = State()
        mine = {name: queue_id for queue_id, name in self.names.items() if queue_id in self.state.queues}
        mine |= {record.name: record.queue_id for record in part.queues}
        found.queues = {mine[name]: name[0] for name in came}
        found.messages = {mine[name]: {} for name in came}
        for message, references in part.messages:
            for each in references:
                found.messages[each.queue_id][message.message_id] = (self.body(message), each.delivery_count, each.scheduled, True)
                self.memory[each.queue_id, message.message_id] = message
        for entry in part.duplicate_ids:
            cache, earlier = found.duplicates.get(entry.record_id, (entry.cache, ()))
            found.duplicates[entry.record_id] = (cache, (*earlier, entry.duplicate_id))
        for branch in part.branches:
            number = branch.record.branch_id
            found.held[number] = branch.record.acknowledged
            found.branches[number] = {
                message.message_id: (self.body(message), tuple(sorted(each.queue_id for each in references)))
                for message, references in branch.messages
            }
            self.waiting |= {message.message_id: message for message, _ in branch.messages}
        self._merge_pages(found)
        assert self.named(found) in self.coming, self.named(found).differences(self.coming[-1])
        self.coming = [State()]
        self.state = union(self.state, found)
        self.states = {ticket: union(state, found) for ticket, state in self.states.items()}
        numbers = [number for messages in found.messages.values() for number in messages]
        assert self.store.next_id() > max(numbers, default=0), "a new id is not above all that came"

    def _merge_pages(self, found: State) -> None:
        """What came is in front of everything that was not read."""
        pager = self.store.pager
        assert pager is not None
        for folder in pager.folders():
            if folder.listener is None:
                folder.listener = self.listener(folder.address)
            for queue_id in folder.queue_ids():
                reader = self.readers.setdefault((folder.address, queue_id), folder.reader(queue_id))
                known = self.paged.get(queue_id, {})
                looked = self.look(reader)
                for entry in looked:
                    number = entry.message.message_id
                    if number not in known:
                        found.messages[queue_id][number] = (self.body(entry.message), entry.delivery_count, entry.scheduled or 0, True)
                ids = [entry.message.message_id for entry in looked]
                own = [number not in self.foreign for number in ids]
                assert own == sorted(own), "what came is not before what this broker had"
                self.paged[queue_id] = {**dict.fromkeys(ids, folder.address), **known}


class Family:
    """Brokers of one database.  ``make`` makes the rig of one by its broker id and a seed."""

    def __init__(self, make: Callable[[str, int], SqlRig], seed: int, brokers: int = 3) -> None:
        self.rng = random.Random(seed)
        self.walks = [HeirWalk(make(f"b{number}", seed * 10 + number), seed * 10 + number) for number in range(brokers)]

    def run(self, steps: int) -> int:
        """Returns how often one has taken over another."""
        takeovers = 0
        for walk in self.walks:
            walk.joined(recovered := walk.sql.start())
            walk.begin(recovered)
            walk.make_queues()
        for _ in range(steps):
            walk = self.rng.choice(self.walks)
            if self.rng.random() < 0.04:
                target = self.rng.choice([each for each in self.walks if each is not walk])
                walk.take_over(target)
                takeovers += 1
            else:
                functions, weights = zip(*walk.steps, strict=True)
                self.rng.choices(functions, weights)[0]()
            assert not walk.sql.failures, walk.sql.failures
        for walk in self.walks:
            walk.stop()
        return takeovers


def _translated(entries: list[Entry], here: Mapping[int, int]) -> list[Entry]:
    return [(message, [replace(each, queue_id=here[each.queue_id]) for each in references]) for message, references in entries]


def _translated_branch(branch: RecoveredBranch, here: Mapping[int, int]) -> RecoveredBranch:
    record: BranchRecord = branch.record
    held = tuple((here[queue_id], number) for queue_id, number in record.acknowledged)
    return RecoveredBranch(replace(record, acknowledged=held), _translated(branch.messages, here))
