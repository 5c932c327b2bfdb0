"""The messaging core as one object, which the server starts, uses and stops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from mqbroker.config.model.matching import AddressSettingsRepository, Wildcards
from mqbroker.messaging.administration.administration import Administration
from mqbroker.messaging.administration.definitions import Definitions
from mqbroker.messaging.administration.disk_guard import DiskGuard, DiskSpace
from mqbroker.messaging.administration.diverts import Diverts
from mqbroker.messaging.administration.inheritance import (
    duplicate_ids_by_record,
    held_places,
    join_queues,
    restore_duplicate_ids,
    restore_inherited,
)
from mqbroker.messaging.administration.pauses import Pauses
from mqbroker.messaging.administration.reapers import ExpiryReaper, UsageReaper
from mqbroker.messaging.administration.registrar import LocalRegistrar, Registrar
from mqbroker.messaging.administration.removal import Removal
from mqbroker.messaging.core import MessagingCore, MessagingOptions
from mqbroker.messaging.delivery.branches import Branches
from mqbroker.messaging.delivery.redistribution import Redistribution
from mqbroker.messaging.delivery.renewal import Renewal
from mqbroker.messaging.delivery.restoring import restore_messages
from mqbroker.messaging.delivery.sending import Sending
from mqbroker.messaging.delivery.settlement import Settlement
from mqbroker.messaging.ports import Clock, Inherited, Recovered, Store
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES, QueueDefinition, resolve
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.readers.readers import Readers, queues_with_readers
from mqbroker.messaging.routing.grouping import Grouping
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import MQError


class Messaging:
    """Addresses, queues, routing, settlement and periodic work over one store.

    ``removed`` is called with the names of queues and addresses that were removed as unused, and ``tell`` with log lines about readers.
    ``disk_space`` gives the disks below the store's folders, for the disk guard; None = no disk to guard.  ``registrar`` agrees to
    definitions and names; None = this broker is alone.  ``make_grouping`` is explained at :class:`MessagingCore`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: AddressSettingsRepository,
        wildcards: Wildcards,
        options: MessagingOptions,
        random: Callable[[], float],
        removed: Callable[[str], object] = lambda name: None,
        tell: Callable[[str], object] = lambda text: None,
        disk_space: Callable[[], Iterable[DiskSpace]] | None = None,
        registrar: Registrar | None = None,
        make_grouping: Callable[[MessagingCore], Grouping] | None = None,
    ) -> None:
        self.core = MessagingCore(store, clock, settings, wildcards, options, random, make_grouping)
        self.removal = Removal(self.core)
        self.administration = Administration(self.core, self.removal)
        self.sending = Sending(self.core, self.administration)
        self.settlement = Settlement(self.core, self.sending, self.administration)
        self.renewal = Renewal(self.core, self.sending)
        self.registrar = registrar or LocalRegistrar()
        self.definitions = Definitions(self.core, self.administration, self.registrar)
        self.diverts = Diverts(self.core, self.registrar)
        self.pauses = Pauses(self.core)
        self.redistribution = Redistribution(self.core, self.sending)
        self.branches = Branches(self.core, self.settlement)
        self.readers = Readers(self.core, tell)
        self.expiry_reaper = ExpiryReaper(self.core, self.settlement)
        self.usage_reaper = UsageReaper(self.core, self.administration, removed)
        self.disk_guard = None if disk_space is None else DiskGuard(self.core, disk_space)

    def restore(self, recovered: Recovered) -> int:
        """Take over the stored state; called once, before all other methods.  Returns the number of messages.

        ``recovered`` is emptied of its messages on the way: there may be millions.
        """
        core = self.core
        for address in recovered.addresses:
            created = self.administration.create_address(
                address.name, address.routing_types, auto_created=address.auto_created, durable=False
            )
            created.address_id = address.address_id
        queues: dict[int, Queue] = {}
        for record in recovered.queues:
            queues[record.queue_id] = self.administration.restore_queue(record.queue_id, QueueDefinition.from_record(record))
        to_hold, with_readers = held_places(recovered), queues_with_readers(recovered.settings)
        count = len(recovered.messages)
        held = restore_messages(core, queues, recovered.messages, to_hold, with_readers)
        core.paging.restore(queues, core.account_of)
        parts = self._join(recovered.inherited, recovered.settings)
        held.update(restore_inherited(core, parts, to_hold, with_readers))
        for queue in queues.values():
            wanted = {message_id for queue_id, message_id in to_hold.difference(held) if queue_id == queue.queue_id}
            for reference in () if queue.pages is None or not wanted else queue.pages.take(wanted):
                queue.take(reference)
                held[queue.queue_id, reference.message.message_id] = reference
        for queue in core.queues.values():
            queue.messages_added = 0
        everything = [(recovered, queues), *((part.found, known) for part, known in parts)]
        duplicate_ids = duplicate_ids_by_record(found for found, _ in everything)
        for found, known in everything:
            restore_duplicate_ids(core, found.duplicate_ids)
            self.branches.restore(found, known, held, duplicate_ids)
        self.readers.restore(recovered.settings, queues)
        self.diverts.restore(recovered.settings)
        self.pauses.restore(recovered.settings)
        return count

    def adopt(self, recovered: Recovered) -> None:
        """Take over what another broker had, within a turn, while this one serves."""
        core = self.core
        parts = self._join(recovered.inherited, None)
        held = restore_inherited(core, parts, set(), {queue.queue_id for queue in core.reader_queues})
        duplicate_ids = duplicate_ids_by_record(part.found for part, _ in parts)
        for part, queues in parts:
            restore_duplicate_ids(core, part.found.duplicate_ids)
            self.branches.restore(part.found, queues, held, duplicate_ids)

    def _join(self, inherited: Sequence[Inherited], kept: Mapping[tuple[str, str], str] | None) -> list[tuple[Inherited, dict[int, Queue]]]:
        """As :func:`join_queues`; what has ended is known before any queue is made.  ``kept``: see :meth:`.Registrar.ended`."""
        ended = [self.registrar.ended(each.found, self.core, kept) for each in inherited]
        return [(each, join_queues(self.core, self.administration, each, gone)) for each, gone in zip(inherited, ended, strict=True)]

    def deploy(
        self,
        addresses: Iterable[AddressConfiguration],
        tell: Callable[[str], object] = lambda text: None,
        warn: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Make or update the configured addresses and queues, now or once the registrar agrees.

        ``tell`` is called with a log line about each address and queue, existing ones too, and ``warn`` with a sentence about each that
        could not be deployed.
        """
        for configuration in addresses:
            self._deploy(configuration, tell, warn)

    def _deploy(self, configuration: AddressConfiguration, tell: Callable[[str], object], warn: Callable[[str], object]) -> None:
        def again() -> None:
            try:
                self._deploy(configuration, tell, warn)
            except MQError as error:
                warn(f"{configuration.name} is not deployed: {error}")

        address = self.core.addresses.get(configuration.name)
        types = frozenset(configuration.routing_types)
        try:
            if address is None:
                self.definitions.create_address(configuration.name, types)
            else:
                self.definitions.claim_address(address, types | {queue.definition.routing_type for queue in address.queues})
            kinds = ",".join(ROUTING_TYPE_NAMES[each] for each in sorted(types))
            tell(f"AMQ221080: Deploying address {configuration.name} supporting [{kinds}]")
            for queue in configuration.queues:
                self._deploy_queue(queue, tell, warn)
        except Undecided as undecided:
            undecided.when_known(lambda: self.core.turn.run(again))

    def deploy_diverts(self, diverts: Iterable[DivertConfiguration], tell: Callable[[str], object] = lambda text: None) -> None:
        """Put the diverts of the configuration in force.  ``tell`` takes a line for the log about each.  Raises DivertError."""
        self.diverts.deploy(diverts, tell)

    def start(self) -> None:
        """Begin the periodic work."""
        self.readers.start()
        self.usage_reaper.sweep_at_start()
        self.expiry_reaper.start()
        self.usage_reaper.start()
        if self.disk_guard is not None:
            self.disk_guard.start()

    def stop(self) -> None:
        """End the periodic work and every timer."""
        self.expiry_reaper.stop()
        self.usage_reaper.stop()
        self.branches.stop()
        self.readers.stop()
        self.redistribution.stop()
        self.core.awaited.stop()
        if self.disk_guard is not None:
            self.disk_guard.stop()
        for queue in self.core.queues.values():
            queue.stop()

    def _deploy_queue(self, configuration: QueueConfiguration, tell: Callable[[str], object], warn: Callable[[str], object]) -> None:
        existing = self.core.queues.get(configuration.name)
        if existing is None:
            _tell_queue(self.definitions.create_queue(configuration), tell)
            return
        if existing.definition.address != (configuration.address or configuration.name):
            warn(
                f"AMQ229019: queue {configuration.name} exists on address {existing.definition.address}; "
                f"it is not deployed on {configuration.address}"
            )
            return
        wanted, problems = _kept(existing, resolve(configuration, existing.address.settings))
        if wanted != existing.definition:
            names = [field.name for field in fields(wanted)]
            known = existing.definition
            changes = {name: getattr(wanted, name) for name in names if getattr(wanted, name) != getattr(known, name)}
            self.definitions.update_queue(existing, **changes)
        for problem in problems:
            warn(problem)
        _tell_queue(existing, tell)


def _tell_queue(queue: Queue, tell: Callable[[str], object]) -> None:
    definition = queue.definition
    kind = ROUTING_TYPE_NAMES[definition.routing_type]
    tell(f"AMQ221003: Deploying {kind} queue {definition.name} on address {definition.address}")


def _kept(queue: Queue, wanted: QueueDefinition) -> tuple[QueueDefinition, list[str]]:
    """The definition of an existing queue after the update to ``wanted``, and sentences about the differences that stay."""
    definition, name = queue.definition, wanted.name
    problems: list[str] = []
    if wanted.durable != definition.durable:
        # The queue's messages are stored, or they are not: acknowledgements have to fit that.
        made, asked = ("durable", "not durable") if definition.durable else ("not durable", "durable")
        problems.append(f"queue {name} was created as {made}, and stays so until it is deleted; broker.xml defines it as {asked}")
    for kind in ("last_value_key", "non_destructive"):
        value = getattr(definition, kind)
        if getattr(wanted, kind) != value:
            problems.append(
                f"queue {name} was created with {kind.replace('_', '-')} {str(value).lower()}, and that cannot change until it is deleted"
            )
    ring_size = wanted.ring_size
    if ring_size >= 0 and queue.has_readers:
        problems.append(f"queue {name} has readers, and gets no ring-size")
        ring_size = definition.ring_size
    kept = replace(
        wanted,
        durable=definition.durable,
        last_value=definition.last_value,
        last_value_key=definition.last_value_key,
        non_destructive=definition.non_destructive,
        ring_size=ring_size,
    )
    return kept, problems
