"""Messages that wait for a member which has given its own to another broker: they follow them there.

Each states the queues that it is for by the ids which they had on the member that has left.  It goes to the queues of the same names on
the broker that took over, or here where that is this broker, as soon as these are known; until then it waits where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.messaging.context import OperationContext
from mqbroker.messaging.core import is_stored
from mqbroker.messaging.message import Message
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queue import Queue
from mqbroker.messaging.references import Reference
from mqbroker.messaging.remote import RemoteBinding
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_ROUTE_TO

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging

MOVED_PER_TURN = 500
RETRY_SECONDS = 0.5
ATTEMPTS = 240
"""How often queues that are not known yet are looked for, while nothing can be moved; then the messages stay."""

_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")

log = Logger(namespace="mqbroker.cluster")


@dataclass(frozen=True, slots=True)
class OldPlace:
    """A queue of the member that has left."""

    address: str
    queue_name: str


def old_places(bindings: Iterable[RemoteBinding]) -> dict[int, OldPlace]:
    """The queues of a member by the ids that messages for it state."""
    return {binding.remote_id: OldPlace(binding.address, binding.queue_name) for binding in bindings}


class Rerouting:
    """Empties ``queue``, the store-and-forward queue of a member that has left, and removes it then.

    ``places`` are the member's queues by id.  ``target_node_id`` is the broker that took over, which may be this one.  ``ended`` is called
    when there is nothing more to be done; whoever has the member back stops it before.
    """

    def __init__(
        self, messaging: Messaging, queue: Queue, places: dict[int, OldPlace], target_node_id: str, ended: Callable[[], object]
    ) -> None:
        self.queue = queue
        self.moved = 0
        self._messaging = messaging
        self._core = messaging.core
        self._places = places
        self._target = target_node_id
        self._ended = ended
        self._context = OperationContext(self._core.store)
        self._key = f"{KEY_ROUTE_TO}{queue.name}".encode("utf-16-le")
        self._timer: Cancellable | None = None
        self._attempts = ATTEMPTS

    def start(self) -> None:
        """Begin in a turn to come."""
        self._again(0)

    def stop(self) -> None:
        """Leave the rest where it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _work(self) -> None:
        self._timer = None
        queue = self.queue
        if queue.deleted:
            self._ended()
            return
        while not queue.references.count and queue.paged and queue.pages is not None and queue.pages.read_piece():
            pass
        moved = 0
        for reference in list(islice(chain(queue.references, queue.scheduled), MOVED_PER_TURN)):
            if not self._move(reference):
                break  # those behind it wait, so that the order stays
            moved += 1
        self.moved += moved
        if moved:
            self._attempts = ATTEMPTS
        if not queue.message_count:
            log.info("{count} messages of {queue} follow to {node}", count=self.moved, queue=queue.name, node=self._target)
            self._messaging.administration.delete_store_and_forward(queue)
            self._ended()
            return
        self._attempts -= 1
        if self._attempts <= 0:
            log.warn(
                "{count} messages stay in {queue}: the queues that they are for are not known at {node}",
                count=queue.message_count,
                queue=queue.name,
                node=self._target,
            )
            self._ended()
            return
        self._again(0 if moved else RETRY_SECONDS)

    def _again(self, seconds: float) -> None:
        self._timer = self._core.clock.call_later(seconds, self._core.turn.run, self._work)

    def _move(self, reference: Reference) -> bool:
        """Move one message; False when its queues are not known yet."""
        core, queue, message = self._core, self.queue, reference.message
        try:
            found = self._bindings(message)
        except MalformedPacketError:
            found = None
        if found is None:
            return False
        local = [each for each in found if isinstance(each, Queue)]
        remote = [each for each in found if isinstance(each, RemoteBinding)]
        batch = core.store.begin()
        stored = False
        arrived: list[Reference] = []
        distribution = self._messaging.sending.distribution
        account = core.addresses.get(message.address.partition("::")[0], queue.address)
        if local:
            copy = self._copy(message, core.store.next_id())
            kept, waiting = core.paging.store(batch, copy, distribution.references_for(copy, local, account))
            stored = stored or kept
            arrived += waiting
        for binding in remote:
            copy = self._copy(message, core.store.next_id())
            copy.append_bytes_property(binding.route_key, binding.route_value)
            kept, waiting = core.paging.store(batch, copy, distribution.references_for(copy, (binding.store_and_forward,), account))
            stored = stored or kept
            arrived += waiting
        queue.take(reference)
        if is_stored(reference):
            batch.acknowledge(queue.queue_id, message)
            stored = True
        ticket = core.store.commit(batch) if stored else 0
        queue.leave_delivery(reference)
        core.let_go(reference)
        if arrived:
            self._context.run(ticket, self._messaging.sending.deliver, arrived)
        return True

    @staticmethod
    def _copy(message: Message, message_id: int) -> Message:
        copy = message.duplicate(message_id)
        copy.strip_properties((_ROUTE_TO,))
        return copy

    def _bindings(self, message: Message) -> list[Queue | RemoteBinding] | None:
        """The queues that the message goes to; None while one is not known."""
        value = message.raw_property(self._key)
        if not isinstance(value, bytes):
            return None
        core = self._core
        found: list[Queue | RemoteBinding] = []
        for start in range(0, len(value) - 7, 8):
            place = self._places.get(int.from_bytes(value[start : start + 8], "big", signed=True))
            if place is None:
                return None
            binding: Queue | RemoteBinding | None
            if self._target == core.store.node_id:
                binding = core.queues.get(place.queue_name)
                if binding is not None and binding.definition.address != place.address:
                    binding = None
            else:
                binding = core.routing.remote(place.queue_name + self._target)
            if binding is None:
                return None
            found.append(binding)
        return found or None
