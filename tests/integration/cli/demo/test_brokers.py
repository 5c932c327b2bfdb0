"""The brokers of the demonstration."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.brokers import Node, Nodes
from mqbroker.cli.status import CommandError


class NodesTests(SynchronousTestCase):
    def test_an_error_ends_all_processes(self) -> None:
        started: list[Node] = []
        folder = None
        try:
            with Nodes(1) as cluster:
                started += cluster.nodes
                folder = cluster.folder
                self.assertTrue(started[0].running)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        self.assertFalse(any(node.running for node in started))
        assert folder is not None
        self.assertFalse(folder.exists())

    def test_a_broker_that_does_not_start_is_told_and_nothing_is_left(self) -> None:
        nodes = Nodes(2)
        (nodes.nodes[1].folder / "broker.xml").write_text("<nonsense/>")
        error = self.assertRaises(CommandError, nodes.__enter__)
        self.assertIn("node1 does not start", str(error))
        self.assertIn("nonsense", str(error))
        self.assertFalse(any(node.running for node in nodes.nodes))
        self.assertFalse(nodes.nodes[0].folder.exists())
