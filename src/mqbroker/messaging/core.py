"""The state that all parts of the messaging core share: addresses, queues, accounts, store, clock and turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mqbroker.config.model.address_settings import ANYCAST, MULTICAST, AddressSettings, PartialSettings
from mqbroker.config.model.matching import AddressSettingsRepository, Wildcards
from mqbroker.messaging.event import Event
from mqbroker.messaging.message.memory import MEMORY_PER_REFERENCE, AddressMemory, GlobalMemory
from mqbroker.messaging.message.message import MEMORY_PER_MESSAGE
from mqbroker.messaging.ports import Clock, PagePlace, Store, StoreBatch
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.elsewhere import Elsewhere
from mqbroker.messaging.queues.paging import Paging
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Loan, Reference, RemoteReference
from mqbroker.messaging.routing.awaited import AwaitedQueues
from mqbroker.messaging.routing.diverts import Divert
from mqbroker.messaging.routing.duplicates import DuplicateIdCache
from mqbroker.messaging.routing.grouping import Grouping
from mqbroker.messaging.routing.remote import RemoteBinding
from mqbroker.messaging.routing.routing import RoutingTable
from mqbroker.messaging.turns.steps import StepwiseWork
from mqbroker.messaging.turns.turn import Turn

STRAY_CACHES_MAX = 100
"""Duplicate id caches of names that are no address here (or queue of one): clients send to any name."""

STRAY_IDS_MAX = 1000
"""Ids in each duplicate id cache of a name that is no address here."""

BRIDGE_CACHE = "BRIDGE."
"""Before the name of an address: the cache of the ids under which other brokers have sent messages to it."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Observer(Protocol):
    """Told of changes, for notifications and logs."""

    def address_added(self, address: Address) -> None: ...

    def address_removed(self, address: Address) -> None: ...

    def queue_added(self, queue: Queue) -> None: ...

    def queue_removed(self, queue: Queue) -> None: ...

    def divert_added(self, divert: Divert) -> None: ...

    def divert_removed(self, divert: Divert) -> None: ...

    def remote_binding_added(self, binding: RemoteBinding) -> None: ...

    def remote_binding_removed(self, binding: RemoteBinding) -> None: ...

    def messages_redistributed(self, queue: Queue, binding: RemoteBinding, count: int) -> None:
        """So many messages went from ``queue`` to ``binding``, because consumers are there and not here."""

    def queue_filter_changed(self, queue: Queue) -> None: ...

    def message_dropped(self, code: str, text: str) -> None:
        """Report a dropped message.  ``code`` is Artemis's AMQ number, for which operators search; ``text`` names the message and the
        reason."""


@dataclass(frozen=True, slots=True)
class MessagingOptions:
    """Settings of the whole broker for messaging; names and defaults are those of broker.xml.

    Periods are in ms, -1 turns the scan off; ``global_max_size`` is in bytes, -1 = no limit.
    """

    persist_id_cache: bool = True
    id_cache_size: int = 20000
    persist_delivery_count_before_delivery: bool = False
    max_redelivery_records: int = 10
    message_expiry_scan_period: int = 30000
    address_queue_scan_period: int = 30000
    global_max_size: int = -1
    global_max_messages: int = -1
    max_disk_usage: int = -1
    """Percent of the disk; -1 = the disk is not looked at."""
    min_disk_free: int = -1
    """Bytes; -1 = ``max_disk_usage`` holds."""
    disk_scan_period: int = 5000
    journal_sync_transactional: bool = True
    journal_sync_non_transactional: bool = True
    temporary_queue_namespace: str = ""
    uuid_namespace: str = ""
    transaction_timeout: int = 300000
    transaction_timeout_scan_period: int = 1000
    internal_naming_prefix: str = "$.artemis.internal."
    management_address: str = "activemq.management"
    management_notification_address: str = "activemq.notifications"
    automatic_settings: Mapping[int, PartialSettings] = field(default_factory=dict)
    """The settings of addresses that are created because somebody uses them, by routing type."""


