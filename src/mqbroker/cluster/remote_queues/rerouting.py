"""Moves the messages that wait for a member that has scaled down to the broker that took over its queues.

A message states its queues by the ids that they had on the member.  The message goes to the queues of the same names on the broker that
took over, or here where this broker did, as soon as these queues are known.  To queues of other brokers, which the member would have passed
it on to, it goes by another way.  Until then the message waits, and so do later messages for the same queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.messaging.core import is_stored
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.routing.remote import RemoteBinding
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_ROUTE_TO

if TYPE_CHECKING:
    from mqbroker.messaging.delivery.distribution import Send
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.turns.turn import ScanBudget

MOVED_PER_TURN = 500
RETRY_SECONDS = 0.5
ATTEMPTS = 240
"""How often queues that are not known yet are looked for, while nothing can be moved; then the messages stay."""

_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")

log = Logger(namespace="mqbroker.cluster")


class Rerouting:
    """Empties ``queue``, the store-and-forward queue of a member that has left, and removes the queue then.

    ``bindings`` are the member's queues.  ``target_node_id`` is the broker that took over, which may be this one.  ``ended`` is called
    when there is nothing more to be done.  The owner calls :meth:`stop` when the member comes back.
    """

    def __init__(
        self, messaging: Messaging, queue: Queue, bindings: Iterable[RemoteBinding], target_node_id: str, ended: Callable[[], object]
    ) -> None:
        self.queue = queue
        self.moved = 0
        self._messaging = messaging
        self._core = messaging.core
        self._old_queues = {binding.remote_id: binding for binding in bindings}
        self._target = target_node_id
        self._ended = ended
        self._context = OperationContext(self._core.store)
        self._key = f"{KEY_ROUTE_TO}{queue.name}".encode("utf-16-le")
        self._timer: Cancellable | None = None
        self._awaits_page = False
        self._attempts = ATTEMPTS
        self._cursor = Cursor(restarts=False)
        self._scheduled: Iterator[Reference] | None = None
        """Scheduled messages that this pass has not looked at."""
        self._moved_in_pass = 0
        self._blocked: set[int] = set()
        """Ids of queues that messages wait for, in this pass: later messages must not overtake these messages."""
        self._missing: set[int] = set()
        """Ids of the queues that are not known yet."""
        self._found: list[Queue | RemoteBinding] = []
        """The queues for the message that was looked at last."""

    def start(self) -> None:
        """Begin in a turn to come."""
        self._again()

    def stop(self) -> None:
        """Leave the rest of the messages in the queue."""
        self._awaits_page = False
        self._cursor.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _work(self) -> None:
        """Move some; a pass over all of them takes several turns if there are many."""
        self._timer = None
        queue = self.queue
        if queue.deleted:
            self._ended()
            return
        while not queue.references.count and queue.paged and queue.pages is not None and queue.pages.read_piece():
            pass
        scan = self._core.turn.scan
        moved = 0
        while moved < MOVED_PER_TURN and (reference := self._next(scan)) is not None:
            self._move(reference)
            moved += 1
        self.moved += moved
        self._moved_in_pass += moved
        if not queue.message_count and not queue.arriving:
            log.info("{count} messages of {queue} follow to {node}", count=self.moved, queue=queue.name, node=self._target)
            self._messaging.administration.delete_store_and_forward(queue)
            self._ended()
        elif moved == MOVED_PER_TURN or scan.left <= 0:
            self._again()
        else:
            self._end_pass()

    def _end_pass(self) -> None:
        """All messages have been looked at: the ones left are looked at again when one of their queues has become known."""
        pages = self.queue.pages
        if pages is not None and self.queue.paged:
            if pages.read_piece():
                self._again()
                return
            self._awaits_page = pages.when_there(self._page_came)
            if self._awaits_page:
                return
        if self._moved_in_pass:
            self._attempts = ATTEMPTS
        self._moved_in_pass = 0
        self._cursor.close()
        self._scheduled = None
        self._wait()

    def _page_came(self) -> None:
        if self._awaits_page:
            self._awaits_page = False
            self._work()

    def _wait(self) -> None:
        self._attempts -= 1
        if self._attempts > 0:
            self._timer = self._core.clock.call_later(RETRY_SECONDS, self._core.turn.run, self._look_again)
            return
        log.warn(
            "{count} messages stay in {queue}: {node} does not know the queues that they are for",
            count=self.queue.message_count,
            queue=self.queue.name,
            node=self._target,
        )
        self._ended()

    def _look_again(self) -> None:
        self._timer = None
        # No missing queue: the store-and-forward queue is empty, and waits for the messages of transactions.
        if self.queue.paged or not self._missing or any(self._binding(number) is not None for number in self._missing):
            self._missing.clear()
            self._blocked.clear()
            self._work()
        else:
            self._wait()

    def _next(self, scan: ScanBudget) -> Reference | None:
        """The next message whose queues are known; None at the end of the pass, or when ``scan`` is used up."""
        queue = self.queue
        found = queue.references.search(self._cursor, self._may_move, scan)
        if found is not None or scan.left <= 0:
            return found
        if self._scheduled is None:
            self._scheduled = iter(list(queue.scheduled))
        for reference in self._scheduled:
            scan.left -= 1
            if reference in queue.scheduled and self._may_move(reference):
                return reference
            if scan.left <= 0:
                break
        return None

    def _again(self) -> None:
        self._timer = self._core.clock.call_later(0, self._core.turn.run, self._work)

    def _may_move(self, reference: Reference) -> bool:
        self._found = self._bindings(reference.message)
        return bool(self._found)

    def _move(self, reference: Reference) -> None:
        """Move one message to the queues found for it."""
        core, queue, message = self._core, self.queue, reference.message
        batch = core.store.begin()
        copy = message.duplicate(core.store.next_id())
        copy.strip_properties((_ROUTE_TO,))
        account = core.addresses.get(message.address.partition("::")[0], queue.address)
        others: list[Send] = []
        references = self._messaging.sending.distribution.distribute(copy, self._found, account, others)
        stored, arrived = core.paging.store(batch, copy, references)
        for other, its_references in others:
            kept, waiting = core.paging.store(batch, other, its_references)
            stored = stored or kept
            arrived = [*arrived, *waiting]
        queue.take(reference)
        if is_stored(reference):
            batch.acknowledge(queue.queue_id, message)
            stored = True
        ticket = core.store.commit(batch) if stored else 0
        queue.leave_delivery(reference)
        core.let_go(reference)
        if arrived:
            self._context.run(ticket, self._messaging.sending.deliver, arrived)

    def _bindings(self, message: Message) -> list[Queue | RemoteBinding]:
        """The queues that the message goes to; none while one is not known, or an earlier message waits for one of them."""
        try:
            value = message.raw_property(self._key)
        except MalformedPacketError:
            return []
        ids = (
            [int.from_bytes(value[start : start + 8], "big", signed=True) for start in range(0, len(value) - 7, 8)]
            if isinstance(value, bytes)
            else []
        )
        if self._blocked.isdisjoint(ids):
            found = [(number, self._binding(number)) for number in ids]
            unknown = [number for number, each in found if each is None]
            if not unknown:
                return [each for _, each in found if each is not None]
            self._missing.update(unknown)
        self._blocked.update(ids)
        return []

    def _binding(self, number: int) -> Queue | RemoteBinding | None:
        """The queue that replaces the one with this id; None while it is not known."""
        core, old = self._core, self._old_queues.get(number)
        if old is None:
            return None
        if not self.queue.name.endswith(old.node_id):
            return core.routing.remote(old.cluster_name)
        if self._target != core.store.node_id:
            found = core.routing.remote(old.queue_name + self._target)
            return found if found is not None and found.address == old.address else None
        queue = core.queues.get(old.queue_name)
        return queue if queue is not None and queue.definition.address == old.address else None
