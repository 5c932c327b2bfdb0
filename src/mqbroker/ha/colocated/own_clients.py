"""The clients that a hosted backup serves: those of its own node.

Ports of hosted backups are used again.  A client may know the place of this one from the time when the backup of another node was there,
and would go on here when its own broker dies: away from its messages, for good.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqclient.protocol.topology import TopologyMember

SCALED_DOWN_MAX = 1000
"""Members that have scaled down, whose clients are served; the oldest are forgotten."""


class OwnClients:
    """Implements :class:`mqbroker.cluster.manager.Successors`.  ``topology`` is that of the cluster connection for clients."""

    def __init__(self, topology: ClusterTopology) -> None:
        self._topology = topology
        self._scaled_down: deque[str] = deque(maxlen=SCALED_DOWN_MAX)
        """Node ids whose messages other brokers have, this one perhaps."""
        topology.scaled_down.subscribe(self._scaled_down.append)

    def serves(self, node_id: str) -> bool:
        return node_id == self._topology.node_id or (node_id in self._scaled_down and self._topology.get(node_id) is None)

    def has(self, node_id: str) -> bool:
        """Only the data of the own node, under its own id."""
        return False

    def successor_of(self, node_id: str) -> TopologyMember | None:
        found = self._topology.get(node_id)
        return None if found is None or found.primary is None else found
