"""Small limits: what the broker does in pieces it does in many of them, although a short run has few messages.

The production code reads these constants when it works, not when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

SMALL = {
    "mqbroker.messaging.turn.SCANNED_MAX": 12,
    "mqbroker.messaging.turn.SCAN_STEP": 3,
    "mqbroker.server.connection.REQUESTS_MAX": 2,
    "mqbroker.messaging.steps.SCANNED_MAX": 6,
    "mqbroker.messaging.removal.DISCARDED_TOGETHER": 3,
    "mqbroker.messaging.reapers.REFERENCES_PER_STEP": 10,
    "mqbroker.messaging.references.REFERENCES_AHEAD": 3,
    "mqbroker.messaging.references.MADE_TOGETHER": 2,
    "mqbroker.messaging.groups.GROUPS_MAX": 2,
    "mqbroker.messaging.routing.ROUTES_CACHED_MAX": 6,
    "mqbroker.messaging.restoring.RUN_LENGTH": 3,
    "mqbroker.messaging.ring.REMOVED_TOGETHER": 2,
    "mqbroker.messaging.paging.PIECES_PER_TURN": 2,
    "mqbroker.messaging.paging.PIECES_PER_SEARCH": 3,
    "mqbroker.messaging.memory.PAGE_BACKLOG_MAX": 4000,
    "mqbroker.storage.page_reader.PIECE_SIZE": 700,
    "mqbroker.storage.page_reader.CACHED_BYTES_MAX": 12_000,
    "mqbroker.storage.pager.FRAME_CONTENT": 900,
    "mqbroker.storage.batch.ADDRESSES_KEPT": 3,
    "mqbroker.storage.compaction.STEP_RECORDS": 8,
    "mqbroker.storage.compaction.STEP_BYTES": 2000,
    "mqbroker.storage.compaction.SWEEP_ENTRIES": 5,
    "mqbroker.storage.largebodies.IN_FLIGHT_MAX": 8000,
    "mqbroker.storage.filestore.ID_BLOCK": 64,
    "mqbroker.storage.recover.COPY_CHUNK": 700,
}


@contextmanager
def small() -> Iterator[None]:
    """While this lasts the limits of :data:`SMALL` hold."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(mock.patch(name, value))
        yield
