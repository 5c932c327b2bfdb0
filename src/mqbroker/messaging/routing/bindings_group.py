"""Groups of bindings: each message goes to one of the bindings with the same routing name (Artemis manual, "Server-side message load
balancing")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import Attention, LoadBalancing, RemoteBinding, attention_of

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.routing.diverts import Divert


def accepts(queue: Queue, message: Message) -> bool:
    """Would ``queue`` take this message?"""
    definition = queue.definition
    if not definition.enabled or (definition.purge_on_no_consumers and not queue.consumer_count):
        return False
    return queue.filter is None or queue.filter.matches(message)


class Position:
    """The beginning of the next choice in a group; it outlives the groups, which are made anew at every change."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class BindingsGroup:
    """The bindings of one address with one routing name, in the order in which they came.

    ``balancing`` holds for the address; ``multicast``: the messages say that they are, and so go to remote queues even with OFF.
    """

    __slots__ = ("_balancing", "_multicast", "_shared", "bindings", "name", "position")

    def __init__(
        self,
        bindings: Sequence[Queue | RemoteBinding | Divert],
        position: Position,
        balancing: LoadBalancing = LoadBalancing.OFF,
        multicast: bool = False,
        name: str = "",
    ) -> None:
        self.bindings = bindings
        self.name = name
        self.position = position
        self._shared = any(isinstance(each, RemoteBinding) for each in bindings)
        # Without remote queues their load balancing does not change the choice among queues of this broker.
        self._balancing = balancing if self._shared else LoadBalancing.OFF
        self._multicast = multicast

    def choose(self, message: Message) -> Queue | RemoteBinding | Divert | None:
        """The binding that gets ``message``: the next preferred one in turn, else the local queue (ON_DEMAND), else the first that would
        take it."""
        bindings, balancing = self.bindings, self._balancing
        count = len(bindings)
        start = self.position.value
        if start >= count:
            start = 0
        fallback = -1
        for index in (*range(start, count), *range(start)):
            binding = bindings[index]
            if not self._matches(binding, message):
                continue
            if count == 1 or self._preferred(binding, message):
                return self._take(index)
            if fallback < 0 or (
                balancing is LoadBalancing.ON_DEMAND
                and isinstance(bindings[fallback], RemoteBinding)
                and not isinstance(binding, RemoteBinding)
            ):
                fallback = index
        return None if fallback < 0 else self._take(fallback)

    def _take(self, index: int) -> Queue | RemoteBinding | Divert:
        following = index + 1
        self.position.value = 0 if following == len(self.bindings) else following
        return self.bindings[index]

    def _matches(self, binding: Queue | RemoteBinding | Divert, message: Message) -> bool:
        if isinstance(binding, Queue):
            return accepts(binding, message)
        if isinstance(binding, RemoteBinding) and not (self._multicast or self._balancing.routes):
            return False
        return binding.matches(message)

    def _preferred(self, binding: Queue | RemoteBinding | Divert, message: Message) -> bool:
        if isinstance(binding, Queue):
            return self._balancing is LoadBalancing.STRICT or binding.has_matching_consumer(message)
        if isinstance(binding, RemoteBinding):
            return binding.connected and (self._balancing is LoadBalancing.STRICT or binding.high_priority(message))
        return True

    def constant(self) -> tuple[()] | tuple[Queue | RemoteBinding] | None:
        """The binding that gets every message as long as nothing changes, () for none; None when the choice depends on the message or the
        turn."""
        candidates = self._candidates()
        if candidates is None:
            return None
        if len(candidates) <= 1:
            return tuple(candidates)  # type: ignore[return-value]
        preferred = self._always_preferred(candidates)
        if preferred is not None and not preferred and self._balancing is LoadBalancing.ON_DEMAND:
            preferred = [each for each in candidates if isinstance(each, Queue)]
        return (preferred[0],) if preferred is not None and len(preferred) == 1 else None

    def rotation(self) -> Rotation | None:
        """The choice, where nothing but the turn decides."""
        candidates = self._candidates()
        preferred = None if candidates is None else self._always_preferred(candidates)
        return Rotation(self, preferred) if preferred is not None and len(preferred) > 1 else None

    def _candidates(self) -> list[Queue | RemoteBinding] | None:
        """The bindings that every message matches; None when that depends on the message."""
        candidates: list[Queue | RemoteBinding] = []
        for binding in self.bindings:
            if isinstance(binding, Queue):
                definition = binding.definition
                if binding.filter is not None or not definition.enabled or definition.purge_on_no_consumers:
                    return None
            elif not isinstance(binding, RemoteBinding) or binding.filter is not None:
                return None
            elif not (self._multicast or self._balancing.routes):
                continue
            candidates.append(binding)
        return candidates

    def _always_preferred(self, candidates: Sequence[Queue | RemoteBinding]) -> list[Queue | RemoteBinding] | None:
        """The bindings that are preferred for every message; None when that depends on the message, or when a change would not be noticed.

        Consumers that come and go cause a new choice only in groups with queues of other brokers.
        """
        preferred = []
        for candidate in candidates:
            attention = self._attention(candidate)
            if attention is Attention.SOME_MESSAGES or not self._shared:
                return None
            if attention is Attention.EVERY_MESSAGE:
                preferred.append(candidate)
        return preferred

    def _attention(self, binding: Queue | RemoteBinding) -> Attention:
        if isinstance(binding, RemoteBinding) and not binding.connected:
            return Attention.NO_MESSAGE
        if self._balancing is LoadBalancing.STRICT:
            return Attention.EVERY_MESSAGE
        if isinstance(binding, Queue):
            return attention_of(binding)
        return Attention.NO_MESSAGE if binding.load_balancing is LoadBalancing.OFF else binding.attention


class Rotation:
    """The choices of a group with several bindings that are preferred for every message, valid until a binding or a consumer changes."""

    __slots__ = ("_after", "_following", "_position", "bindings")

    def __init__(self, group: BindingsGroup, preferred: Sequence[Queue | RemoteBinding]) -> None:
        self.bindings = preferred
        self._position = group.position
        places = [index for index, binding in enumerate(group.bindings) if binding in preferred]
        count = len(group.bindings)
        self._following = [next((number for number, place in enumerate(places) if place >= start), 0) for start in range(count)]
        """By position of the group: which of the preferred is next."""
        self._after = [(place + 1) % count for place in places]

    def next(self) -> int:
        """The binding whose turn it is, as the index among :attr:`bindings`."""
        position, following = self._position, self._following
        number = following[position.value if position.value < len(following) else 0]
        position.value = self._after[number]
        return number
