"""Paging: messages of full addresses go to pages and are read back as consumers take them (Artemis manual, "Paging") (decision 7).

While an address pages, every message of it goes to its pages, so that their order is kept.  It leaves paging when all pages are consumed.
A queue has a reader in the pages of each address that it gets messages from; what it reads become ordinary references, a bounded number at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import Clock, PagedMessage, PageFolder, PagePlace, PageReader, Store, StoreBatch
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.references import Loan, Reference
from mqbroker.messaging.queues.scheduled import scheduled_time_of

if TYPE_CHECKING:
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.message.memory import AddressMemory, GlobalMemory
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import StepwiseWork
    from mqbroker.messaging.turns.turn import Turn

PIECES_PER_TURN = 4
"""Pieces of pages that a queue reads before others get a turn: some milliseconds."""

PIECES_PER_SEARCH = 64
"""Pieces of pages that a queue reads before others get a turn while there is nothing for the queue in them."""


class PagingOwner(Protocol):
    """What paging stands on: store, turns and accounts of all addresses."""

    store: Store
    clock: Clock
    turn: Turn
    steps: StepwiseWork
    global_memory: GlobalMemory

    def hold(self, reference: Reference, account: AddressMemory) -> None:
        """A reference came into memory."""

    def let_go(self, reference: Reference) -> None:
        """A reference is done with."""

    def report(self, code: str, text: str) -> None:
        """Tell operators; ``code`` is Artemis's AMQ number."""


class AddressPaging:
    """An address that pages.  It lives from the first paged message until the last page is consumed, also longer than the address."""

    def __init__(self, paging: Paging, memory: AddressMemory, folder: PageFolder) -> None:
        self._paging = paging
        self.memory = memory
        self.folder = folder
        self.readers: dict[int, tuple[Queue, PageReader]] = {}
        """By queue id."""

    def join(self, queue: Queue) -> None:
        """The queue has messages in these pages, or gets some."""
        if queue.queue_id not in self.readers:
            reader = self.folder.reader(queue.queue_id)
            self.readers[queue.queue_id] = (queue, reader)
            if queue.pages is None:
                queue.pages = QueuePages(self._paging.core, queue)
            queue.pages.sources.append((self, reader))

    def leave(self, queue: Queue) -> None:
        """The queue is gone."""
        if self.readers.pop(queue.queue_id, None) is not None:
            self.folder.forget(queue.queue_id)

    def arrived(self, queue_id: int, messages: int) -> None:
        entry = self.readers.get(queue_id)
        if entry is not None:
            queue = entry[0]
            queue.arriving -= messages
            queue.paged += messages
            queue.messages_added += messages
            self._paging.core.turn.mark_queue(queue)

    def emptied(self) -> None:
        self._paging.ended(self)
        for queue, reader in self.readers.values():
            if queue.pages is not None:
                queue.pages.remove(self, reader)
        self.readers.clear()

    @property
    def page_count(self) -> int:
        return self.folder.page_count

    @property
    def full(self) -> bool:
        """Is the limit of the pages reached?  It holds only together with page-full-policy."""
        settings = self.memory.settings
        if settings.page_full_policy is None:
            return False
        size, messages = settings.page_limit_bytes, settings.page_limit_messages
        if size is not None and size >= 0 and self.folder.page_count > size // settings.page_size_bytes:
            return True
        return messages is not None and 0 <= messages <= self.folder.messages


