"""Periodic work: expired messages, and unused queues and addresses."""

from __future__ import annotations

from collections.abc import Callable, Generator

from mqbroker.messaging.administration.administration import Administration
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.delivery.settlement import Settlement
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.queue_pages import QueuePages
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.turns.turn import SCAN_SECONDS

REFERENCES_PER_STEP = 5000
"""References that the expiry scan looks at in one turn, or fewer when expiring them takes long."""


class Periodic:
    """Calls :meth:`scan` every ``period_ms``, the next time counted from the end of the scan."""

    def __init__(self, core: MessagingCore, period_ms: int) -> None:
        self._core = core
        self._period_ms = period_ms
        self._timer: Cancellable | None = None

    def start(self) -> None:
        if self._period_ms > 0 and self._timer is None:
            self._timer = self._core.clock.call_later(self._period_ms / 1000, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def scan(self) -> None:
        raise NotImplementedError

    def _due(self) -> None:
        self._timer = None
        try:
            self._core.turn.run(self.scan)
        finally:
            self.start()


class ExpiryReaper(Periodic):
    """Expires messages that wait in queues, every ``message-expiry-scan-period``.  Long queues are scanned in steps."""

    def __init__(self, core: MessagingCore, settlement: Settlement) -> None:
        super().__init__(core, core.options.message_expiry_scan_period)
        self._settlement = settlement
        self._step: Cancellable | None = None
        self._left: Generator[Reference | None, None, None] | None = None
        self._pages: QueuePages | None = None
        """The pages whose next piece the scan waits for."""

    def stop(self) -> None:
        super().stop()
        if self._step is not None:
            self._step.cancel()
        if self._left is not None:
            self._left.close()
        self._step = self._left = None

    def scan(self) -> None:
        if self._left is None:
            self._left = self._candidates()
            self._continue()

    def _candidates(self) -> Generator[Reference | None, None, None]:
        """References that have an expiration; None where the scan may pause."""
        looked_at = 0
        for queue in list(self._core.queues.values()):
            ahead = queue.pages is not None and not queue.consumer_count
            if not queue.expires or queue.has_readers or not (queue.references.expiring or ahead):
                continue
            # A queue of a million messages that never expire is looked through once, not every time.
            queue.references.expiring = False
            through = False
            cursor = Cursor(restarts=False)
            try:
                # With readers only they take messages.  The queue also changes its list object when the first reading by id begins, and
                # after the last.
                while not queue.deleted and not queue.has_readers:
                    reference = queue.references.search(cursor, lambda reference: True)
                    if reference is None:
                        pages = queue.pages
                        if pages is None or queue.consumer_count:
                            break
                        if pages.expire_ahead():
                            looked_at += REFERENCES_PER_STEP // 10
                            continue
                        if not pages.waiting:
                            break
                        self._pages = pages
                        yield None
                        continue
                    looked_at += 1
                    if reference.message.expiration:
                        queue.references.expiring = True
                        yield reference
                    if looked_at >= REFERENCES_PER_STEP:
                        looked_at = 0
                        yield None
                through = not queue.has_readers
            finally:
                queue.references.expiring |= not through
                cursor.close()

    def _continue(self) -> None:
        candidates, self._left, self._step = self._left, None, None
        if candidates is None:
            return
        clock = self._core.clock
        until = clock.monotonic() + SCAN_SECONDS
        for reference in candidates:
            if reference is not None and reference.listed and reference.queue.has_expired(reference.message):
                reference.queue.take(reference)
                self._settlement.expire(reference)
            if reference is None or clock.monotonic() >= until:
                self._left = candidates
                pages, self._pages = self._pages, None
                if pages is None or not pages.when_there(self._continue):
                    self._step = clock.call_later(0, self._core.turn.run, self._continue)
                return


class UsageReaper(Periodic):
    """Removes auto-delete queues and auto-created addresses out of use, every ``address-queue-scan-period``.

    An unused queue or address is marked by one scan, and removed by the next one if still unused.  ``removed`` is called with each queue's
    name.
    """

    def __init__(self, core: MessagingCore, administration: Administration, removed: Callable[[str], object]) -> None:
        super().__init__(core, core.options.address_queue_scan_period)
        self._administration = administration
        self._removed = removed

    def scan(self) -> None:
        for queue in list(self._core.queues.values()):
            if not self._queue_unused(queue):
                queue.sweep_mark = False
            elif not queue.sweep_mark:
                queue.sweep_mark = True
            else:
                self._administration.delete_queue(queue, keep_address=True)
                self._removed(queue.name)
        for address in list(self._core.addresses.values()):
            if not self._address_unused(address):
                address.sweep_mark = False
            elif not address.sweep_mark:
                address.sweep_mark = True
            else:
                self._administration.delete_address(address.name)
                self._removed(address.name)

    def sweep_at_start(self) -> None:
        """Before clients connect: remove empty auto-delete queues and unbound auto-created addresses at once."""
        for queue in list(self._core.queues.values()):
            if queue.definition.auto_delete and not queue.total_count and not queue.arriving and not queue.has_readers:
                self._administration.delete_queue(queue, keep_address=True)
        for address in list(self._core.addresses.values()):
            if address.auto_created and address.settings.auto_delete_addresses and not address.queues:
                self._administration.delete_address(address.name)

    def _queue_unused(self, queue: Queue) -> bool:
        definition = queue.definition
        if not definition.auto_delete or queue.consumer_count or queue.arriving or definition.internal or queue.has_readers:
            return False
        allowed = definition.auto_delete_message_count
        if allowed >= 0 and queue.total_count > allowed:
            return False
        idle_ms = self._core.clock.wall_ms() - queue.idle_since_ms
        used = queue.consumers_seen or queue.messages_acknowledged or queue.messages_expired or queue.messages_killed
        return idle_ms >= definition.auto_delete_delay and (bool(used) or queue.address.settings.auto_delete_queues_skip_usage_check)

    def _address_unused(self, address: Address) -> bool:
        settings = address.settings
        if not address.auto_created or not settings.auto_delete_addresses or address.queues or address.internal:
            return False
        idle_ms = self._core.clock.wall_ms() - address.unbound_since_ms
        return idle_ms >= settings.auto_delete_addresses_delay and (address.bound_once or settings.auto_delete_addresses_skip_usage_check)
