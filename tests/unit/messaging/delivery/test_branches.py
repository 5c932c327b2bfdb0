"""Random work in XA branches against a small model, with restarts and crashes at any moment.

After every step the queues, what branches hold of them and the accounts are as the model says.  After a restart they are as they were after
some step, none before the last one that was durable; a branch is there as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from unittest import TestCase

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.messaging.delivery.branches import XACode, XAError, xid_base64
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchState, Recovered
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.node.messaging import messaging_of
from mqclient.errors import DuplicateIdRejectedError
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import STRING
from tests.support.disk import SimulatedCrash
from tests.unit.storage.support import Rig

QUEUES = ("q", "r")
"""Both on one multicast address: each message is in both."""
OWNERS = ("one", "two")
NAMES = range(4)
DUPLICATES = st.sampled_from((None, None, "x", "y", "z"))
TIMEOUT_MS = 50_000


@dataclass
class ModelBranch:
    owner: str | None
    sends: list[int] = field(default_factory=list)
    taken: list[tuple[str, int]] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    prepared: bool = False
    failed: bool = False


@dataclass
class Model:
    """Messages are numbers, ascending as they were sent.  ``queues`` have what is visible and what branches have taken, in order."""

    queues: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in QUEUES})
    branches: dict[int, ModelBranch] = field(default_factory=dict)
    decided: dict[int, bool] = field(default_factory=dict)
    duplicates: set[str] = field(default_factory=set)

    def waiting(self, queue: str) -> list[int]:
        taken = {place for branch in self.branches.values() for place in branch.taken}
        return [number for number in self.queues[queue] if (queue, number) not in taken]

    def after_restart(self) -> Model:
        """What is left of it: no branch that was not prepared, and every queue in the order of sending."""
        model = deepcopy(self)
        model.branches = {name: branch for name, branch in model.branches.items() if branch.prepared}
        for branch in model.branches.values():
            branch.owner = None
        for queue in model.queues.values():
            queue.sort()
        return model

    def commit(self, name: int) -> None:
        branch = self.branches.pop(name)
        for queue, number in branch.taken:
            self.queues[queue].remove(number)
        for queue in QUEUES:
            self.queues[queue] += branch.sends
        self.duplicates.update(branch.duplicates)

    def roll_back(self, name: int) -> None:
        branch = self.branches.pop(name)
        if branch.prepared:
            self.duplicates.difference_update(branch.duplicates)


def xid(name: int) -> Xid:
    return Xid(1, b"branch", b"%d" % name)


class BranchMachine(RuleBasedStateMachine):
    """One disk, one broker after the other."""

    @initialize(seed=st.integers(0, 2**32), size=st.sampled_from((1024, 4096)))
    def begin(self, seed: int, size: int) -> None:
        self.rig = Rig(seed, journal_file_size=size, bindings_file_size=4096, journal_compact_min_files=1, journal_compact_percentage=100)
        self.rng = self.rig.rng
        self.sent = 0
        self.model = Model()
        self.start(self.rig.start())
        for name in QUEUES:
            self.messaging.administration.create_queue(QueueConfiguration(name=name, address="a", routing_type=0, durable=True))
        self.rig.settle()
        self.history = [(self.rig.store.ticket(), deepcopy(self.model))]

    def start(self, recovered: Recovered) -> None:
        configuration = Configuration(transaction_timeout=TIMEOUT_MS, transaction_timeout_scan_period=1000)
        self.messaging = messaging_of(configuration, self.rig.store, recovered, self.rig.clock, lambda: 0.5)
        self.context = OperationContext(self.rig.store)
        self.working: dict[int, Any] = {}
        self.branches = self.messaging.branches

    # --- what must be true

    def done(self) -> None:
        """After a step: the broker agrees with the model, once what it has caused is visible."""
        self.history.append((self.rig.store.ticket(), deepcopy(self.model)))
        if self.rng.random() < 0.6:
            self.rig.settle()
            self.compare()

    def compare(self) -> None:
        core = self.messaging.core
        model = self.model
        sends = sum(len(branch.sends) for branch in model.branches.values())
        for name in QUEUES:
            queue = core.queues[name]
            assert [number_of(reference) for reference in queue.references] == model.waiting(name)
            assert queue.message_count == len(model.queues[name])
            assert queue.arriving == sends
        messages = {number for queue_numbers in model.queues.values() for number in queue_numbers}
        assert core.addresses["a"].memory.messages == len(messages) + sends
        cache = core.known_duplicate_ids("a")
        known = {text for text in ("x", "y", "z") if cache is not None and text.encode("utf-16-le") in cache}
        assert known == model.duplicates
        prepared = {name for name, branch in model.branches.items() if branch.prepared}
        assert {branch.xid for branch in self.branches.prepared()} == {xid(name) for name in prepared}
        assert set(self.branches.in_doubt()) == {xid(name) for name in prepared | set(model.decided)}
        for committed, outcome in ((True, BranchState.COMMITTED), (False, BranchState.ROLLED_BACK)):
            names = {name for name, how in model.decided.items() if how is committed}
            assert {record.xid for record in self.branches.decided(outcome)} == {xid(name) for name in names}

    def found(self) -> tuple[Any, ...]:
        """What a restart has brought, in the form of :func:`shape`."""
        core = self.messaging.core
        return (
            {name: [number_of(reference) for reference in core.queues[name].references] for name in QUEUES},
            {
                branch.xid: (
                    sorted(number_of_message(message) for message, _ in branch.transaction.sends),
                    sorted((reference.queue.name, number_of(reference)) for reference in branch.transaction.acknowledged),
                )
                for branch in self.branches.prepared()
            },
            {record.xid for state in (BranchState.COMMITTED, BranchState.ROLLED_BACK) for record in self.branches.decided(state)},
        )

    def restarted(self, synced: int) -> None:
        while True:
            try:
                recovered = self.rig.start()
                break
            except SimulatedCrash:
                self.rig.disk.crash()
        self.start(recovered)
        safe = max(index for index, (ticket, _) in enumerate(self.history) if ticket <= synced)
        candidates = [model.after_restart() for _, model in self.history[safe:]]
        found = self.found()
        fitting = [model for model in candidates if shape(model) == found]
        assert fitting, f"not any state since the last durable one: {found}\nmodels: {candidates}"
        self.model = fitting[-1]
        self.compare()
        self.history = [(self.rig.store.ticket(), deepcopy(self.model))]

    def refused(self, code: XACode, function: Callable[..., object], *args: Any) -> None:
        try:
            function(*args)
        except XAError as error:
            assert error.code is code, (error.code, code)
        else:
            raise AssertionError(f"not refused with {code}")

    # --- work

    def send(self, duplicate: str | None, transaction: Any = None) -> int:
        self.sent += 1
        content = CoreMessage(address="a", durable=True, body=b"%d" % self.sent)
        if duplicate is not None:
            content.properties["_AMQ_DUPL_ID"] = (STRING, duplicate)
        message = Message.received(encode_message(content), self.rig.store.next_id())
        self.messaging.sending.send(message, "a", None, 0, self.context, transaction)
        return self.sent

    @rule(duplicate=DUPLICATES)
    def plain_send(self, duplicate: str | None) -> None:
        number = self.send(duplicate)
        if duplicate not in self.model.duplicates:
            for queue in self.model.queues.values():
                queue.append(number)
            if duplicate is not None:
                self.model.duplicates.add(duplicate)
        self.done()

    @precondition(lambda self: self.names(free=True))
    @rule(
        owner=st.sampled_from(OWNERS),
        sends=st.lists(DUPLICATES, max_size=3),
        takes=st.lists(st.sampled_from(QUEUES), max_size=3),
        prepared=st.booleans(),
    )
    def begin_branch(self, owner: str, sends: list[str | None], takes: list[str], prepared: bool) -> None:
        name = self.rng.choice(self.names(free=True))
        self.branches.start(xid(name), owner)
        self.model.branches[name] = ModelBranch(owner)
        for duplicate in sends:
            self.send_in_branch(name, duplicate)
        for queue in takes:
            self.take_in_branch(name, queue)
        self.done()
        if prepared:
            self.prepare(name)

    def names(self, *, prepared: bool = False, free: bool = False) -> list[int]:
        """The branches in this state."""
        if free:
            return [name for name in NAMES if name not in self.model.branches and name not in self.model.decided]
        return [name for name, branch in self.model.branches.items() if branch.prepared is prepared]

    @precondition(lambda self: self.names())
    @rule(duplicate=DUPLICATES, queue=st.sampled_from(QUEUES))
    def work_on(self, duplicate: str | None, queue: str) -> None:
        name = self.rng.choice(self.names())
        self.send_in_branch(name, duplicate)
        self.take_in_branch(name, queue)
        self.done()

    def send_in_branch(self, name: int, duplicate: str | None) -> None:
        branch = self.model.branches[name]
        number = self.send(duplicate, self.branches.find(xid(name)).transaction)
        if duplicate is not None and duplicate in self.model.duplicates:
            branch.failed = True
            return
        branch.sends.append(number)
        if duplicate is not None:
            branch.duplicates.append(duplicate)

    def take_in_branch(self, name: int, queue: str) -> None:
        self.rig.settle()
        waiting = self.model.waiting(queue)
        if not waiting:
            return
        number = self.rng.choice(waiting)
        served = self.messaging.core.queues[queue]
        (reference,) = (each for each in served.references if number_of(each) == number)
        served.take(reference)
        reference.delivery_count += 1
        self.branches.find(xid(name)).transaction.acknowledged.append(reference)
        self.model.branches[name].taken.append((queue, number))

    # --- ends

    @precondition(lambda self: self.model.branches or self.model.decided)
    @rule(wanted=st.sampled_from(("prepare", "prepare", "commit", "roll_back", "decide", "forget", "refusals")))
    def end(self, wanted: str) -> None:
        possible = {
            "prepare": self.names(),
            "commit": self.model.branches,
            "roll_back": self.model.branches,
            "decide": self.names(prepared=True),
            "forget": self.model.decided,
            "refusals": NAMES,
        }
        if possible[wanted]:
            getattr(self, wanted)()

    def prepare(self, name: int | None = None) -> None:
        if name is None:
            name = self.rng.choice(self.names())
        branch = self.model.branches[name]
        failed = branch.failed or self.model.duplicates.intersection(branch.duplicates)
        try:
            self.branches.prepare(xid(name))
            assert not failed
            branch.prepared = True
            branch.owner = None
            self.model.duplicates.update(branch.duplicates)
        except DuplicateIdRejectedError:
            assert failed
            self.model.branches[name] = ModelBranch(branch.owner, failed=True)
        self.done()

    def commit(self) -> None:
        name = self.rng.choice(sorted(self.model.branches))
        branch = self.model.branches[name]
        self.refused(XACode.WRONG_STATE, self.branches.commit, xid(name), branch.prepared, self.context)
        failed = not branch.prepared and (branch.failed or self.model.duplicates.intersection(branch.duplicates))
        try:
            self.branches.commit(xid(name), not branch.prepared, self.context)
            assert not failed
            self.model.commit(name)
        except DuplicateIdRejectedError:
            assert failed
            self.model.roll_back(name)
        self.done()

    def roll_back(self) -> None:
        name = self.rng.choice(sorted(self.model.branches))
        self.branches.rollback(xid(name))
        self.model.roll_back(name)
        self.done()

    def decide(self) -> None:
        commit = self.rng.random() < 0.5
        name = self.rng.choice(self.names(prepared=True))
        assert self.branches.decide(xid_base64(xid(name)), commit=commit)
        if commit:
            self.model.commit(name)
        else:
            self.model.roll_back(name)
        self.model.decided[name] = commit
        self.done()

    def forget(self) -> None:
        name = self.rng.choice(sorted(self.model.decided))
        code = XACode.HEURISTIC_COMMIT if self.model.decided.pop(name) else XACode.HEURISTIC_ROLLBACK
        self.refused(code, self.branches.commit, xid(name), False, self.context)
        self.refused(code, self.branches.rollback, xid(name))
        self.branches.forget(xid(name))
        self.done()

    def refusals(self) -> None:
        for name in NAMES:
            if name in self.model.branches or name in self.model.decided:
                self.refused(XACode.DUPLICATE_XID, self.branches.start, xid(name), "one")
            else:
                for request in (self.branches.prepare, self.branches.rollback, self.branches.forget):
                    self.refused(XACode.UNKNOWN_XID, request, xid(name))
            if name not in self.names(prepared=True):
                assert not self.branches.decide(xid_base64(xid(name)), commit=True)

    def connection_ends(self) -> None:
        owner = self.rng.choice(OWNERS)
        self.branches.abandon(owner)
        for name in [name for name, branch in self.model.branches.items() if branch.owner == owner]:
            self.model.roll_back(name)
        self.done()

    def time_passes(self) -> None:
        self.rig.clock.advance(TIMEOUT_MS / 1000 + 2)
        for name in [name for name, branch in self.model.branches.items() if not branch.prepared]:
            self.model.roll_back(name)
        self.done()

    # --- the disk and the machine

    @rule(times=st.integers(1, 3))
    def write(self, times: int) -> None:
        for _ in range(times):
            self.rig.clock.run_due()
            self.rig.writer.run_one()

    @rule(
        what=st.sampled_from(("connection_ends", "time_passes", "orderly_restart", "process_killed", "machine_crashes", "machine_crashes"))
    )
    def trouble(self, what: str) -> None:
        if self.rng.random() < 0.3:
            getattr(self, what)()

    def orderly_restart(self) -> None:
        self.messaging.stop()
        self.rig.stop()
        self.restarted(self.history[-1][0])

    def process_killed(self) -> None:
        self.messaging.stop()
        synced = self.rig.store.synced
        self.rig.disk.end_process()
        self.restarted(synced)

    def machine_crashes(self) -> None:
        """In the middle of writing, and perhaps once more while it starts again."""
        self.rig.disk.crash_after = self.rng.randrange(20)
        try:
            self.rig.settle()
        except SimulatedCrash:
            pass
        self.messaging.stop()
        synced = self.rig.store.synced
        self.rig.disk.crash()
        self.rig.disk.crash_after = self.rng.randrange(60)
        self.restarted(synced)
        self.rig.disk.crash_after = None

    def teardown(self) -> None:
        assert not self.rig.failures


def number_of_message(message: Message) -> int:
    return int(message.decoded().body)


def number_of(reference: Reference) -> int:
    return number_of_message(reference.message)


def shape(model: Model) -> tuple[Any, ...]:
    return (
        {name: model.waiting(name) for name in QUEUES},
        {xid(name): (sorted(branch.sends), sorted(branch.taken)) for name, branch in model.branches.items()},
        {xid(name) for name in model.decided},
    )


class BranchMachineTests(TestCase):
    def test_branches_do_as_the_model_does(self) -> None:
        run_state_machine_as_test(
            BranchMachine,
            settings=settings(
                max_examples=120,
                stateful_step_count=50,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.reuse, Phase.generate),
                print_blob=True,
            ),
        )
