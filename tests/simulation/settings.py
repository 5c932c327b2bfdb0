"""What the broker of a run is told: addresses and queues, their settings, and the files of its store."""

from __future__ import annotations

from dataclasses import replace

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.storage.settings import StoreSettings
from tests.simulation.diverting import ALL_GOODS, AUDIT, DIVERTS
from tests.simulation.policies import ARCHIVE, DEAD_LETTERS, EXPIRED, FLEETING, PERISHABLES, RETURNS, SORTED, SORTED_QUEUE, Plan

ANYCAST, MULTICAST = 1, 0
QUEUES: dict[str, tuple[str, ...]] = {
    "orders": ("orders",),
    "jobs": ("jobs",),
    "shipped": ("shipped",),
    "stock": ("stock",),
    ARCHIVE: (ARCHIVE,),
    "news": ("news.archive", "news.mail"),
    PERISHABLES: (PERISHABLES,),
    SORTED: (SORTED_QUEUE,),
    RETURNS: (RETURNS,),
    FLEETING: (FLEETING,),
    **{name: (name,) for name in ALL_GOODS},
    DEAD_LETTERS: (DEAD_LETTERS,),
    EXPIRED: (EXPIRED,),
}
"""The queues of each address; those that get messages of others come last, as they are drained in this order."""
MULTICAST_ADDRESSES = ("news",)

STORE = StoreSettings(
    "/data/journal",
    "/data/bindings",
    "/data/large-messages",
    "/data/paging",
    journal_file_size=4 * 1024,
    bindings_file_size=2 * 1024,
    journal_compact_min_files=2,
    journal_compact_percentage=70,
)
"""Small files, so that a short run begins many and compacts them."""

DISK_SIZE = 64 * 1024 * 1024
"""Bytes of the disk that the broker's guard looks at."""
DISK_SCAN_MS = 150


def store_settings(plan: Plan) -> StoreSettings:
    return replace(
        STORE, compress_pages=plan.compress_pages, purge_page_folders=plan.purge_page_folders, journal_file_size=plan.journal_bytes
    )


def configuration(plan: Plan) -> Configuration:
    addresses = []
    for address, queues in QUEUES.items():
        kind = MULTICAST if address in MULTICAST_ADDRESSES else ANYCAST
        selector = "color = 'red'" if address == SORTED else None
        entries = [QueueConfiguration(name, address, kind, filter_string=selector, configuration_managed=True) for name in queues]
        addresses.append(AddressConfiguration(address, frozenset((kind,)), entries))
    return Configuration(
        security_enabled=False,
        addresses=addresses,
        diverts=list(DIVERTS),
        address_settings={
            "#": {"max_delivery_attempts": -1, "expiry_address": EXPIRED, "id_cache_size": plan.id_cache},
            "jobs": {
                "max_delivery_attempts": 3,
                "dead_letter_address": DEAD_LETTERS,
                "redelivery_delay": plan.redelivery_delay,
                "address_full_policy": "PAGE",
                "max_size_bytes": plan.paging,
                "page_size_bytes": plan.page_bytes,
            },
            "admin.#": {
                "max_delivery_attempts": 2,
                "id_cache_size": 8,
                "expiry_address": "admin.other",
                "address_full_policy": "PAGE",
                "max_size_bytes": plan.paging,
                "page_size_bytes": 1000,
            },
            ARCHIVE: {"address_full_policy": "PAGE", "max_size_bytes": plan.paging, "page_size_bytes": 1200},
            AUDIT: {"address_full_policy": "PAGE", "max_size_bytes": plan.paging, "page_size_bytes": 1000},
            "news": {"address_full_policy": "PAGE", "max_size_bytes": plan.paging, "page_size_bytes": 1000},
            **plan.settings(),
        },
        message_expiry_scan_period=500,
        address_queue_scan_period=1000,
        transaction_timeout_scan_period=300,
        persist_delivery_count_before_delivery=plan.count_before_delivery,
        disk_scan_period=DISK_SCAN_MS,
        graceful_shutdown_enabled=plan.graceful_ms >= 0,
        graceful_shutdown_timeout=plan.graceful_ms,
    )
