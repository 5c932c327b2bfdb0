"""Attributes of the resource ``broker`` that show its configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqbroker.server.management.registry import ServerResource


def _configured(name: str) -> Callable[[ServerResource], Any]:
    return lambda control: getattr(control.server.configuration, name)


def _connectors(control: ServerResource) -> str:
    connectors = control.server.configuration.connectors
    return json.dumps([{"name": name, "params": {"host": uri.host, "port": str(uri.port)}} for name, uri in connectors.items()])


def _ha_policy(control: ServerResource) -> str:
    """As Artemis names it."""
    configuration = control.server.configuration
    if configuration.colocated is not None:
        return "Colocated"
    shared, copied = configuration.shared_store, configuration.replication
    if shared is not None:
        return "Shared Store Backup" if shared.backup else "Shared Store Primary"
    if copied is not None:
        role, proof = "Backup" if copied.backup else "Primary", "quorum voting" if copied.manager is None else "lock manager"
        return f"Replication {role} w/{proof}"
    return "Primary Only"


CONFIGURED_ATTRIBUTES: dict[str, Callable[[ServerResource], Any]] = {
    "AsyncConnectionExecutionEnabled": _configured("async_connection_execution_enabled"),
    "BindingsDirectory": _configured("bindings_directory"),
    "ConnectionTTLOverride": _configured("connection_ttl_override"),
    "CreateBindingsDir": _configured("create_bindings_dir"),
    "CreateJournalDir": _configured("create_journal_dir"),
    "DiskScanPeriod": _configured("disk_scan_period"),
    "IDCacheSize": _configured("id_cache_size"),
    "IncomingInterceptorClassNames": _configured("remoting_incoming_interceptors"),
    "JournalBufferSize": _configured("journal_buffer_size"),
    "JournalBufferTimeout": _configured("journal_buffer_timeout"),
    "JournalCompactMinFiles": _configured("journal_compact_min_files"),
    "JournalCompactPercentage": _configured("journal_compact_percentage"),
    "JournalDirectory": _configured("journal_directory"),
    "JournalFileSize": _configured("journal_file_size"),
    "JournalMaxIO": _configured("journal_max_io"),
    "JournalMinFiles": _configured("journal_min_files"),
    "JournalPoolFiles": _configured("journal_pool_files"),
    "JournalSyncNonTransactional": _configured("journal_sync_non_transactional"),
    "JournalSyncTransactional": _configured("journal_sync_transactional"),
    "JournalType": _configured("journal_type"),
    "LargeMessagesDirectory": _configured("large_messages_directory"),
    "ManagementAddress": _configured("management_address"),
    "ManagementNotificationAddress": _configured("management_notification_address"),
    "MaxDiskUsage": _configured("max_disk_usage"),
    "MessageCounterEnabled": _configured("message_counter_enabled"),
    "MessageCounterMaxDayCount": _configured("message_counter_max_day_history"),
    "MessageCounterSamplePeriod": _configured("message_counter_sample_period"),
    "MessageExpiryScanPeriod": _configured("message_expiry_scan_period"),
    "MessageExpiryThreadPriority": _configured("message_expiry_thread_priority"),
    "Name": _configured("name"),
    "OutgoingInterceptorClassNames": _configured("remoting_outgoing_interceptors"),
    "PagingDirectory": _configured("paging_directory"),
    "PersistDeliveryCountBeforeDelivery": _configured("persist_delivery_count_before_delivery"),
    "PersistIDCache": _configured("persist_id_cache"),
    "PersistenceEnabled": _configured("persistence_enabled"),
    "ScheduledThreadPoolMaxSize": _configured("scheduled_thread_pool_max_size"),
    "SecurityEnabled": _configured("security_enabled"),
    "SecurityInvalidationInterval": _configured("security_invalidation_interval"),
    "ThreadPoolMaxSize": _configured("thread_pool_max_size"),
    "TransactionTimeout": _configured("transaction_timeout"),
    "TransactionTimeoutScanPeriod": _configured("transaction_timeout_scan_period"),
    "ConnectorsAsJSON": _connectors,
    "HAPolicy": _ha_policy,
    "SharedStore": lambda control: control.server.configuration.shared_store is not None,
}
