"""The merge rules of the topology, against a second writing of them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.primitives import TransportConfiguration

NODES = st.sampled_from(("a", "b", "c"))
EVENTS = st.integers(0, 8)
CONNECTORS = st.none() | st.integers(1, 3).map(lambda port: TransportConfiguration("c", "f", (("port", str(port)),)))
GROUPS = st.none() | st.sampled_from(("g", "h"))
MEMBERS = st.builds(TopologyMember, NODES, EVENTS, CONNECTORS, CONNECTORS, GROUPS, GROUPS)

Entry = tuple[int, TransportConfiguration | None, TransportConfiguration | None, str | None, str | None]


class TopologyRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topology = Topology()
        self.told: list[tuple[str, bool]] = []
        self.topology.add_listener(lambda member, up: self.told.append((member.node_id, up)))
        self.members: dict[str, Entry] = {}
        self.left: dict[str, int] = {}
        self.expected: list[tuple[str, bool]] = []

    @rule(member=MEMBERS)
    def up(self, member: TopologyMember) -> None:
        changed = self.topology.up(member)
        event, left = member.unique_event_id, self.left.get(member.node_id)
        known = self.members.get(member.node_id)
        refused = left is not None and event != 0 and event <= left
        replaces = known is not None and (event > known[0] or (known[1] is None and member.primary is not None))
        accepted = not refused and (known is None or replaces)
        if accepted:
            primary, backup = member.primary, member.backup
            if known is not None:
                event, primary, backup = max(event, known[0]), primary or known[1], backup or known[2]
            self.members[member.node_id] = (event, primary, backup, member.backup_group_name, member.scale_down_group_name)
            self.expected.append((member.node_id, True))
        elif not refused and known is not None and known[2] is None:
            self.members[member.node_id] = (*known[:2], member.backup, *known[3:])  # type: ignore[assignment]
        assert changed is accepted

    @rule(node=NODES, event=EVENTS)
    def down(self, node: str, event: int) -> None:
        known = self.members.get(node)
        accepted = known is not None and known[0] <= event
        assert self.topology.down(node, event) is accepted
        if accepted:
            del self.members[node]
            self.left[node] = event
            self.expected.append((node, False))

    @rule(node=NODES, backup=CONNECTORS, group=GROUPS, now=EVENTS)
    def backup_announced(self, node: str, backup: TransportConfiguration | None, group: str | None, now: int) -> None:
        self.topology.backup_announced(TopologyMember(node, 99, None, backup, group), now)
        known = self.members.get(node, (0, None, None, group, None))
        self.members[node] = (now, known[1], backup, known[3], known[4])
        self.expected.append((node, True))

    @rule(member=MEMBERS, now=EVENTS)
    def activated(self, member: TopologyMember, now: int) -> None:
        self.topology.activated(member, now)
        self.members[member.node_id] = (now, member.primary, member.backup, member.backup_group_name, member.scale_down_group_name)
        self.expected.append((member.node_id, True))

    @invariant()
    def same_view(self) -> None:
        found = {
            member.node_id: (member.unique_event_id, member.primary, member.backup, member.backup_group_name, member.scale_down_group_name)
            for member in self.topology
        }
        assert found == self.members
        assert self.told == self.expected
        assert self.topology.pairs() == [(member.primary, member.backup) for member in self.topology if member.primary is not None]
        assert all(self.topology.left_at(node) == event for node, event in self.left.items())


class TopologyRulesTests(SynchronousTestCase):
    def test_rules(self) -> None:
        run_state_machine_as_test(TopologyRules, settings=settings(max_examples=40, stateful_step_count=30, deadline=None))
