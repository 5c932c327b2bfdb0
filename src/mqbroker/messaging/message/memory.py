"""Memory accounts: the bytes and messages that an address holds, and the policies for full addresses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.message.message import MEMORY_PER_MESSAGE

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message

MEMORY_PER_REFERENCE = 72
"""Bytes that a reference counts in its address' memory account."""

PAGE_BACKLOG_MAX = 16 * 1024 * 1024
"""Bytes on their way to pages beyond which producers of paging addresses get no further credits: the disk is slower than they are."""


TOLERANCE_MAX = 8 * 1024 * 1024
"""Bytes that an address may have beyond its limit before senders are held back; a tenth of the limit if that is less."""


class Backlog(Protocol):
    """The pages in which messages of full addresses wait on the disk: ``backlog`` are bytes handed over that are not durable yet."""

    backlog: int


class AddressPages(Protocol):
    """The pages of an address, as far as its account asks for them."""

    @property
    def page_count(self) -> int: ...

    @property
    def full(self) -> bool:
        """Is the limit of the pages reached?"""


class Waiting(Protocol):
    """Waits until all addresses together hold less."""

    def release(self) -> None: ...


class GlobalMemory:
    """The sum over all addresses.  Limits: bytes and messages, -1 = none.

    ``pager`` is the store's, None where nothing can be paged.  While ``disk_full`` or ``store_full`` is set every address is full.
    """

    __slots__ = ("accounts_waiting", "disk_full", "max_bytes", "max_messages", "messages", "pager", "size", "store_full")

    def __init__(self, max_bytes: int = -1, max_messages: int = -1, pager: Backlog | None = None) -> None:
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.size = 0
        self.messages = 0
        self.pager = pager
        self.disk_full = False
        self.store_full = False
        """The store cannot keep work as fast as work arrives."""
        self.accounts_waiting: dict[Waiting, None] = {}
        """Accounts of addresses, and pages of non-destructive queues, that wait for room."""

    @property
    def full(self) -> bool:
        return (0 < self.max_bytes <= self.size) or (0 <= self.max_messages <= self.messages)

    @property
    def congested(self) -> bool:
        """Do pages come in faster than the disk takes them?"""
        return self.pager is not None and self.pager.backlog >= PAGE_BACKLOG_MAX

    def set_store_full(self, full: bool) -> None:
        self.store_full = full
        if not full:
            self.release()

    def release(self) -> None:
        """A reason for producers to wait may have ended: grant the credits that can be granted."""
        accounts, self.accounts_waiting = self.accounts_waiting, {}
        for account in accounts:
            account.release()


