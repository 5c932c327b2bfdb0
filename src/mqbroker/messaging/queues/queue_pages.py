"""The messages of one queue in pages, and its place there (decision 34)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import Clock, PagedMessage, PageFolder, PagePlace, PageReader, Store
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.references import Loan, Reference
from mqbroker.messaging.queues.scheduled import scheduled_time_of

if TYPE_CHECKING:
    from mqbroker.messaging.message.memory import AddressMemory, GlobalMemory
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import StepwiseWork
    from mqbroker.messaging.turns.turn import Turn

PIECES_PER_TURN = 4
"""Pieces of pages that a queue reads before others get a turn: some milliseconds."""

PIECES_PER_SEARCH = 64
"""Pieces of pages that a queue reads before others get a turn while there is nothing for the queue in them."""


class PagingOwner(Protocol):
    """The objects that paging uses: store, turns and accounts of all addresses."""

    store: Store
    clock: Clock
    turn: Turn
    steps: StepwiseWork
    global_memory: GlobalMemory

    def account_of(self, name: str) -> AddressMemory:
        """The account of an address."""

    def hold(self, reference: Reference, account: AddressMemory) -> None:
        """A reference came into memory."""

    def let_go(self, reference: Reference) -> None:
        """A reference is done with."""

    def report(self, code: str, text: str) -> None:
        """Tell operators; ``code`` is Artemis's AMQ number."""


class PagedAddress(Protocol):
    """An address that pages, as a queue with messages in its pages sees it."""

    memory: AddressMemory
    folder: PageFolder

    def leave(self, queue: Queue) -> None:
        """The queue is gone."""


