"""The end of destinations that were created automatically [B7.5]."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.messaging.administration.administration import Administration
from mqbroker.messaging.administration.reapers import Periodic
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.queue import Queue

LOOKS = 8
"""How often the reaper looks within the time after which a destination ends."""


class DestinationReaper(Periodic):
    """Ends what was created automatically, or is to be deleted automatically, after ``reap_time_s`` without consumers and messages.

    ``removed`` is called with the names.
    """

    def __init__(self, core: MessagingCore, administration: Administration, reap_time_s: float, removed: Callable[[str], object]) -> None:
        super().__init__(core, max(round(reap_time_s * 1000 / LOOKS), 1))
        self._administration = administration
        self._reap_time_s = reap_time_s
        self._removed = removed
        self._unused: dict[Queue | Address, tuple[float, int]] = {}
        """Since when something is not used (s, monotonic), and the count of messages that it has had until then."""

    def sweep_at_start(self) -> None:
        """Before clients connect: what has no messages ends at once."""
        for queue in list(self._core.queues.values()):
            if _ends_automatically(queue) and _is_idle(queue):
                self._administration.delete_queue(queue, keep_address=True)
        for address in list(self._core.addresses.values()):
            if _is_leftover(address):
                self._administration.delete_address(address.name)

    def scan(self) -> None:
        core = self._core
        now = core.clock.monotonic()
        idle: dict[Queue | Address, int] = {
            queue: queue.messages_added for queue in core.queues.values() if _ends_automatically(queue) and _is_idle(queue)
        }
        idle |= {each: each.routed_messages + each.unrouted_messages for each in core.addresses.values() if _is_leftover(each)}
        before = self._unused
        self._unused = {each: before[each] if each in before and before[each][1] == count else (now, count) for each, count in idle.items()}
        for each, (since, _) in list(self._unused.items()):
            if now - since >= self._reap_time_s:
                del self._unused[each]
                self._end(each)

    def _end(self, unused: Queue | Address) -> None:
        if isinstance(unused, Address):
            self._administration.delete_address(unused.name)
        else:
            self._administration.delete_queue(unused, keep_address=True)
        self._removed(unused.name)


def _ends_automatically(queue: Queue) -> bool:
    definition = queue.definition
    if definition.temporary or definition.transient or definition.internal or queue.needed_for is not None:
        return False
    return definition.auto_created or definition.auto_delete


def _is_idle(queue: Queue) -> bool:
    return not (queue.consumer_count or queue.total_count or queue.arriving or queue.has_readers)


def _is_leftover(address: Address) -> bool:
    return address.auto_created and not (address.queues or address.temporary or address.internal)