class AddressMemory:
    """The account of one address (Artemis manual, chapter on flow control and limits).

    Full means size >= limit; free means size < limit.  Producers that ask for credits while the address is full wait here, in order.
    """

    __slots__ = ("_global", "_waiting", "blocked", "messages", "name", "paging", "settings", "size")

    def __init__(self, name: str, settings: AddressSettings, global_memory: GlobalMemory) -> None:
        self.name = name
        self.settings = settings
        self._global = global_memory
        self._waiting: OrderedDict[Callable[[], None], None] = OrderedDict()
        self.size = 0
        self.messages = 0
        self.paging: AddressPages | None = None
        """Set while the address pages."""
        self.blocked = False
        """Set by management: credits are withheld at every size."""

    @property
    def policy(self) -> str:
        """The policy of the full address: disk-full-policy while the disk is full, BLOCK while the store is."""
        if self._global.store_full:
            return "BLOCK"
        return self.settings.disk_full_policy if self._global.disk_full else self.settings.address_full_policy

    @property
    def page_count(self) -> int:
        return 0 if self.paging is None else self.paging.page_count

    @property
    def waiting(self) -> int:
        """Requests for credits that wait."""
        return len(self._waiting)

    def apply(self, settings: AddressSettings) -> None:
        """Use these settings from now on."""
        self.settings = settings
        self.release()

    @property
    def full(self) -> bool:
        settings = self.settings
        overall = self._global
        return (
            0 <= settings.max_size_bytes <= self.size
            or 0 <= settings.max_size_messages <= self.messages
            or overall.full
            or overall.disk_full
            or overall.store_full
        )

    @property
    def must_page(self) -> bool:
        """Is the address full, does it page then, and is there something to page to?"""
        settings, overall = self.settings, self._global
        return (
            settings.address_full_policy == "PAGE"
            and overall.pager is not None
            and (0 <= settings.max_size_bytes <= self.size or 0 <= settings.max_size_messages <= self.messages or overall.full)
        )

    @property
    def grants(self) -> bool:
        """May producers have credits?"""
        if self.blocked:
            return False
        overall, policy = self._global, self.policy
        if policy == "DROP":
            return True
        if policy == "PAGE" and overall.pager is not None:
            return self.paging is None or not overall.congested
        return not self.full

    @property
    def excess(self) -> int:
        """Bytes by which the address, or all of them together, are beyond limit and tolerance; at least 1 while disk or store is full."""
        overall = self._global
        full = int(overall.disk_full or overall.store_full)
        return max(_excess(self.size, self.settings.max_size_bytes), _excess(overall.size, overall.max_bytes), full)

    def add(self, size: int) -> None:
        """A message came."""
        self.size += size
        self.messages += 1
        self._global.size += size
        self._global.messages += 1

    def hold(self, message: Message, references: int) -> None:
        """A message with ``references`` references came into memory; this is its account from now on."""
        message.account = self
        message.references = references
        # As Message.memory, without a call: this is on the way of every message.
        size = MEMORY_PER_MESSAGE + 2 * len(message.buffer) - message.properties_offset + references * MEMORY_PER_REFERENCE
        self.size += size
        self.messages += 1
        overall = self._global
        overall.size += size
        overall.messages += 1

    def hold_all(self, messages: Sequence[Message]) -> None:
        """As :meth:`hold`, for messages with one reference each."""
        size = 0
        for message in messages:
            message.account = self
            message.references = 1
            size += MEMORY_PER_MESSAGE + 2 * len(message.buffer) - message.properties_offset
        size += len(messages) * MEMORY_PER_REFERENCE
        self.size += size
        self.messages += len(messages)
        overall = self._global
        overall.size += size
        overall.messages += len(messages)

    def add_reference(self, size: int) -> None:
        self.size += size
        self._global.size += size

    def remove(self, size: int) -> None:
        """A message went, with its last reference: ``size`` bytes of both together."""
        self.messages -= 1
        self.size -= size
        overall = self._global
        overall.messages -= 1
        overall.size -= size
        if self._waiting or overall.accounts_waiting:
            self._more_room()

    def remove_reference(self, size: int) -> None:
        self.size -= size
        overall = self._global
        overall.size -= size
        if self._waiting or overall.accounts_waiting:
            self._more_room()

    def _more_room(self) -> None:
        overall = self._global
        if self._waiting:
            self.release()
        if overall.accounts_waiting and not (overall.full or overall.disk_full or overall.store_full or overall.congested):
            overall.release()

    def when_free(self, grant: Callable[[], None]) -> bool:
        """Call ``grant`` once the address takes messages.  Returns whether that was at once.

        Callers do not wait for a full address with policy DROP, or with PAGE as long as the disk keeps up.  Policy FAIL is left to the
        caller.
        """
        if not self._waiting and self.grants:
            grant()
            return True
        self._waiting[grant] = None
        self._wait_for_others()
        return False

    def forget(self, grant: Callable[[], None]) -> None:
        """Take a waiting request back (its session is gone)."""
        self._waiting.pop(grant, None)

    def unblock(self) -> None:
        self.blocked = False
        self.release()

    def end(self) -> None:
        """The address is gone: grant all requests that wait for room in it, or for management to unblock it."""
        self.blocked = False
        while self._waiting:
            self._waiting.popitem(last=False)[0]()

    def release(self) -> None:
        while self._waiting and self.grants:
            self._waiting.popitem(last=False)[0]()
        if self._waiting:
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        """Wait for the limits of the whole broker, too, if they hold producers back."""
        overall = self._global
        if overall.full or overall.disk_full or overall.store_full or overall.congested:
            overall.accounts_waiting[self] = None


def _excess(size: int, limit: int) -> int:
    return size - limit - min(limit // 10, TOLERANCE_MAX) if limit >= 0 else 0
