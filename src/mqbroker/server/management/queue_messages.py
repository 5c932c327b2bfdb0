"""What the resource ``queue.NAME`` does with messages in delivery and scheduled ones, copies, and messages sent to the queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.administration.selection import scheduled
from mqbroker.messaging.core import is_stored
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.copies import make_copy
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.registry import ManagementError, Operation
from mqbroker.server.management.sent_messages import send_message
from mqbroker.server.management.views import Row

if TYPE_CHECKING:
    from mqbroker.server.management.queue_control import QueueControl


def _deliveries(control: QueueControl) -> Iterator[tuple[str, list[Message]]]:
    """The messages that consumers hold, and those that transactions have taken, by who it is."""
    for consumer in control.consumers():
        if consumer.unacknowledged:
            yield str(consumer.sequential_id), [reference.message for reference in consumer.unacknowledged.values()]
    for session in control.server.all_sessions():
        taken = [reference.message for reference in session.transaction.acknowledged if reference.queue is control.queue]
        if taken:
            yield f"transaction of session {session.name}", taken


def in_delivery(control: QueueControl) -> Iterator[Message]:
    """The messages that consumers hold, and those that transactions have taken."""
    for _, messages in _deliveries(control):
        yield from messages


def count_by(counts: dict[str, int], message: Message, name: Any) -> None:
    """Count the message under its value of the property ``name``; without a name or a value that is "null"."""
    value = message.property(str(name)) if name else None
    key = "null" if value is None else str(value)
    counts[key] = counts.get(key, 0) + 1


def _of_delivery(figure: Callable[[Message], int]) -> Callable[[QueueControl], int]:
    return lambda control: sum(map(figure, in_delivery(control)))


def _count_delivering(control: QueueControl, filter_text: Any = None, *group_by: Any) -> Any:
    grouped = bool(group_by)
    name = group_by[0] if grouped else None
    if not name and not filter_text:
        return json.dumps({"null": control.queue.delivering}) if grouped else control.queue.delivering
    filter = parse_filter(filter_text)
    counts: dict[str, int] = {}
    for message in in_delivery(control):
        if filter is None or filter.matches(message):
            count_by(counts, message, name)
    return json.dumps(counts) if grouped else counts.get("null", 0)


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
    queue = server.messaging.core.queues.get(str(target))
    if queue is None:
        raise ManagementError(f"AMQ229017: Queue {target} does not exist")

    def copy(reference: Reference) -> None:
        made = make_copy(
            reference.message,
            server.store.next_id(),
            queue.definition.address,
            original_address=reference.message.address,
            original_queue=control.queue.name,
        )
        server.messaging.sending.send(made.message(), queue.definition.address, queue.name, None, OperationContext(server.store))

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
