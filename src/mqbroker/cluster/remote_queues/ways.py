"""The choice of the way to a queue of another broker that several members know (decision 27).

With ``max-hops`` above 1, or with several cluster connections, the same queue is learned more than once.  Messages must take one way only,
and another one as soon as that is cut: the connected way of the fewest hops is in use, and the others are kept ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.routing.remote import REMOTE_ID_BASE, RemoteBinding

REMOVED_PER_TURN = 1_000
"""Bindings of a member that has left, which may have had very many, that are removed before others have their turn; none of them gets a
message any more."""


def binding_id(cluster_name: str) -> int:
    """The id of the remote binding of a queue: always the same.

    Members further away keep messages with this id in their store-and-forward queues, also while this broker restarts.
    """
    digest = blake2b(cluster_name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return REMOTE_ID_BASE | (int.from_bytes(digest, "big") >> 2)


class Ways:
    """All remote bindings of all members by cluster name; one binding of each name is in use.

    ``in_use_changed`` is called with a binding that was bound instead of another one and has consumers.
    """

    def __init__(self, core: MessagingCore, in_use_changed: Callable[[RemoteBinding], object]) -> None:
        self.routing = core.routing
        self._core = core
        self._in_use_changed = in_use_changed
        self._known: dict[str, list[RemoteBinding]] = {}
        self._in_use: dict[str, RemoteBinding] = {}
        self._leaving: deque[RemoteBinding] = deque()
        """Bindings that are withdrawn, and still to be removed."""
        self._timer: Cancellable | None = None

    def __len__(self) -> int:
        return len(self._in_use)

    def __iter__(self) -> Iterator[RemoteBinding]:
        return iter(self._in_use.values())

    def add(self, binding: RemoteBinding) -> None:
        self._known.setdefault(binding.cluster_name, []).append(binding)
        self._choose(binding.cluster_name)

    def remove(self, binding: RemoteBinding) -> None:
        known = self._known[binding.cluster_name]
        known.remove(binding)
        if not known:
            del self._known[binding.cluster_name]
        self._choose(binding.cluster_name)

    def deleted(self, binding: RemoteBinding) -> None:
        """As :meth:`remove`, for a queue that its broker has removed."""
        self.remove(binding)
        if binding.distance == 1:  # a binding further away may only have lost its way
            self._core.awaited.gone(binding.binding_id)

    def remove_all(self, bindings: Iterable[RemoteBinding]) -> None:
        """No message goes to ``bindings`` from now on; many of them are removed in several turns."""
        now: list[RemoteBinding] = []
        later = len(self._leaving)
        for binding in bindings:
            # A queue with another way is reached by it at once.
            if len(now) < REMOVED_PER_TURN or any(not other.withdrawn for other in self.others(binding)):
                now.append(binding)
            else:
                binding.withdraw()
                self._leaving.append(binding)
        if len(self._leaving) > later:
            self.routing.changed()
            self._go_on()
        for binding in now:
            self.remove(binding)

    def stop(self) -> None:
        """The broker stops: the bindings that are not removed yet stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._leaving.clear()

    def cut(self, bindings: Iterable[RemoteBinding]) -> None:
        """The link of ``bindings``, which may be very many, is gone: queues with another way are reached by it."""
        for binding in bindings:
            binding.lose_link()
            if len(self._known[binding.cluster_name]) > 1:
                self._choose(binding.cluster_name)
        self.routing.changed()

    def later(self, function: Callable[[], object]) -> None:
        """Call ``function`` in a turn to come."""
        self._core.clock.call_later(0, self._core.turn.run, function)

    def changed(self, binding: RemoteBinding) -> None:
        """The binding was connected, or has another filter."""
        if not self._choose(binding.cluster_name):
            self.routing.changed()

    def uses(self, binding: RemoteBinding) -> bool:
        return self._in_use.get(binding.cluster_name) is binding

    def others(self, binding: RemoteBinding) -> list[RemoteBinding]:
        """The other ways to the same queue."""
        return [each for each in self._known.get(binding.cluster_name, ()) if each is not binding]

    def _go_on(self) -> None:
        if self._timer is None and self._leaving:
            self._timer = self._core.clock.call_later(0, self._core.turn.run, self._remove_some)

    def _remove_some(self) -> None:
        self._timer = None
        for _ in range(min(REMOVED_PER_TURN, len(self._leaving))):
            self.remove(self._leaving.popleft())
        self._go_on()

    def _choose(self, name: str) -> bool:
        """Bind the best way.  Returns whether it differs from the one before."""
        current = self._in_use.get(name)
        best = min(
            self._known.get(name, ()),
            key=lambda each: (each.withdrawn, not each.connected, each.distance, each is not current),
            default=None,
        )
        if best is current:
            return False
        if current is not None:
            del self._in_use[name]
            self.routing.unbind_remote(current)
        if best is not None:
            self._in_use[name] = best
            best.consumers_told.clear()
            self.routing.bind_remote(best)
            if best.consumer_count:
                self._in_use_changed(best)
        return True
