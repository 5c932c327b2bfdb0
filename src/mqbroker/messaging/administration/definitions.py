"""Addresses and queues that clients, management, the configuration, or sent messages ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mqbroker.messaging.administration.auto_creation import auto_create_for_send
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import QueueConfiguration
    from mqbroker.messaging.administration.administration import Administration
    from mqbroker.messaging.administration.registrar import Registrar
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue

T = TypeVar("T")


class Definitions:
    """Checks each change, asks the registrar for it, and has it made.

    Every method raises Undecided, before any change, while the registrar has not decided; the caller then asks again later.  Methods also
    raise the errors of the methods of :class:`Administration` with the same names, and of the registrar.
    """

    def __init__(self, core: MessagingCore, administration: Administration, registrar: Registrar) -> None:
        self._core = core
        self._administration = administration
        self._registrar = registrar

    def create_address(self, name: str, routing_types: Iterable[int], *, auto_created: bool = False) -> Address:
        """Make an address, or give an existing one these routing types, if there are any."""
        types = frozenset(routing_types)
        address = self._core.addresses.get(name)
        if address is None:
            types = types or frozenset((self._core.settings_of(name).default_address_routing_type,))
            change = Change("create", AddressDefinition(name, types, auto_created))
            return self._make(change, lambda: self._administration.create_address(name, types, auto_created=auto_created))
        if types:
            self.update_address(address, types)
        return address

    def claim_address(self, address: Address, routing_types: frozenset[int]) -> None:
        """The configuration has an address that is there: it is not an automatically created one any more, and has these routing types."""
        self._administration.check_address_update(address, routing_types)
        if not address.auto_created:
            self.update_address(address, routing_types)
            return
        change = Change("create", AddressDefinition(address.name, routing_types))
        self._make(change, lambda: self._administration.claim_address(address, routing_types))

    def update_address(self, address: Address, routing_types: frozenset[int]) -> None:
        """Replace the routing types."""
        self._administration.check_address_update(address, routing_types)
        if routing_types != address.routing_types:
            change = Change("update", AddressDefinition(address.name, routing_types, address.auto_created))
            self._make(change, lambda: self._administration.update_address(address, routing_types))

    def delete_address(self, name: str, force: bool = False) -> None:
        """Remove an address; with ``force`` its queues, their consumers and messages too.

        Each of the queues is a change of its own, made before the next one is asked for.
        """
        delete_queue = partial(self._administration.delete_queue, remove_consumers=True, keep_address=True)
        address = self._administration.check_address_deletion(name, force)
        for queue in list(address.queues):
            self._make(Change("delete", queue.definition), partial(delete_queue, queue))
        change = Change("delete", AddressDefinition(name, address.routing_types, address.auto_created))
        self._make(change, lambda: self._administration.delete_address(name))

    def create_queue(self, configuration: QueueConfiguration, *, auto_create_address: bool | None = None) -> Queue:
        """Make a queue.  Whether the same one, which others have, too, is there still, the registrar has to say."""
        existing = self._core.queues.get(configuration.name)
        if existing is not None and self._registrar.shares(existing.definition):
            wanted = self._administration.wanted_queue(configuration)
            if wanted == existing.definition:
                with suppress(MQError):
                    self._registrar.agree(Change("create", wanted))
        change = Change("create", self._administration.new_queue(configuration, auto_create_address))
        return self._make(change, lambda: self._administration.create_queue(configuration, auto_create_address=auto_create_address))

    def create_shared_queue(self, configuration: QueueConfiguration) -> Queue:
        """Make the queue of a shared subscription, or take the one that is there if it is the same."""
        return self._administration.shared_queue(configuration) or self.create_queue(configuration)

    def read_on(self, name: str) -> None:
        """Raise Undecided where others may have made or deleted the queue of this name, and this broker may not have heard of it.

        To be called once for a request: a further call would ask again.
        """
        queue = self._core.queues.get(name)
        if queue is None or self._registrar.shares(queue.definition):
            self._registrar.read_on()

    def update_queue(self, queue: Queue, **changes: bool | int | str | None) -> None:
        """Change attributes of a queue in place."""
        change = Change("update", self._administration.updated_queue(queue, changes))
        self._make(change, lambda: self._administration.update_queue(queue, **changes))

    def delete_queue(self, queue: Queue, *, remove_consumers: bool = False) -> None:
        """Remove a queue with its messages."""
        self._administration.check_queue_deletion(queue, remove_consumers)
        change = Change("delete", queue.definition)
        self._make(change, lambda: self._administration.delete_queue(queue, remove_consumers=remove_consumers))

    def change_address_setting(self, match: str, text: str, make: Callable[[], T]) -> T:
        """Have ``make`` keep settings of addresses as ``text``, or delete them where it is empty.  Returns its result."""
        return self._make(Change("update" if text else "delete", AddressSettingDefinition(match, text)), make)

    def auto_create_for_send(
        self, address_name: str, routing_type: int | None, queue_name: str | None, may: Callable[[str, str, str | None], None]
    ) -> None:
        """As :func:`auto_create_for_send`."""
        auto_create_for_send(self._core, self, address_name, routing_type, queue_name, may)

    def _make(self, change: Change, make: Callable[[], T]) -> T:
        self._registrar.agree(change)
        made = make()
        self._registrar.made(change)
        return made
