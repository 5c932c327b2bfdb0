"""The notifications of one member about its queues and consumers, and the remote bindings made of them.

Source: ``protocol-spec/``, chapter "Cluster connections".  Every notification that changes something here is passed on with one more hop,
to members further away.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mqbroker.cluster.grouping.grouping import KINDS, GroupingLink
from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.ways import Ways, binding_id
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import NODE_ID_LENGTH, LoadBalancing, RemoteBinding
from mqclient.errors import MQError
from mqclient.wire.properties import BOOLEAN, BYTE, INT, LONG, NULL, SHORT, STRING, TypedValue

BINDINGS_MAX = 200_000
"""Queues that one member may make known."""

CONSUMER_FILTERS_MAX = 100_000
"""Consumers with a filter that one member may make known."""

TOLD_PER_TURN = 1_000
"""Queues that lost consumers while there was no link and that are announced to other members in one turn."""

NAME_LENGTH_MAX = 4096
"""Characters of an address, a queue or a routing name that a member makes known."""

Properties = Mapping[str, TypedValue]

_NUMBERS = (BYTE, SHORT, INT, LONG)
_DIGITS = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """The common settings of all members.  ``own_node_id``: in rings the own queues come back, and are ignored."""

    own_node_id: str
    interests: Interests
    load_balancing: LoadBalancing


class Flow:
    """Follows the notifications of one member, and holds its remote bindings.

    ``tell(kind, headers)`` sends a notification of this broker; ``consumer_appeared`` starts redistribution to a remote binding;
    ``refused(text)`` logs a notification that cannot be followed; ``grouping`` gets the notifications about message groups.
    """

    def __init__(
        self,
        settings: FlowSettings,
        ways: Ways,
        store_and_forward: Queue,
        tell: Callable[[str, Mapping[str, TypedValue]], object],
        consumer_appeared: Callable[[RemoteBinding], object],
        refused: Callable[[str], object],
        grouping: GroupingLink | None = None,
    ) -> None:
        self.bindings: dict[str, RemoteBinding] = {}
        self.received = 0
        self.complete = False
        """Are all queues known that the member had when the link came up?"""
        self._settings = settings
        self._ways = ways
        self._store_and_forward = store_and_forward
        self._tell = tell
        self._consumer_appeared = consumer_appeared
        self._refused = refused
        self._grouping = grouping
        self._accepting = False
        self._filters = 0
        self._behind: deque[RemoteBinding] = deque()
        """Bindings that have lost consumers; other members may not have been told yet."""
        self._reactions: dict[str, Callable[[Properties], None]] = {
            "BINDING_ADDED": self._binding_added,
            "BINDING_REMOVED": self._binding_removed,
            "BINDING_UPDATED": self._binding_updated,
            "CONSUMER_CREATED": self._consumer_created,
            "CONSUMER_CLOSED": self._consumer_closed,
            "SESSION_CREATED": self._session_created,
        }

    # --- the link

    def begin(self) -> None:
        """The member will be asked for all its queues: consumers are counted anew."""
        self._accepting = self.complete = False
        self._filters = 0
        self._behind.clear()
        for binding in self.bindings.values():
            binding.reset_consumers()

    def disconnected(self) -> None:
        """The link is gone, and may come back: bindings stay, but other ones are preferred."""
        self._accepting = self.complete = False
        self._ways.cut([binding for binding in self.bindings.values() if binding.connected])

    def end(self) -> None:
        """The member has left: its bindings are removed, and get no message from now on."""
        self._accepting = self.complete = False
        self._behind.clear()
        bindings, self.bindings = self.bindings, {}
        self._ways.remove_all(bindings.values())

    # --- notifications

    def handle(self, properties: Properties) -> None:
        """Follow one notification.  A notification that cannot be followed is reported and changes nothing."""
        self.received += 1
        try:
            self._handle(properties)
        except (ValueError, MQError) as error:
            self._refused(f"a notification is not followed: {error}")

    def _handle(self, properties: Properties) -> None:
        if _flag(properties, "_AMQ_RESET_QUEUE_DATA"):
            self._accepting = True
            if self._grouping is not None:
                self._grouping.linked()
            return
        if not self._accepting:
            return
        if _flag(properties, "_AMQ_RESET_QUEUE_DATA_COMPLETE"):
            self.complete = True
            gone = [binding for binding in self.bindings.values() if not binding.connected]
            for binding in gone:
                del self.bindings[binding.cluster_name]
            self._ways.remove_all(gone)
            self._behind.extend(binding for binding in self.bindings.values() if binding.consumers_told)
            self._tell_who_is_gone()
            return
        kind = _text(properties, "_AMQ_NotifType")
        reaction = self._reactions.get(kind)
        if reaction is None and kind in KINDS:
            if self._grouping is None:
                raise ValueError(f"{kind} needs a grouping-handler, which this broker does not have; all brokers of a cluster need one")
            self._grouping.told(kind, properties)
            return
        if reaction is None:
            raise ValueError(f"{kind} has no meaning here")
        reaction(properties)

    def _binding_added(self, properties: Properties) -> None:
        distance = _number(properties, "_AMQ_Distance")
        address = _name(properties, "_AMQ_Address")
        cluster_name = _name(properties, "_AMQ_ClusterName")
        routing_name = _name(properties, "_AMQ_RoutingName")
        remote_id = _number(properties, "_AMQ_Binding_ID")
        settings = self._settings
        if cluster_name.endswith(settings.own_node_id) or not 0 <= distance < settings.interests.max_hops:
            return  # a queue of this broker that came around, or one too far away
        if not settings.interests.cover(address):
            raise ValueError(f"the address {address} is not shared by this cluster connection")
        filter = parse_filter(_optional_text(properties, "_AMQ_FilterString"))
        known = self.bindings.get(cluster_name)
        if known is not None:
            same = (known.remote_id, known.address, known.routing_name, known.distance)
            if same == (remote_id, address, routing_name, distance + 1):
                other_filter = known.filter != filter
                known.filter = filter
                known.connected = True
                self._ways.changed(known)
                if other_filter:
                    self._tell_filter(known)
                return
            self._remove(known)
        if len(self.bindings) >= BINDINGS_MAX:
            raise ValueError(f"more than {BINDINGS_MAX} queues")
        binding = RemoteBinding(
            address=address,
            routing_name=routing_name,
            cluster_name=cluster_name,
            binding_id=binding_id(cluster_name),
            remote_id=remote_id,
            distance=distance + 1,
            filter=filter,
            load_balancing=settings.load_balancing,
            store_and_forward=self._store_and_forward,
            owner=self._ways.routing,
        )
        self.bindings[cluster_name] = binding
        self._ways.add(binding)

    def _binding_removed(self, properties: Properties) -> None:
        binding = self._binding(properties)
        if binding is not None:
            self._remove(binding)

    def _binding_updated(self, properties: Properties) -> None:
        binding = self._binding(properties)
        if binding is None:
            return
        binding.filter = parse_filter(_optional_text(properties, "_AMQ_FilterString"))
        self._ways.changed(binding)
        self._tell_filter(binding)

    def _tell_filter(self, binding: RemoteBinding) -> None:
        if self._ways.uses(binding):
            headers: dict[str, TypedValue] = {
                "_AMQ_ClusterName": (STRING, binding.cluster_name),
                "_AMQ_Distance": (INT, binding.distance),
                "_AMQ_Address": (STRING, binding.address),
            }
            if binding.filter is not None:
                headers["_AMQ_FilterString"] = (STRING, binding.filter.text)
            self._tell("BINDING_UPDATED", headers)

    def _consumer_created(self, properties: Properties) -> None:
        binding = self._binding(properties)
        if binding is None:
            return
        text = _filter_text(properties)
        if text is not None:
            if self._filters >= CONSUMER_FILTERS_MAX:
                raise ValueError(f"more than {CONSUMER_FILTERS_MAX} consumers with a filter")
            parse_filter(text)
            self._filters += 1
        binding.consumer_added(text)
        if self._ways.uses(binding):
            self._tell_consumer(binding, text, properties)
            self._consumer_appeared(binding)

    def _tell_consumer(self, binding: RemoteBinding, text: str | None, properties: Properties) -> None:
        """Tell other members of a consumer, unless they know it already: after a break it may be told again."""
        told = binding.consumers_told
        known = told.get(text, 0)
        if binding.consumers_with(text) > known:
            told[text] = known + 1
            address = _optional_text(properties, "_AMQ_Address") or ""
            self._tell("CONSUMER_CREATED", consumer_headers(binding, text, address if "::" in address else binding.address))

    def _consumer_closed(self, properties: Properties) -> None:
        binding = self._binding(properties)
        if binding is None:
            return
        text = _filter_text(properties)
        if text in binding.consumer_filters:
            self._filters -= 1
        binding.consumer_removed(text)
        if self._ways.uses(binding) and binding.consumers_told.get(text, 0) > binding.consumers_with(text):
            self._tell_gone(binding, text)

    def _tell_gone(self, binding: RemoteBinding, text: str | None) -> None:
        told = binding.consumers_told
        told[text] -= 1
        if not told[text]:
            del told[text]
        self._tell("CONSUMER_CLOSED", consumer_headers(binding, text, binding.address))

    def _tell_who_is_gone(self) -> None:
        """Tell other members of consumers that went while there was no link."""
        for _ in range(min(TOLD_PER_TURN, len(self._behind))):
            binding = self._behind.popleft()
            if self._ways.uses(binding):
                for text in list(binding.consumers_told):
                    for _ in range(binding.consumers_told[text] - binding.consumers_with(text)):
                        self._tell_gone(binding, text)
        if self._behind:
            self._ways.later(self._tell_who_is_gone)

    def _session_created(self, properties: Properties) -> None:
        distance = _number(properties, "_AMQ_Distance")
        headers: dict[str, TypedValue] = {"_AMQ_RemoteAddress": (NULL, None), "_AMQ_Distance": (INT, distance + 1)}
        for key in ("_AMQ_ConnectionName", "_AMQ_Client_ID", "_AMQ_Protocol_Name"):
            value = _optional_text(properties, key)
            headers[key] = (NULL, None) if value is None else (STRING, value)
        self._tell("SESSION_CREATED", headers)

    # --- for management

    def describe(self) -> Iterator[dict[str, Any]]:
        """The bindings as rows; ``inUse`` says whether messages go this way."""
        for binding in self.bindings.values():
            yield {
                "name": binding.queue_name,
                "address": binding.address,
                "routingName": binding.routing_name,
                "nodeID": binding.node_id,
                "distance": binding.distance,
                "filter": None if binding.filter is None else binding.filter.text,
                "consumerCount": binding.consumer_count,
                "connected": binding.connected,
                "inUse": self._ways.uses(binding),
            }

    # --- inside

    def _binding(self, properties: Properties) -> RemoteBinding | None:
        """The binding of a notification; None for a queue of this broker, which came around a ring."""
        cluster_name = _name(properties, "_AMQ_ClusterName")
        binding = self.bindings.get(cluster_name)
        if binding is None and not cluster_name.endswith(self._settings.own_node_id):
            raise ValueError(f"the queue {cluster_name[:-NODE_ID_LENGTH]} was not made known before")
        return binding

    def _remove(self, binding: RemoteBinding) -> None:
        del self.bindings[binding.cluster_name]
        self._filters -= sum(binding.consumer_filters.values())
        self._ways.deleted(binding)


def tell_consumers(binding: RemoteBinding, tell: Callable[[str, Mapping[str, TypedValue]], object]) -> None:
    """Tell other members of all consumers of ``binding``, which was bound instead of another one."""
    filtered = [text for text, count in binding.consumer_filters.items() for _ in range(count)]
    binding.consumers_told.clear()
    for text in [*[None] * (binding.consumer_count - len(filtered)), *filtered]:
        binding.consumers_told[text] = binding.consumers_told.get(text, 0) + 1
        tell("CONSUMER_CREATED", consumer_headers(binding, text, binding.address))


def consumer_headers(binding: RemoteBinding, filter_string: str | None, address: str) -> dict[str, TypedValue]:
    """The headers of a notification about a consumer of ``binding``."""
    headers: dict[str, TypedValue] = {
        "_AMQ_Address": (STRING, address),
        "_AMQ_ClusterName": (STRING, binding.cluster_name),
        "_AMQ_RoutingName": (STRING, binding.routing_name),
        "_AMQ_Distance": (INT, binding.distance),
        "_AMQ_ConsumerCount": (INT, binding.consumer_count),
    }
    if filter_string is not None:
        headers["_AMQ_FilterString"] = (STRING, filter_string)
    return headers


def _flag(properties: Properties, key: str) -> bool:
    return properties.get(key) == (BOOLEAN, True)


def _optional_text(properties: Properties, key: str) -> str | None:
    kind, value = properties.get(key, (NULL, None))
    if kind == NULL:
        return None
    if kind != STRING or not isinstance(value, str):
        raise ValueError(f"{key} is not a text")
    return value


def _filter_text(properties: Properties) -> str | None:
    """The filter of a consumer; None when it has none."""
    return (_optional_text(properties, "_AMQ_FilterString") or "").strip() or None


def _text(properties: Properties, key: str) -> str:
    value = _optional_text(properties, key)
    if value is None:
        raise ValueError(f"{key} is missing")
    return value


def _name(properties: Properties, key: str) -> str:
    value = _text(properties, key)
    if not value or len(value) > NAME_LENGTH_MAX:
        raise ValueError(f"{key} has {len(value)} characters (expected 1 to {NAME_LENGTH_MAX})")
    return value


def _number(properties: Properties, key: str) -> int:
    kind, value = properties.get(key, (NULL, None))
    if kind in _NUMBERS and isinstance(value, int):
        return value
    if kind == STRING and isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    raise ValueError(f"{key} is not a number")
