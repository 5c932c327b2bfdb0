"""Routing: which queues get a message that was sent to an address (Artemis manual, chapter on the address model)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqbroker.config.matching import Wildcards, is_wildcard, matches_binding
from mqbroker.messaging.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.message import Message
from mqbroker.messaging.queue import Queue

ROUTES_CACHED_MAX = 10_000
"""Routes that are kept ready; a peer that sends to ever new addresses makes the cache start again, not grow."""


def accepts(queue: Queue, message: Message) -> bool:
    """Would ``queue`` take this message?"""
    definition = queue.definition
    if not definition.enabled or (definition.purge_on_no_consumers and not queue.consumer_count):
        return False
    return queue.filter is None or queue.filter.matches(message)


class _AnycastGroup:
    """The anycast queues of one address: each message goes to one of them."""

    __slots__ = ("position", "queues")

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.position = 0

    def choose(self, message: Message) -> Queue | None:
        """The next queue in turn that has a consumer for the message, else the next in turn."""
        queues = self.queues
        fallback: tuple[int, Queue] | None = None
        for step in range(len(queues)):
            index = (self.position + step) % len(queues)
            queue = queues[index]
            if not accepts(queue, message):
                continue
            if queue.has_matching_consumer(message):
                self.position = (index + 1) % len(queues)
                return queue
            if fallback is None:
                fallback = (index, queue)
        if fallback is None:
            return None
        self.position = (fallback[0] + 1) % len(queues)
        return fallback[1]


class Route:
    """Where the messages of one address (and routing type) go, as long as no queue comes, goes or changes."""

    __slots__ = ("_groups", "_multicast", "fixed")

    def __init__(self, queues: Iterable[Queue]) -> None:
        self._multicast: list[Queue] = []
        by_address: dict[str, list[Queue]] = {}
        for queue in queues:
            if queue.definition.routing_type == ANYCAST:
                by_address.setdefault(queue.definition.address, []).append(queue)
            else:
                self._multicast.append(queue)
        self._groups = [_AnycastGroup(group) for group in by_address.values()]
        every = [*self._multicast, *(queue for group in self._groups for queue in group.queues)]
        plain = all(queue.filter is None and queue.definition.enabled and not queue.definition.purge_on_no_consumers for queue in every)
        single = all(len(group.queues) == 1 for group in self._groups)
        self.fixed: tuple[Queue, ...] | None = tuple(every) if plain and single else None
        """The queues, when they are the same for every message."""

    def select(self, message: Message) -> Sequence[Queue]:
        """The queues that get ``message``."""
        if self.fixed is not None:
            return self.fixed
        chosen = [queue for queue in self._multicast if accepts(queue, message)]
        for group in self._groups:
            queue = group.choose(message)
            if queue is not None:
                chosen.append(queue)
        return chosen


class RoutingTable:
    """Which queues are bound to which addresses, wildcard addresses included."""

    def __init__(self, wildcards: Wildcards) -> None:
        self._wildcards = wildcards
        self._exact: dict[str, list[Queue]] = {}
        self._patterns: list[Queue] = []
        self._routes: dict[tuple[str, int | None, str | None], Route] = {}
        self.version = 0
        """Rises at every change of a binding, an address or their settings."""

    def bind(self, queue: Queue) -> None:
        address = queue.definition.address
        if self._wildcards.routing_enabled and is_wildcard(address, self._wildcards):
            self._patterns.append(queue)
        self._exact.setdefault(address, []).append(queue)
        self.changed()

    def unbind(self, queue: Queue) -> None:
        address = queue.definition.address
        bound = self._exact.get(address, [])
        if queue in bound:
            bound.remove(queue)
            if not bound:
                del self._exact[address]
        if queue in self._patterns:
            self._patterns.remove(queue)
        self.changed()

    def changed(self) -> None:
        """A queue changed in a way that matters to routing."""
        self.version += 1
        self._routes.clear()

    def bound(self, address: str) -> list[Queue]:
        """Every queue that messages of ``address`` may reach."""
        queues = list(self._exact.get(address, ()))
        queues.extend(
            queue
            for queue in self._patterns
            if queue.definition.address != address and matches_binding(queue.definition.address, address, self._wildcards)
        )
        return queues

    def covered(self, pattern: str) -> list[Queue]:
        """Every queue of an address that ``pattern``, an address or a wildcard address, stands for, and those that it may reach itself."""
        queues = self.bound(pattern)
        if is_wildcard(pattern, self._wildcards):
            for address, bound in self._exact.items():
                if address != pattern and matches_binding(pattern, address, self._wildcards):
                    queues.extend(queue for queue in bound if queue not in queues)
        return queues

    def route(self, address: str, routing_type: int | None, queue_name: str | None = None) -> Route:
        """The route of messages sent to ``address``; with ``queue_name`` (a fully qualified queue name) to that queue alone."""
        key = (address, routing_type, queue_name)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= ROUTES_CACHED_MAX:
                self._routes.clear()
            queues = self.bound(address)
            if queue_name is not None:
                queues = [queue for queue in queues if queue.name == queue_name]
            elif routing_type in (ANYCAST, MULTICAST):
                queues = [queue for queue in queues if queue.definition.routing_type == routing_type]
            route = self._routes[key] = Route(queues)
        return route
