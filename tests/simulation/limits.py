"""Small limits: what the broker does in pieces it does in many of them, although a short run has few messages.

The production code reads these constants when it works, not when it is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

SMALL: dict[str, object] = {
    "mqbroker.messaging.turns.turn.SCANNED_MAX": 12,
    "mqbroker.messaging.turns.turn.SCAN_STEP": 3,
    "mqbroker.messaging.turns.steps.SCANNED_MAX": 6,
    "mqbroker.messaging.administration.removal.DISCARDED_TOGETHER": 3,
    "mqbroker.messaging.administration.reapers.REFERENCES_PER_STEP": 10,
    "mqbroker.messaging.queues.references.REFERENCES_AHEAD": 3,
    "mqbroker.messaging.queues.references.MADE_TOGETHER": 2,
    "mqbroker.messaging.queues.indexed_references.GAPS_KEPT": 3,
    "mqbroker.messaging.queues.indexed_references.RUNS_MERGED": 2,
    "mqbroker.messaging.queues.groups.GROUPS_MAX": 2,
    "mqbroker.messaging.queues.groups.SHARED_BUCKETS": 2,
    "mqbroker.messaging.message.message.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.messaging.routing.routing.ROUTES_CACHED_MAX": 6,
    "mqbroker.messaging.delivery.restoring.RUN_LENGTH": 3,
    "mqbroker.messaging.queues.ring.REMOVED_TOGETHER": 2,
    "mqbroker.messaging.readers.readers.SETTLED_TOGETHER": 3,
    "mqbroker.messaging.readers.reading.BODIES_KEPT_MAX": 2,
    "mqbroker.messaging.readers.ranges.TRAIL_LENGTH": 3,
    "mqbroker.messaging.readers.places.PLACES_KEPT_MAX": 2,
    "mqbroker.messaging.readers.places.PLACES_IN_ALL_MAX": 3,
    "mqbroker.messaging.administration.selection.ARRIVALS_LOOKED_AT_MAX": 2,
    "mqbroker.messaging.routing.awaited.MISSED_MAX": 2,
    "mqbroker.messaging.queues.queue_pages.PIECES_PER_TURN": 2,
    "mqbroker.messaging.queues.queue_pages.PIECES_PER_SEARCH": 3,
    "mqbroker.messaging.message.memory.PAGE_BACKLOG_MAX": 4000,
    "mqbroker.storage.files.journal.journal.FRAME_CONTENT": 600,
    "mqbroker.storage.files.journal.segments.SPARES_MAX": 2,
    "mqbroker.storage.files.journal.segments.FILL_BELOW": 300,
    "mqbroker.storage.files.journal.segments._ZEROS": bytes(1000),
    "mqbroker.storage.files.pages.reader.PIECE_SIZE": 700,
    "mqbroker.storage.files.pages.reader.CACHED_BYTES_MAX": 12_000,
    "mqbroker.storage.files.pages.pager.FRAME_CONTENT": 900,
    "mqbroker.storage.files.pages.pager.COMPRESS_MIN": 300,
    "mqbroker.storage.files.journal.batch.ADDRESSES_KEPT": 3,
    "mqbroker.storage.files.journal.compaction.STEP_RECORDS": 8,
    "mqbroker.storage.files.journal.compaction.STEP_BYTES": 2000,
    "mqbroker.storage.files.journal.compaction.SWEEP_ENTRIES": 5,
    "mqbroker.storage.files.largebodies.IN_FLIGHT_MAX": 8000,
    "mqbroker.storage.files.largebodies.OPEN_FILES_MAX": 1,
    "mqbroker.storage.files.filestore.ID_BLOCK": 64,
    "mqbroker.storage.files.recover.COPY_CHUNK": 700,
    "mqbroker.storage.mirror.copying.PIECE": 2000,
    "mqbroker.storage.mirror.copying.FILE_COST": 500,
    "mqbroker.storage.mirror.copying.FILES_PER_STEP": 3,
    "mqbroker.storage.mirror.copying.SYNC_BYTES": 4000,
    "mqbroker.storage.mirror.outgoing.TOGETHER_MAX": 1500,
    "mqbroker.storage.mirror.outgoing.WRITE_MAX": 700,
    "mqbroker.storage.mirror.feed.COPY_BEHIND_MAX": 20_000,
    "mqbroker.storage.mirror.feed.BEHIND_MAX": 40_000,
    "mqbroker.storage.sql.bodies.PIECE_SIZE": 700,
    "mqbroker.storage.sql.bodies.LOOKED_AT_MAX": 2,
    "mqbroker.storage.sql.work.PIECE_SIZE": 700,
    "mqbroker.storage.sql.work.BODY_PIECES": 2,
    "mqbroker.storage.sql.removals.PIECE_ROWS": 5,
    "mqbroker.storage.sql.removals.PIECE_BYTES": 1500,
    "mqbroker.storage.sql.rows.PIECE_ROWS": 5,
    "mqbroker.storage.sql.reader.PIECE_ROWS": 5,
    "mqbroker.storage.sql.rows.PIECES_KEPT": 3,
    "mqbroker.storage.sql.sqlstore.ID_BLOCK": 600,
    "mqbroker.ha.replication.packets.CHANGES_MAX": 3000,
    "mqbroker.server.transport.connection.REQUESTS_MAX": 2,
    "mqbroker.server.transport.connection.FLUSH_BYTES": 1500,
    "mqbroker.server.transport.connection.COSTLY_FILTER_LENGTH": 30,
    "mqbroker.server.transport.limits.COSTLY_FILTER_LENGTH": 30,
    "mqbroker.server.transport.departing.DELETED_TOGETHER": 2,
    "mqbroker.server.security.permissions.REMEMBERED_MAX": 2,
    "mqbroker.server.session_state.KEPT_MAX": 20_000,
    "mqbroker.server.session_state._KEPT_STEP": 500,
    "mqbroker.server.transport.partial_frames.HELD_MAX": 3000,
    "mqbroker.server.session.sends.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.runs.property_tables.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.runs.run_targets.PROPERTIES_CHECKED_FROM": 150,
    "mqbroker.server.runs.run_targets.TARGETS_MAX": 2,
    "mqbroker.cluster.remote_queues.flow.TOLD_PER_TURN": 2,
    "mqbroker.cluster.remote_queues.rerouting.MOVED_PER_TURN": 2,
    "mqbroker.cluster.remote_queues.ways.REMOVED_PER_TURN": 2,
    "mqbroker.cluster.links.forwarder.IN_FLIGHT_MESSAGES_MAX": 3,
    "mqbroker.cluster.links.forwarder.IN_FLIGHT_BYTES_MAX": 4000,
    "mqclient.core.sending.async_sends.UNANSWERED_MAX": 3000,
    "mqclient.core.sending.encoded_sends.CHUNKS_UNANSWERED_MAX": 2500,
    "mqclient.core.sending.encoded_sends.ADDRESSES_MAX": 2,
    "mqclient.core.connection.channel._QUEUE_MAX": 3,
    "mqclient.core.sending.flow.UNLIMITED_SPARE": 2000,
    "mqclient.protocol.connection.ROOM_MIN": 500,
}


@contextmanager
def small() -> Iterator[None]:
    """While this lasts the limits of :data:`SMALL` hold."""
    places = [(import_module(module), name, value) for place, value in SMALL.items() for module, _, name in (place.rpartition("."),)]
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    for module, name, value in places:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
