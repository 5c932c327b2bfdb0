"""From the choice of routing to references: queues of this broker, store-and-forward queues, and the copies that diverts make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.message.expiration import expiration_at_routing
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.messaging.routing.remote import RemoteBinding
from mqclient.errors import AddressFullError, InternalError, MQError

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.routing.diverts import Divert
    from mqbroker.messaging.routing.routing import Binding

Send = tuple[Message, list[Reference]]
"""A message and its references, which are to be stored and delivered."""

May = Callable[[str, str, str | None], None]
"""``may(permission, address, queue)`` raises when the sender lacks a permission."""

DIVERTED_MAX = 1000
"""Copies that diverts make of one message; diverts that lead to each other multiply. Further copies are left out, and the log says so."""


def everything(permission: str, address: str, queue: str | None) -> None:
    """For the broker's own work: every permission is granted."""


def forward(message: Message, bindings: Iterable[RemoteBinding]) -> list[Queue]:
    """Write the ids of its remote queues into ``message``.  Returns the store-and-forward queues that are to have it."""
    stated: dict[bytes, tuple[Queue, bytes]] = {}
    for binding in bindings:
        key, value = binding.route_key, binding.route_value
        earlier = stated.get(key)
        # Newest first.
        stated[key] = (binding.store_and_forward, value if earlier is None else value + earlier[1])
    for key, (_, value) in stated.items():
        message.append_bytes_property(key, value)
    return [queue for queue, _ in stated.values()]


class AutoCreation(Protocol):
    """Makes the missing address or queue for a sent message."""

    def auto_create_for_send(self, address_name: str, routing_type: int | None, queue_name: str | None, may: May) -> None:
        """Raises what ``may`` raises, and AddressDoesNotExistError where auto-creation is off."""


