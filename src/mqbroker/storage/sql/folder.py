"""The pages of an address in a database: rows that are counted, and read a piece at a time.

A folder has no pages of its own: the rows of its messages that no queue has read are the pages.  All that an earlier broker has left are
such rows, too, up to the place ``adopted``; later ones are marked.  Rows inherited from other brokers come first
(:mod:`mqbroker.storage.sql.source`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PageListener
from mqbroker.storage.sql.source import Source

if TYPE_CHECKING:
    from mqbroker.storage.sql.pager import SqlPager
    from mqbroker.storage.sql.reader import SqlPageReader


class Share:
    """A queue's part of a folder: its ``sources`` in order, those of inherited sessions before the own one.

    ``unread`` messages can be read, ``taken`` ones are in memory and not settled; ``durable_`` counts are those that survive a restart.
    """

    __slots__ = ("arriving", "durable_taken", "durable_unread", "sources", "taken", "unread")

    def __init__(self, own: Source) -> None:
        self.sources = [own]
        self.arriving = 0
        self.unread = 0
        self.durable_unread = 0
        self.taken = 0
        self.durable_taken = 0

    @property
    def own(self) -> Source:
        return self.sources[-1]

    @property
    def source(self) -> Source:
        """The one that is read next."""
        for source in self.sources:
            if source.unread > 0:
                return source
        return self.sources[-1]

    @property
    def left(self) -> int:
        """Messages that are not settled."""
        return self.arriving + self.unread + self.taken

    def inherit(self, source: Source) -> None:
        """Messages of another broker come behind those that came from others before, and before the own ones."""
        self.sources.insert(len(self.sources) - 1, source)
        self.unread += source.unread
        self.durable_unread += source.unread

    def following(self, source: Source) -> Source | None:
        """The source behind this one."""
        if source not in self.sources:
            return None
        number = self.sources.index(source) + 1
        return self.sources[number] if number < len(self.sources) else None


class SqlFolder:
    """See :class:`mqbroker.messaging.ports.PageFolder`.  ``readable`` is the place up to which own messages can be read."""

    def __init__(self, pager: SqlPager, address: str) -> None:
        self.address = address
        self.listener: PageListener | None = None
        self.readable = 0
        self.shares: dict[int, Share] = {}
        self._pager = pager
        self._floor = 0
        """The place behind which readers begin."""
        self._page_size = 0
        self._bytes = 0
        self._counted = 0
        """Messages that came to the pages, with these bytes together."""

    # --- the contract

    @property
    def messages(self) -> int:
        """Messages that some queue has not settled; of several queues the one with the most counts."""
        return max((share.left for share in self.shares.values()), default=0)

    @property
    def page_count(self) -> int:
        """Pages that files would need; at least one while there are messages."""
        messages = self.messages
        if not messages:
            return 0
        if not self._page_size or not self._counted:
            return 1
        return max(1, -(-messages * self._bytes // (self._counted * self._page_size)))

    def queue_ids(self) -> Iterable[int]:
        return [queue_id for queue_id, share in self.shares.items() if share.left]

    def remaining(self, queue_id: int, durable: bool = False) -> int:
        share = self.shares.get(queue_id)
        if share is None:
            return 0
        return share.durable_unread if durable else share.unread

    def reader(self, queue_id: int) -> SqlPageReader:
        return self._pager.reader(self, queue_id)

    def forget(self, queue_id: int) -> None:
        share = self.shares.pop(queue_id, None)
        if share is not None:
            self._pager.drop_rows(self.address, share.sources)
            for source in share.sources:
                source.settled(source.unsettled)
            self.check()

    # --- accounts

    def share(self, queue_id: int) -> Share:
        found = self.shares.get(queue_id)
        if found is None:
            found = self.shares[queue_id] = Share(self._pager.own_source(self, queue_id, self._floor))
        return found

    def came(self, message: Message, queue_ids: Iterable[int], page_size: int) -> None:
        """A message was handed over for the pages."""
        self._page_size = page_size
        self._bytes += len(message.buffer)
        self._counted += 1
        for queue_id in queue_ids:
            self.share(queue_id).arriving += 1

    def arrived(self, queue_id: int, messages: int, durable: int) -> None:
        """Messages of a queue are durable, and can be read."""
        share = self.shares.get(queue_id)
        if share is None:
            return
        share.arriving -= messages
        share.unread += messages
        share.own.unread += messages
        share.durable_unread += durable
        if self.listener is not None:
            self.listener.arrived(queue_id, messages)

    def take(self, queue_id: int, source: Source, durable: bool) -> None:
        """A queue has read one message."""
        share = self.shares[queue_id]
        source.unread -= 1
        share.unread -= 1
        share.taken += 1
        share.durable_unread -= durable
        share.durable_taken += durable

    def settled(self, queue_id: int, source: Source, durable: bool) -> None:
        """A queue is done with a message that it has read."""
        share = self.shares.get(queue_id)
        if share is not None:
            share.taken -= 1
            share.durable_taken -= durable
            if source.origin is not None:
                source.settled(1)
            self.check()

    def lost(self, queue_id: int, source: Source, messages: int) -> None:
        """So many unread messages cannot be read."""
        share = self.shares[queue_id]
        source.unread -= messages
        share.unread -= messages
        share.durable_unread -= messages
        source.settled(messages)
        if self.listener is not None:
            self.listener.lost(queue_id, messages)
        self.check()

    def check(self) -> None:
        """Tell when nothing is left."""
        if any(share.left for share in self.shares.values()):
            return
        self._floor = self._pager.last_place
        self.readable = max(self.readable, self._floor)
        self.shares.clear()
        self._bytes = self._counted = 0
        if self.listener is not None:
            self.listener.emptied()
