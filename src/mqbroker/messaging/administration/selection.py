"""Messages of a queue one after the other, for work that is done in steps (:mod:`mqbroker.messaging.turns.steps`).

Other work may run between two messages: a message that has left meanwhile is not given, and a message that has come meanwhile may be left
out.  None stands for a message that was looked at and not selected.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

from mqbroker.messaging.ports import PagePlace
from mqbroker.messaging.queues.references import Cursor

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.queues.references import Reference

ARRIVALS_LOOKED_AT_MAX = 100_000
"""Messages that came to a queue after the beginning of work on all its messages and that are looked at: a busy producer does not make the
work endless."""


def waiting(queue: Queue, accept: Callable[[Message], bool] | None = None) -> Iterator[Reference | None]:
    """The references that wait in memory now and are accepted.  The current one may be removed."""
    end = queue.references.next_order
    cursor = Cursor(restarts=False)
    try:
        # A message that is moved within the queue meanwhile is met twice.
        for _ in range(2 * queue.references.count + ARRIVALS_LOOKED_AT_MAX):
            reference = queue.references.search(cursor, _any)
            if reference is None:
                return
            yield reference if reference.order < end and (accept is None or accept(reference.message)) else None
    finally:
        cursor.close()


def scheduled(queue: Queue, accept: Callable[[Message], bool] | None = None) -> Iterator[Reference | None]:
    """The scheduled references, first due first."""
    for reference in list(queue.scheduled):
        yield reference if reference in queue.scheduled and (accept is None or accept(reference.message)) else None


def paged(
    queue: Queue, accept: Callable[[Message], bool] | None = None, message_ids: Container[int] | None = None
) -> Iterator[Reference | None]:
    """The accepted messages in pages that the queue has not read yet; each is read before its turn.

    At the end come messages that the queue has read meanwhile, after the search in memory.
    """
    if queue.pages is None:
        return
    begin = queue.references.next_order
    mine: set[int] = set()
    for reference in queue.pages.take_each(accept, message_ids):
        if reference is not None:
            mine.add(reference.message.message_id)
        yield reference
    for reference in waiting(queue, accept):
        message = None if reference is None else reference.message
        if (
            reference is None
            or message is None
            or reference.order < begin
            or not isinstance(message.store_state, PagePlace)
            or message.message_id in mine
            or (message_ids is not None and message.message_id not in message_ids)
        ):
            yield None
        else:
            yield reference


def _any(reference: Reference) -> bool:
    return True
