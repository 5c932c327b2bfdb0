"""One LOCAL and two REMOTE handlers whose links lose, delay and repeat what is told: a group has one queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.grouping.grouping import KINDS, GroupingHandler, Pending, Place
from mqbroker.cluster.grouping.local_grouping import KEPT_KIND, LocalGrouping
from mqbroker.cluster.grouping.remote_grouping import RemoteGrouping
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqclient.wire.properties import INT, STRING, TypedValue
from tests.unit.messaging.cluster_support import Node

NODES = range(3)
GROUPS = ("a.q", "b.q")
Told = tuple[str, Mapping[str, TypedValue]]
nodes, groups = st.sampled_from(NODES), st.sampled_from(GROUPS)
pairs = st.sampled_from([(source, target) for source in NODES for target in NODES if source != target])


class Handlers(RuleBasedStateMachine):
    """``routed``: where messages of each group went, because it was decided."""

    planted = ""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = [Node(number + 1) for number in NODES]
        self.nodes[0].store.held = True
        self.names = [f"q{node.node_id}" for node in self.nodes]
        self.gone: set[int] = set()
        self.wires: dict[tuple[int, int], deque[Told]] = {(one, two): deque() for one in NODES for two in NODES if one != two}
        self.up = dict.fromkeys(self.wires, True)
        self.handlers: list[GroupingHandler] = []
        self.routed: dict[str, str] = {}
        self.undurable: list[tuple[str, str, int]] = []

    @initialize()
    def begin(self) -> None:
        for node in self.nodes:
            node.queue("q")
        for one in NODES:
            for two in NODES:
                if one != two:
                    self.nodes[one].learn(self.nodes[two], self.nodes[two].core.queues["q"], consumers=1)
            self.handlers.append(self.make(one))

    def make(self, number: int, kept: Mapping[str, str] | None = None) -> GroupingHandler:
        node = self.nodes[number]
        place = Place(node.core, node.node_id, lambda kind, headers: self.tell(number, kind, headers), lambda text: None)
        configuration = GroupingHandlerConfiguration("g", number == 0, timeout=5000)
        return RemoteGrouping(configuration, place) if number else LocalGrouping(configuration, place, kept or {})

    # --- the network

    def tell(self, number: int, kind: str, headers: Mapping[str, TypedValue]) -> None:
        # As the filter of a cluster connection with max-hops 2.
        if kind in KINDS and headers["_AMQ_Distance"][1] < 2:  # type: ignore[operator]
            for target in NODES:
                if target != number and self.up[number, target]:
                    self.wires[number, target].append((kind, headers))

    def hand_over(self, pair: tuple[int, int], told: Told) -> None:
        self.handlers[pair[1]].told(*told, self.nodes[pair[0]].node_id)

    @rule(pair=pairs, count=st.integers(1, 3), twice=st.booleans())
    def deliver(self, pair: tuple[int, int], count: int, twice: bool) -> None:
        for _ in range(min(count, len(self.wires[pair]))):
            told = self.wires[pair].popleft()
            for _ in range(1 + twice):
                self.hand_over(pair, told)

    @rule(pair=pairs)
    def cut(self, pair: tuple[int, int]) -> None:
        self.up[pair] = False
        self.wires[pair].clear()

    @rule(pair=pairs)
    def link(self, pair: tuple[int, int]) -> None:
        if not self.up[pair]:
            self.up[pair] = True
            self.handlers[pair[1]].linked(self.nodes[pair[0]].node_id)
            self.handlers[pair[0]].repeat()

    @rule(seconds=st.sampled_from((0.0, 0.5, 5.0)))
    def time_passes(self, seconds: float) -> None:
        for node in self.nodes:
            node.clock.advance(seconds)

    # --- brokers

    @rule()
    def written(self) -> None:
        self.nodes[0].store.sync()
        for key, name, _ in self.undurable:
            self.went(key, name)
        self.undurable.clear()

    @rule()
    def local_restarts(self) -> None:
        store = self.nodes[0].store
        self.handlers[0].stop()
        store._waiting.clear()
        self.undurable.clear()
        kept: dict[str, str] = {}
        for batch in store.log[: store.synced]:
            for entry in batch:
                if entry[:2] == ("setting", KEPT_KIND):
                    kept[entry[2]] = entry[3]
                elif entry[:2] == ("delete setting", KEPT_KIND):
                    del kept[entry[2]]
        del store.log[store.synced :]
        store._last = store.synced
        for other in (1, 2):
            for pair in ((0, other), (other, 0)):
                self.cut(pair)
        self.handlers[0] = self.make(0, kept)

    @rule(number=st.sampled_from((1, 2)))
    def remote_restarts(self, number: int) -> None:
        self.handlers[number].stop()
        for other in NODES:
            if other != number:
                self.cut((number, other))
                self.cut((other, number))
        self.handlers[number] = self.make(number)

    @rule(number=st.sampled_from((1, 2)))
    def queue_goes_for_good(self, number: int) -> None:
        """In a quiet hour: what is decided for it is decided anew."""
        if number in self.gone:
            return
        self.heal()
        self.gone.add(number)
        name = self.names[number]
        for each in NODES:
            core = self.nodes[each].core
            if each == number:
                self.nodes[each].messaging.administration.delete_queue(core.queues["q"])
            else:
                core.routing.unbind_remote(core.routing.remote(name))
            self.handlers[each].notified("BINDING_REMOVED", {"_AMQ_ClusterName": (STRING, name), "_AMQ_Distance": (INT, 0)})
        self.routed = {key: other for key, other in self.routed.items() if other != name}
        self.heal()

    def heal(self) -> None:
        for pair in self.wires:
            self.link(pair)
        for _ in range(20):
            self.written()
            self.time_passes(0.0)
            for pair in self.wires:
                self.deliver(pair, 1000, False)

    # --- messages

    @rule(number=nodes, key=groups, proposal=nodes)
    def send(self, number: int, key: str, proposal: int) -> None:
        self.try_to_send(self.handlers[number], number, key, proposal)

    def try_to_send(self, handler: GroupingHandler, number: int, key: str, proposal: int) -> None:
        if handler is not self.handlers[number]:
            return  # the broker is another one by now, and its clients are gone
        if proposal in self.gone:
            proposal = 0
        before = handler.messages_ungrouped
        found = handler.decide(key, lambda: self.names[proposal])
        if isinstance(found, Pending):
            found.waiting.append(lambda: self.try_to_send(handler, number, key, proposal))
            return
        assert found is not None
        if handler.messages_ungrouped > before:
            return
        if not number and handler.ticket > self.nodes[0].store.synced:
            self.undurable.append((key, found, handler.ticket))
        else:
            self.went(key, found)

    def went(self, key: str, name: str) -> None:
        assert self.routed.setdefault(key, name) == name, f"the group {key} is served by {self.routed[key]} and by {name}"

    @invariant()
    def nothing_is_kept_of_what_is_done(self) -> None:
        for handler in self.handlers:
            assert handler.waiting <= len(GROUPS)
            assert set(handler._awaited) == {each.awaited for each in handler._pending.values()} - {None}

    def teardown(self) -> None:
        """Once everything is well again every message goes, and all agree."""
        if not self.handlers:
            return
        for _ in range(12):
            self.heal()
            self.time_passes(5.0)
        assert not any(handler.waiting for handler in self.handlers)
        for key in GROUPS:
            for number in NODES:
                self.try_to_send(self.handlers[number], number, key, number)
                self.heal()
            decided = {self.handlers[number].decide(key, lambda: None) for number in NODES}
            assert len(decided) == 1, decided


class Forgetful(Handlers):
    """A fault: the LOCAL handler forgets its decisions when it is started again."""

    def make(self, number: int, kept: Mapping[str, str] | None = None) -> GroupingHandler:
        return super().make(number, None)


class MachineTests(SynchronousTestCase):
    profile = settings(
        max_examples=30, stateful_step_count=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )

    def test_a_group_has_one_queue(self) -> None:
        run: Any = run_state_machine_as_test
        run(Handlers, settings=self.profile)

    def test_a_planted_fault_is_found(self) -> None:
        run: Any = run_state_machine_as_test
        found = self.assertRaises(
            AssertionError, run, Forgetful, settings=settings(self.profile, max_examples=200, phases=(Phase.generate,))
        )
        self.assertIn("is served by", str(found))
