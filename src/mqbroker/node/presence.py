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
    from mqbroker.node.clustering import Clustering
    from mqclient.core.runtime import Runtime
    from mqclient.wire.primitives import TransportConfiguration


class ClusterPresence:
    """Implements :class:`mqbroker.ha.shared_store.activation.Presence`, in all cluster connections of ``configuration``.

    ``etc`` is where the stack files of JGroups are, ``clustering`` gives what the present activation does with others.
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
        self._shown: list[AnnouncedBackup | DiscoveryGroup] = []

    def show(self, node_id: str) -> None:
        if node_id == self._node_id:
            return
        self.hide()
        self._node_id = node_id
        for connection in self._configuration.cluster_connections:
            self._show(connection)

    def _show(self, connection: ClusterConnectionConfiguration) -> None:
        from mqbroker.cluster.backup import AnnouncedBackup
        from mqbroker.cluster.links.connectors import announced_form
        from mqbroker.cluster.membership.discovery import DiscoveryGroup, endpoint_in
        from mqbroker.server.transport.cluster_channel import ClusterCredentials

        configuration, runtime = self._configuration, self._make_runtime()
        connectors = {name: announced_form(uri) for name, uri in configuration.connectors.items()}
        own = connectors[connection.connector_ref]
        group: DiscoveryGroup | None = None
        if connection.discovery_group is not None:
            found = configuration.discovery_groups[connection.discovery_group]
            located = replace(found, endpoint=endpoint_in(found.endpoint, str(self._etc)))
            group = DiscoveryGroup(connection.discovery_group, located, runtime, None)

        def places() -> list[TransportConfiguration]:
            known = [connectors[name] for name in connection.static_connectors or ()] if group is None else group.connectors()
            return [place for place in known if not same_place(place, own)]

        credentials = ClusterCredentials(configuration.cluster_user, configuration.cluster_password)
        backup = AnnouncedBackup(runtime, connection, credentials, self._node_id, own, places)
        if group is not None:
            group.listeners.append(backup.contact.connectors_changed)
            group.start()
            self._shown.append(group)
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
