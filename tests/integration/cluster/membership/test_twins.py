"""Two brokers with one node id: never merged, and told to the operator."""

from __future__ import annotations

import shutil
from unittest.mock import patch

from mqbroker.cluster.membership import twins
from tests.integration.cluster.nodes import ClusterCase, Node


class TwinTests(ClusterCase):
    async def with_copy(self) -> tuple[Node, Node, Node]:
        """Three nodes, the last of which runs with a copy of the data of the first."""
        one, two, copy = self.make(3)
        one.start()
        await one.stop()
        shutil.copytree(one.folder / "data", copy.folder / "data")
        for node in (one, two):
            node.start()
        await self.formed([one, two])
        return one, two, copy

    async def test_seen_told_and_forgotten(self) -> None:
        with patch.object(twins, "FIRST_CHECK_SECONDS", 0.05), patch.object(twins, "CHECK_SECONDS", 0.1):
            one, two, copy = await self.with_copy()
            self.assertIsNone(one.broker.server.problem())
            copy.start()
            self.assertEqual(copy.node_id, one.node_id)
            await self.until(lambda: one.cluster.contested_by and copy.cluster.contested_by, "both see each other")
            self.assertIn(f"127.0.0.1:{copy.port}", one.broker.server.problem() or "")
            self.assertEqual(dict(two.cluster.members).keys(), {one.node_id})
            self.assertEqual(list(one.cluster.members), [two.node_id])
            await copy.stop()
            await self.until(lambda: not one.cluster.contested_by, "it is gone")
            self.assertIsNone(one.broker.server.problem())