class MessagingCore:
    """Addresses and queues by name, with the clock, the store and the turn that everything uses.

    ``random`` gives numbers in [0, 1), for the collision avoidance of redelivery delays.  ``make_grouping`` makes the grouping handler,
    which routing asks and which asks routing: it keeps the core, and may use no more than clock, store and turn of it yet.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: AddressSettingsRepository,
        wildcards: Wildcards,
        options: MessagingOptions,
        random: Callable[[], float],
        make_grouping: Callable[[MessagingCore], Grouping] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.options = options
        self.random = random
        self.turn = Turn(clock)
        self.steps = StepwiseWork(self.turn, clock)
        self.addresses: dict[str, Address] = {}
        self.queues: dict[str, Queue] = {}
        self.routing = RoutingTable(wildcards, self._remote_changed, None if make_grouping is None else make_grouping(self))
        self.awaited = AwaitedQueues(clock, self.turn)
        self.global_memory = GlobalMemory(options.global_max_size, options.global_max_messages, store.pager)
        store.overfull.subscribe(self.global_memory.set_store_full)
        self.paging = Paging(self)
        self.observers: list[Observer] = []
        self.elsewhere: Elsewhere | None = None
        """The messages of other brokers that consumers here may get; None where there are none."""
        self.consumers_changed: Event[Queue, bool] = Event()
        """A consumer of a queue has come (True) or gone, while there are queues of other brokers."""
        self.settings_changed: Event[()] = Event()
        """Addresses live by new settings."""
        self.queue_deleted: Event[Queue] = Event()
        """A queue is being deleted: it has no consumers any more, and still has its messages."""
        self.expired: Event[Reference] = Event()
        """A queue has found an expired message, now in delivery without a consumer."""
        self.replaced: Event[Sequence[Reference]] = Event()
        """Newer messages have replaced these, now in delivery without a consumer."""
        self.late: Event[Reference] = Event()
        """A message becomes visible later than its id says; its queue neither lists nor delivers it."""
        self.reader_queues: dict[Queue, None] = {}
        """The queues that have readers."""
        self.ordered_queues: dict[Queue, None] = {}
        """Other queues where ids have to ascend as messages become visible."""
        self.stamps_arrival = False
        """Does any address ask for ingress timestamps?"""
        self._caches: dict[str, DuplicateIdCache] = {}
        self._stray_caches: dict[str, None] = {}
        """Names of caches that belong to no address, oldest first."""

    def look_elsewhere(self, elsewhere: Elsewhere) -> None:
        """Consumers here may get messages of other brokers from now on."""
        self.elsewhere = elsewhere

    def settings_of(self, name: str, temporary: bool = False) -> AddressSettings:
        """The settings that hold for an address of this name; where there is one that was created because somebody used it, as such."""
        address = self.addresses.get(name) if self.options.automatic_settings else None
        types = address.routing_types if address is not None and self.is_automatic(address) else ()
        return self.settings_by_use(name, temporary, types)

    def settings_by_use(self, name: str, temporary: bool, types: Collection[int]) -> AddressSettings:
        """The settings that an address of this name has when somebody's use creates it with these routing types; none: another one."""
        options = self.options
        if temporary and options.temporary_queue_namespace:
            name = f"{options.temporary_queue_namespace}.{name}"
        elif options.uuid_namespace and _UUID.fullmatch(name):
            name = f"{options.uuid_namespace}.{name}"
        kind = ANYCAST if ANYCAST in types else MULTICAST
        return self.settings.lookup(name, options.automatic_settings.get(kind) if types else None)

    def is_automatic(self, address: Address) -> bool:
        """Was the address created because somebody used it?  The queue of the same name decides, where there is one."""
        own = self.queues.get(address.name)
        if own is not None and own.address is address:
            return own.definition.auto_created and not own.definition.temporary
        return address.auto_created and not address.temporary

    def refresh_settings(self, address: Address) -> None:
        """The address is another one than before by its routing types, or by who has created it."""
        settings = self.settings_of(address.name, address.temporary)
        if settings is not address.settings:
            address.settings = settings
            address.memory.apply(settings)

    def apply_settings(self) -> None:
        """The settings repository has changed: every address lives by its new settings from now on."""
        for address in self.addresses.values():
            address.settings = self.settings_of(address.name, address.temporary)
            address.memory.apply(address.settings)
        self.stamps_arrival = any(partial.get("enable_ingress_timestamp") for partial in self.settings.values().values())
        self.routing.changed()
        self.settings_changed()

    def new_memory(self, name: str, settings: AddressSettings) -> AddressMemory:
        """The account of an address that comes into being; it may still page from an earlier life."""
        paging = self.paging.addresses.get(name)
        return AddressMemory(name, settings, self.global_memory) if paging is None else paging.memory

    def account_of(self, name: str) -> AddressMemory:
        """The account of an address, also where there are no more than pages of an earlier one."""
        address = self.addresses.get(name)
        return self.new_memory(name, self.settings_of(name)) if address is None else address.memory

    def duplicate_ids(self, name: str) -> DuplicateIdCache | None:
        """The duplicate id cache of an address (or of a fully qualified queue name); None when detection is off there."""
        cache = self._caches.get(name)
        if cache is None:
            owner = _owner(name)
            size = self._id_cache_size(owner)
            if size <= 0:
                return None
            if owner not in self.addresses:
                size = min(size, STRAY_IDS_MAX)
                self._make_stray(name)
            bridged, persistent = name.startswith(BRIDGE_CACHE), self.options.persist_id_cache
            cache = self._caches[name] = DuplicateIdCache(name, size, self.store, persistent, by_sender=bridged)
        return cache

    def _id_cache_size(self, address: str) -> int:
        size = self.settings.lookup(address).id_cache_size
        return self.options.id_cache_size if size is None else size

    def keep_duplicate_ids(self, address: str) -> None:
        """There is an address of this name now: ids that were sent to the name before do not keep its caches small."""
        for name in [each for each in self._stray_caches if _owner(each) == address]:
            del self._stray_caches[name]
            self._caches[name].size = self._id_cache_size(address)

    def _make_stray(self, name: str) -> None:
        """Count the cache of this name as the newest of those that belong to no address."""
        # The cache may be the oldest of them already, and is not to be forgotten for its own sake.
        self._stray_caches.pop(name, None)
        self._forget_strays(STRAY_CACHES_MAX - 1)
        self._stray_caches[name] = None

    def _forget_strays(self, allowed: int) -> None:
        """Keep only so many caches of names that are no address; one that has become an address meanwhile stays."""
        while len(self._stray_caches) > allowed:
            name = next(iter(self._stray_caches))
            del self._stray_caches[name]
            if _owner(name) not in self.addresses:
                self.forget_duplicate_ids(name)

    def known_duplicate_ids(self, name: str) -> DuplicateIdCache | None:
        """The cache if there is one already."""
        return self._caches.get(name)

    def duplicate_id_caches(self) -> list[DuplicateIdCache]:
        """All that there are."""
        return list(self._caches.values())

    def release_duplicate_ids(self, name: str) -> None:
        """Drop the cache of an address without queues of its own, unless messages to its name still get somewhere.

        Diverts, queues of wildcard addresses and queues of other brokers would else get a repeated message twice.
        """
        if not self.routing.reaches(name):
            self.forget_duplicate_ids(name)
        elif name not in self.addresses:
            for each in (name, f"{BRIDGE_CACHE}{name}"):
                if each in self._caches:
                    self._make_stray(each)

    def forget_duplicate_ids(self, name: str) -> None:
        """Drop the cache of an address whose last binding is gone.

        The duplicate ids of bridges stay: a broker that got no answer sends its messages again, perhaps after the address was made anew.
        """
        bridged = f"{BRIDGE_CACHE}{name}"
        if bridged in self._caches:
            self._make_stray(bridged)
        self._stray_caches.pop(name, None)
        cache = self._caches.pop(name, None)
        if cache is not None and len(cache):
            batch = self.store.begin()
            cache.clear(batch)
            self.store.commit(batch)

    # --- decisions that a sender waits for

    def commit(self, batch: StoreBatch) -> int:
        """Store work outside of transactions; returns the ticket to wait for, 0 without ``journal-sync-non-transactional``."""
        ticket = self.store.commit(batch)
        return ticket if self.options.journal_sync_non_transactional else 0

    def commit_transaction(self, batch: StoreBatch) -> int:
        """Store work of a transaction; returns the ticket to wait for, 0 without ``journal-sync-transactional``."""
        ticket = self.store.commit(batch)
        return ticket if self.options.journal_sync_transactional else 0

    # --- accounts

    def hold(self, reference: Reference, account: AddressMemory) -> None:
        """A reference came into memory."""
        message = reference.message
        if message.account is None:
            message.account = account
            account.add(message.memory)
        message.references += 1
        message.account.add_reference(MEMORY_PER_REFERENCE)

    def let_go(self, reference: Reference) -> None:
        """A reference is done with; the last one takes the message's body along."""
        message = reference.message
        message.references = left = message.references - 1
        account = message.account
        if reference.queue.pages is not None:
            reference.queue.pages.let_go(reference)
        if left:
            if account is not None:
                account.remove_reference(MEMORY_PER_REFERENCE)
            return
        if account is not None:
            message.account = None
            # As Message.memory, without a call.
            account.remove(MEMORY_PER_MESSAGE + 2 * len(message.buffer) - message.properties_offset + MEMORY_PER_REFERENCE)
        if message.large is not None:
            message.large.release()

    # --- other brokers

    def _remote_changed(self, binding: RemoteBinding, came: bool) -> None:
        if came:
            self.awaited.came(binding.binding_id)
        for observer in self.observers:
            if came:
                observer.remote_binding_added(binding)
            else:
                observer.remote_binding_removed(binding)

    def consumer_changed(self, queue: Queue, came: bool) -> None:
        """A consumer of a queue has come or gone."""
        if self.elsewhere is not None:
            self.elsewhere.consumers_changed(queue)
        if self.routing.clustered:
            self.routing.consumers_changed(queue)
            self.consumers_changed(queue, came)

    def report(self, code: str, text: str) -> None:
        for observer in self.observers:
            observer.message_dropped(code, text)


def _owner(name: str) -> str:
    """The address that a duplicate id cache belongs to."""
    return name.partition("::")[0].removeprefix(BRIDGE_CACHE)


def is_stored(reference: Reference) -> bool:
    """Does the store know this reference?  All that come from pages it knows, and no loan."""
    if reference.__class__ is Loan or reference.__class__ is RemoteReference:
        return False
    message = reference.message
    return (message.durable and reference.queue.definition.durable) or message.store_state.__class__ is PagePlace
