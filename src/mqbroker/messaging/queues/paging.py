"""Paging: messages of full addresses go to pages and are read back as consumers take them (Artemis manual, "Paging") (decision 7).

While an address pages, all its messages go to its pages, so that their order is kept.  The address leaves paging when all pages are
consumed.  A queue has a reader in the pages of each address that it gets messages from; messages that it reads become ordinary references,
a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PageFolder, PageReader, StoreBatch
from mqbroker.messaging.queues.queue_pages import PagingOwner, QueuePages
from mqbroker.messaging.queues.references import Reference

if TYPE_CHECKING:
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.messaging.queues.queue import Queue


class AddressPaging:
    """The paging of one address, from the first paged message until the last page is consumed, even after the address is deleted."""

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

    def lost(self, queue_id: int, messages: int) -> None:
        entry = self.readers.get(queue_id)
        if entry is not None:
            entry[0].paged -= messages

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
        """Is the limit of the pages reached?  Without page-full-policy there is no limit."""
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
        """Bodies of large messages that go to pages in this turn, held here until their batch is committed."""
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

    def inherit(self, name: str, memory: AddressMemory, queue: Queue, messages: int) -> None:
        """A queue has got messages of another broker in the pages of an address, whose account is ``memory``.

        They come before all others that it has there, and what is sent from now on goes behind them, to the pages.
        """
        pager = self.core.store.pager
        assert pager is not None, "a store without pages inherits nothing"
        paging = self.addresses.get(name) or self._begin(memory, pager.folder(name))
        paging.join(queue)
        queue.paged += messages
        queue.messages_added += messages
        self.core.turn.mark_queue(queue)

    def wanted(self, memory: AddressMemory) -> bool:
        """Does the next message of this address go to a page?"""
        # The name counts, too: the address may have been deleted and made anew since the message got its account.
        return memory.paging is not None or memory.must_page or memory.name in self.addresses

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
        paging: AddressPaging | None = None
        queue_ids: list[int] = []
        durable_ids: list[int] = []
        for reference in references:
            queue = reference.queue
            if queue.deleted:
                queue.arriving -= 1
                continue
            if paging is None:
                paging = self.addresses.get(memory.name) or self._start(memory.name, pager.folder(memory.name))
            paging.join(queue)
            queue_ids.append(queue.queue_id)
            if message.durable and queue.definition.durable:
                durable_ids.append(queue.queue_id)
        if paging is not None:
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

    def _start(self, name: str, folder: PageFolder) -> AddressPaging:
        # The message may have another account: its address may have been deleted and made anew while it was in a transaction.
        memory = self.core.account_of(name)
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
