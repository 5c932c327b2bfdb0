"""The operations ``createQueue``, ``updateQueue`` and ``destroyQueue`` of the broker, in all their forms.

The answers are those of Artemis: a JSON object for a form with a JSON object, the line that the command line prints for a form with single
parameters, and nothing for the oldest forms, which have up to five parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.turns.steps import Steps
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.management import definitions
from mqbroker.server.management.definitions import find_queue
from mqbroker.server.management.registry import ManagementError, as_bool, as_object, as_text
from mqbroker.server.transport.naming import split_qualified
from mqclient.errors import IllegalStateError, QueueDoesNotExistError

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue

CREATE_PARAMETERS = 21
"""Parameters of the longest form of ``createQueue``."""

_FIRST = ("address", "routing-type", "name", "filter-string", "durable", "max-consumers", "purge-on-no-consumers")
_GROUPS = ("exclusive", "group-rebalance", "group-buckets")
_VALUES = ("last-value", "last-value-key", "non-destructive", "consumers-before-dispatch", "delay-before-dispatch")
_DELETE = ("auto-delete", "auto-delete-delay", "auto-delete-message-count")
_LONG_FORMS: dict[int, tuple[str, ...]] = {
    8: (*_FIRST, "auto-create-address"),
    16: (*_FIRST, *_GROUPS, *_VALUES, "auto-create-address"),
    19: (*_FIRST, *_GROUPS, *_VALUES, *_DELETE, "auto-create-address"),
    20: (*_FIRST, *_GROUPS, "group-first-key", *_VALUES, *_DELETE, "auto-create-address"),
    21: (*_FIRST, *_GROUPS, "group-first-key", *_VALUES, *_DELETE, "auto-create-address", "ring-size"),
}
"""The parameters of ``createQueue`` by their number."""
_UPDATE_FORM = ("name", "routing-type", "max-consumers", "purge-on-no-consumers")


def create_queue(messaging: Messaging, *parameters: Any) -> str | None:
    """Make a queue.  Raises ManagementError and the errors of :meth:`Definitions.create_queue`."""
    if len(parameters) <= 2 and as_text(parameters[0]).lstrip().startswith("{"):
        ignore = as_bool(parameters[1]) if len(parameters) > 1 else False
        return definitions.describe_queue(_made(messaging, parameters[0], ignore_if_exists=ignore))
    if len(parameters) <= 5:
        _made(messaging, _short_form(parameters))
        return None
    names = _LONG_FORMS.get(len(parameters))
    if names is None:
        raise ManagementError(f"AMQ229069: no operation createQueue/{len(parameters)}")
    given = dict(zip(names, parameters, strict=True))
    if not as_text(given["address"] or "").strip():
        raise ManagementError("address can't be null or empty!")
    if not as_text(given["name"] or ""):
        raise ManagementError("AMQ229216: Invalid queue name: ")
    return definitions.queue_line(_made(messaging, given))


def _short_form(parameters: tuple[Any, ...]) -> dict[str, Any]:
    names: tuple[str, ...] = ("address", "name", "filter-string", "durable", "routing-type")
    if len(parameters) == 3:
        names = ("address", "name", "durable" if isinstance(parameters[2], bool) else "routing-type")
    elif len(parameters) == 4 and isinstance(parameters[2], bool):
        names = ("address", "name", "durable", "routing-type")
    return dict(zip(names, parameters, strict=False))


def _made(messaging: Messaging, given: Any, *, ignore_if_exists: bool = False) -> Queue:
    description = as_object(given, "the queue configuration is")
    configuration, _ = definitions.parse_queue(description)
    existing = messaging.core.queues.get(configuration.name)
    if existing is not None and ignore_if_exists:
        return existing
    with_address = description.get("auto-create-address")
    return messaging.definitions.create_queue(configuration, auto_create_address=None if with_address is None else as_bool(with_address))


def update_queue(messaging: Messaging, *parameters: Any) -> str:
    """Change a queue.  Raises ManagementError, IllegalStateError, QueueDoesNotExistError."""
    if len(parameters) == 1:
        return definitions.describe_queue(_changed(messaging, parameters[0]))
    if len(parameters) != len(_UPDATE_FORM):
        raise ManagementError(f"AMQ229069: no operation updateQueue/{len(parameters)}")
    return definitions.queue_line(_changed(messaging, dict(zip(_UPDATE_FORM, parameters, strict=True))))


def _changed(messaging: Messaging, given: Any) -> Queue:
    configuration, changes = definitions.parse_queue(given)
    queue = find_queue(messaging, configuration.name)
    for fixed in ("durable", "temporary", "transient", "auto_created"):
        changes.pop(fixed, None)
    for name in ("last_value", "last_value_key", "non_destructive"):
        if name in changes and (changes.pop(name) or None) != (getattr(queue.definition, name) or None):
            raise ManagementError(f"queue {queue.name}: {name.replace('_', '-')} cannot be changed; delete the queue and create it again")
    unknown = [name for name in changes if not hasattr(queue.definition, name)]
    if unknown:
        raise ManagementError(f"queue {queue.name}: {unknown[0].replace('_', '-')} is not supported by this broker")
    _check_changes(queue, changes)
    messaging.definitions.update_queue(queue, **changes)
    return queue


def _check_changes(queue: Queue, changes: dict[str, Any]) -> None:
    most, count = changes.get("max_consumers", -1), queue.consumer_count
    if 0 <= most < count:
        raise IllegalStateError(f"AMQ229210: Can't update queue {queue.name} with maxConsumers: {most}. Current consumers are {count}.")
    kind, address = changes.get("routing_type"), queue.address
    if kind is not None and kind not in address.routing_types:
        raise IllegalStateError(
            f"AMQ229211: Can't update queue {queue.name} with routing type: {definitions.type_names({kind})}, "
            f"Supported routing types for address: {address.name} are [{definitions.type_names(address.routing_types)}]"
        )


def destroy_queue(messaging: Messaging, name: Any, remove_consumers: Any = False, auto_delete_address: Any = False) -> Steps[None] | None:
    """Delete a queue, which may be named with its address.  Raises IllegalStateError while it has consumers, QueueDoesNotExistError."""
    qualifier, qualified = split_qualified(as_text(name))
    queue = find_queue(messaging, qualified or qualifier)
    address = queue.address
    if qualified and address.name != qualifier:
        raise QueueDoesNotExistError(f"AMQ229017: Queue {name} does not exist")
    messaging.definitions.delete_queue(queue, remove_consumers=as_bool(remove_consumers))
    return _delete_address(messaging, address) if as_bool(auto_delete_address) else None


def _delete_address(messaging: Messaging, address: Address) -> Steps[None]:
    """Delete the address of a queue that is gone, if it is there and has no other queue.

    The request cannot be handled again from its beginning while others decide about the address, since its queue is gone.
    """
    core = messaging.core
    while core.addresses.get(address.name) is address and not address.queues:
        try:
            messaging.definitions.delete_address(address.name)
        except Undecided as undecided:
            core.steps.wait_for(NotYet(undecided.when_known))
            yield 0
