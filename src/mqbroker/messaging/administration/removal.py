"""Removing messages that no consumer is to get, in steps, so that other work goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, takewhile

from mqbroker.messaging.administration.selection import scheduled, waiting
from mqbroker.messaging.core import MessagingCore, is_stored
from mqbroker.messaging.ports import StoreBatch
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference, ReferenceList
from mqbroker.messaging.turns.steps import Steps, run_to_end

DISCARDED_TOGETHER = 64
"""Messages that are removed as one stored step."""


class Removal:
    """Empties queues, for management, for clients that purge one, and when one is deleted."""

    def __init__(self, core: MessagingCore) -> None:
        self._core = core
        core.replaced.subscribe(self._remove_replaced)

    def purge(self, queue: Queue) -> int:
        """Remove every message that waits or is scheduled.  Returns how many."""
        return run_to_end(self.purge_steps(queue))

    def purge_steps(self, queue: Queue, *, unless_consumed: bool = False) -> Steps[int]:
        """As :meth:`purge`, in steps.  With ``unless_consumed`` they end as soon as the queue has a consumer."""

        def goes_on(reference: object = None) -> bool:
            return not (unless_consumed and queue.consumer_count)

        count = yield from self.discard_each(takewhile(goes_on, chain(waiting(queue), scheduled(queue))))
        if queue.pages is not None and not queue.deleted and goes_on():
            count += queue.pages.purge()
        return count

    def purge_soon(self, queue: Queue) -> None:
        """As :meth:`purge`, for a queue that has lost its last consumer; no caller waits for the steps.

        Other work may come first: what is there when another consumer has come stays, as messages come with a consumer.
        """
        self._core.steps.start(self.purge_steps(queue, unless_consumed=True), self._done)

    def discard_each(self, references: Iterable[Reference | None]) -> Steps[int]:
        """Discard the given references one by one; None stands for a reference that was only looked at.  Returns the number of discarded
        ones."""
        count = looked_at = 0
        some: list[Reference] = []
        for reference in references:
            looked_at += 1
            if reference is not None:
                some.append(reference)
            if looked_at == DISCARDED_TOGETHER:
                count += self.discard(some)
                some, looked_at = [], 0
                yield DISCARDED_TOGETHER
        return count + self.discard(some)

    def discard(self, references: list[Reference]) -> int:
        """Remove waiting or scheduled references for good, as if acknowledged.  Returns how many still were there."""
        core = self._core
        batch: StoreBatch | None = None
        count = 0
        for reference in references:
            queue = reference.queue
            if not reference.listed and reference not in queue.scheduled:
                continue  # replaced by a newer value that was read from pages after it
            count += 1
            queue.take(reference)
            queue.leave_delivery(reference)
            queue.messages_acknowledged += 1
            if is_stored(reference):
                batch = batch or core.store.begin()
                batch.acknowledge(queue.queue_id, reference.message)
            core.let_go(reference)
        if batch is not None:
            core.store.commit(batch)
        return count

    def _remove_replaced(self, references: Sequence[Reference]) -> None:
        core = self._core
        batch: StoreBatch | None = None
        for reference in references:
            queue = reference.queue
            if is_stored(reference) and not queue.deleted:
                batch = batch or core.store.begin()
                batch.acknowledge(queue.queue_id, reference.message)
            queue.leave_delivery(reference)
            queue.messages_replaced += 1
            core.let_go(reference)
        if batch is not None:
            core.store.commit(batch)

    def drop_all(self, queue: Queue) -> None:
        """Let the messages of a deleted queue go, in steps: no client sees them any more."""
        gone = [*queue.scheduled]
        queue.scheduled.clear()
        if queue.pages is not None:
            queue.pages.close()
        references, queue.references = queue.references, ReferenceList()
        self._core.steps.start(self._let_go(references, gone), self._done)

    def _let_go(self, references: ReferenceList, others: list[Reference]) -> Steps[None]:
        let_go = self._core.let_go
        while (reference := references.take_head()) is not None:
            let_go(reference)
            yield 1
        for other in others:
            let_go(other)
            yield 1

    @staticmethod
    def _done(result: object, failure: Exception | None) -> None:
        if failure is not None:
            raise failure
