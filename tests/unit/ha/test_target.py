"""The broker that takes what a leaving one gives."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.places import members_after
from mqclient.protocol.topology import TopologyMember
from tests.unit.cluster.bridge_support import connector
from tests.unit.ha.test_scale_down import HEIR, Leaving


class TargetTests(SynchronousTestCase):
    def test_nobody(self) -> None:
        pair = Leaving()
        pair.places = []
        self.assertIsNone(pair.find())

    def test_the_first_that_answers(self) -> None:
        pair = Leaving()
        pair.places = [connector(7), connector(1)]
        self.assertEqual(pair.find(), HEIR)
        self.assertEqual(pair.runtime.tried, ["7", "1"])

    def test_a_broker_that_is_reached_at_another_place_says_who_it_is(self) -> None:
        """As the host of a backup is, within its process."""
        pair = Leaving()
        pair.runtime.targets["9"] = pair.runtime.targets["1"]
        pair.places = [connector(9)]
        self.assertEqual(pair.find(), HEIR)
        self.assertEqual(pair.runtime.tried, ["9"])

    def test_never_itself(self) -> None:
        pair = Leaving()
        pair.runtime.targets["1"] = pair.a
        self.assertIsNone(pair.find())

    def test_the_next_member_of_the_group(self) -> None:
        def member(node_id: str, group: str | None, port: int | None) -> TopologyMember:
            return TopologyMember(node_id, 1, None if port is None else connector(port), connector(99), None, group)

        members = [member("d", None, 4), member("a", "g", 1), member("b", None, 2), member("c", "g", 3), member("e", "g", None)]
        ports = [dict(each.parameters)["port"] for each in members_after(members, "b", None)]
        self.assertEqual(ports, ["3", "4", "1"], "after the own one, then from the beginning; without those that only have a backup")
        self.assertEqual([dict(each.parameters)["port"] for each in members_after(members, "b", "g")], ["3", "1"])
