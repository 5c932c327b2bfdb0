"""Browsers: consumers that take nothing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import PagedMessage, PagePlace, PageReader
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.server.session.consumers import ServerConsumer

if TYPE_CHECKING:
    from mqbroker.server.session_state import SessionState


class BrowsingConsumer(ServerConsumer):
    """A consumer that shows the waiting messages, in memory and then in pages, and takes none."""

    __slots__ = ("_ahead", "_awaits_page", "_browsing", "_looked", "_pages")

    browse_only = True

    def __init__(self, session: SessionState, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> None:
        super().__init__(session, consumer_id, queue, filter, priority)
        self.cursor = Cursor(restarts=False)
        self._pages: dict[str, PageReader] = {}
        """The position in the pages of each address."""
        self._looked: deque[PagedMessage] = deque()
        self._browsing = False
        self._awaits_page = False
        """The next page has not been read yet."""

    @property
    def searching(self) -> bool:
        return self.ready and self.cursor is not None and self.cursor.unfinished

    def _became_ready(self) -> None:
        self._deliver_now()

    def _deliver_now(self) -> None:
        if self._browsing:
            return
        if self.cursor is not None:
            self.cursor.unfinished = False
        self._browsing = True
        try:
            while self.ready and not self.queue.deleted and self.cursor is not None:
                scan = self.session.server.turn.scan
                reference = self.queue.references.search(self.cursor, self._shown, scan)
                if reference is not None:
                    self.messages_delivered += 1
                    self.transmit(reference.message, reference.delivery_count)
                    continue
                # A piece of a page counts like a step of the search.
                self.cursor.unfinished = scan.left <= 0 or not (self._looked or scan.take())
                if self.cursor.unfinished:
                    self.session.server.clock.call_later(0, self._browse_on)
                    break
                if self._awaits_page or not self._look():
                    self.cursor.unfinished = self._awaits_page
                    break
                message, delivery_count, _ = self._looked.popleft()
                if self._wanted(message):
                    self.messages_delivered += 1
                    self.transmit(message, delivery_count)
        finally:
            self._browsing = False

    def _browse_on(self) -> None:
        """The budget of a turn was not enough."""
        if not self.closed and self.searching:
            self.session.server.turn.run(self._deliver_now)

    def _page_came(self) -> None:
        self._awaits_page = False
        self._browse_on()
        if self._search_due:
            self._search_on()

    def _search_later(self) -> None:
        if not self._awaits_page:
            self.session.server.clock.call_later(0, self._search_on)

    def _look(self) -> bool:
        """Read on in the pages until there is a message to show.  False at the end of the pages, and while a page is being read."""
        pages = self.queue.pages
        while not self._looked and pages is not None:
            try:
                messages = pages.look_on(self._pages)
            except NotYet as pending:
                self._awaits_page = True
                pending.when_there(self._page_came)
                break
            if messages is None:
                break
            self._looked.extend(messages)
        return bool(self._looked)

    def _shown(self, reference: Reference) -> bool:
        place = reference.message.store_state
        if isinstance(place, PagePlace) and any(reader.passed(place) for reader in self._pages.values()):
            return False
        return self._wanted(reference.message)

    def _wanted(self, message: Message) -> bool:
        expiration = message.expiration
        if expiration and expiration <= self.session.server.clock.wall_ms():
            return False
        return self.filter is None or self.filter.matches(message)

    def _leave_queue(self) -> None:
        if self.cursor is not None:
            self.cursor.close()
            self.cursor = None