class QueuePages:
    """The messages of a queue in pages.  ``held`` messages, of ``held_bytes``, have been read and are not settled.

    While the next piece is still being read (``waiting``) no other piece of any address is taken, so that the order stays.
    """

    def __init__(self, core: PagingOwner, queue: Queue) -> None:
        self._core = core
        self._queue = queue
        self.sources: list[tuple[PagedAddress, PageReader]] = []
        self.held = 0
        self.held_bytes = 0
        self.waiting = False
        self._on_there: dict[Callable[[], object], None] = {}
        self._stalled = False
        self._reported = False
        self._marked = False

    def refill(self) -> None:
        """Read messages while there is room and there are consumers; a bounded number now, and more in a later turn."""
        queue = self._queue
        takers = (queue.consumer_count and queue.dispatch_allowed) or queue.redistributor is not None
        if not queue.paged or not takers or (self._marked and queue.references.count):
            return
        pieces = 0
        while pieces < PIECES_PER_TURN or (not queue.references.count and pieces < PIECES_PER_SEARCH):
            if not self.read_piece():
                return
            pieces += 1
        if queue.paged and not self._marked:
            self._marked = True
            self._core.clock.call_later(0, self._core.turn.run, self._go_on)

    def read_piece(self) -> bool:
        """Read one piece of the pages if there is room; false when there was nothing to be read, or it is waited for."""
        for paging, reader in () if self.waiting else list(self.sources):
            if not self._room(paging):
                continue
            try:
                messages = reader.read()
            except NotYet as pending:
                self.waiting = True
                pending.when_there(partial(self._core.turn.run, self._there))
                return False
            if messages is None:
                continue
            for entry in messages:
                self._enter(paging, entry)
            return True
        return False

    def when_there(self, function: Callable[[], object]) -> bool:
        """Call ``function`` in a later turn, when the piece that is waited for is there; false when none is."""
        if self.waiting:
            self._on_there[function] = None
        return self.waiting

    def _there(self) -> None:
        self.waiting = False
        if self._queue.pages is self:
            self._core.turn.mark_queue(self._queue)
        functions, self._on_there = self._on_there, {}
        for function in functions:
            function()

    def unread(self) -> Iterator[Message | None]:
        """The messages that have not been read yet, left in place; for work in steps, which waits at each None."""
        for _, reader in list(self.sources):
            for entry in self._rest(reader):
                yield None if entry is None else entry.message

    def expire_ahead(self) -> bool:
        """Read a piece for the expiry scan, if no message waits in memory and the scheduled ones are not too many; false if there was
        nothing to do."""
        settings = self._queue.address.settings
        full = 0 <= settings.max_read_page_messages <= self.held or 0 <= settings.max_read_page_bytes <= self.held_bytes
        return not (full or self._queue.references.count) and self.read_piece()

    def readers(self) -> Iterator[tuple[str, PageReader]]:
        """By the address of the pages."""
        for paging, reader in self.sources:
            yield paging.folder.address, reader

    def take_scheduled(self, name: str, entry: PagedMessage) -> None:
        """Take a scheduled message from the pages of this address into memory, where it stays until its time has come."""
        for paging, reader in self.sources:
            if paging.folder.address == name:
                reader.take(entry.message)
                self._enter(paging, entry)

    def settle_until(self, key: int) -> Iterator[int]:
        """Settle the messages in pages up to this key (see ``PagedRows``).  Yields the number of each bounded piece."""
        store = self._core.store
        for paging, reader in list(self.sources):
            more = True
            while more and not self._queue.deleted:
                batch = store.begin()
                try:
                    messages, more, taken = batch.acknowledge_until(reader, key)
                except NotYet as pending:
                    self._core.steps.wait_for(pending)
                    yield 0
                    continue
                self._queue.paged -= messages
                self._queue.messages_acknowledged += messages
                store.commit(batch)
                for entry in taken:
                    self._enter(paging, entry)
                yield messages

    def look_on(self, readers: dict[str, PageReader]) -> list[PagedMessage] | None:
        """The next piece for a browser, whose places are ``readers`` (by address); None at the end.  Raises NotYet."""
        for paging, reader in self.sources:
            name = paging.folder.address
            readers[name] = reader.look(readers.get(name))
            messages = readers[name].read()
            if messages is not None:
                return messages
        return None

    def take(self, message_ids: Container[int]) -> Iterator[Reference]:
        """Read the messages with these ids, before their turn; each is put at the end of the queue."""
        return (reference for reference in self.take_each(None, message_ids) if reference is not None)

    def take_each(self, accept: Callable[[Message], bool] | None, message_ids: Container[int] | None) -> Iterator[Reference | None]:
        """Read the accepted messages before their turn, and put each at the end of the queue; None stands for any other message.

        Other work may run in between, and the queue may read on.  Messages that come meanwhile are left out.
        """
        left = self._queue.paged
        for paging, reader in list(self.sources):
            for entry in self._rest(reader):
                if entry is None:
                    yield None
                    continue
                if not left:
                    return
                left -= 1
                message = entry.message
                wanted = (message_ids is None or message.message_id in message_ids) and (accept is None or accept(message))
                place = message.store_state
                if not wanted or self._queue.deleted or (isinstance(place, PagePlace) and reader.passed(place)):
                    yield None
                else:
                    reader.take(message)
                    reference = self._enter(paging, entry)
                    # A newer value that is in memory may have replaced it at once.
                    yield reference if reference.listed or reference in self._queue.scheduled else None

    @property
    def durable_count(self) -> int:
        """Messages that were not read and survive a restart."""
        return sum(paging.folder.remaining(self._queue.queue_id, durable=True) for paging, _ in self.sources)

    def purge(self) -> int:
        """Be done with everything that was not read.  Returns how many messages that are."""
        store = self._core.store
        batch = store.begin()
        messages = sum(batch.acknowledge_unread(reader) for _, reader in self.sources)
        self._queue.paged -= messages
        self._queue.messages_acknowledged += messages
        store.commit(batch)
        return messages

    def let_go(self, reference: Reference) -> None:
        """A reference of the queue is done with."""
        message = reference.message
        if message.store_state.__class__ is PagePlace and reference.__class__ is not Loan:
            self.held -= 1
            self.held_bytes -= message.memory
        self.room_again()

    def room_again(self) -> None:
        """Messages in memory have become fewer: read on if reading had stopped for want of room."""
        if self._stalled:
            self._stalled = False
            self._core.turn.mark_queue(self._queue)

    def release(self) -> None:
        """All addresses together hold less again."""
        self.room_again()

    def close(self) -> None:
        """The queue is gone."""
        for paging, _ in list(self.sources):
            paging.leave(self._queue)
        self.sources.clear()
        self._queue.paged = 0

    def remove(self, paging: PagedAddress, reader: PageReader) -> None:
        """The pages of an address are consumed."""
        self.sources.remove((paging, reader))
        if not self.sources:
            self._queue.pages = None

    def _rest(self, reader: PageReader) -> Iterator[PagedMessage | None]:
        ahead = reader.look()
        messages: list[PagedMessage] | None = []
        while messages is not None:
            yield from messages
            try:
                messages = ahead.read()
            except NotYet as pending:
                self._core.steps.wait_for(pending)
                messages = []
                yield None

    def _go_on(self) -> None:
        self._marked = False
        if self._queue.pages is self:
            self._core.turn.mark_queue(self._queue)

    def _enter(self, paging: PagedAddress, entry: PagedMessage) -> Reference:
        message, count, scheduled = entry
        queue = self._queue
        reference = Reference(message, queue, scheduled_time_of(message) if scheduled is None else scheduled, count)
        self._core.hold(reference, paging.memory)
        if has_group(message):
            queue.keep_groups()
        self.held += 1
        self.held_bytes += message.memory
        queue.paged -= 1
        queue.add_read(reference)
        return reference

    def _room(self, paging: PagedAddress) -> bool:
        """May the queue read more?  Bytes are estimated by the mean size of the messages read so far."""
        queue, settings = self._queue, paging.memory.settings
        pending = queue.references.count
        active = pending + queue.delivering
        if not active:
            self._reported = False
            return True
        if queue.definition.non_destructive:
            return self._room_to_keep()
        mean = self.held_bytes / self.held if self.held else 0
        if 0 <= settings.max_read_page_messages <= active or 0 <= settings.max_read_page_bytes <= mean * active:
            self._stalled = True
            if not pending and not self._reported:
                self._reported = True
                self._core.report(
                    "AMQ224127",
                    f"queue {queue.name} reads no further from its pages: {active} messages wait for acknowledgement, "
                    "the most that max-read-page-bytes or max-read-page-messages allows",
                )
            return False
        if 0 <= settings.prefetch_page_messages <= pending or 0 <= settings.prefetch_page_bytes <= mean * pending:
            self._stalled = True
            return False
        return True

    def _room_to_keep(self) -> bool:
        """As :meth:`_room`, for a queue whose acknowledgements make no room: the memory for all addresses is the limit."""
        if not self._core.global_memory.full:
            self._reported = False
            return True
        self._stalled = True
        self._core.global_memory.accounts_waiting[self] = None
        if not self._reported:
            self._reported = True
            text = f"queue {self._queue.name} reads no further from its pages: it is non-destructive, and global-max-size is reached"
            self._core.report("AMQ224127", text)
        return False
