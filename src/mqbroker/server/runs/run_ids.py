"""The duplicate ids of the messages of one run.  Either each message has a new id, all of one length, or none has an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.routing.duplicates import BATCH_MARK, ID_LENGTH_MAX, batch_of, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.delivery.transaction import Transaction
    from mqbroker.messaging.ports import StoreBatch
    from mqbroker.messaging.routing.duplicates import DuplicateIdCache


class RunIds:
    """``name`` is the name of the cache of the ids.  ``transacted``: the ids are remembered when the transaction is committed."""

    __slots__ = ("_batch", "_cache", "_core", "_ids", "_name", "_oldest", "_oldest_at", "_record_id", "_size", "_transacted")

    def __init__(self, core: MessagingCore, name: str, transacted: bool) -> None:
        self._core = core
        self._name = name
        self._transacted = transacted
        self._cache: DuplicateIdCache | None = None
        self._ids: dict[bytes, None] = {}
        self._size = 0
        self._record_id = 0
        self._batch: bytes | None = None
        self._oldest: Iterator[bytes] = iter(())
        """The ids that the run pushes out, from the place ``_oldest_at`` on."""
        self._oldest_at = -1

    def __bool__(self) -> bool:
        return bool(self._ids)

    def take(self, data: bytes, start: int, id_at: tuple[int, int] | None, begun: bool) -> bool:
        """Take the id of a message if the message may be the next of the run; ``begun`` is False for the first message.

        ``id_at`` is the place of the id in the table of properties, which begins at ``start`` of ``data``; None for a message without an
        id.  Raises MQError when the store has no number left for the record of the ids.
        """
        if id_at is None:
            return not self._ids
        cache = self._cache
        if cache is None:
            cache = self._cache = self._core.duplicate_ids(self._name)
            if cache is None:  # nothing is remembered there
                return True
        found = data[start + id_at[0] : start + id_at[1]]
        if len(found) > ID_LENGTH_MAX:
            found = remembered(found)
        if (begun and (not self._ids or len(found) != self._size)) or found in cache or found in self._ids:
            return False  # the answer to a known id waits for the message that brought the id first
        if not self._transacted:
            if found.startswith(BATCH_MARK) and self._loses_its_batch(cache, found):
                return False
            if not self._record_id and cache.persistent:
                self._record_id = self._core.store.next_id()
        self._ids[found] = None
        self._size = len(found)
        return True

    def keep(self, count: int) -> None:
        """The run ends after ``count`` messages: drop an id that was taken for a later one."""
        if len(self._ids) > count:
            self._ids.popitem()

    def _loses_its_batch(self, cache: DuplicateIdCache, found: bytes) -> bool:
        """As :meth:`DuplicateIdCache.loses_its_batch`, after the ids of the run."""
        place = len(cache) + len(self._ids) - cache.size
        if place < 0:
            return False
        if place != self._oldest_at:
            self._oldest = cache.oldest(place)
        self._oldest_at = place + 1
        batch = self._batch
        if batch is None or not found.startswith(batch):
            batch = self._batch = batch_of(found)
        oldest = next(self._oldest, None)
        return batch is not None and (oldest is None or oldest.startswith(batch))

    def store(self, batch: StoreBatch) -> None:
        """Remember the ids, durably with ``batch``."""
        assert self._cache is not None
        self._cache.add_run(list(self._ids), batch, self._record_id)

    def join(self, transaction: Transaction) -> None:
        """Remember the ids with the commit of ``transaction``."""
        if self._cache is not None:
            transaction.add_duplicate_ids(self._cache, self._ids)
