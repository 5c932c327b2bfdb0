"""Taking over the messages of a start.  Ordinary ones, of which a start may have millions, are added in runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import RecoveredReference
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.references import Reference

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.queues.queue import Queue

RUN_LENGTH = 1000
"""Messages of one queue that go in together."""

Entry = tuple[Message, list[RecoveredReference]]
Held = dict[tuple[int, int], Reference]


class _Run:
    """Messages of one address for one queue, none of them scheduled or delivered before."""

    __slots__ = ("address", "messages", "queue")

    def __init__(self, queue: Queue, address: str) -> None:
        self.queue = queue
        self.address = address
        self.messages: list[Message] = []


def restore_messages(
    core: MessagingCore, queues: Mapping[int, Queue], entries: list[Entry], to_hold: Set[tuple[int, int]], with_readers: Set[int]
) -> Held:
    """Put messages into their queues; ``with_readers`` are the ids of queues with readers.  ``entries`` is emptied on the way.

    Returns the references in ``to_hold`` (queue id, message id); these are in delivery without a consumer.
    """
    held: Held = {}
    runs: dict[int, _Run] = {}
    for message, references in _taken(entries):
        first = references[0]
        if (
            len(references) == 1
            and message.durable
            and message.large is None
            and not first.scheduled
            and not first.delivery_count
            and not to_hold
        ):
            run = runs.get(first.queue_id)
            if run is None or run.address != message.address or len(run.messages) >= RUN_LENGTH:
                queue = queues.get(first.queue_id)
                if queue is None:
                    continue
                if run is not None:
                    _add_run(core, run)
                run = runs[first.queue_id] = _Run(queue, message.address)
            run.messages.append(message)
            continue
        for entry in references:
            if entry.queue_id in runs:
                _add_run(core, runs.pop(entry.queue_id))
            queue = queues.get(entry.queue_id)
            if queue is not None:
                reference = _add(core, queue, message, entry, with_readers)
                place = (entry.queue_id, message.message_id)
                if place in to_hold:
                    queue.take(reference)
                    held[place] = reference
    for run in runs.values():
        _add_run(core, run)
    return held


def _taken(entries: list[Entry]) -> Iterator[Entry]:
    """The entries in order, each released at once, so that the message made of it can use its memory."""
    entries.reverse()
    while entries:
        yield entries.pop()


def _add(core: MessagingCore, queue: Queue, message: Message, entry: RecoveredReference, with_readers: Set[int]) -> Reference:
    reference = Reference(message, queue, entry.scheduled, entry.delivery_count)
    core.hold(reference, core.addresses.get(message.address, queue.address).memory)
    if has_group(message):
        queue.keep_groups()
    # A scheduled message gets another id when due: readers must not find it below ids handed out, and in a last-value queue it is the
    # newest from then on.
    queue.add(reference, later=queue.queue_id in with_readers or queue.numbers_ascend)
    return reference


def _add_run(core: MessagingCore, run: _Run) -> None:
    queue, messages = run.queue, run.messages
    core.addresses.get(run.address, queue.address).memory.hold_all(messages)
    size = 0
    for message in messages:
        size += len(message.buffer)
        if queue.groups is None and has_group(message):
            queue.keep_groups()
    queue.arriving += len(messages)
    queue.add_arrived(messages, True, size)
