"""What a database may have when all queues are empty: definitions, settings, and the duplicate ids that are remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mqbroker.messaging.messaging import Messaging
from tests.simulation.database.server import DatabaseServer


def problems(server: DatabaseServer, messaging: Messaging) -> Iterator[str]:
    """Rows that nobody needs any more, or that are missing."""
    yield from left(server)
    kept = {record for cache in messaging.core.duplicate_id_caches() for record in cache._ids.values()}
    stored = {row[0] for row in server.ask("SELECT record FROM {duplicate}")}
    if not stored <= kept:
        yield f"the database has duplicate ids under {sorted(stored - kept)}, of which nobody knows"
    definitions = {queue.queue_id for queue in messaging.core.queues.values() if queue.definition.durable}
    queues = {row[0]: json.loads(row[1]) for row in server.ask("SELECT id, value FROM {queue}")}
    for queue_id in queues.keys() ^ definitions:
        yield f"queue {queue_id} is {f'there only in the database: {queues[queue_id]}' if queue_id in queues else 'not in the database'}"
    sessions = server.ask("SELECT session, node_id FROM {session}")
    if len(sessions) != 1:
        yield f"there are {len(sessions)} sessions: {sessions}"


def left(server: DatabaseServer) -> Iterator[str]:
    """Rows of messages that are there although all queues are empty."""
    for name in ("reference", "message", "body", "branch", "removal"):
        rows = server.ask(f"SELECT * FROM {{{name}}}")
        if rows:
            yield f"{len(rows)} rows are left in the table of {name}: {[_short(row) for row in rows[:3]]}"


def _short(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(f"{len(each)} bytes" if isinstance(each, bytes) else each for each in row)
