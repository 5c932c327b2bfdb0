"""Messages with their own destinations, from other brokers of a cluster and from imports.

``_AMQ_ROUTE_TO`` holds the ids of queues of this broker, 8 bytes each; ``_AMQ_SCALEDOWN_TO`` ids by which a leaving broker knew the queues
of others; ``_AMQ_ACK_ROUTE_TO`` the queues that have acknowledged the message already.  Filters and round robin do not apply to such a
message.  ``_AMQ_BRIDGE_DUP`` is the duplicate id of a bridge.  All these properties are removed on arrival.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqbroker.config.model.internal_names import store_and_forward_prefix
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.bindings_group import accepts
from mqbroker.messaging.routing.duplicates import remembered
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.errors import IllegalStateError
from mqclient.wire.message import KEY_ACK_ROUTE_TO, KEY_BRIDGE_DUPLICATE_ID, KEY_ROUTE_TO, KEY_SCALEDOWN_TO

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.routing.routing import Binding, Route
    from mqclient.wire.properties import TypedValue

_BRIDGED = "E_".encode("utf-16-le")
"""Part of ``ROUTE_TO`` and ``BRIDGE_DUP``, and of no other name that clients put into every message."""
_SCALED_DOWN = "N_TO".encode("utf-16-le")

KEY_SCALEDOWN_NODE: Final = f"{KEY_ACK_ROUTE_TO}.for"
"""The node that gave the queues of ``_AMQ_SCALEDOWN_TO`` their ids, 16 bytes: ids of different brokers may be the same."""

KEY_MOVED_BY: Final = f"{KEY_ACK_ROUTE_TO}.moved"
"""The nodes that have redistributed the message, 16 bytes each, the latest last.  A real Artemis takes properties of such names out."""

MOVED_BY: Final = KEY_MOVED_BY.encode("utf-16-le")

_PREFIXES = tuple(key.encode("utf-16-le") for key in (KEY_ROUTE_TO, KEY_ACK_ROUTE_TO, KEY_SCALEDOWN_TO, KEY_BRIDGE_DUPLICATE_ID))
_ID = struct.Struct(">q")


class Arrival:
    """The destinations in a message, and its duplicate id of a bridge.  ``bindings`` None: the message names no destination.

    ``acknowledged`` are queues of this broker that have acknowledged the message on the sending broker.
    """

    __slots__ = ("_moved_by", "acknowledged", "bindings", "bridge_id", "ids_stated", "routing_type")

    def __init__(self, bridge_id: bytes | None, routing_type: int | None, moved_by: bytes | None = None) -> None:
        self._moved_by = moved_by
        self.bridge_id = bridge_id
        self.routing_type = routing_type
        self.bindings: list[Queue | RemoteBinding] | None = None
        self.acknowledged: list[Queue] = []
        self.ids_stated = 0

    def choose(self, core: MessagingCore, message: Message, route: Route, may_wait: bool = False) -> Sequence[Binding]:
        """The bindings that get the message.  The names of the brokers that have redistributed it stay in it, unless a consumer here waits
        for it.

        An exclusive divert of this broker comes first.  When all queues of an anycast message were removed, it goes to another anycast
        queue of its address, as if it had been sent here, and so is not lost.  Multicast queues get only messages sent while they existed.
        """
        chosen = self._choose(core, message, route, may_wait)
        if self._moved_by and not all(isinstance(each, Queue) and each.has_matching_consumer(message) for each in chosen):
            message.append_bytes_property(MOVED_BY, self._moved_by)
        return chosen

    def _choose(self, core: MessagingCore, message: Message, route: Route, may_wait: bool) -> Sequence[Binding]:
        diverts = route.exclusive(message)
        if diverts:
            return diverts
        if self.bindings is None:
            return core.routing.select(route, message, may_wait)
        if self.bindings or self.acknowledged or not self.ids_stated or self.routing_type == MULTICAST:
            return self.bindings
        chosen = _instead(core, message, route)
        if chosen:
            names = ", ".join(each.name if isinstance(each, Queue) else repr(each) for each in chosen)
            core.report("AMQ222110", f"message {message.message_id} to {message.address}: its queue no longer exists; it goes to {names}")
        else:
            core.report(
                "AMQ222110", f"message {message.message_id} to {message.address}: its queue no longer exists, and there is no other one"
            )
        return chosen


def _instead(core: MessagingCore, message: Message, route: Route) -> list[Queue | RemoteBinding]:
    """The anycast queue that gets a message whose own is gone: one of this broker if there is one, best with a consumer for it."""
    if core.routing.grouping is not None and has_group(message):
        # The group may have gone somewhere else meanwhile.
        return [each for each in core.routing.select(route, message) if isinstance(each, (Queue, RemoteBinding)) and _is_anycast(each)]
    name, _, queue_name = message.address.partition("::")
    queues = [
        queue
        for queue in core.routing.bound(name)
        if queue.definition.routing_type == ANYCAST and queue_name in ("", queue.name) and accepts(queue, message)
    ]
    if queues:
        return [next((queue for queue in queues if queue.has_matching_consumer(message)), queues[0])]
    return [binding for binding in route.select(message) if isinstance(binding, RemoteBinding) and _is_anycast(binding)]


def _is_anycast(binding: Queue | RemoteBinding) -> bool:
    if isinstance(binding, Queue):
        return binding.definition.routing_type == ANYCAST
    return binding.routing_name == binding.address


def straight_to(queue: Queue) -> Arrival:
    """The Arrival of a message that goes to ``queue`` alone, whatever the queue's filter is."""
    arrival = Arrival(None, None, None)
    arrival.bindings = [queue]
    return arrival


