"""The settings of a broker, typed.

A :class:`Configuration` without a file is valid: every field has the default of the Artemis manual (where the manual and running
brokers differ: of running brokers).  Units: durations are milliseconds and sizes are bytes unless the field says otherwise; -1 means
"no limit", "off" or "not set", as in broker.xml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mqbroker.config.model.address_settings import AddressSettings, PartialSettings
from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    ColocatedConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.config.model.matching import AddressSettingsRepository, SecurityRepository, Wildcards
from mqclient.urls import TransportUri

DEFAULT_CLUSTER_USER = "ACTIVEMQ.CLUSTER.ADMIN.USER"
DEFAULT_CLUSTER_PASSWORD = "CHANGE ME!!"


@dataclass(slots=True)
class QueueConfiguration:
    """The settings of a queue.  None: as the address settings say.

    ``address`` empty means the queue's own name.  ``routing_type`` is 0 multicast, 1 anycast.
    """

    name: str
    address: str = ""
    routing_type: int | None = None
    filter_string: str | None = None
    durable: bool = True
    user: str | None = None
    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    group_buckets: int | None = None
    group_first_key: str | None = None
    ring_size: int | None = None
    enabled: bool = True
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    configuration_managed: bool = False
    temporary: bool = False
    transient: bool = False
    auto_created: bool = False
    internal: bool = False


@dataclass(slots=True)
class AddressConfiguration:
    """A predefined address; ``routing_types`` holds 0 for multicast, 1 for anycast."""

    name: str
    routing_types: frozenset[int]
    queues: list[QueueConfiguration] = field(default_factory=list)


@dataclass(slots=True)
class ResourceLimit:
    """The limits of one user at a time.  -1 no limit, 0 none.

    ``max_connections`` limits *sessions*, as running brokers do in spite of the name.
    """

    max_connections: int = -1
    max_queues: int = -1


@dataclass(slots=True)
class MetricsConfiguration:
    """The groups of metrics that are collected, and the plugin (class name and properties) that shows them."""

    plugin_class_name: str | None = None
    plugin_properties: dict[str, str] = field(default_factory=dict)
    jvm_memory: bool = True
    jvm_gc: bool = False
    jvm_threads: bool = False
    netty_pool: bool = False
    file_descriptors: bool = False
    processor: bool = False
    uptime: bool = False
    logging: bool = False
    security_caches: bool = False
    executor_services: bool = False


@dataclass(slots=True)
class Configuration:
    """The configuration of this broker: one field per element of broker.xml, and the part that other files say."""

    # Broker
    name: str = "localhost"
    system_property_prefix: str = "brokerconfig."
    internal_naming_prefix: str = "$.artemis.internal."
    persistence_enabled: bool = True
    graceful_shutdown_enabled: bool = False
    graceful_shutdown_timeout: int = -1
    configuration_file_refresh_period: int = 5000
    server_dump_interval: int = -1
    log_delegate_factory_class_name: str | None = None

    # Security
    security_enabled: bool = True
    security_invalidation_interval: int = 10000
    authentication_cache_size: int = 1000
    authorization_cache_size: int = 1000
    populate_validated_user: bool = False
    reject_empty_validated_user: bool = False
    cluster_user: str = DEFAULT_CLUSTER_USER
    cluster_password: str = field(default=DEFAULT_CLUSTER_PASSWORD, repr=False)
    mask_password: bool | None = None
    password_codec: str | None = None

    # Management
    management_address: str = "activemq.management"
    management_notification_address: str = "activemq.notifications"
    management_message_rbac: bool = False
    management_rbac_prefix: str = "mops"
    view_permission_method_match_pattern: str = "^(get|is|count|list|browse|query).*$"
    suppress_session_notifications: bool = False
    jmx_management_enabled: bool = True
    jmx_domain: str = "org.apache.activemq.artemis"
    jmx_use_broker_name: bool = True
    message_counter_enabled: bool = False
    message_counter_sample_period: int = 10000
    message_counter_max_day_history: int = 10
    """Days."""

    # Connections and threads
    connection_ttl_override: int = -1
    connection_ttl_check_interval: int = 2000
    async_connection_execution_enabled: bool = True
    thread_pool_max_size: int = 30
    scheduled_thread_pool_max_size: int = 5
    remoting_incoming_interceptors: list[str] = field(default_factory=list)
    remoting_outgoing_interceptors: list[str] = field(default_factory=list)

    # Messages
    transaction_timeout: int = 300000
    transaction_timeout_scan_period: int = 1000
    message_expiry_scan_period: int = 30000
    message_expiry_thread_priority: int = 3
    address_queue_scan_period: int = 30000
    id_cache_size: int = 20000
    """Duplicate ids kept per address."""
    persist_id_cache: bool = True
    persist_delivery_count_before_delivery: bool = False
    max_redelivery_records: int = 10
    temporary_queue_namespace: str = ""
    uuid_namespace: str = ""
    wild_card_routing_enabled: bool = True
    literal_match_markers: str | None = None

    # Other protocols
    resolve_protocols: bool = True
    amqp_use_core_subscription_naming: bool = False
    mqtt_session_scan_interval: int = 5000
    mqtt_session_state_persistence_timeout: int = 5000
    mqtt_subscription_persistence_enabled: bool = True
    mirror_ack_manager_queue_attempts: int = 5
    mirror_ack_manager_page_attempts: int = 2
    mirror_ack_manager_retry_delay: int = 100
    mirror_ack_manager_warn_unacked: bool = False
    mirror_page_transaction: bool = False

    # Storage
    bindings_directory: str = "data/bindings"
    create_bindings_dir: bool = True
    journal_directory: str = "data/journal"
    create_journal_dir: bool = True
    paging_directory: str = "data/paging"
    large_messages_directory: str = "data/largemessages"
    node_manager_lock_directory: str | None = None
    """None: the journal directory."""
    journal_retention_directory: str | None = None
    journal_type: str = "ASYNCIO"
    journal_datasync: bool = True
    journal_sync_transactional: bool = True
    journal_sync_non_transactional: bool = True
    large_message_sync: bool = True
    journal_file_size: int = 10485760
    journal_min_files: int = 2
    journal_pool_files: int = -1
    journal_compact_min_files: int = 10
    journal_compact_percentage: int = 30
    journal_buffer_size: int = 501760
    journal_buffer_timeout: int | None = None
    """Nanoseconds; None: by journal type."""
    journal_max_io: int | None = None
    journal_device_block_size: int = 4096
    journal_file_open_timeout: int = 5
    """Seconds."""
    journal_lock_acquisition_timeout: int = -1
    log_journal_write_rate: bool = False
    page_sync_timeout: int = 3333333
    """Nanoseconds."""
    page_max_concurrent_io: int = 5
    read_whole_page: bool = False
    purge_page_folders: bool = False
    compress_pages: bool = False

    # Limits
    global_max_size: int = -1
    """-1: the broker chooses from the memory there is."""
    global_max_size_percent_of_jvm_max_memory: int = 50
    global_max_messages: int = -1
    max_disk_usage: int = 90
    """Percent; without effect when ``min_disk_free`` is set."""
    min_disk_free: int = -1
    disk_scan_period: int = 5000
    memory_warning_threshold: int = 25
    """Percent."""
    memory_measure_interval: int = -1

    # Watchdogs
    critical_analyzer: bool = True
    critical_analyzer_timeout: int = 120000
    critical_analyzer_check_period: int | None = None
    """None: half of the timeout."""
    critical_analyzer_policy: str = "LOG"
    network_check_list: str = ""
    network_check_url_list: str = ""
    network_check_period: int = 5000
    network_check_timeout: int = 1000
    network_check_nic: str | None = None
    network_check_ping_command: str = "ping -c 1 -w %d %s"
    network_check_ping6_command: str = "ping6 -c 1 %2$s"

    @property
    def checks_network(self) -> bool:
        """Does the broker run only while one of the places of the network check answers?"""
        return bool(self.network_check_list.strip(" ,\n\t") or self.network_check_url_list.strip(" ,\n\t"))

    # Blocks
    has_ha_policy: bool = False
    """Is there an ``ha-policy`` with anything in it, also one that says that nobody takes over?"""
    acceptors: list[TransportUri] = field(default_factory=list)
    connectors: dict[str, TransportUri] = field(default_factory=dict)
    addresses: list[AddressConfiguration] = field(default_factory=list)
    address_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    security_settings: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    role_mapping: dict[str, frozenset[str]] = field(default_factory=dict)
    """Roles of the user directory to the roles that they stand for in ``security_settings``."""
    resource_limits: dict[str, ResourceLimit] = field(default_factory=dict)
    wildcards: Wildcards = field(default_factory=Wildcards)
    metrics: MetricsConfiguration | None = None
    broadcast_groups: list[BroadcastGroupConfiguration] = field(default_factory=list)
    discovery_groups: dict[str, DiscoveryGroupConfiguration] = field(default_factory=dict)
    cluster_connections: list[ClusterConnectionConfiguration] = field(default_factory=list)
    """The first one is the default one."""
    diverts: list[DivertConfiguration] = field(default_factory=list)
    bridges: list[BridgeConfiguration] = field(default_factory=list)
    grouping_handler: GroupingHandlerConfiguration | None = None
    scale_down: ScaleDownConfiguration | None = None
    database_store: DatabaseStoreConfiguration | None = None
    shared_store: SharedStoreConfiguration | None = None
    replication: ReplicationConfiguration | None = None
    colocated: ColocatedConfiguration | None = None
    hosted: bool = False
    """Is this the backup of another broker, in the process of its host?"""
    automatic_settings: Mapping[int, PartialSettings] = field(default_factory=dict)
    """Not from broker.xml: what holds for addresses that are created because somebody uses them, by routing type."""
    home_cluster: HomeCluster | None = None
    """Not from broker.xml, but from the properties of an instance of Open Message Queue."""

    @property
    def gives_away(self) -> bool:
        """Does this broker, a backup, give its messages to another one as soon as it has taken over?  Others do it when they stop."""
        policy = self.shared_store or self.replication
        return policy is not None and policy.backup and self.scale_down is not None and self.scale_down.enabled

    @property
    def broker_of_store(self) -> str:
        """The name under which this broker's sessions stand in a database: its id, or what else tells it apart, '' without either."""
        if self.home_cluster is not None and self.home_cluster.broker_id:
            return self.home_cluster.broker_id
        return "" if self.database_store is None else self.database_store.broker

    @property
    def joins_others(self) -> bool:
        """Does this broker look for others, or let itself be found?"""
        scale_down = self.scale_down is not None and self.scale_down.enabled
        return bool(self.cluster_connections or self.broadcast_groups or self.bridges or scale_down)

    def address_settings_repository(self) -> AddressSettingsRepository:
        """The address settings, ready to be asked."""
        defaults = AddressSettings(id_cache_size=self.id_cache_size)
        return AddressSettingsRepository(self.wildcards, self.literal_match_markers, defaults, self.address_settings)

    def security_repository(self) -> SecurityRepository:
        """The security settings, ready to be asked."""
        settings: Mapping[str, Mapping[str, frozenset[str]]] = self.security_settings
        return SecurityRepository(self.wildcards, self.literal_match_markers, settings)
