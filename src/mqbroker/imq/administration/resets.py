"""The reset of an instance at a start: it forgets its messages, or its durable subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.imq.administration.durables import durables

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging

log = Logger(namespace="mqbroker.imq")

MESSAGES = "messages"
DURABLES = "durables"


def reset(messaging: Messaging, what: str) -> None:
    """Begin to forget, before there are clients; ``what`` is :data:`MESSAGES` or :data:`DURABLES`."""
    if what == DURABLES:
        for queue in list(durables(messaging)):
            messaging.administration.delete_queue(queue, remove_consumers=True)
        return
    for queue in list(messaging.core.queues.values()):
        if queue.message_count:
            messaging.core.steps.start(messaging.removal.purge_steps(queue), _purged)


def _purged(result: object, failure: Exception | None) -> None:
    if failure is not None:
        log.error("messages could not be forgotten: {reason}", reason=str(failure))
