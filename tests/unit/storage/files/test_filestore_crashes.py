"""Random work, and a crash at any moment that loses or tears any part of what was not synced.

After each restart: whatever was acknowledged is there, no batch is there by half, batches of one journal are there up to some point and
none after it, message bytes are those that were sent, no id comes twice.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from unittest import TestCase

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import (
    AddressRecord,
    BranchRecord,
    BranchState,
    QueueRecord,
    Recovered,
    RecoveredReference,
    StoreBatch,
)
from mqclient.wire.message import CoreMessage
from mqclient.wire.primitives import Xid
from tests.support.disk import SimulatedCrash
from tests.unit.storage.support import LARGE, Rig, make_message

References = dict[int, tuple[int, int]]


@dataclass
class ModelBranch:
    """What a branch has sent and acknowledged, and what has become of it."""

    state: BranchState
    messages: dict[int, References] = field(default_factory=dict)
    acknowledged: tuple[tuple[int, int], ...] = ()


@dataclass
class Model:
    """What a store would hold if nothing could go wrong."""

    messages: dict[int, References] = field(default_factory=dict)
    duplicates: dict[int, bytes] = field(default_factory=dict)
    queues: set[int] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)
    branches: dict[int, ModelBranch] = field(default_factory=dict)

    def delete_queues_but(self, queues: set[int]) -> Model:
        """The same without references to other queues, and without the messages that have none left."""
        branches = {
            branch_id: ModelBranch(branch.state, routed(branch.messages, queues), branch.acknowledged)
            for branch_id, branch in self.branches.items()
        }
        return Model(routed(self.messages, queues), self.duplicates, queues, self.settings, branches)

    def message_ids(self) -> set[int]:
        return set(self.messages).union(*(branch.messages for branch in self.branches.values()))


def routed(messages: dict[int, References], queues: set[int]) -> dict[int, References]:
    """The messages as far as their queues exist."""
    left = {}
    for message_id, references in messages.items():
        known = {queue_id: details for queue_id, details in references.items() if queue_id in queues}
        if known:
            left[message_id] = known
    return left


@dataclass
class Step:
    """The model after one committed batch, and what the batch touched."""

    ticket: int
    model: Model
    has_messages: bool
    has_bindings: bool


def table(messages: list[tuple[Message, list[RecoveredReference]]]) -> dict[int, References]:
    return {
        message.message_id: {each.queue_id: (each.delivery_count, each.scheduled) for each in references}
        for message, references in messages
    }


def all_messages(recovered: Recovered) -> list[Message]:
    branches = [message for branch in recovered.branches for message, _ in branch.messages]
    return [message for message, _ in recovered.messages] + branches


def content_of(recovered: Recovered) -> Model:
    return Model(
        table(recovered.messages),
        {entry.record_id: entry.duplicate_id for entry in recovered.duplicate_ids},
        {queue.queue_id for queue in recovered.queues},
        {key: value for (_, key), value in recovered.settings.items()},
        {
            branch.record.branch_id: ModelBranch(branch.record.state, table(branch.messages), branch.record.acknowledged)
            for branch in recovered.branches
        },
    )


class StoreMachine(RuleBasedStateMachine):
    """One disk, one broker process after the other."""

    datasync = True

    @initialize(
        seed=st.integers(0, 2**32),
        size=st.sampled_from((1024, 2048, 8192)),
        min_files=st.sampled_from((0, 1, 3)),
        percentage=st.sampled_from((30, 100)),
    )
    def begin(self, seed: int, size: int, min_files: int, percentage: int) -> None:
        self.rig = Rig(
            seed,
            journal_file_size=size,
            bindings_file_size=1024,
            journal_compact_min_files=min_files,
            journal_compact_percentage=percentage,
            journal_datasync=self.datasync,
        )
        self.rng = self.rig.rng
        self.live: dict[int, Message] = {}
        self.buffers: dict[int, bytes] = {}
        self.bodies: dict[int, bytes] = {}
        self.highest_id = 0
        self.batch: StoreBatch
        self.adopt(self.rig.start())

    # The model.

    def adopt(self, recovered: Recovered) -> None:
        """What a start has recovered is the truth from now on."""
        self.model = content_of(recovered)
        self.history = [Step(self.rig.store.ticket(), deepcopy(self.model), True, True)]
        self.live = {message.message_id: message for message in all_messages(recovered)}

    def check(self, recovered: Recovered, synced: int) -> None:
        """Is this what the disk may hold, when all up to ``synced`` was acknowledged?"""
        found = content_of(recovered)
        safe = max(index for index, step in enumerate(self.history) if step.ticket <= synced)
        assert any(
            self.fits(found, bindings, messages)
            for bindings in range(safe, len(self.history))
            for messages in range(safe, len(self.history))
        ), f"not any state since the last acknowledged one: {found}\nacknowledged: {self.history[safe]}\nlast: {self.history[-1]}"
        for message in all_messages(recovered):
            assert message.buffer == self.buffers[message.message_id]
            if message.message_id in self.bodies:
                assert message.large is not None
                assert message.large.read(0, 1 << 20) == self.bodies[message.message_id]
        assert [message.message_id for message, _ in recovered.messages] == sorted(found.messages)
        bodies = {f"{message.large.body_id}.msg" for message in all_messages(recovered) if message.large is not None}
        assert set(self.rig.disk.list(LARGE)) == bodies, "a body without message, or the other way round"

    def fits(self, found: Model, bindings: int, messages: int) -> bool:
        """Is it the bindings after one batch and the messages after another, with no batch in between that touches both?"""
        low, high = sorted((bindings, messages))
        if any(step.has_messages and step.has_bindings for step in self.history[low + 1 : high + 1]):
            return False
        if messages > bindings and any(step.has_bindings for step in self.history[low + 1 : high + 1]):
            return False
        stored, bound = self.history[messages].model, self.history[bindings].model
        return (
            found.queues == bound.queues
            and found.settings == bound.settings
            and found.duplicates == stored.duplicates
            and (kept := stored.delete_queues_but(bound.queues)).messages == found.messages
            and kept.branches == found.branches
        )

    def next_id(self) -> int:
        number = self.rig.store.next_id()
        assert number > self.highest_id, "an id was used twice"
        self.highest_id = number
        return number

    def commit(self, has_messages: bool, has_bindings: bool) -> None:
        ticket = self.rig.store.commit(self.batch)
        assert ticket > self.history[-1].ticket
        self.history.append(Step(ticket, deepcopy(self.model), has_messages, has_bindings))

    def restarted(self, synced: int) -> None:
        while True:
            try:
                recovered = self.rig.start()
                break
            except SimulatedCrash:
                self.rig.disk.crash()
        self.check(recovered, synced)
        self.adopt(recovered)

    # Pieces of batches.

    def add(self, queue_ids: list[int], size: int, branch_id: int = 0) -> None:
        message = make_message(self.rig.store, self.rng.randbytes(size))
        self.keep(message, queue_ids, branch_id)

    def add_large(self, queue_ids: list[int], size: int, branch_id: int = 0) -> None:
        body: LargeBody = self.rig.store.create_large_body(self.next_id())
        content = self.rng.randbytes(size)
        for start in range(0, size, 1000):
            body.append(content[start : start + 1000])
        body.complete()
        message = Message.of(CoreMessage(message_id=self.next_id(), address="a", durable=True), body)
        self.bodies[message.message_id] = content
        self.keep(message, queue_ids, branch_id)

    def keep(self, message: Message, queue_ids: list[int], branch_id: int) -> None:
        assert message.message_id > self.highest_id or message.large is not None
        self.highest_id = max(self.highest_id, message.message_id)
        messages = self.model.messages
        if branch_id:
            self.batch.add_prepared(branch_id, message, queue_ids)
            messages = self.model.branches[branch_id].messages
        else:
            self.batch.add_message(message, queue_ids)
        self.live[message.message_id] = message
        self.buffers[message.message_id] = message.buffer
        messages[message.message_id] = dict.fromkeys(queue_ids, (0, 0))

    def settle_one(self) -> None:
        """Acknowledge, count or schedule some reference."""
        if not self.model.messages:
            return
        message_id = self.rng.choice(sorted(self.model.messages))
        references = self.model.messages[message_id]
        queue_id = self.rng.choice(sorted(references))
        message = self.live[message_id]
        what = self.rng.randrange(5)
        if what == 0:
            number = self.rng.randrange(10)
            self.batch.delivery_count(queue_id, message, number)
            references[queue_id] = (number, references[queue_id][1])
        elif what == 1:
            number = self.rng.randrange(10)
            self.batch.schedule(queue_id, message, number)
            references[queue_id] = (references[queue_id][0], number)
        else:
            self.acknowledge(queue_id, message_id)

    def acknowledge(self, queue_id: int, message_id: int) -> None:
        message, references = self.live[message_id], self.model.messages[message_id]
        self.batch.acknowledge(queue_id, message)
        del references[queue_id]
        if not references:
            del self.model.messages[message_id]
            self.released.append(message)

    def some_queues(self) -> list[int]:
        return self.rng.sample(sorted(self.model.queues), min(len(self.model.queues), self.rng.randint(1, 2)))

    def new_queue(self) -> int:
        queue_id = self.next_id()
        self.batch.put_queue(QueueRecord(queue_id, f"q{queue_id}", "a", 1))
        self.model.queues.add(queue_id)
        return queue_id

    def new_batch(self) -> None:
        self.batch = self.rig.store.begin()
        self.released: list[Message] = []

    def finish(self, has_messages: bool, has_bindings: bool) -> None:
        self.commit(has_messages, has_bindings)
        for message in self.released:
            del self.live[message.message_id]
            if message.large is not None:
                message.large.release()

    # Rules.

    @rule()
    def bindings_only(self) -> None:
        self.new_batch()
        self.new_queue()
        key = f"k{self.rng.randrange(3)}"
        self.batch.put_setting("kind", key, str(self.highest_id))
        self.batch.put_address(AddressRecord(self.next_id(), "a", frozenset({1})))
        self.model.settings[key] = str(self.highest_id - 1)
        self.finish(False, True)

    @precondition(lambda self: len(self.model.queues) > 1)
    @rule()
    def delete_queue(self) -> None:
        queue_id = self.rng.choice(sorted(self.model.queues))
        self.new_batch()
        self.batch.delete_queue(queue_id)
        self.model.queues.discard(queue_id)
        self.model = self.model.delete_queues_but(self.model.queues)
        for message_id in sorted(set(self.live) - self.model.message_ids()):
            self.released.append(self.live[message_id])
        self.finish(False, True)

    @precondition(lambda self: self.model.queues)
    @rule(count=st.integers(1, 4), size=st.sampled_from((0, 50, 700, 3000)))
    def messages_only(self, count: int, size: int) -> None:
        self.new_batch()
        for _ in range(count):
            self.add(self.some_queues(), size)
        if self.rng.random() < 0.3:
            record_id = self.next_id()
            self.batch.add_duplicate_id("a", b"id%d" % record_id, record_id)
            self.model.duplicates[record_id] = b"id%d" % record_id
        self.finish(True, False)

    @precondition(lambda self: self.model.queues and self.datasync)
    @rule(size=st.sampled_from((1, 999, 5000)))
    def large_message(self, size: int) -> None:
        self.new_batch()
        self.add_large(self.some_queues(), size)
        self.finish(True, False)

    @precondition(lambda self: self.model.queues)
    @rule(count=st.integers(0, 3), size=st.sampled_from((0, 50, 700, 3000)), acknowledged=st.integers(0, 3), large=st.booleans())
    def prepare(self, count: int, size: int, acknowledged: int, large: bool) -> None:
        self.new_batch()
        branch_id = self.next_id()
        places = [(queue_id, message_id) for message_id, references in self.model.messages.items() for queue_id in references]
        pairs = tuple(self.rng.sample(places, min(acknowledged, len(places))))
        self.model.branches[branch_id] = ModelBranch(BranchState.PREPARED, {}, pairs)
        self.batch.put_branch(BranchRecord(branch_id, Xid(1, b"b", b"%d" % branch_id), BranchState.PREPARED, 1, pairs))
        for _ in range(count):
            self.add(self.some_queues(), size, branch_id)
        if large and self.datasync:
            self.add_large(self.some_queues(), size + 1, branch_id)
        self.finish(True, False)

    @precondition(lambda self: self.model.branches)
    @rule(commit=st.booleans(), heuristic=st.booleans())
    def end_branch(self, commit: bool, heuristic: bool) -> None:
        """By its transaction manager, or before that by management; or it is forgotten after that."""
        self.new_batch()
        branch_id = self.rng.choice(sorted(self.model.branches))
        branch = self.model.branches.pop(branch_id)
        self.batch.end_branch(branch_id, commit)
        if commit:
            for queue_id, message_id in branch.acknowledged:
                if queue_id in self.model.messages.get(message_id, ()):
                    self.acknowledge(queue_id, message_id)
            self.model.messages.update(branch.messages)
        else:
            self.released += [self.live[message_id] for message_id in branch.messages]
        if heuristic and branch.state is BranchState.PREPARED:
            outcome = BranchState.COMMITTED if commit else BranchState.ROLLED_BACK
            self.batch.put_branch(BranchRecord(branch_id, Xid(1, b"b", b"%d" % branch_id), outcome, 1))
            self.model.branches[branch_id] = ModelBranch(outcome)
        self.finish(True, False)

    @precondition(lambda self: self.model.messages)
    @rule(count=st.integers(1, 12))
    def settlements(self, count: int) -> None:
        self.new_batch()
        for _ in range(count):
            self.settle_one()
        if self.model.duplicates and self.rng.random() < 0.5:
            record_id = min(self.model.duplicates)
            self.batch.delete_duplicate_id(record_id)
            del self.model.duplicates[record_id]
        self.finish(True, False)

    @rule(size=st.sampled_from((10, 1500)))
    def both_journals(self, size: int) -> None:
        self.new_batch()
        queue_id = self.new_queue()
        self.add([queue_id], size)
        self.settle_one()
        self.finish(True, True)

    @rule()
    def turn(self) -> None:
        self.rig.clock.run_due()

    @rule()
    def write(self) -> None:
        self.rig.writer.run_one()

    @rule()
    def settle(self) -> None:
        self.rig.settle()
        assert self.rig.store.synced == self.rig.store.ticket()

    @rule()
    def orderly_restart(self) -> None:
        self.rig.stop()
        last = self.history[-1].ticket
        self.restarted(last)

    @rule()
    def process_killed(self) -> None:
        """What the process wrote is in the page cache, and a later crash of the machine must not take it back."""
        synced = self.rig.store.synced
        self.rig.disk.end_process()
        self.restarted(synced)

    @rule(after=st.integers(0, 40), during_restart=st.integers(0, 60))
    def machine_crashes(self, after: int, during_restart: int) -> None:
        """In the middle of writing, and perhaps once more while it starts again."""
        self.rig.disk.crash_after = after
        try:
            self.rig.settle()
        except SimulatedCrash:
            pass
        synced = self.rig.store.synced if self.datasync else self.history[0].ticket
        self.rig.disk.crash()
        self.rig.disk.crash_after = during_restart
        self.restarted(synced)
        self.rig.disk.crash_after = None

    @rule(begun=st.booleans(), written=st.booleans(), during_end=st.integers(0, 40))
    def refused_start(self, begun: bool, written: bool, during_end: int) -> None:
        """After an orderly stop a start fails late, and the machine may crash while it takes back what it has written."""
        self.rig.stop()
        last = self.history[-1].ticket
        before = {path: content for path, content in self.rig.disk.files().items() if not path.startswith(LARGE)}
        store = self.rig.make()
        store.open()
        store.load()
        if begun:
            batch = store.begin()
            queue_id = store.next_id()  # of which nobody hears, so that it may be given again
            self.model.queues.add(queue_id)
            batch.put_queue(QueueRecord(queue_id, "deployed", "deployed", 1))
            store.commit(batch)
            self.history.append(Step(last + 1, deepcopy(self.model), False, True))
            if written:
                store.flush()
        self.rig.disk.crash_after = during_end
        store.withdraw()
        try:
            self.rig.settle()
        except SimulatedCrash:
            self.rig.disk.crash()
        else:
            self.rig.disk.crash_after = None
            after = {path: content for path, content in self.rig.disk.files().items() if not path.startswith(LARGE)}
            assert after.items() <= before.items(), "something else than a file that nobody names is not as it was"
        self.rig.disk.crash_after = None
        self.restarted(last)

    @invariant()
    def never_fails(self) -> None:
        assert not self.rig.failures


class UnsyncedStoreMachine(StoreMachine):
    """``journal-datasync`` is false: the end of the machine may cost what was acknowledged, but no batch by half.

    Except large messages, whose files may be removed before the record that says so.
    """

    datasync = False


def run(machine: Any, examples: int, steps: int) -> None:
    """Without shrinking, which takes minutes here; what is printed replays the failure."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.reuse, Phase.generate),
            print_blob=True,
        ),
    )


class CrashTests(TestCase):
    def test_nothing_acknowledged_is_lost(self) -> None:
        run(StoreMachine, 120, 60)

    def test_without_datasync_nothing_is_there_by_half(self) -> None:
        run(UnsyncedStoreMachine, 60, 50)
