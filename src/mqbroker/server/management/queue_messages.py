"""The part of the resource ``queue.NAME`` about messages in delivery, scheduled messages, copies, and messages sent to the queue."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.administration.selection import scheduled
from mqbroker.messaging.core import is_stored
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.copies import make_copy
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.definitions import find_queue
from mqbroker.server.management.registry import Operation
from mqbroker.server.management.sent_messages import send_message
from mqbroker.server.management.views import Row

if TYPE_CHECKING:
    from mqbroker.server.management.queue_control import QueueControl


def _deliveries(control: QueueControl) -> Iterator[tuple[str, list[Message]]]:
    """The messages in delivery by the name of their holder: a consumer, or the transaction that has acknowledged them."""
    for consumer in control.consumers():
        if consumer.unacknowledged:
            yield str(consumer.sequential_id), [reference.message for reference in consumer.unacknowledged.values()]
    for session in control.server.all_sessions():
        taken = [reference.message for reference in session.transaction.acknowledged if reference.queue is control.queue]
        if taken:
            yield f"transaction of session {session.name}", taken


def _in_delivery(control: QueueControl) -> Iterator[Message]:
    return chain.from_iterable(messages for _, messages in _deliveries(control))


def _of_delivery(figure: Callable[[Message], int]) -> Callable[[QueueControl], int]:
    return lambda control: sum(map(figure, _in_delivery(control)))


def count_messages(known: int, select: Callable[[], Iterable[Message | None]], filter_text: Any, *group_by: Any) -> Any:
    """A count of messages: ``known`` without filter and group, else the Steps of counting the messages that ``select`` gives.

    With a property to group by, even null, the result is a JSON object: counts by the property's value ("null" for messages without the
    property).
    """
    name = group_by[0] if group_by else None
    if not name and not filter_text:
        return json.dumps({"null": known}) if group_by else known
    return _count(select(), name, bool(group_by))


def _count(messages: Iterable[Message | None], name: Any, grouped: bool) -> Steps[Any]:
    counts = Counter[str]()
    for message in messages:
        if message is not None:
            value = message.property(str(name)) if name else None
            counts["null" if value is None else str(value)] += 1
        yield 1
    return json.dumps(counts) if grouped else counts["null"]


def _count_delivering(control: QueueControl, filter_text: Any = None, *group_by: Any) -> Any:
    filter = parse_filter(filter_text)

    def select() -> list[Message]:
        return [message for message in _in_delivery(control) if filter is None or filter.matches(message)]

    return count_messages(control.queue.delivering, select, filter_text, *group_by)


def _list_delivering(control: QueueControl) -> dict[str, list[Row]]:
    return {name: control.rows(messages) for name, messages in _deliveries(control)}


def _list_delivering_as_json(control: QueueControl) -> str:
    rows = [{"consumerName": name, "elements": control.rows(messages)} for name, messages in _deliveries(control)]
    return json.dumps(rows, default=str)


def _first_scheduled(control: QueueControl) -> str:
    rows = control.rows(reference.message for reference in list(control.queue.scheduled)[:1])
    return json.dumps(rows[0], default=str) if rows else "null"


def _deliver(control: QueueControl, references: Iterator[Reference | None]) -> Steps[None]:
    queue, store = control.queue, control.server.store

    def deliver(reference: Reference) -> None:
        if reference.scheduled:
            if is_stored(reference):
                batch = store.begin()
                batch.schedule(queue.queue_id, reference.message, 0)
                store.commit(batch)
            queue.deliver_scheduled(reference)

    yield from control.each(references, deliver)


def _deliver_scheduled(control: QueueControl, filter_text: Any = None) -> Steps[None]:
    filter = parse_filter(filter_text)
    return _deliver(control, scheduled(control.queue, None if filter is None else filter.matches))


def _copy_message(control: QueueControl, message_id: Any, target: Any) -> Steps[bool]:
    server = control.server
    queue = find_queue(server.messaging, target)

    def copy(reference: Reference) -> bool:
        made = make_copy(
            reference.message,
            server.store.next_id(),
            queue.definition.address,
            original_address=reference.message.address,
            original_queue=control.queue.name,
        )
        context = OperationContext(server.store)
        return server.messaging.sending.send_copy(made.message(), queue.definition.address, queue.name, context)

    count = yield from control.each(control.one(message_id), copy)
    return bool(count)


def _send_message(control: QueueControl, *parameters: Any) -> str:
    return send_message(control.server, control.queue.definition.address, control.queue.name, *parameters)


DELIVERY_ATTRIBUTES = {
    "DeliveringSize": _of_delivery(lambda message: message.stored_size),
    "DurableDeliveringCount": _of_delivery(lambda message: int(message.durable)),
    "DurableDeliveringSize": _of_delivery(lambda message: message.stored_size if message.durable else 0),
}

MESSAGE_OPERATIONS = {
    "countDeliveringMessages": Operation(_count_delivering, 0, 2),
    "listDeliveringMessages": Operation(_list_delivering),
    "listDeliveringMessagesAsJSON": Operation(_list_delivering_as_json),
    "peekFirstScheduledMessageAsJSON": Operation(_first_scheduled),
    "deliverScheduledMessage": Operation(lambda control, message_id: _deliver(control, control.one(message_id)), 1),
    "deliverScheduledMessages": Operation(_deliver_scheduled, 0, 1),
    "copyMessage": Operation(_copy_message, 2),
    "sendMessage": Operation(_send_message, 6, 7),
}
