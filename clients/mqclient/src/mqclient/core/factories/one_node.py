"""The node that a connection belongs to: work with ``exactly_once`` is repeated there and nowhere else."""

from __future__ import annotations

from mqclient.errors import ExactlyOnceError, NodeLostError
from mqclient.protocol.connection import TopologyPacket
from mqclient.protocol.topology import same_place
from mqclient.wire.primitives import TransportConfiguration


class OneNode:
    """The announcements of one connection, and the node id that follows from them."""

    def __init__(self) -> None:
        self._connector: TransportConfiguration | None = None
        self._primaries: dict[str, TransportConfiguration] = {}
        self._node_id: str | None = None

    def begins(self, connector: TransportConfiguration) -> None:
        """A connection to ``connector`` is opened; what others have announced does not count any more."""
        self._connector = connector
        self._primaries = {}

    def heard(self, packet: TopologyPacket) -> None:
        if packet.exit:
            self._primaries.pop(packet.node_id, None)
            return
        primary = self._connector if packet.primary is None and packet.backup is None else packet.primary
        if primary is not None:
            self._primaries[packet.node_id] = primary

    def check(self, holding: bool) -> None:
        """The connection is there.  ``holding``: work waits that only the node knows which got it first.

        Raises ``NodeLostError`` when this is another node, or may be one.
        """
        found = self._announced()
        if holding and self._node_id is not None and found != self._node_id:
            raise NodeLostError(
                f"work with exactlyOnce waits for node {self._node_id}; "
                + ("the broker does not say which node it is" if found is None else f"this is node {found}")
            )
        self._node_id = found

    def require(self) -> str:
        """The node id.  Raises ``ExactlyOnceError`` when the broker does not say it."""
        if self._node_id is None:
            self._node_id = self._announced()
        if self._node_id is None:
            raise ExactlyOnceError(
                "the broker does not say which node it is: connect to the host and port of its connector, as the cluster announces them"
            )
        return self._node_id

    def _announced(self) -> str | None:
        here = [node_id for node_id, primary in self._primaries.items() if same_place(primary, self._connector)]
        if not here:
            here = list(self._primaries)  # an alias of the host, and no other node that it could be
        return here[0] if len(here) == 1 else None
