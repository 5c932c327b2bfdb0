"""The choice in a group of bindings, against a small model of it."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mqbroker.messaging.queues.definitions import ANYCAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.properties import STRING
from tests.unit.messaging.cluster_support import Node
from tests.unit.messaging.support import Collector

COLOURS = ("red", "blue")
filters = st.sampled_from((None, *COLOURS))


def text(colour: str | None) -> str | None:
    return None if colour is None else f"colour = '{colour}'"


@dataclass(eq=False)
class Modelled:
    """One binding as the model knows it: its own filter, the filters of its consumers, and whether there is a link."""

    thing: Queue | RemoteBinding
    local: bool
    own: str | None
    consumers: list[str | None]
    connected: bool = True

    def matches(self, colour: str) -> bool:
        return self.own in (None, colour)

    def wants(self, colour: str) -> bool:
        return any(each in (None, colour) for each in self.consumers)


class Choice(RuleBasedStateMachine):
    """Local and remote queues of one anycast address come and go, with their consumers; every message goes where the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(1)
        self.bindings: list[Modelled] = []
        self.position = 0
        self.balancing = LoadBalancing.OFF
        self.count = 0
        self.collectors: dict[Modelled, list[Collector]] = {}

    # --- what changes

    @rule(own=filters)
    def add_local(self, own: str | None) -> None:
        self.count += 1
        queue = self.node.queue(f"q{self.count}", "a", filter_string=text(own))
        self.bindings.append(Modelled(queue, True, own, []))

    @rule(own=filters, balancing=st.sampled_from(LoadBalancing))
    def add_remote(self, own: str | None, balancing: LoadBalancing) -> None:
        self.count += 1
        far = Node(self.count + 1).queue("a", filter_string=text(own))
        binding = self.node.learn(Node(self.count + 1), far, balancing)
        # The consumers of these tests are not to depend on which type was added when.
        binding.load_balancing = LoadBalancing.STRICT
        self.balancing = balancing
        self.bindings.append(Modelled(binding, False, own, []))

    @precondition(lambda self: self.bindings)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.bindings))
        self.bindings.remove(gone)
        if not self.bindings:
            self.position = 0  # nothing stays of an address that nobody is bound to
        if isinstance(gone.thing, Queue):
            self.node.messaging.administration.delete_queue(gone.thing, remove_consumers=True, keep_address=True)
        else:
            self.node.core.routing.unbind_remote(gone.thing)

    @precondition(lambda self: self.bindings)
    @rule(data=st.data(), colour=filters)
    def add_consumer(self, data: st.DataObject, colour: str | None) -> None:
        binding = data.draw(st.sampled_from(self.bindings))
        binding.consumers.append(colour)
        if isinstance(binding.thing, Queue):
            self.collectors.setdefault(binding, []).append(Collector(self.node, binding.thing, text(colour), room=0))
        else:
            binding.thing.consumer_added(text(colour))

    @precondition(lambda self: any(each.consumers for each in self.bindings))
    @rule(data=st.data())
    def remove_consumer(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from([each for each in self.bindings if each.consumers]))
        index = data.draw(st.integers(0, len(binding.consumers) - 1))
        colour = binding.consumers.pop(index)
        if isinstance(binding.thing, Queue):
            self.collectors[binding].pop(index).leave()
        else:
            binding.thing.consumer_removed(text(colour))

    @precondition(lambda self: any(not each.local for each in self.bindings))
    @rule(data=st.data())
    def cut_or_mend(self, data: st.DataObject) -> None:
        binding = data.draw(st.sampled_from([each for each in self.bindings if not each.local]))
        assert isinstance(binding.thing, RemoteBinding)
        binding.connected = binding.thing.connected = not binding.connected

    # --- what is to be seen

    def expected(self, colour: str) -> Modelled | None:
        remotes = any(not each.local for each in self.bindings)
        balancing = self.balancing if remotes else LoadBalancing.OFF
        start = self.position if self.position < len(self.bindings) else 0
        candidates = [
            each
            for each in (*self.bindings[start:], *self.bindings[:start])
            if each.matches(colour) and (each.local or balancing in (LoadBalancing.STRICT, LoadBalancing.ON_DEMAND))
        ]
        strict = balancing is LoadBalancing.STRICT
        preferred = [each for each in candidates if each.connected and (strict or each.wants(colour))]
        if len(self.bindings) == 1:
            preferred = candidates
        if not preferred and balancing is LoadBalancing.ON_DEMAND:
            preferred = [each for each in candidates if each.local]
        return next(iter(preferred or candidates), None)

    @rule(colour=st.sampled_from(COLOURS), times=st.integers(1, 3), fast=st.booleans())
    def send(self, colour: str, times: int, fast: bool) -> None:
        """Messages one by one; a ``fast`` sender does not look at each of them where only the turn decides."""
        for _ in range(times):
            expected = self.expected(colour)
            message = self.node.message(b"", "a", properties={"colour": (STRING, colour)})
            route = self.node.core.routing.route("a", ANYCAST)
            if route.fixed_remote is not None:
                chosen = [route.fixed_remote]
            elif route.rotation is not None and fast:
                chosen = [route.rotation.bindings[route.rotation.next()]]
            else:
                chosen = list(route.select(message))
            assert chosen == ([] if expected is None else [expected.thing]), (chosen, expected)
            if expected is None:
                continue
            if route.fixed is None and route.fixed_remote is None:
                self.position = (self.bindings.index(expected) + 1) % len(self.bindings)

    @invariant()
    def one_of_them_is_told_of(self) -> None:
        known = {binding.cluster_name for binding in self.node.core.routing.remote_bindings()}
        assert known == {each.thing.cluster_name for each in self.bindings if isinstance(each.thing, RemoteBinding)}


Choice.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
ChoiceTests = Choice.TestCase
