"""Whatever happens to brokers and links: 30 s after all is well again, every broker has what the record says."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master import own_record
from mqbroker.imq.record.changes import form_of, is_recorded, wish_of
from mqbroker.messaging.administration.registrar import Change
from mqclient.wire import packets as wire
from tests.unit.imq.net import Net, Node

PLACES = ("b1:7676", "b2:7676", "b3:7676")
NODES = st.sampled_from(PLACES)
NAMES = st.sampled_from(("p", "q", "r"))
HEALED_SECONDS = 30


def definitions(node: Node) -> dict[str, Any]:
    """What a broker has of what belongs into the record, by key; who has made a queue is left out."""
    core = node.world.messaging.core
    changes = [Change("create", queue.definition) for queue in core.queues.values()]
    return {wish.key: essential(wish.form) for wish in map(wish_of, filter(is_recorded, changes))}


def essential(form: Any) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name != "user"}


class ClusterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.small = patch.object(own_record, "SLACK_MAX", 3)
        self.small.start()
        self.net = Net(dynamic_change_master=True)
        for place in PLACES:
            self.net.add(place)

    def node(self, place: str) -> Node:
        return self.net.nodes[place]

    def ask(self, place: str, packet: wire.Packet) -> None:
        """The answer may come later, or never."""
        node = self.node(place)
        if not node.down and node.recording.synchronised:
            node.session().send(packet)

    @rule(place=NODES, name=NAMES, consumers=st.sampled_from((-1, 1, 2)), automatic=st.booleans())
    def create(self, place: str, name: str, consumers: int, automatic: bool) -> None:
        self.ask(place, wire.CreateQueueV2(name, name, durable=True, routing_type=1, max_consumers=consumers, auto_created=automatic))

    @rule(place=NODES, name=NAMES)
    def delete(self, place: str, name: str) -> None:
        self.ask(place, wire.DeleteQueue(name))

    @rule(one=NODES, other=NODES)
    def cut(self, one: str, other: str) -> None:
        if one != other:
            self.net.cut(self.node(one), self.node(other))

    @rule(one=NODES, other=NODES)
    def link(self, one: str, other: str) -> None:
        if one != other and not self.node(one).down and not self.node(other).down:
            self.net.link(self.node(one), self.node(other))

    @rule(place=NODES, crash=st.booleans())
    def stop(self, place: str, crash: bool) -> None:
        if not self.node(place).down:
            self.node(place).stop(crash=crash)

    @rule(place=NODES)
    def start(self, place: str) -> None:
        if self.node(place).down:
            self.node(place).start()
            self.net.link_all(self.node(place))

    @rule(place=NODES)
    def slow_disk(self, place: str) -> None:
        store = self.node(place).store
        assert store is not None
        store.held = True

    @rule(place=NODES)
    def quick_disk(self, place: str) -> None:
        store = self.node(place).store
        assert store is not None
        store.held = False
        store.sync()

    @rule(place=NODES)
    def change_the_master(self, place: str) -> None:
        for node in self.net.nodes.values():
            if not node.down and node.recording.is_master:
                node.shared.change_of_master.change(place).addErrback(lambda failure: None)
                return

    @rule(seconds=st.sampled_from((0, 0, 0, 0.1, 6)))
    def settle(self, seconds: float) -> None:
        self.net.settle(seconds)

    def teardown(self) -> None:
        try:
            self.heal()
        finally:
            self.small.stop()

    def heal(self) -> None:
        for place in PLACES:
            self.start(place)
            self.quick_disk(place)
        for place in PLACES:
            self.net.link_all(self.node(place))
        self.net.settle(HEALED_SECONDS)
        nodes = list(self.net.nodes.values())
        masters = [node for node in nodes if node.recording.is_master]
        assert len(masters) == 1, [(node.place, node.recording.master, node.recording.state) for node in nodes]
        record = masters[0].recording.keeping.record
        wanted = {change.key: essential(change.form) for change in record.definitions}
        for node in nodes:
            assert not node.left, node.left
            assert node.recording.synchronised, (node.place, node.recording.state)
            assert node.recording.standing.position == record.last, (node.place, node.recording.standing.position, record.last)
            assert definitions(node) == wanted, (node.place, definitions(node), wanted)
        assert wanted == {wish.key: essential(form_of(change.definition)) for wish, change in self.queues_of(masters[0])}

    @staticmethod
    def queues_of(node: Node) -> list[tuple[Any, Change]]:
        changes = [Change("create", queue.definition) for queue in node.world.messaging.core.queues.values()]
        return [(wish_of(change), change) for change in changes if is_recorded(change)]


class ModelTests(SynchronousTestCase):
    def test_all_brokers_agree_with_the_record_after_all_is_well_again(self) -> None:
        machine: Any = ClusterMachine.TestCase
        machine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
        machine().runTest()