class Paging:
    """All addresses that page, by name."""

    def __init__(self, core: PagingOwner) -> None:
        self.core = core
        self.addresses: dict[str, AddressPaging] = {}
        self.flush_due = False
        self._bodies: list[LargeBody] = []
        """Of large messages that go to pages in this turn: nobody else holds them until their batch is committed."""
        if core.store.pager is not None:
            core.store.pager.drained.subscribe(core.global_memory.release)

    def restore(self, queues: dict[int, Queue], account_of: Callable[[str], AddressMemory]) -> None:
        """Take over the pages that the store has kept; the durable queues are there.  ``account_of`` gives the account of an address."""
        pager = self.core.store.pager
        for folder in [] if pager is None else pager.folders():
            paging = self._begin(account_of(folder.address), folder)
            for queue_id in folder.queue_ids():
                queue = queues.get(queue_id)
                if queue is None:
                    folder.forget(queue_id)
                else:
                    paging.join(queue)
                    queue.paged += folder.remaining(queue_id)

    def wanted(self, memory: AddressMemory) -> bool:
        """Does the next message of this address go to a page?"""
        return memory.paging is not None or memory.must_page

    def takes_all(self, memory: AddressMemory) -> bool:
        """Do all messages go to a page while the address pages or is full, without a question asked for each?"""
        return memory.policy == "PAGE" and memory.settings.page_full_policy is None and self.core.store.pager is not None

    def page_run(self, batch: StoreBatch, memory: AddressMemory, messages: Sequence[Message], queues: Sequence[Queue]) -> None:
        """As :meth:`page`, for messages of an address that pages, all to the same queues; nothing accounts for them in memory."""
        paging = self.addresses[memory.name]
        joined = [queue for queue in queues if not queue.deleted]
        for queue in queues:
            if queue.deleted:
                queue.arriving -= len(messages)
            else:
                paging.join(queue)
        if not joined:
            return
        queue_ids = tuple(queue.queue_id for queue in joined)
        durable_ids = tuple(queue.queue_id for queue in joined if queue.definition.durable) if messages[0].durable else ()
        page_size = memory.settings.page_size_bytes
        for message in messages:
            batch.add_paged(paging.folder, message, queue_ids, durable_ids, page_size)

    def page(self, batch: StoreBatch, message: Message, references: Sequence[Reference]) -> bool:
        """Put a routed message into the pages of its address, when that pages or has to begin.

        Then the references are given up: they count as arriving until the queues can read the message.  Returns whether it was so.
        """
        memory = message.account
        pager = self.core.store.pager
        if memory is None or pager is None or not self.wanted(memory):
            return False
        paging = self.addresses.get(memory.name) or self._start(memory, pager.folder(memory.name))
        queue_ids: list[int] = []
        durable_ids: list[int] = []
        for reference in references:
            queue = reference.queue
            if queue.deleted:
                queue.arriving -= 1
                continue
            paging.join(queue)
            queue_ids.append(queue.queue_id)
            if message.durable and queue.definition.durable:
                durable_ids.append(queue.queue_id)
        if queue_ids:
            batch.add_paged(paging.folder, message, queue_ids, durable_ids, memory.settings.page_size_bytes)
            if message.large is not None:
                message.large.hold()
                self._bodies.append(message.large)
                self.core.turn.mark_output(self)
        for reference in references:
            self.core.let_go(reference)
        return True

    def flush(self) -> None:
        """The turn ends: bodies that no batch has stored go."""
        bodies, self._bodies = self._bodies, []
        for body in bodies:
            body.release()

    def store(self, batch: StoreBatch, message: Message, references: list[Reference]) -> tuple[bool, list[Reference]]:
        """A routed message is stored: it goes to the pages of its address, or into ``batch`` as far as it is durable.

        Returns whether there is something to store, and the references that are to be delivered once it is.
        """
        if self.page(batch, message, references):
            return True, []
        durable = [each for each in references if each.queue.definition.durable and not each.queue.deleted] if message.durable else []
        if not durable:
            return False, references
        batch.add_message(message, [each.queue.queue_id for each in durable])
        for each in durable:
            if each.scheduled:
                batch.schedule(each.queue.queue_id, message, each.scheduled)
        return True, references

    def ended(self, paging: AddressPaging) -> None:
        """All pages of an address are consumed."""
        name = paging.memory.name
        if self.addresses.get(name) is paging:
            del self.addresses[name]
            paging.folder.listener = None
            paging.memory.paging = None
            self.core.report("AMQ224108", f"address {name} has stopped paging: all its pages are consumed")

    def _start(self, memory: AddressMemory, folder: PageFolder) -> AddressPaging:
        self.core.report(
            "AMQ222038",
            f"address {memory.name} starts paging: it holds {memory.size} bytes in {memory.messages} messages, "
            f"all addresses together {self.core.global_memory.size} bytes",
        )
        return self._begin(memory, folder)

    def _begin(self, memory: AddressMemory, folder: PageFolder) -> AddressPaging:
        paging = memory.paging = self.addresses[memory.name] = AddressPaging(self, memory, folder)
        folder.listener = paging
        return paging


class QueuePages:
    """What a queue has in pages.  ``held`` messages of ``held_bytes`` were read and are not done with.

    The next piece may not be there yet (``waiting``); then nothing is read, of no address, before it is: the order stays.
    """

    def __init__(self, core: PagingOwner, queue: Queue) -> None:
        self._core = core
        self._queue = queue
        self.sources: list[tuple[AddressPaging, PageReader]] = []
        self.held = 0
        self.held_bytes = 0
        self.waiting = False
        self._on_there: dict[Callable[[], object], None] = {}
        self._stalled = False
        self._reported = False
        self._marked = False

    def refill(self) -> None:
        """Read what there is room for, as long as there are consumers; a bounded amount, and more in a later turn."""
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
        """The messages that were not read yet, which stay where they are; for work in steps, which waits where None is given."""
        for _, reader in list(self.sources):
            for entry in self._rest(reader):
                yield None if entry is None else entry.message

    def expire_ahead(self) -> bool:
        """Read a piece although nobody waits for it, when there is nothing else to look through; false when there was no need."""
        return not self._queue.references.count and self.read_piece()

    def readers(self) -> Iterator[tuple[str, PageReader]]:
        """By the address of the pages."""
        for paging, reader in self.sources:
            yield paging.folder.address, reader

    def take_scheduled(self, name: str, entry: PagedMessage) -> None:
        """A message in the pages of this address, that was looked at, comes into memory until its time has come."""
        for paging, reader in self.sources:
            if paging.folder.address == name:
                reader.take(entry.message)
                self._enter(paging, entry)

    def settle_until(self, key: int) -> Iterator[int]:
        """Be done with what is in pages up to this key (see ``PagedRows``), a bounded number of messages for each that is given."""
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
        """The next piece for a browser, which has come as far as ``readers`` (by address) say; None at the end.  Raises NotYet."""
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
        """Read the messages that are accepted, before their turn, putting each at the end of the queue; None stands for another one.

        Others may have their turn in between, and the queue may read on.  What comes later is left out.
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
        """There are fewer messages in memory: read on, if that was waited for."""
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

    def remove(self, paging: AddressPaging, reader: PageReader) -> None:
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

    def _enter(self, paging: AddressPaging, entry: PagedMessage) -> Reference:
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

    def _room(self, paging: AddressPaging) -> bool:
        """May the queue read more?  Bytes are taken from the mean size of what was read."""
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
        """As :meth:`_room`, where acknowledgements make none: as long as there is memory for what all addresses hold."""
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
