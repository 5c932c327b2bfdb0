"""How a broker that is passive shows itself to its cluster, and how an active one sees that there is such a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mqclient.protocol.topology import same_place

if TYPE_CHECKING:
    from mqbroker.cluster.backup import AnnouncedBackup
    from mqbroker.cluster.membership.discovery import DiscoveryGroup
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.node.clustering import Clustering
    from mqclient.core.runtime import Runtime
    from mqclient.wire.primitives import TransportConfiguration


class Places:
    """The places of other brokers, as the cluster connection ``connection`` says: called, it gives their connectors.

    ``etc`` is where the stack files of JGroups are.  ``own`` is how others reach this broker.
    """

    def __init__(self, configuration: Configuration, connection: ClusterConnectionConfiguration, etc: Path, runtime: Runtime) -> None:
        from mqbroker.cluster.links.connectors import announced_form
        from mqbroker.cluster.membership.discovery import DiscoveryGroup, endpoint_in
        from mqbroker.server.transport.cluster_channel import ClusterCredentials

        connectors = {name: announced_form(uri) for name, uri in configuration.connectors.items()}
        self.runtime = runtime
        self.own = connectors[connection.connector_ref]
        self.credentials = ClusterCredentials(configuration.cluster_user, configuration.cluster_password)
        self._static = [connectors[name] for name in connection.static_connectors or ()]
        self._group: DiscoveryGroup | None = None
        if connection.discovery_group is not None:
            found = configuration.discovery_groups[connection.discovery_group]
            located = replace(found, endpoint=endpoint_in(found.endpoint, str(etc)))
            self._group = DiscoveryGroup(connection.discovery_group, located, runtime, None)

    def __call__(self) -> list[TransportConfiguration]:
        known = self._static if self._group is None else self._group.connectors()
        return [place for place in known if not same_place(place, self.own)]

    def start(self, changed: Callable[[], object] = lambda: None) -> None:
        """Listen for brokers, where that is how they are found; ``changed`` is called for each."""
        if self._group is not None:
            self._group.listeners.append(changed)
            self._group.start()

    def stop(self) -> None:
        if self._group is not None:
            self._group.stop()


def open_side(configuration: Configuration, name: str | None, etc: Path, runtime: Runtime) -> ClusterSide:
    """The ways to other brokers by the cluster connection ``name``, None = the default one."""
    from mqbroker.ha.replication.backup import ClusterSide

    connections = configuration.cluster_connections
    connection = next(each for each in connections if name in (None, each.name))
    found = Places(configuration, connection, etc, runtime)
    found.start()
    return ClusterSide(runtime, connection, found.credentials, found.own, found, found.stop)


class ClusterPresence:
    """Implements :class:`mqbroker.ha.shared_store.activation.Presence`, in all cluster connections of ``configuration``.

    ``etc`` is where the stack files of JGroups are, ``clustering`` gives what the present activation does with others; None: there is none.
    """

    def __init__(
        self,
        configuration: Configuration,
        etc: Path,
        make_runtime: Callable[[], Runtime],
        clustering: Callable[[], Clustering | None],
    ) -> None:
        self._configuration = configuration
        self._etc = etc
        self._make_runtime = make_runtime
        self._clustering = clustering
        self._node_id = ""
        """The node that this broker is shown as the backup of."""
        self._shown: list[AnnouncedBackup | Places] = []

    def show(self, node_id: str) -> None:
        if node_id == self._node_id:
            return
        self.hide()
        self._node_id = node_id
        for connection in self._configuration.cluster_connections:
            self._show(connection)

    def _show(self, connection: ClusterConnectionConfiguration) -> None:
        from mqbroker.cluster.backup import AnnouncedBackup

        found = Places(self._configuration, connection, self._etc, self._make_runtime())
        backup = AnnouncedBackup(found.runtime, connection, found.credentials, self._node_id, found.own, found)
        found.start(backup.contact.connectors_changed)
        self._shown.append(found)
        backup.start()
        self._shown.append(backup)

    def hide(self) -> None:
        self._node_id = ""
        while self._shown:
            self._shown.pop().stop()

    def other_backup(self) -> bool:
        clustering = self._clustering()
        if clustering is None or clustering.manager is None:
            return False
        for connection in clustering.manager.connections.values():
            known = connection.topology.get(connection.node_id)
            if known is not None and known.backup is not None and not same_place(known.backup, connection.own_connector):
                return True
        return False
