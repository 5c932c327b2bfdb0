"""What a broker must account for when nobody uses it: nothing, and the sums of what it keeps must be those of the parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.queues.queue import Queue
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.journal.live import RECORD_BYTES
from mqbroker.storage.files.journal.pages import Kept


def queue_problems(queue: Queue) -> Iterator[str]:
    """Of a queue without messages and consumers."""
    figures = (queue.arriving, queue.durable_message_count, queue.durable_size, queue.persistent_size)
    if any(figures):
        yield f"queue {queue.name}: arriving, durable messages, durable bytes, bytes are {figures}"
    owners = {} if queue.groups is None else queue.groups.owners()
    if owners and not queue.consumer_count:
        yield f"queue {queue.name}: groups {sorted(map(str, owners))} have owners, and there is no consumer"


def messaging_problems(messaging: Messaging) -> Iterator[str]:
    """Of a broker whose clients are gone and whose branches are decided."""
    branches = messaging.branches
    for name, found in (("open", branches._open), ("unprepared", branches._unprepared), ("decided", branches._decided)):
        if found:
            yield f"{name} branches are left: {list(found)}"
    for cache in messaging.core.duplicate_id_caches():
        ids = {duplicate_id: cache._ids.get(duplicate_id, 0) for duplicate_id in cache.ids()}
        counts = Counter(ids.values())
        for record_id, count in cache._shared.items():
            if counts[record_id] != count:
                yield f"duplicate ids of {cache.name}: record {record_id} is said to have {count} of them, and has {counts[record_id]}"


def store_problems(store: FileStore) -> Iterator[str]:
    """Of a store whose queues are empty."""
    journal = store._journal
    for kind, log in (("messages", journal.messages), ("bindings", journal.bindings)):
        for segment in log.segments:
            size = 0
            for key, value in segment.live.items():
                if isinstance(key, Message):
                    size += len(key.buffer) + RECORD_BYTES
                    yield f"message {key.message_id} is left in segment {segment.sequence}, on queues {value}"
                else:
                    size += key.kept_size if isinstance(key, Kept) else len(value)
            if size != segment.live_bytes:
                yield f"segment {segment.sequence} of {kind} is said to have {segment.live_bytes} bytes that are needed, and has {size}"
