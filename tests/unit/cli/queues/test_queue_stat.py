"""``queue stat --clustered`` adds up the numbers of all brokers that answer."""

from __future__ import annotations

from tests.unit.cli.cluster.test_cluster import C, Case
from tests.unit.cli.runner import Result


class ClusteredStatCase(Case):
    def stat(self, *arguments: str) -> Result:
        return self.run_with("queue", "stat", "--clustered", *arguments)


class ClusteredStatTests(ClusteredStatCase):
    def test_a_column_for_each_node(self) -> None:
        lines = self.stat("--per-node", "--single-line-header").out.splitlines()
        header = next(line for line in lines if line.startswith("|NAME"))
        self.assertEqual([cell.strip() for cell in header.split("|")][-4:-1], ["ONE", "TWO", C[:8].upper()])
        row = next(line for line in lines if line.startswith("|q "))
        self.assertEqual([cell.strip() for cell in row.split("|")][-4:-1], ["2", "40", ""])
        self.assertEqual(self.run_with("queue", "stat", "--per-node").status, 2)

    def test_more_than_are_shown(self) -> None:
        self.assertIn("WARNING: the displayed queues are 1/2", self.stat("--maxRows", "1").out)
        self.assertIn("activemq.management.x", self.stat("--include-management").out)
