"""Who holds messages of which group: no two consumers may, unless the group was closed in between.

After the message that closes its group the next one may go to another consumer, although the first consumer has not acknowledged what it
has (Artemis manual, "Closing a Message Group").  So the order counts in which the messages were handed to all consumers.  With
``group-buckets`` a bucket has a consumer, and is closed by the last message of any of its groups, as in Artemis.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest import mock

from mqbroker.messaging.queues.groups import bucket_of
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.server.session.consumers import ServerConsumer
from mqclient.wire.message import KEY_GROUP_ID, KEY_GROUP_SEQUENCE

CLOSES = -1
"""The group sequence of the message that closes its group."""

_numbers = count()


class JudgedDeliveries(OrderedDict[int, Reference]):
    """Also knows when each message was handed over: ``numbers`` by message id ascend over all consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, int] = {}

    def __setitem__(self, message_id: int, reference: Reference) -> None:
        self.numbers[message_id] = next(_numbers)
        super().__setitem__(message_id, reference)


@contextmanager
def judged() -> Iterator[None]:
    """While this lasts consumers are made so that :func:`group_problems` can look at them."""
    with mock.patch("mqbroker.server.session.consumers.OrderedDict", JudgedDeliveries):
        yield


def group_problems(queue: Queue) -> Iterator[str]:
    """Of a queue at work: do two consumers hold messages of one group, or bucket, that was not closed in between?"""
    held: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    buckets = queue.definition.group_buckets
    for consumer in queue.consumers():
        if isinstance(consumer, ServerConsumer):
            deliveries = consumer.unacknowledged
            assert isinstance(deliveries, JudgedDeliveries)
            for message_id, reference in deliveries.items():
                message = reference.message
                closes = message.property(KEY_GROUP_SEQUENCE) == CLOSES
                group = message.property(KEY_GROUP_ID)
                if isinstance(group, str):
                    slot = f"bucket {bucket_of(group, buckets)}" if buckets > 0 else group
                    held[slot].append((deliveries.numbers[message_id], id(consumer), closes))
    for slot, messages in held.items():
        owners: set[int] = set()
        for _, owner, closes in sorted(messages):
            owners.add(owner)
            if len(owners) > 1:
                yield f"{slot} of {queue.name} is served by two consumers at a time"
                break
            if closes:
                owners.clear()