def has_marks(message: Message) -> bool:
    """Cheap check for the properties of bridges and scale-down.  False is certain; True means that the properties have to be read."""
    buffer, start = message.buffer, message.properties_offset
    return buffer.find(_BRIDGED, start) >= 0 or buffer.find(_SCALED_DOWN, start) >= 0


def take_arrival(
    core: MessagingCore, message: Message, address: str, routing_type: int | None, may_send: Callable[[str, str, str | None], None]
) -> Arrival | None:
    """The Arrival of ``message``, None for a message without destination and bridge id; removes these properties from ``message``.

    Only queues that messages of ``address`` may reach count, and only those of the message's ``routing_type`` if it has one.
    ``may_send(permission, address, queue)`` raises where the sender may not send to a queue.  Raises Undecided for a queue of another
    broker that is not known yet: the caller makes the message anew and sends it again.  Raises IllegalStateError for a message to an
    unknown broker that no queue here would get.
    """
    removed = message.strip_properties(_PREFIXES)
    bridge = removed.get(KEY_BRIDGE_DUPLICATE_ID, (0, None))[1]
    stated = removed.get(KEY_ROUTE_TO)
    scaled_down = removed.get(KEY_SCALEDOWN_TO)
    if not isinstance(bridge, bytes) and stated is None and scaled_down is None:
        return None
    moved_by = removed.get(KEY_MOVED_BY, (0, None))[1]
    arrival = Arrival(
        remembered(bridge) if isinstance(bridge, bytes) else None, routing_type, moved_by if isinstance(moved_by, bytes) else None
    )
    if scaled_down is not None:
        arrival.ids_stated = 1
        node = removed.get(KEY_SCALEDOWN_NODE, (0, None))[1]
        arrival.bindings = list(_of_remote_ids(core, address, _ids(scaled_down), node if isinstance(node, bytes) else None))
        if node is not None and not arrival.bindings and (routing_type == MULTICAST or not _has_anycast_queue(core, address)):
            # That broker has left, too.  The sender keeps the message safely until the broker is back.
            raise IllegalStateError(f"a message to {address} waits for a broker that is not known here")
        return arrival
    if stated is None:
        return arrival
    ids = _ids(stated)
    arrival.ids_stated = len(ids)
    arrival.bindings = []
    acknowledged = set(_ids(removed.get(KEY_ACK_ROUTE_TO)))
    queues = {queue.queue_id: queue for queue in core.routing.bound(address)}
    for number in dict.fromkeys(ids):
        queue = queues.get(number)
        if queue is None:
            remote = core.routing.remote_by_id(address, number)
            if remote is not None:
                arrival.bindings.append(remote)
            else:
                core.awaited.check(number)
                core.report("AMQ222110", f"a message to {address} states the queue {number}, which the address does not have")
            continue
        definition = queue.definition
        may_send("send", definition.address, queue.name)
        if number in acknowledged:
            arrival.acknowledged.append(queue)
            continue
        # A disabled queue takes nothing that is sent here; the other broker has accepted the message for it, and keeps it no longer.
        takes_it = definition.enabled or not definition.temporary
        open_for_it = takes_it and (queue.consumer_count or not definition.purge_on_no_consumers)
        if open_for_it and routing_type in (None, definition.routing_type):
            arrival.bindings.append(queue)
        elif open_for_it:
            core.report("AMQ222110", f"a message to {address} states the queue {queue.name}, which is of another routing type")
    return arrival


def _has_anycast_queue(core: MessagingCore, address: str) -> bool:
    return any(queue.definition.routing_type == ANYCAST for queue in core.routing.bound(address.partition("::")[0]))


def _of_remote_ids(core: MessagingCore, address: str, ids: Iterable[int], node: bytes | None) -> Iterable[RemoteBinding]:
    """Remote queues by the ids that they have on their own brokers, or on ``node`` alone.

    If only a node's store-and-forward queue exists, the message waits there: the link has not come up yet, or the node is down.
    """
    wanted = dict.fromkeys(ids)
    ending = "" if node is None or len(node) != 16 else str(UUID(bytes=node))
    for binding in core.routing.remote_bound(address):
        if binding.remote_id in wanted and binding.store_and_forward.name.endswith(ending):
            if ending:
                del wanted[binding.remote_id]
            yield binding
    if not ending or not wanted:
        return
    prefix = store_and_forward_prefix(core.options.internal_naming_prefix)
    waiting = next((queue for queue in core.queues.values() if queue.name.startswith(prefix) and queue.name.endswith(ending)), None)
    if waiting is not None:
        for remote_id in wanted:
            yield RemoteBinding(address, address, f"?{ending}", 0, remote_id, 1, LoadBalancing.OFF, waiting, core.routing)


def _ids(stated: TypedValue | None) -> list[int]:
    data = None if stated is None else stated[1]
    return [number for (number,) in _ID.iter_unpack(data)] if isinstance(data, bytes) and not len(data) % _ID.size else []
