"""Memory accounts: how much the messages of an address hold, and what happens when it is too much."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from mqbroker.config.address_settings import AddressSettings
from mqbroker.messaging.references import MEMORY_PER_REFERENCE

if TYPE_CHECKING:
    from mqbroker.messaging.message import Message


class GlobalMemory:
    """The sum over all addresses.  Limits: bytes and messages, -1 = none."""

    __slots__ = ("accounts_waiting", "max_bytes", "max_messages", "messages", "size")

    def __init__(self, max_bytes: int = -1, max_messages: int = -1) -> None:
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.size = 0
        self.messages = 0
        self.accounts_waiting: list[AddressMemory] = []

    @property
    def full(self) -> bool:
        return (0 < self.max_bytes <= self.size) or (0 <= self.max_messages <= self.messages)


class AddressMemory:
    """The account of one address (Artemis manual, chapter on flow control and limits).

    Full means size >= limit; free means size < limit.  Producers that ask for credits while the address is full wait here, in order.
    """

    __slots__ = ("_global", "_settings", "_waiting", "blocked", "messages", "size")

    def __init__(self, settings: AddressSettings, global_memory: GlobalMemory) -> None:
        self._settings = settings
        self._global = global_memory
        self._waiting: OrderedDict[Callable[[], None], None] = OrderedDict()
        self.size = 0
        self.messages = 0
        self.blocked = False
        """Set by management: credits are withheld whatever the size."""

    @property
    def policy(self) -> str:
        return self._settings.address_full_policy

    @property
    def waiting(self) -> int:
        """Requests for credits that wait."""
        return len(self._waiting)

    def apply(self, settings: AddressSettings) -> None:
        """Live by other settings from now on."""
        self._settings = settings
        self._release()

    @property
    def full(self) -> bool:
        settings = self._settings
        return 0 <= settings.max_size_bytes <= self.size or 0 <= settings.max_size_messages <= self.messages or self._global.full

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
        size = message.memory + references * MEMORY_PER_REFERENCE
        self.size += size
        self.messages += 1
        overall = self._global
        overall.size += size
        overall.messages += 1

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
            self._release()
        if overall.accounts_waiting and not overall.full:
            accounts, overall.accounts_waiting = overall.accounts_waiting, []
            for account in accounts:
                account._release()

    def when_free(self, grant: Callable[[], None]) -> bool:
        """Call ``grant`` once the address takes messages.  Returns whether that was at once.

        A full address with policy DROP or FAIL never makes anybody wait here: the caller decides what FAIL means.
        """
        if not self._waiting and not self.blocked and (self.policy == "DROP" or not self.full):
            grant()
            return True
        self._waiting[grant] = None
        if self._global.full and self not in self._global.accounts_waiting:
            self._global.accounts_waiting.append(self)
        return False

    def forget(self, grant: Callable[[], None]) -> None:
        """Take a waiting request back (its session is gone)."""
        self._waiting.pop(grant, None)

    def unblock(self) -> None:
        self.blocked = False
        self._release()

    def _release(self) -> None:
        while self._waiting and not self.blocked and (self.policy == "DROP" or not self.full):
            self._waiting.popitem(last=False)[0]()
        if self._waiting and self._global.full and self not in self._global.accounts_waiting:
            self._global.accounts_waiting.append(self)
