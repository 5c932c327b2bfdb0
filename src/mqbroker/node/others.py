"""The links of one activation to other brokers, made when the configuration or management asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.parts import StartError

if TYPE_CHECKING:
    from mqbroker.node.clustering import Clustering
    from mqbroker.server.bridge_port import BridgePort
    from mqbroker.server.cluster_port import ClusterPort, ColocatedFigures, CopyFigures, ManagedBroadcastGroup


class Others:
    """Implements :class:`mqbroker.server.cluster_port.OtherBrokers`.

    ``make`` makes the clustering, which is imported only then.  ``stop`` is called when management wants the broker to scale down or
    to fail over, and before, for a failover, ``hand_over``.  ``copies`` tells how a replicated pair stands, and ``colocation``
    which backups are hosted.
    """

    def __init__(
        self,
        configuration: Configuration,
        make: Callable[[], Clustering],
        stop: Callable[[], object],
        hand_over: Callable[[], object],
        copies: Callable[[], CopyFigures | None],
        colocation: Callable[[], ColocatedFigures | None],
    ) -> None:
        self.clustering: Clustering | None = None
        """None until the configuration or management needs it."""
        self._configuration = configuration
        self._make = make
        self._stop = stop
        self._hand_over = hand_over
        self._copies = copies
        self._colocation = colocation

    # --- what the server and its management see

    @property
    def cluster(self) -> ClusterPort | None:
        return None if self.clustering is None else self.clustering.manager

    @property
    def bridges(self) -> BridgePort | None:
        return None if self.clustering is None else self.clustering.bridges

    @property
    def copies(self) -> CopyFigures | None:
        return self._copies()

    @property
    def colocated(self) -> ColocatedFigures | None:
        return self._colocation()

    @property
    def broadcast_groups(self) -> Mapping[str, ManagedBroadcastGroup]:
        return {} if self.clustering is None else self.clustering.groups.broadcast

    def open_bridges(self) -> BridgePort:
        return self._open().bridges

    def scale_down_to(self, connector: str | None) -> None:
        known = self._configuration.scale_down or ScaleDownConfiguration()
        connectors = known.connectors if connector is None else (connector, *known.connectors)
        if self.clustering is None:
            self.clustering = self._make()
        self.clustering.scale_down_to(replace(known, enabled=True, connectors=connectors))
        self._stop()

    def fail_over(self) -> None:
        self._hand_over()
        self._stop()

    def problem(self) -> str | None:
        return None if self.clustering is None else self.clustering.problem()

    # --- the life of an activation

    def join(self) -> None:
        """Join them.  Raises :class:`StartError`."""
        try:
            self._open()
        except ValueError as error:
            raise StartError(str(error)) from error

    def _open(self) -> Clustering:
        if self.clustering is None:
            self.clustering = self._make()
            self.clustering.start()
        return self.clustering

    @property
    def scales_down(self) -> bool:
        """Do the messages go to another broker when this one stops?"""
        return self.clustering is not None and self.clustering.scale_down is not None

    def cut_short(self) -> None:
        """While the broker stops: move no more messages to another one, but leave them on the disk."""
        if self.clustering is not None and self.clustering.scale_down is not None:
            self.clustering.scale_down.cut_short()
