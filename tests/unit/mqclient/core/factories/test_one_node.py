"""Which node a connection belongs to."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.factories.one_node import OneNode
from mqclient.errors import ExactlyOnceError, NodeLostError
from mqclient.wire.packets import ClusterTopologyV4
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import connector


def member(node_id: str, primary: TransportConfiguration | None = None, *, leaves: bool = False) -> ClusterTopologyV4:
    return ClusterTopologyV4(leaves, node_id, 1, primary, server_version=136)


class NodeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.node = OneNode()
        self.node.begins(connector(1))

    def test_the_member_whose_primary_is_here(self) -> None:
        for each in (member("a", connector(1)), member("b", connector(2))):
            self.node.heard(each)
        self.assertEqual(self.node.require(), "a")

    def test_a_broker_that_belongs_to_no_cluster(self) -> None:
        self.node.heard(member("a"))
        self.assertEqual(self.node.require(), "a")

    def test_the_only_member_under_an_alias(self) -> None:
        self.node.heard(member("a", connector(7)))
        self.assertEqual(self.node.require(), "a")

    def test_several_members_elsewhere(self) -> None:
        for each in (member("a", connector(7)), member("b", connector(8))):
            self.node.heard(each)
        self.assertRaises(ExactlyOnceError, self.node.require)
        self.node.heard(member("b", leaves=True))
        self.assertEqual(self.node.require(), "a")

    def test_work_that_waits_goes_to_its_node_only(self) -> None:
        self.node.heard(member("a", connector(1)))
        self.node.check(False)
        self.node.begins(connector(2))
        self.assertRaises(NodeLostError, self.node.check, True)
        self.node.heard(member("b", connector(2)))
        self.assertIn("node b", str(self.assertRaises(NodeLostError, self.node.check, True)))
        self.node.begins(connector(3))
        self.node.heard(member("a", connector(3)))
        self.node.check(True)
        self.assertEqual(self.node.require(), "a")

    def test_without_such_work_any_node_will_do(self) -> None:
        self.node.heard(member("a", connector(1)))
        self.node.check(False)
        self.node.begins(connector(2))
        self.node.heard(member("b", connector(2)))
        self.node.check(False)
        self.assertEqual(self.node.require(), "b")
