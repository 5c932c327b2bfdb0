"""Makes the definitions of this broker what the change record says, without asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.imq.definitions.estate import lasting_addresses
from mqbroker.imq.record.changes import (
    ADDRESS,
    QUEUE,
    SETTINGS,
    Definition,
    Kind,
    Recorded,
    definition_of,
    is_recorded,
)
from mqbroker.imq.record.followed import Life
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.imq.record.updates import queue_update
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqbroker.server.security.kept_settings import change_address_setting
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue


class KeptLives(Protocol):
    """The lives of queues that were made by the record, or with it, by their names."""

    lives: dict[str, Life]

    def made(self, queue: str, position: int, generation: str | None) -> None:
        """A queue was made, whose life begins at this position of the former record ``generation``; None: of the present one."""


class Application:
    """Applies changes to ``messaging``.

    ``configured`` are the names of addresses and queues that the files of this broker define: they are not removed, but put on record.
    ``settings`` are the settings of addresses that management has made, as texts by their matches; ``warn`` takes a sentence about what
    cannot be as the record says, and ``lives`` keeps those of queues that were made because the record says so.
    """

    def __init__(
        self,
        messaging: Messaging,
        configured: Collection[str],
        settings: Mapping[str, str],
        warn: Callable[[str], object],
        lives: KeptLives,
    ) -> None:
        self._core = messaging.core
        self._administration = messaging.administration
        self._diverts = messaging.diverts
        self._configured = configured
        self._settings = dict(settings)
        self._warn = warn
        self._lives = lives

    # --- one change

    def apply(self, change: Recorded) -> None:
        """Make one change; nothing happens where everything is so already."""
        try:
            self._apply(change)
        except (MQError, ValueError) as error:
            self._warn(f"{change.name} is not as the change record says at {change.position}: {error}")

    def define(self, definition: Definition, recorded: Recorded | None = None) -> None:
        """Make a definition what it is said to be; ``recorded`` is its change, None = it is on no record.

        Raises the errors of the definition.
        """
        if isinstance(definition, AddressDefinition):
            self._put_address(definition)
        elif isinstance(definition, QueueDefinition):
            self._put_queue(definition, recorded)
        elif isinstance(definition, DivertConfiguration):
            self._diverts.impose(definition)
        else:
            change_address_setting(self._core, self._core.store, definition.name, definition.text)
            self._settings[definition.name] = definition.text

    def remove(self, key: str) -> None:
        """Remove what has this unique key, if it is there."""
        subject, _, name = key.partition(":")
        if subject == QUEUE:
            queue = self._core.queues.get(name)
            if queue is not None and not queue.definition.internal:
                self._administration.delete_queue(queue, remove_consumers=True)
                self._end_destination(queue)
        elif subject == ADDRESS:
            address = self._core.addresses.get(name)
            if address is not None and not address.internal:
                self._administration.delete_address(name, force=True)
        elif subject == SETTINGS:
            change_address_setting(self._core, self._core.store, name, "")
            self._settings.pop(name, None)
        else:
            self._diverts.withdraw(name)

    def note(self, change: Change) -> None:
        """This broker has made a change by itself."""
        definition = change.definition
        if isinstance(definition, AddressSettingDefinition):
            self._settings.pop(definition.name, None)
            if change.action != "delete":
                self._settings[definition.name] = definition.text

    def _apply(self, change: Recorded) -> None:
        if change.kind.removes:
            self.remove(change.key)
        elif change.kind is not Kind.RESET:
            self.define(definition_of(change.key, change.form), change)

    def _put_address(self, definition: AddressDefinition) -> None:
        address = self._core.addresses.get(definition.name)
        if address is None:
            self._administration.create_address(definition.name, definition.routing_types)
        else:
            needed = {queue.definition.routing_type for queue in address.queues}
            self._administration.claim_address(address, definition.routing_types | needed)

    def _put_queue(self, definition: QueueDefinition, recorded: Recorded | None) -> None:
        existing = self._core.queues.get(definition.name)
        if existing is None:
            self._define_queue(definition, recorded)
            return
        update = queue_update(existing.definition, definition)
        if update.replaced:
            self._warn(f"the queue {definition.name} is made anew, without its messages: the change record defines it differently")
            self._administration.delete_queue(existing, remove_consumers=True, keep_address=True)
            self._define_queue(definition, recorded)
        elif update.changes:
            self._administration.update_queue(existing, **update.changes)

    def _define_queue(self, definition: QueueDefinition, recorded: Recorded | None) -> None:
        self._administration.define_queue(definition)
        if recorded is not None:
            self._lives.made(definition.name, recorded.life, recorded.generation)

    # --- everything

    def apply_all(self, record: ChangeRecord) -> list[Definition]:
        """Make all definitions what the record says: what others do not have is removed, and so is a queue that was deleted and made again.

        Automatic, internal and temporary definitions stay, and so do dead letter and expiry addresses.  Returns the definitions that the
        files of this broker have and the record does not.
        """
        kept_addresses = lasting_addresses(self._core)
        unrecorded: list[Definition] = []
        for queue in list(self._core.queues.values()):
            if record.get(f"{QUEUE}:{queue.name}") is None and is_recorded(Change("create", queue.definition)):
                if queue.name in self._configured:
                    unrecorded.append(queue.definition)
                elif queue.definition.address not in kept_addresses:
                    self._drop(queue)
        for address in list(self._core.addresses.values()):
            if record.get(f"{ADDRESS}:{address.name}") is None and not (address.auto_created or address.temporary or address.internal):
                if address.name in self._configured:
                    unrecorded.append(AddressDefinition(address.name, address.routing_types))
                elif address.name not in kept_addresses:
                    self._leave_address(address)
        for name in self._diverts.kept():
            if record.get(f"divert:{name}") is None:
                self._diverts.withdraw(name)
        for match in sorted(self._settings):
            if record.get(f"{SETTINGS}:{match}") is None:
                self.remove(f"{SETTINGS}:{match}")
        for change in record.definitions:
            self._end_former_life(record, change)
            self.apply(change)
        return sorted(unrecorded, key=lambda each: isinstance(each, QueueDefinition))

    def _end_former_life(self, record: ChangeRecord, change: Recorded) -> None:
        subject, _, name = change.key.partition(":")
        queue, life = self._core.queues.get(name), self._lives.lives.get(name)
        if subject == QUEUE and queue is not None and life is not None and record.is_later(change, life):
            self._warn(f"the queue {name} was deleted, and made again at {change.life} of the change record: its former messages are gone")
            self._administration.delete_queue(queue, remove_consumers=True, keep_address=True)

    def own_definitions(self) -> list[Definition]:
        """The definitions of this broker that belong into a record, addresses before queues."""
        addresses = [
            AddressDefinition(each.name, each.routing_types)
            for each in self._core.addresses.values()
            if not (each.auto_created or each.temporary or each.internal)
        ]
        queues = [each.definition for each in self._core.queues.values() if is_recorded(Change("create", each.definition))]
        found = (self._diverts.find(name) for name in self._diverts.kept())
        diverts = [divert.configuration for divert in found if divert is not None]
        return [*addresses, *queues, *diverts, *(AddressSettingDefinition(*each) for each in self._settings.items())]

    def _end_destination(self, queue: Queue) -> None:
        """Its address goes at once where that was made with it: a destination that an administrator has destroyed is gone."""
        address = queue.address
        made_with_it = address.auto_created and queue.definition.routing_type == ANYCAST
        if made_with_it and not address.queues and self._core.addresses.get(address.name) is address:
            self._administration.delete_address(address.name)

    def _drop(self, queue: Queue) -> None:
        try:
            self._administration.delete_queue(queue, remove_consumers=True, keep_address=True)
        except MQError as error:
            self._warn(f"the queue {queue.name}, which the change record does not have, stays: {error}")
        else:
            self._end_destination(queue)

    def _leave_address(self, address: Address) -> None:
        """An address that is nobody's: it goes with its last queue."""
        if address.queues:
            self._administration.leave_address(address)
        else:
            self._administration.delete_address(address.name)
