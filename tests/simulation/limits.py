"""Small limits: what the broker does in pieces it does in many of them, although a short run has few messages.

The production code reads these constants when it works, not when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

SMALL: dict[str, object] = {
    "mqbroker.messaging.turn.SCANNED_MAX": 12,
    "mqbroker.messaging.turn.SCAN_STEP": 3,
    "mqbroker.messaging.steps.SCANNED_MAX": 6,
    "mqbroker.messaging.removal.DISCARDED_TOGETHER": 3,
    "mqbroker.messaging.reapers.REFERENCES_PER_STEP": 10,
    "mqbroker.messaging.references.REFERENCES_AHEAD": 3,
    "mqbroker.messaging.references.MADE_TOGETHER": 2,
    "mqbroker.messaging.indexed_references.GAPS_KEPT": 3,
    "mqbroker.messaging.indexed_references.RUNS_MERGED": 2,
    "mqbroker.messaging.groups.GROUPS_MAX": 2,
    "mqbroker.messaging.groups.SHARED_BUCKETS": 2,
    "mqbroker.messaging.message.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.messaging.routing.ROUTES_CACHED_MAX": 6,
    "mqbroker.messaging.restoring.RUN_LENGTH": 3,
    "mqbroker.messaging.ring.REMOVED_TOGETHER": 2,
    "mqbroker.messaging.readers.SETTLED_TOGETHER": 3,
    "mqbroker.messaging.reading.BODIES_KEPT_MAX": 2,
    "mqbroker.messaging.ranges.TRAIL_LENGTH": 3,
    "mqbroker.messaging.places.PLACES_KEPT_MAX": 2,
    "mqbroker.messaging.places.PLACES_IN_ALL_MAX": 3,
    "mqbroker.messaging.selection.ARRIVALS_LOOKED_AT_MAX": 2,
    "mqbroker.messaging.awaited.MISSED_MAX": 2,
    "mqbroker.messaging.paging.PIECES_PER_TURN": 2,
    "mqbroker.messaging.paging.PIECES_PER_SEARCH": 3,
    "mqbroker.messaging.memory.PAGE_BACKLOG_MAX": 4000,
    "mqbroker.storage.journal.FRAME_CONTENT": 600,
    "mqbroker.storage.segments.SPARES_MAX": 2,
    "mqbroker.storage.segments.FILL_BELOW": 300,
    "mqbroker.storage.segments._ZEROS": bytes(1000),
    "mqbroker.storage.page_reader.PIECE_SIZE": 700,
    "mqbroker.storage.page_reader.CACHED_BYTES_MAX": 12_000,
    "mqbroker.storage.pager.FRAME_CONTENT": 900,
    "mqbroker.storage.pager.COMPRESS_MIN": 300,
    "mqbroker.storage.batch.ADDRESSES_KEPT": 3,
    "mqbroker.storage.compaction.STEP_RECORDS": 8,
    "mqbroker.storage.compaction.STEP_BYTES": 2000,
    "mqbroker.storage.compaction.SWEEP_ENTRIES": 5,
    "mqbroker.storage.largebodies.IN_FLIGHT_MAX": 8000,
    "mqbroker.storage.largebodies.OPEN_FILES_MAX": 1,
    "mqbroker.storage.filestore.ID_BLOCK": 64,
    "mqbroker.storage.recover.COPY_CHUNK": 700,
    "mqbroker.server.connection.REQUESTS_MAX": 2,
    "mqbroker.server.connection.FLUSH_BYTES": 1500,
    "mqbroker.server.connection.COSTLY_FILTER_LENGTH": 30,
    "mqbroker.server.limits.COSTLY_FILTER_LENGTH": 30,
    "mqbroker.server.departing.DELETED_TOGETHER": 2,
    "mqbroker.server.permissions.REMEMBERED_MAX": 2,
    "mqbroker.server.session.KEPT_MAX": 20_000,
    "mqbroker.server.session._KEPT_STEP": 500,
    "mqbroker.server.partial_frames.HELD_MAX": 3000,
    "mqbroker.server.sends.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.send_runs.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.send_runs.PLAINS_MAX": 2,
    "mqbroker.server.arrival_runs.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.arrival_runs.TARGETS_MAX": 2,
    "mqbroker.cluster.flow.TOLD_PER_TURN": 2,
    "mqbroker.cluster.rerouting.MOVED_PER_TURN": 2,
    "mqbroker.cluster.ways.REMOVED_PER_TURN": 2,
    "mqbroker.cluster.forwarder.IN_FLIGHT_MESSAGES_MAX": 3,
    "mqbroker.cluster.forwarder.IN_FLIGHT_BYTES_MAX": 4000,
    "mqclient.core.async_sends.UNANSWERED_MAX": 3000,
    "mqclient.core.encoded_sends.CHUNKS_UNANSWERED_MAX": 2500,
    "mqclient.core.encoded_sends.ADDRESSES_MAX": 2,
    "mqclient.core.channel._QUEUE_MAX": 3,
    "mqclient.core.flow.UNLIMITED_SPARE": 2000,
    "mqclient.protocol.connection.ROOM_MIN": 500,
}


@contextmanager
def small() -> Iterator[None]:
    """While this lasts the limits of :data:`SMALL` hold."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(mock.patch(name, value))
        yield
