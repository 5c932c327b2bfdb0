"""Duplicate detection: the ids that an address has seen (Artemis manual, chapter on duplicate message detection)."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice

from mqbroker.messaging.ports import Store, StoreBatch

ID_LENGTH_MAX = 128
"""Bytes of a duplicate id that is remembered as it is; of a longer one, which a client may choose at will, its SHA-256 digest."""


SILENT_ROUNDS = 1000
"""A sender that has brought no bridge duplicate id while others brought this many times the kept number will not come back: its ids go
first."""

BATCH_MARK = "batch!".encode("utf-16-le")
"""How the duplicate id of a message begins that belongs to a batch, whose name goes up to the next ``!``."""

_BATCH_END = "!".encode("utf-16-le")


def batch_of(duplicate_id: bytes) -> bytes | None:
    """The common beginning of all duplicate ids of a batch; None for an id of no batch."""
    if not duplicate_id.startswith(BATCH_MARK):
        return None
    end = duplicate_id.find(_BATCH_END, len(BATCH_MARK))
    while end > 0 and end % 2:  # half of one character and half of another
        end = duplicate_id.find(_BATCH_END, end + 1)
    return None if end < 0 else duplicate_id[: end + 2]


def remembered(duplicate_id: bytes) -> bytes:
    """The form in which a duplicate id is kept: a long one as its hash."""
    return duplicate_id if len(duplicate_id) <= ID_LENGTH_MAX else hashlib.sha256(duplicate_id).digest()


class IdsBySender:
    """Bridge duplicate ids with a number each.  An id begins with the node id of its sender; the sender with the most ids loses its oldest
    first.

    So the last ids of a broker whose link was cut are still here when it comes back, however much others have sent to the address meanwhile
    (see :data:`SILENT_ROUNDS`).
    """

    __slots__ = ("_added", "_count", "_heard", "_last", "_senders", "_silent")

    def __init__(self) -> None:
        self._senders: OrderedDict[bytes, OrderedDict[bytes, int]] = OrderedDict()
        """The ids by sender, told apart by the byte of a node id that differs the most: of some hundred senders a few count as one.

        The sender of the latest id is the last entry.
        """
        self._heard: dict[bytes, int] = {}
        """By sender: the number of ids from all senders when its last one came."""
        self._last: OrderedDict[bytes, int] = OrderedDict()
        """The ids of the sender of the latest id."""
        self._silent: OrderedDict[bytes, int] | None = None
        """The ids of a sender that has been silent for too long; it may have lost its last id by now."""
        self._count = 0
        self._added = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, duplicate_id: bytes) -> bool:
        ids = self._senders.get(duplicate_id[3:4])
        return ids is not None and duplicate_id in ids

    def __iter__(self) -> Iterator[bytes]:
        """Sender by sender, the oldest of each first."""
        return chain.from_iterable(self._senders.values())

    def __setitem__(self, duplicate_id: bytes, number: int) -> None:
        ids = self._hear(duplicate_id[3:4])
        if duplicate_id not in ids:
            self._count += 1
            self._added += 1
        ids[duplicate_id] = number

    def add_new(self, duplicate_ids: Sequence[bytes], number: int, size: int) -> list[int]:
        """Add new ids, all different, and after each remove the oldest beyond ``size``.

        Returns the numbers of the removed ids.  So a run leaves the same ids as its messages one by one.
        """
        gone: list[int] = []
        last: bytes | None = None
        ids = self._last
        for duplicate_id in duplicate_ids:
            sender = duplicate_id[3:4]
            if sender != last or not ids:
                ids = self._hear(sender)
                last = sender
            ids[duplicate_id] = number
            self._count += 1
            self._added += 1
            while self._count > size:
                gone.append(self.popitem()[1])
        return gone

    def _hear(self, sender: bytes) -> OrderedDict[bytes, int]:
        """The ids of a sender, to which one is added."""
        ids = self._senders.get(sender)
        if ids is None:
            ids = self._senders[sender] = OrderedDict()
        elif ids is not self._last:
            self._senders.move_to_end(sender)
        self._last = ids
        self._heard[sender] = self._added
        first = next(iter(self._senders))
        self._silent = self._senders[first] if self._added - self._heard[first] > SILENT_ROUNDS * self._count else None
        return ids

    def get(self, duplicate_id: bytes, default: int) -> int:
        return self._senders.get(duplicate_id[3:4], self._last).get(duplicate_id, default)

    def pop(self, duplicate_id: bytes, default: int) -> int:
        if duplicate_id not in self:
            return default
        ids = self._senders[duplicate_id[3:4]]
        number = ids.pop(duplicate_id)
        self._one_gone_from(ids, duplicate_id)
        return number

    def popitem(self, last: bool = False) -> tuple[bytes, int]:
        """Remove the oldest id of the latest sender if that has at least its share, else of the sender with the most ids.

        The ids of a sender that has been silent for too long go before.
        """
        ids = self._silent or self._last
        if not ids or (ids is self._last and len(ids) * len(self._senders) < self._count):
            ids = max(self._senders.values(), key=len, default=ids)
        found = ids.popitem(last=last)
        self._one_gone_from(ids, found[0])
        return found

    def _one_gone_from(self, ids: OrderedDict[bytes, int], duplicate_id: bytes) -> None:
        self._count -= 1
        if not ids:
            del self._senders[duplicate_id[3:4]], self._heard[duplicate_id[3:4]]


class DuplicateIdCache:
    """A ring of the last ``size`` duplicate ids of one address.

    ``persistent`` ids are written with the message that carries them.  An id leaves the ring when ``size`` newer ones have come; with
    ``by_sender`` see :class:`IdsBySender`.
    """

    __slots__ = ("_ids", "_persistent", "_restored", "_shared", "_store", "name", "size")

    def __init__(self, name: str, size: int, store: Store, persistent: bool, *, by_sender: bool = False) -> None:
        self.name = name
        self.size = size
        self._store = store
        self._persistent = persistent
        self._ids: OrderedDict[bytes, int] | IdsBySender = IdsBySender() if by_sender else OrderedDict()
        """Duplicate id to the record id under which the store keeps it, oldest first."""
        self._shared: dict[int, int] = {}
        """Records of several ids, and how many of these are still remembered."""
        self._restored = 0

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, duplicate_id: bytes) -> bool:
        return duplicate_id in self._ids

    def knows_any(self, ids: Iterable[bytes]) -> bool:
        return any(map(self._ids.__contains__, ids))

    def ids(self) -> list[bytes]:
        """All ids, oldest first; ids of bridges sender by sender."""
        return list(self._ids)

    def loses_its_batch(self, duplicate_id: bytes) -> bool:
        """Would a new id push out one of its own batch?  A repetition of the batch would double messages: this one has to be refused."""
        if len(self._ids) < self.size or not duplicate_id.startswith(BATCH_MARK):
            return False
        batch = batch_of(duplicate_id)
        return batch is not None and next(iter(self._ids)).startswith(batch)

    def oldest(self, start: int) -> Iterator[bytes]:
        """The ids from the place ``start`` on, oldest first; good as long as nothing is added."""
        return islice(self._ids, start, None)

    def restore(self, duplicate_id: bytes, record_id: int) -> bool:
        """Take over a stored id; called oldest first, with the ids of one record in a row.  False: it is known by another record already.

        With a smaller size than before, or with ids of another broker, there may be too many; the next added id removes the excess.
        """
        if duplicate_id in self._ids:
            return False
        if record_id == self._restored:
            self._shared[record_id] = self._shared.get(record_id, 1) + 1
        self._restored = record_id
        self._ids[duplicate_id] = record_id
        return True

    def add(self, duplicate_id: bytes, batch: StoreBatch) -> None:
        """Remember an id; it becomes durable with ``batch``."""
        if duplicate_id in self._ids:
            return
        record_id = self._store.next_id() if self._persistent else 0
        if self._persistent:
            batch.add_duplicate_id(self.name, duplicate_id, record_id)
        self._ids[duplicate_id] = record_id
        while len(self._ids) > self.size:
            self._drop_oldest(batch)

    def add_all(self, ids: Sequence[bytes], batch: StoreBatch) -> None:
        """As :meth:`add`, for each; new ones of one length that follow each other are one record of the store."""
        new = set(ids)
        if len(new) < len(ids) or b"" in new or self.knows_any(new):  # an empty id has no place among others
            for duplicate_id in ids:
                self.add(duplicate_id, batch)
            return
        for _, run in groupby(ids, len):
            self.add_run(list(run), batch, self._store.next_id() if self._persistent else 0)

    def add_run(self, ids: Sequence[bytes], batch: StoreBatch, record_id: int) -> None:
        """Remember new ids, all of one length and different from each other, as one record, ``record_id``, of the store."""
        if self._persistent:
            batch.add_duplicate_ids(self.name, len(ids[0]), b"".join(ids), record_id)
            if len(ids) > 1:
                self._shared[record_id] = len(ids)
        else:
            record_id = 0
        known = self._ids
        if isinstance(known, IdsBySender):
            gone = known.add_new(ids, record_id, self.size)
        else:
            known.update(dict.fromkeys(ids, record_id))
            gone = [known.popitem(last=False)[1] for _ in range(len(known) - self.size)]
        if self._persistent:
            for number, count in Counter(gone).items():
                self._release(number, batch, count)

    @property
    def persistent(self) -> bool:
        """Does the store keep the ids?"""
        return self._persistent

    def record_id(self, duplicate_id: bytes) -> int:
        """Under which number the store keeps an id, 0 = it does not."""
        return self._ids.get(duplicate_id, 0)

    def discard(self, duplicate_id: bytes, batch: StoreBatch) -> None:
        """Forget an id whose message was taken back."""
        record_id = self._ids.pop(duplicate_id, 0)
        if record_id:
            self._release(record_id, batch)

    def clear(self, batch: StoreBatch) -> None:
        while self._ids:
            self._drop_oldest(batch)

    def _drop_oldest(self, batch: StoreBatch) -> None:
        _, record_id = self._ids.popitem(last=False)
        if self._persistent:
            self._release(record_id, batch)

    def _release(self, record_id: int, batch: StoreBatch, count: int = 1) -> None:
        """So many ids of a record are forgotten; the record is deleted with its last id."""
        left = self._shared.get(record_id, 1) - count
        if left:
            self._shared[record_id] = left
        else:
            self._shared.pop(record_id, None)
            batch.delete_duplicate_id(record_id)
