"""Routing: the queues for a message that was sent to an address (Artemis manual, chapters on the address model and on clusters)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mqbroker.config.model.matching import Wildcards, is_wildcard, matches_binding
from mqbroker.messaging.event import Event
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.bindings_group import BindingsGroup, Position, Rotation, accepts
from mqbroker.messaging.routing.grouping import Grouping
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding

if TYPE_CHECKING:
    from mqbroker.messaging.routing.diverts import Divert

    Binding = Queue | RemoteBinding | Divert

ROUTES_CACHED_MAX = 10_000
"""Routes that are kept ready; a peer that sends to ever new addresses makes the cache start again, not grow.  Also the positions
of groups."""


def address_of(binding: Binding) -> str:
    """The address that a binding is bound to."""
    return binding.definition.address if isinstance(binding, Queue) else binding.address


class Route:
    """The bindings for the messages of one address (and routing type), valid until a binding or a consumer changes."""

    __slots__ = ("_exclusive", "_groups", "_multicast", "fixed", "fixed_remote", "rotation")

    def __init__(
        self,
        bindings: Sequence[Binding],
        position: Callable[[str], Position],
        balancing: LoadBalancing,
        routing_type: int | None,
    ) -> None:
        self._exclusive = [each for each in bindings if not isinstance(each, (Queue, RemoteBinding)) and each.exclusive]
        self._multicast: list[Queue] = []
        self._groups: list[BindingsGroup] = []
        for name, group in _by_routing_name(bindings).items():
            if name[0] == MULTICAST and len(group) == 1 and isinstance(group[0], Queue):
                self._multicast.append(group[0])
            else:
                self._groups.append(BindingsGroup(group, position(name[1]), balancing, routing_type == MULTICAST, name[1]))
        self.fixed: tuple[Queue, ...] | None = None
        """The queues, when they are the same for every message, and queues of this broker alone."""
        self.fixed_remote: RemoteBinding | None = None
        """The remote queue that alone gets every message."""
        self.rotation: Rotation | None = None
        """The queues, some of them remote, that take turns, if no other binding gets messages."""
        if not self._exclusive:
            self._find_fixed()

    def _find_fixed(self) -> None:
        for queue in self._multicast:
            definition = queue.definition
            if queue.filter is not None or not definition.enabled or definition.purge_on_no_consumers:
                return
        every: list[Queue | RemoteBinding] = [*self._multicast]
        for group in self._groups:
            constant = group.constant()
            if constant is None:
                if len(self._groups) == 1 and not self._multicast:
                    self.rotation = group.rotation()
                return
            every.extend(constant)
        queues = tuple(each for each in every if isinstance(each, Queue))
        if len(queues) == len(every):
            self.fixed = queues
        elif len(every) == 1 and isinstance(every[0], RemoteBinding):
            self.fixed_remote = every[0]

    @property
    def diverted(self) -> bool:
        """Are there exclusive diverts?"""
        return bool(self._exclusive)

    def exclusive(self, message: Message) -> Sequence[Divert]:
        """The exclusive diverts that take ``message`` away from all other bindings."""
        return [divert for divert in self._exclusive if divert.matches(message)]

    def groups(self) -> list[BindingsGroup]:
        """The groups of bindings, each of which gets a message; a single queue is a group, too."""
        return [*(BindingsGroup([queue], Position(), name=queue.name) for queue in self._multicast), *self._groups]

    def select(self, message: Message) -> Sequence[Binding]:
        """The queues, remote queues and diverts that get ``message``."""
        if self.fixed is not None:
            return self.fixed
        if self._exclusive:
            diverts = self.exclusive(message)
            if diverts:
                return diverts
        chosen: list[Binding] = [queue for queue in self._multicast if accepts(queue, message)]
        for group in self._groups:
            binding = group.choose(message)
            if binding is not None:
                chosen.append(binding)
        return chosen


def _by_routing_name(bindings: Sequence[Binding]) -> dict[tuple[int, str], list[Binding]]:
    """Groups of bindings, by the kind of their queues and their routing name."""
    groups: dict[tuple[int, str], list[Binding]] = {}
    local = {_local_key(binding) for binding in bindings if isinstance(binding, Queue)}
    for binding in bindings:
        if isinstance(binding, Queue):
            key = _local_key(binding)
        elif isinstance(binding, RemoteBinding):
            key = (MULTICAST, binding.routing_name)
            # A remote queue with the name of its address may be anycast or multicast: the queues here decide which.
            if binding.routing_name == binding.address and ((ANYCAST, binding.address) in local or key not in local):
                key = (ANYCAST, binding.address)
        elif binding.exclusive:
            continue
        else:
            key = (MULTICAST, binding.routing_name)
        groups.setdefault(key, []).append(binding)
    return groups


def _local_key(queue: Queue) -> tuple[int, str]:
    definition = queue.definition
    return (ANYCAST, definition.address) if definition.routing_type == ANYCAST else (MULTICAST, queue.name)


class RoutingTable:
    """All bindings by address, wildcard addresses included: queues, queues of other brokers, diverts.

    ``remote_changed`` is called with remote queues that come (True) and go.  ``grouping`` decides for messages with a group id, if the
    configuration has a grouping handler.
    """

    def __init__(
        self, wildcards: Wildcards, remote_changed: Callable[[RemoteBinding, bool], object], grouping: Grouping | None = None
    ) -> None:
        self.grouping = grouping
        self.connected: Event[RemoteBinding] = Event()
        """A remote queue has a link again."""
        self._wildcards = wildcards
        self._remote_changed = remote_changed
        self._exact: dict[str, list[Binding]] = {}
        self._patterns: list[Binding] = []
        self._routes: dict[tuple[str, int | None, str | None], Route] = {}
        self._positions: dict[tuple[str, str], Position] = {}
        self._remotes: dict[str, RemoteBinding] = {}
        self._remote_groups: dict[tuple[str, str], list[RemoteBinding]] = {}
        """The same by address and routing name: a topic may have thousands."""
        self._balancing: dict[str, LoadBalancing] = {}
        """By address with remote queues: the load balancing of the remote queue added last."""
        self.version = 0
        """Rises at every change of a binding, an address or their settings."""

    def bind(self, binding: Binding) -> None:
        address = address_of(binding)
        if self._wildcards.routing_enabled and is_wildcard(address, self._wildcards):
            self._patterns.append(binding)
        self._exact.setdefault(address, []).append(binding)
        self.changed()

    def unbind(self, binding: Binding) -> None:
        address = address_of(binding)
        bound = self._exact.get(address, [])
        if binding in bound:
            bound.remove(binding)
            if not bound:
                del self._exact[address]
            # Temporary queues have new names each time: drop the position of a removed one.
            name = _local_key(binding)[1] if isinstance(binding, Queue) else binding.routing_name
            if not bound or name != address:
                self._positions.pop((address, name), None)
        if binding in self._patterns:
            self._patterns.remove(binding)
        self.changed()

    def changed(self) -> None:
        """A binding changed in a way that matters to routing."""
        self.version += 1
        self._routes.clear()

    # --- queues of other brokers

    def bind_remote(self, binding: RemoteBinding) -> None:
        """A queue of another broker is known from now on, by its cluster name."""
        self._remotes[binding.cluster_name] = binding
        self._remote_groups.setdefault((binding.address, binding.routing_name), []).append(binding)
        self._balancing[binding.address] = binding.load_balancing
        self.bind(binding)
        self._remote_changed(binding, True)

    def unbind_remote(self, binding: RemoteBinding) -> None:
        """Remove ``binding``."""
        if self._remotes.get(binding.cluster_name) is binding:
            del self._remotes[binding.cluster_name]
            key = binding.address, binding.routing_name
            group = self._remote_groups[key]
            group.remove(binding)
            if not group:
                del self._remote_groups[key]
            self.unbind(binding)
            if not any(isinstance(each, RemoteBinding) for each in self._exact.get(binding.address, ())):
                # Temporary queues have new addresses each time.
                self._balancing.pop(binding.address, None)
            self._remote_changed(binding, False)

    def remote_changed(self, binding: RemoteBinding) -> None:
        """The choice between ``binding`` and other queues may have become another one."""
        if self._remotes.get(binding.cluster_name) is binding:
            self.changed()

    def remote_connected(self, binding: RemoteBinding) -> None:
        """The link over which the messages of ``binding`` go is up again."""
        if self._remotes.get(binding.cluster_name) is binding:
            self.changed()
            self.connected(binding)

    @property
    def clustered(self) -> bool:
        """Are there queues of other brokers at all?"""
        return bool(self._remotes)

    def remote(self, cluster_name: str) -> RemoteBinding | None:
        """The one of this name that messages may go to."""
        found = self._remotes.get(cluster_name)
        return None if found is None or found.withdrawn else found

    def remote_bindings(self) -> Iterable[RemoteBinding]:
        """All remote queues that were added and not removed, withdrawn ones too."""
        return self._remotes.values()

    def remote_bound(self, address: str) -> list[RemoteBinding]:
        """The remote queues that messages of ``address`` may reach."""
        if not self._remotes:
            return []
        return [binding for binding in self._bindings(address) if isinstance(binding, RemoteBinding)]

    def remote_group(self, address: str, routing_name: str) -> list[RemoteBinding]:
        """The remote queues of exactly this address that share its messages under this name."""
        return [binding for binding in self._remote_groups.get((address, routing_name), ()) if not binding.withdrawn]

    def remote_by_id(self, address: str, binding_id: int) -> RemoteBinding | None:
        """The remote queue of ``address`` with this id, which this broker gave it."""
        return next((binding for binding in self.remote_bound(address) if binding.binding_id == binding_id), None)

    def balancing(self, address: str) -> LoadBalancing:
        """How messages of ``address`` are shared with other brokers."""
        return self._balancing.get(address, LoadBalancing.OFF)

    def consumers_changed(self, queue: Queue) -> None:
        """A consumer of ``queue`` came or went: the choice between ``queue`` and other brokers' queues may change."""
        address = queue.definition.address
        if address in self._balancing or any(
            isinstance(each, RemoteBinding) and matches_binding(each.address, address, self._wildcards) for each in self._patterns
        ):
            self.changed()

    # --- lookup

    def _bindings(self, address: str) -> Iterator[Binding]:
        for binding in self._exact.get(address, ()):
            if not (isinstance(binding, RemoteBinding) and binding.withdrawn):
                yield binding
        for binding in self._patterns:
            pattern = address_of(binding)
            if pattern == address or (isinstance(binding, RemoteBinding) and binding.withdrawn):
                continue
            if matches_binding(pattern, address, self._wildcards):
                yield binding

    def bound(self, address: str) -> list[Queue]:
        """Every queue of this broker that messages of ``address`` may reach."""
        return [binding for binding in self._bindings(address) if isinstance(binding, Queue)]

    def reaches(self, address: str) -> bool:
        """Is there a binding that messages of ``address`` may reach?"""
        return next(self._bindings(address), None) is not None

    def covered(self, pattern: str) -> list[Queue]:
        """Every queue of the addresses that ``pattern``, an address or a wildcard address, stands for, and the queues that messages to
        ``pattern`` may reach."""
        queues = self.bound(pattern)
        if is_wildcard(pattern, self._wildcards):
            for address, bound in self._exact.items():
                if address != pattern and matches_binding(pattern, address, self._wildcards):
                    queues.extend(each for each in bound if isinstance(each, Queue) and each not in queues)
        return queues

    def route(self, address: str, routing_type: int | None, queue_name: str | None = None) -> Route:
        """The route of messages sent to ``address``; with ``queue_name`` (a fully qualified queue name) to that queue alone."""
        key = (address, routing_type, queue_name)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= ROUTES_CACHED_MAX:
                self._routes.clear()
            bindings = [each for each in self._bindings(address) if _reachable(each, routing_type, queue_name)]
            balancing = self._balancing_of(address, bindings)
            route = self._routes[key] = Route(bindings, lambda name: self._position(address, name), balancing, routing_type)
        return route

    def _balancing_of(self, address: str, bindings: Sequence[Binding]) -> LoadBalancing:
        """The load balancing as in :meth:`balancing`, or of the last remote queue where all ``bindings`` are on wildcard addresses."""
        found = self._balancing.get(address)
        if found is None:
            found = next((each.load_balancing for each in reversed(bindings) if isinstance(each, RemoteBinding)), LoadBalancing.OFF)
        return found

    def select(self, route: Route, message: Message, may_wait: bool = False) -> Sequence[Binding]:
        """The bindings of ``route`` that get ``message``.  Raises Undecided if the sender ``may_wait`` for the decision about the message's
        group."""
        if self.grouping is None or not has_group(message):
            return route.select(message)
        return self.grouping.select(route, message, may_wait)

    def _position(self, address: str, routing_name: str) -> Position:
        key = (address, routing_name)
        position = self._positions.get(key)
        if position is None:
            if len(self._positions) >= ROUTES_CACHED_MAX:
                self._positions.clear()
            position = self._positions[key] = Position()
        return position


def _reachable(binding: Binding, routing_type: int | None, queue_name: str | None) -> bool:
    """May a message of this routing type, or sent to the queue of this name, reach ``binding``?"""
    if isinstance(binding, Queue):
        if queue_name is not None:
            return binding.name == queue_name
        return routing_type not in (ANYCAST, MULTICAST) or binding.definition.routing_type == routing_type
    if isinstance(binding, RemoteBinding):
        if queue_name is not None:
            return binding.queue_name == queue_name
        # A remote queue whose routing name is not its address is multicast; the type of other remote queues is unknown.
        return routing_type != ANYCAST or binding.routing_name == binding.address
    return queue_name is None or binding.exclusive
