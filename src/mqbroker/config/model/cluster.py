"""The settings about other brokers: groups, cluster connections, bridges, diverts and scale-down.

Names and defaults are those of the Artemis manual, chapters "Clusters", "Core Bridges" and "Diverting and Splitting Message Flows".
Intervals and timeouts are ms, sizes bytes; -1 for a number of attempts means without end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mqclient.protocol.discovery import INITIAL_WAIT_TIMEOUT_MS, REFRESH_TIMEOUT_MS, Endpoint


@dataclass(frozen=True, slots=True)
class BroadcastGroupConfiguration:
    """Announces ``connectors`` (names) every ``broadcast_period``; the first of them is the one that all peers understand."""

    name: str
    endpoint: Endpoint
    broadcast_period: int = 2000
    connectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiscoveryGroupConfiguration:
    """Listens for brokers; one that was not heard of for ``refresh_timeout`` is forgotten."""

    name: str
    endpoint: Endpoint
    refresh_timeout: int = REFRESH_TIMEOUT_MS
    initial_wait_timeout: int = INITIAL_WAIT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class ClusterConnectionConfiguration:
    """The part of this broker in a cluster.

    ``address`` is a comma list of prefixes, a prefix with ``!`` is excluded; empty = every address.  ``static_connectors`` are names, None
    without the element.  Without them and without a ``discovery_group`` (name) this broker opens no bridges.  ``message_load_balancing`` is
    OFF, STRICT, ON_DEMAND or OFF_WITH_REDISTRIBUTION.
    """

    name: str
    connector_ref: str
    address: str = ""
    check_period: int = 30000
    connection_ttl: int = 60000
    min_large_message_size: int = 102400
    call_timeout: int = 30000
    call_failover_timeout: int = -1
    retry_interval: int = 500
    retry_interval_multiplier: float = 1.0
    max_retry_interval: int = 2000
    initial_connect_attempts: int = -1
    reconnect_attempts: int = -1
    use_duplicate_detection: bool = True
    message_load_balancing: str = "ON_DEMAND"
    max_hops: int = 1
    confirmation_window_size: int = 10485760
    producer_window_size: int = 1048576
    notification_interval: int = 1000
    notification_attempts: int = 2
    topology_scanner_attempts: int = 30
    client_id: str | None = None
    static_connectors: tuple[str, ...] | None = None
    allow_direct_connections_only: bool = False
    discovery_group: str | None = None


@dataclass(frozen=True, slots=True)
class TransformerConfiguration:
    """A transformer of messages: the import path or class name, and its properties."""

    class_name: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DivertConfiguration:
    """Copies (or, ``exclusive``, moves) messages of ``address`` to ``forwarding_addresses``.

    ``routing_type`` of the copies is STRIP, PASS, ANYCAST or MULTICAST; ``routing_name`` None = one of its own.
    """

    name: str
    address: str
    forwarding_addresses: tuple[str, ...]
    routing_name: str | None = None
    exclusive: bool = False
    filter_string: str | None = None
    transformer: TransformerConfiguration | None = None
    routing_type: str = "STRIP"


@dataclass(frozen=True, slots=True)
class BridgeConfiguration:
    """A core bridge: takes messages from ``queue_name`` to another broker.

    ``forwarding_address`` None = the address of each message; ``user`` None = the default cluster user (with the default password, or the
    configured cluster user and password where ``user`` names it).  ``concurrency`` bridges work side by side.
    """

    name: str
    queue_name: str
    forwarding_address: str | None = None
    ha: bool = False
    filter_string: str | None = None
    transformer: TransformerConfiguration | None = None
    static_connectors: tuple[str, ...] = ()
    discovery_group: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    min_large_message_size: int = 102400
    check_period: int = 30000
    connection_ttl: int = 60000
    call_timeout: int = 30000
    retry_interval: int = 2000
    retry_interval_multiplier: float = 1.0
    max_retry_interval: int = 2000
    initial_connect_attempts: int = -1
    reconnect_attempts: int = -1
    reconnect_attempts_same_node: int = 10
    use_duplicate_detection: bool = True
    confirmation_window_size: int = 10485760
    producer_window_size: int = 1048576
    pending_ack_timeout: int = 60000
    routing_type: str = "PASS"
    concurrency: int = 1
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupingHandlerConfiguration:
    """Keeps message groups together over a cluster; ``local`` on exactly one broker.  ``group_timeout`` -1 = decisions are kept."""

    name: str
    local: bool
    address: str = ""
    timeout: int = 5000
    group_timeout: int = -1
    reaper_period: int = 30000


@dataclass(frozen=True, slots=True)
class ScaleDownConfiguration:
    """A broker that stops gives its messages to another one; a backup does so, and then stops, when it has taken over.

    ``commit_interval`` messages go in one transaction, -1 = the broker chooses.  Without ``connectors`` and ``discovery_group`` (names) the
    target comes from the topology of ``cluster_name`` (None: of the default cluster connection), of the same ``group_name`` if it is set.
    """

    enabled: bool = True
    commit_interval: int = -1
    group_name: str | None = None
    cluster_name: str | None = None
    connectors: tuple[str, ...] = ()
    discovery_group: str | None = None

    @property
    def names_target(self) -> bool:
        return bool(self.connectors) or self.discovery_group is not None


@dataclass(frozen=True, slots=True)
class SharedStoreConfiguration:
    """Brokers that share one folder, of which one is active.  ``backup``: this one gives way to its primary.

    ``failover_on_shutdown``: a backup goes on also after an orderly stop.  ``wait_for_activation`` is for a primary inside a program,
    ``allow_failback`` and ``restart_backup`` are for a backup: it gives way to a primary that is back, and is a backup again then.
    """

    backup: bool
    failover_on_shutdown: bool = False
    wait_for_activation: bool = True
    allow_failback: bool = True
    restart_backup: bool = True


@dataclass(frozen=True, slots=True)
class LockManagerConfiguration:
    """A lock manager: the Java class name or import path, None = ZooKeeper; and its properties."""

    class_name: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicationConfiguration:
    """A primary and a backup, each with a copy of the journal.  ``backup``: this one waits for a primary that it can copy.

    ``group_name`` and ``cluster_name`` (None: the default cluster connection) say who may pair.  Of former journals
    ``max_saved_replicated_journals_size`` are kept, -1 = all.  Times are in milliseconds, but ``quorum_vote_wait`` in seconds.
    ``check_for_active_server`` (of a primary) and ``vote_on_replication_failure`` ask for a proof before the start, and after the loss of
    the replica; None = as true.  ``quorum_size`` is the number of nodes of the cluster, with the own one, of which a majority must agree at
    least, -1 = those that are known.  ``allow_failback`` and ``restart_backup`` are for a backup.  With a ``manager`` nobody votes.
    Primaries with one ``coordination_id`` compete for a node, whose id follows from it; it needs a ``manager``.
    ``node_id``: a backup copies this node and no other one.
    """

    backup: bool
    group_name: str | None = None
    cluster_name: str | None = None
    max_saved_replicated_journals_size: int = 2
    check_for_active_server: bool | None = None
    initial_replication_sync_timeout: int = 30000
    vote_on_replication_failure: bool | None = None
    quorum_size: int = -1
    vote_retry_wait: int | None = None
    """Between two searches for a proof; None: :data:`mqbroker.ha.proof.rules.RETRY_SECONDS`."""
    quorum_vote_wait: int | None = None
    """For each of the two answers of the voters; None: :data:`mqbroker.ha.proof.rules.ROUND_SECONDS`."""
    retry_replication_wait: int | None = None
    """None: as long as ``vote_retry_wait``, and without that 5000; 2000 with a ``manager``."""
    allow_failback: bool = False
    restart_backup: bool = True
    manager: LockManagerConfiguration | None = None
    coordination_id: str | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class ColocatedConfiguration:
    """A primary that hosts backups of others in its process, ``max_backups`` at most, each with the policy ``backup`` and ``scale_down``.

    ``request_backup``: another broker is asked to host the backup of this one; a request without success is repeated
    ``backup_request_retries`` times, -1 = without end.  The n-th hosted backup has ports that are higher by n times
    ``backup_port_offset``, except those of the connectors ``excludes`` (names).
    """

    backup: SharedStoreConfiguration | ReplicationConfiguration
    scale_down: ScaleDownConfiguration | None = None
    request_backup: bool = False
    backup_request_retries: int = -1
    backup_request_retry_interval: int = 5000
    max_backups: int = 1
    backup_port_offset: int = 100
    excludes: tuple[str, ...] = ()
