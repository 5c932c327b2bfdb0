"""The configuration of a hosted backup: that of its host, with other places (Artemis manual, "Colocated Backup Servers")."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from mqbroker.config.model.cluster import ReplicationConfiguration, ScaleDownConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import TransportUri

SERVER_NAME = "activemqServerName"
"""Parameter of each acceptor and connector whose port was changed."""

HIGHEST_PORT = 65535

FOLDERS = ("journal_directory", "bindings_directory", "large_messages_directory", "paging_directory")


class HostingError(Exception):
    """A backup cannot be hosted; the text says why."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A hosted backup: that of ``node_id``, as the ``number``-th one of this process.

    ``folders`` are those of a shared store, by the names of :data:`FOLDERS`; None: the backup has a copy of its own.
    """

    number: int
    node_id: str
    folders: Mapping[str, str] | None

    @property
    def name(self) -> str:
        return hosted_name(self.number)


def hosted_name(number: int) -> str:
    return f"colocated_backup_{number}"


def replica_folders(configuration: Configuration, number: int) -> dict[str, str]:
    """The folders of the ``number``-th hosted backup that has a copy of its own."""
    return {name: getattr(configuration, name) + hosted_name(number) for name in FOLDERS}


def hosted_configuration(configuration: Configuration, hosted: Hosted, in_process: int | None) -> Configuration:
    """The configuration of ``hosted`` in a process with ``configuration``.

    ``in_process`` is the number at which the host takes connections from its own process; None: it takes none.  Raises HostingError.
    """
    policy = configuration.colocated
    assert policy is not None
    offset = policy.backup_port_offset * hosted.number
    copied = deepcopy(configuration)
    scale_down, connectors = policy.scale_down, dict(copied.connectors)
    # With scale-down a backup that has ended could not tell its primary any more that everything has gone.
    stays = isinstance(policy.backup, ReplicationConfiguration) and scale_down is not None and scale_down.enabled
    copied.name = hosted.name
    copied.acceptors = [_shifted(uri, offset, hosted.name) for uri in copied.acceptors]
    copied.connectors = {
        name: uri if name in policy.excludes else _shifted(uri, offset, hosted.name) for name, uri in copied.connectors.items()
    }
    _add_host(copied, connectors)
    if isinstance(policy.backup, SharedStoreConfiguration):
        copied.shared_store = replace(policy.backup, restart_backup=False)
    else:
        copied.replication = replace(policy.backup, node_id=hosted.node_id, restart_backup=stays)
    folders = replica_folders(configuration, hosted.number) if hosted.folders is None else hosted.folders
    for name in FOLDERS:
        setattr(copied, name, folders[name])
    copied.node_manager_lock_directory = None
    copied.scale_down = None if scale_down is None else _to_host(copied, scale_down, in_process)
    copied.colocated = None
    copied.hosted = True
    # Both are there once for a process.
    copied.metrics = None
    copied.critical_analyzer = False
    return copied


def _shifted(uri: TransportUri, offset: int, name: str) -> TransportUri:
    parameters = {**uri.parameters, SERVER_NAME: name}
    if uri.scheme == "vm":
        return replace(uri, host=str(int(uri.host) + offset), parameters=parameters)
    if uri.port == 0:
        return uri  # the system chooses
    if uri.port + offset > HIGHEST_PORT:
        raise HostingError(f"{uri.name}: the port {uri.port} + {offset} is above {HIGHEST_PORT}; lower backup-port-offset")
    return replace(uri, port=uri.port + offset, parameters=parameters)


def _add_host(copied: Configuration, connectors: Mapping[str, TransportUri]) -> None:
    """Each cluster connection begins with the host, too: the other connectors may lead to brokers that are gone, or be shifted."""
    found = []
    for connection in copied.cluster_connections:
        if connection.static_connectors is not None:
            host = f"{connection.connector_ref}.host"
            copied.connectors[host] = replace(connectors[connection.connector_ref], name=host)
            connection = replace(connection, static_connectors=(*connection.static_connectors, host))
        found.append(connection)
    copied.cluster_connections = found


def _to_host(copied: Configuration, scale_down: ScaleDownConfiguration, in_process: int | None) -> ScaleDownConfiguration:
    """A scale-down that names no target goes to the host."""
    if scale_down.names_target or in_process is None:
        return scale_down
    name = f"{copied.name}.host"
    copied.connectors[name] = TransportUri("vm", str(in_process), 0, {}, name)
    return replace(scale_down, connectors=(name,))