class Distribution:
    """Makes references, also of the copies that a message needs."""

    def __init__(self, core: MessagingCore, creation: AutoCreation) -> None:
        self._core = core
        self._creation = creation

    def references_for(self, message: Message, queues: Sequence[Queue], address: Address) -> list[Reference]:
        """References on ``queues``, entered into the account of ``address``."""
        scheduled = scheduled_time_of(message)
        references = [Reference(message, queue, scheduled) for queue in queues]
        for reference in references:
            self._core.hold(reference, address.memory)
            reference.queue.arriving += 1
        if has_group(message):
            for queue in queues:
                queue.keep_groups()
        return references

    def distribute(
        self,
        message: Message,
        bindings: Sequence[Binding],
        address: Address | None,
        others: list[Send],
        may: May = everything,
        refusable: bool = True,
    ) -> list[Reference]:
        """The references of ``message`` for the chosen bindings; copies and their references are added to ``others``.

        With local and remote bindings two messages are made: only the forwarded one carries the remote queue ids.  Raises the errors of a
        divert's transformer or of a full address, and leaves nothing behind.  A message that is not ``refusable`` has no sender to be told:
        full addresses take it, too, and a transformer that fails is skipped.
        """
        if len(bindings) == 1:
            binding = bindings[0]
            if isinstance(binding, Queue):
                return self.references_for(message, (binding,), address or binding.address)
            if isinstance(binding, RemoteBinding):
                message.append_bytes_property(binding.route_key, binding.route_value)
                queue = binding.store_and_forward
                return self.references_for(message, (queue,), address or queue.address)
        queues = [binding for binding in bindings if isinstance(binding, Queue)]
        remotes = [binding for binding in bindings if isinstance(binding, RemoteBinding)]
        diverts = [binding for binding in bindings if not isinstance(binding, (Queue, RemoteBinding))]
        if diverts:
            # Diverts may fail: they come before any message is held.
            self._divert(message, diverts, others, may, refusable)
        if remotes:
            forwarded = message.duplicate(self._core.store.next_id()) if queues else message
            store_and_forward = forward(forwarded, remotes)
            references = self.references_for(forwarded, store_and_forward, address or store_and_forward[0].address)
            if not queues:
                return references
            others.append((forwarded, references))
        return self.references_for(message, queues, address or queues[0].address) if queues else []

    def route_copy(self, copy: Message, address_name: str, queue_name: str | None = None) -> list[Send]:
        """Route a copy that the broker has made, without a routing type: anycast and multicast queues both get it, as with dead letters."""
        core = self._core
        others: list[Send] = []
        bindings = core.routing.select(core.routing.route(address_name, None, queue_name), copy)
        references = self.distribute(copy, bindings, core.addresses.get(address_name), others, refusable=False)
        if references:
            others.insert(0, (copy, references))
        elif copy.large is not None:
            copy.large.release()
        return others

    def undo(self, sends: Iterable[Send]) -> None:
        """Give references up that were never stored."""
        for _, references in sends:
            for reference in references:
                reference.queue.arriving -= 1
                self._core.let_go(reference)

    # --- diverts

    def _divert(self, message: Message, diverts: Sequence[Divert], others: list[Send], may: May, refusable: bool) -> None:
        """Make the copies for ``diverts``, and for the diverts of those copies; no copy goes through a divert twice."""
        made: list[Send] = []
        copies: list[Message] = []
        pending = [(message, divert, frozenset((divert.name,))) for divert in diverts]
        try:
            for source, divert, passed in pending:
                for target in divert.forwarding_addresses:
                    if target == source.address.partition("::")[0]:
                        continue
                    if len(copies) == DIVERTED_MAX:
                        self._core.report(
                            "AMQ222056",
                            f"message {message.message_id} to {message.address}: diverts have made {DIVERTED_MAX} copies of it, "
                            "which is the limit",
                        )
                        pending.clear()
                        break
                    copy = self._copy(divert, source, target, refusable)
                    copies.append(copy)
                    further = self._place(copy, made, may, divert, refusable)
                    pending.extend((copy, each, passed | {each.name}) for each in further if each.name not in passed)
        except Exception as error:
            _release_unused(copies)
            self.undo(made)
            if isinstance(error, MQError):
                raise
            raise InternalError(f"a divert of address {message.address} has failed: {error!r}") from error
        _release_unused(copies)
        others.extend(made)

    def _copy(self, divert: Divert, source: Message, target: str, refusable: bool) -> Message:
        message_id = self._core.store.next_id()
        try:
            return divert.copy(source, message_id, target)
        except Exception as error:
            if refusable:
                raise
            self._core.report("AMQ222056", f"divert {divert.name}: a copy goes to {target} as it is, its transformer has failed: {error!r}")
            return divert.copy(source, message_id, target, transformed=False)

    def _place(self, copy: Message, made: list[Send], may: May, divert: Divert, refusable: bool) -> list[Divert]:
        """Route the copy of a divert.  Returns the diverts that it meets."""
        core = self._core
        name, _, queue_part = copy.address.partition("::")
        queue_name = queue_part or None
        routing_type = copy.routing_type
        if not core.routing.reaches(name):
            try:
                self._creation.auto_create_for_send(name, routing_type, queue_name, may)
            except MQError as error:
                core.report("AMQ222056", f"divert {divert.name}: {name} was not created for a copy: {error}")
        address = core.addresses.get(name)
        settings = core.settings_of(name) if address is None else address.settings
        expiration = expiration_at_routing(copy.expiration, settings, core.clock.wall_ms())
        if expiration != copy.expiration:
            copy.set_expiration(expiration)
        if address is not None and address.memory.full and not self._may_store(address, refusable):
            return []
        bindings = core.routing.select(core.routing.route(name, routing_type, queue_name), copy)
        diverts = [binding for binding in bindings if not isinstance(binding, (Queue, RemoteBinding))]
        rest = [binding for binding in bindings if isinstance(binding, (Queue, RemoteBinding))]
        # Further diverts copy the message as it is now: the properties for other brokers are added next.
        references = self.distribute(copy.duplicate(copy.message_id) if diverts and rest else copy, rest, address, made)
        if references:
            made.append((references[0].message, references))
        if address is not None:
            if bindings:
                address.routed_messages += 1
            else:
                address.unrouted_messages += 1
        return diverts

    @staticmethod
    def _may_store(address: Address, refusable: bool) -> bool:
        policy = address.memory.policy
        if policy == "FAIL" and refusable:
            raise AddressFullError(f'AMQ229102: Address "{address.name}" is full')
        return policy != "DROP"


def _release_unused(copies: Iterable[Message]) -> None:
    """Release the bodies of copies without a reference."""
    for copy in copies:
        if copy.large is not None and not copy.references:
            copy.large.release()
