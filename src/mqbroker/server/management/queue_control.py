"""The resource ``queue.NAME``: the attributes of a queue, and the operations on its waiting messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from mqbroker.messaging.administration.selection import paged, scheduled, waiting
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.steps import Steps
from mqbroker.server.management.definitions import find_queue
from mqbroker.server.management.queue_messages import DELIVERY_ATTRIBUTES, MESSAGE_OPERATIONS, count_messages
from mqbroker.server.management.readers import check_free, list_readers
from mqbroker.server.management.registry import ManagementError, Operation, Resource, as_bool, as_int
from mqbroker.server.management.views import Row, consumer_entry, consumers_of, message_map
from mqclient.wire.message import KEY_ORIGINAL_ADDRESS, KEY_ORIGINAL_QUEUE

if TYPE_CHECKING:
    from mqbroker.server.server import Server

T = TypeVar("T")

Selected = Iterator[Reference | None]
"""References, with None for each message that was looked at and not selected."""


class QueueControl(Resource):
    """One queue."""

    def __init__(self, server: Server, queue: Queue) -> None:
        self.server = server
        self.queue = queue
        self.settings = queue.address.settings

    # --- messages that wait

    def _seen(self, filter_text: Any, limit: int = -1) -> Iterator[Message | None]:
        """Waiting messages, in memory and in pages, for reading only; None stands for a message that the filter does not match."""
        filter = parse_filter(filter_text)
        pages = self.queue.pages
        messages = (None if each is None else each.message for each in waiting(self.queue, None if filter is None else filter.matches))
        if pages is not None:
            unread = (each if each is not None and (filter is None or filter.matches(each)) else None for each in pages.unread())
            return _first(limit, chain(messages, unread))
        return _first(limit, messages)

    def _selected(self, filter_text: Any, limit: int = -1) -> Iterator[Reference | None]:
        """Waiting references for an operation that changes them.  Messages in pages are read one after the other, on demand."""
        check_free(self.queue)
        filter = parse_filter(filter_text)
        accept = None if filter is None else filter.matches
        return _first(limit, chain(waiting(self.queue, accept), paged(self.queue, accept)))

    def one(self, message_id: Any) -> Iterator[Reference | None]:
        """The waiting or scheduled message with this id, for an operation that changes it."""
        check_free(self.queue)
        wanted = as_int(message_id)

        def accept(message: Message) -> bool:
            return message.message_id == wanted

        return _first(1, chain(waiting(self.queue, accept), scheduled(self.queue, accept), paged(self.queue, None, (wanted,))))

    def rows(self, messages: Iterable[Message]) -> list[Row]:
        """Messages as objects."""
        limit = self.settings.management_message_attribute_size_limit
        return [message_map(message, limit) for message in messages]

    def list_messages(self, filter_text: Any = None) -> Steps[list[Row]]:
        rows: list[Row] = []
        for message in self._seen(filter_text, self.settings.management_browse_page_size):
            if message is not None:
                rows += self.rows([message])
            yield 1
        return rows

    def list_messages_as_json(self, filter_text: Any = None) -> Steps[str]:
        rows = yield from self.list_messages(filter_text)
        return json.dumps(rows, default=str)

    def list_scheduled(self) -> Steps[list[Row]]:
        """All scheduled messages, as in Artemis, however many there are."""
        rows: list[Row] = []
        for reference in scheduled(self.queue):
            if reference is not None:
                rows += self.rows([reference.message])
            yield 1
        return rows

    def list_scheduled_as_json(self) -> Steps[str]:
        texts: list[str] = []
        for reference in scheduled(self.queue):
            if reference is not None:
                texts += [json.dumps(row, default=str) for row in self.rows([reference.message])]
            yield 1
        return f"[{', '.join(texts)}]"

    def consumers(self) -> Iterable[Any]:
        """The consumers of this queue."""
        return (consumer for consumer in consumers_of(self.server.all_sessions()) if consumer.queue is self.queue)

    def list_consumers(self) -> list[Row]:
        return [consumer_entry(consumer) for consumer in self.consumers()]

    def count_messages(self, filter_text: Any = None, *group_by: Any) -> Any:
        """See :func:`.queue_messages.count_messages`."""
        return count_messages(self.queue.message_count, lambda: self._seen(filter_text), filter_text, *group_by)

    def _first_message(self) -> Steps[Message | None]:
        for message in self._seen(None):
            if message is not None:
                return message
            yield 1
        return None

    def first_message(self, nothing: str = "null", form: str = "{}") -> Steps[str]:
        """The first waiting message as JSON in ``form``; ``nothing`` without one."""
        first = yield from self._first_message()
        return nothing if first is None else form.format(json.dumps(self.rows([first])[0], default=str))

    def first_timestamp(self) -> Steps[int | None]:
        first = yield from self._first_message()
        return None if first is None else first.timestamp

    def first_age(self) -> Steps[int | None]:
        stamp = yield from self.first_timestamp()
        return None if not stamp else self.server.clock.wall_ms() - stamp

    # --- operations on them

    def each(self, references: Selected, action: Callable[[Reference], object]) -> Steps[int]:
        """Call ``action`` for each reference.  Returns how many calls have not returned False."""
        count = 0
        for reference in references:
            if reference is not None and action(reference) is not False:
                count += 1
            yield 1
        return count

    def remove(self, references: Selected) -> Steps[int]:
        return self.server.messaging.removal.discard_each(references)

    def expire(self, references: Selected) -> Steps[int]:
        def expire(reference: Reference) -> None:
            self.queue.take(reference)
            self.server.messaging.settlement.expire(reference)

        return self.each(references, expire)

    def purge(self) -> Steps[int]:
        check_free(self.queue)
        return self.server.messaging.removal.purge_steps(self.queue)

    def dead_letter(self, references: Selected) -> Steps[int]:
        def kill(reference: Reference) -> None:
            self.queue.take(reference)
            self.server.messaging.settlement.kill(reference)

        return self.each(references, kill)

    def move(self, references: Selected, target: Any, reject_duplicates: Any = False) -> Steps[int]:
        """Move to the queue ``target``.

        With ``reject_duplicates`` a message that has been sent there before, by its duplicate id, is removed, and does not count.
        """
        messaging, rejects = self.server.messaging, as_bool(reject_duplicates)
        queue = find_queue(messaging, target)
        if queue is self.queue:
            raise ManagementError("Cannot move messages onto itself")

        def move(reference: Reference) -> bool:
            if queue.deleted:
                raise ManagementError(f"AMQ229017: Queue {target} no longer exists")
            if rejects and messaging.sending.was_sent(reference.message, queue.definition.address):
                messaging.core.report(
                    "AMQ221036",
                    f"message {reference.message.message_id} is removed from queue {self.queue.name}, and not moved to {queue.name}: "
                    "its duplicate id is known there",
                )
                messaging.removal.discard([reference])
                return False
            return messaging.settlement.move(reference, queue.definition.address, queue.name)

        return self.each(references, move)

    def retry(self, references: Selected) -> Steps[int]:
        """Send dead or expired messages back to their original address and queue; messages without a known address stay."""
        core = self.server.messaging.core

        def retry(reference: Reference) -> bool:
            stated = reference.message.property(KEY_ORIGINAL_ADDRESS)
            # Artemis states a fully qualified name as it is.
            address = stated.partition("::")[0] if isinstance(stated, str) else ""
            if not core.routing.reaches(address):
                return False
            original = reference.message.property(KEY_ORIGINAL_QUEUE)
            queue = core.queues.get(original) if isinstance(original, str) else None
            # The queue may be that of a wildcard address: the other queues that messages of the address reach have had this one.
            if queue is not None and queue.definition.address != address and queue not in core.routing.bound(address):
                queue = None
            return self.server.messaging.settlement.move(reference, address, None if queue is None else queue.name)

        return self.each(references, retry)

    def change_priority(self, references: Selected, priority: Any) -> Steps[int]:
        value = as_int(priority)
        if not 0 <= value <= 9:
            raise ManagementError(f"invalid priority {value}; expected 0 to 9")

        def change(reference: Reference) -> None:
            reference.message.set_priority(value)
            if reference.listed:
                self.queue.references.remove(reference)
                reference.priority = value
                self.queue.references.append(reference)
            else:
                reference.priority = value

        return self.each(references, change)

    def pause(self, persist: Any = False) -> None:
        self.server.messaging.pauses.pause(self.queue, as_bool(persist))

    def resume(self) -> None:
        self.server.messaging.pauses.resume(self.queue)

    def list_groups(self) -> list[Row]:
        groups = self.queue.groups
        return [] if groups is None else [{"groupID": str(slot), **_owner(consumer)} for slot, consumer in groups.owners().items()]

    def reset_groups(self, group_id: str | None = None) -> None:
        if self.queue.groups is not None:
            self.queue.groups.reset(group_id)

    def set_enabled(self, enabled: bool) -> None:
        self.server.messaging.definitions.update_queue(self.queue, enabled=enabled)


def _owner(consumer: Any) -> Row:
    return {
        "consumerID": consumer.consumer_id,
        "connectionID": consumer.session.connection.connection_id,
        "sessionID": consumer.session.name,
        "browseOnly": False,
        "creationTime": consumer.created_ms,
    }


def _queue(getter: Callable[[Queue], Any]) -> Callable[[QueueControl], Any]:
    return lambda control: getter(control.queue)


def _first(limit: int, items: Iterator[T | None]) -> Iterator[T | None]:
    """The first ``limit`` items (-1 = all); None items are passed on and not counted."""
    for item in items:
        yield item
        if item is not None:
            limit -= 1
            if not limit:
                return


def _by_filter(action: Callable[..., Steps[int]]) -> Callable[..., Steps[int]]:
    """An operation whose first parameter is a filter."""
    return lambda control, filter_text=None, *rest: action(control, control._selected(filter_text), *rest)


def _by_id(action: Callable[..., Steps[int]]) -> Callable[..., Steps[bool]]:
    return lambda control, message_id, *rest: _any(action(control, control.one(message_id), *rest))


def _any(steps: Steps[int]) -> Steps[bool]:
    count = yield from steps
    return bool(count)


def _with_flush_limit(control: QueueControl, *parameters: Any) -> Steps[int]:
    return control.remove(control._selected(parameters[-1] if parameters else None))


def _move_some(control: QueueControl, *parameters: Any) -> Steps[int]:
    """moveMessages(filter, target[, reject duplicates[, count]]), also with a leading flush limit."""
    rest = list(parameters[1:]) if isinstance(parameters[0], int) and len(parameters) > 2 else list(parameters)
    limit = as_int(rest[3]) if len(rest) > 3 else -1
    return control.move(control._selected(rest[0], limit), *rest[1:3])


QueueControl.ATTRIBUTES = {
    **DELIVERY_ATTRIBUTES,
    "Name": _queue(lambda queue: queue.name),
    "Address": _queue(lambda queue: queue.definition.address),
    "ID": _queue(lambda queue: queue.queue_id),
    "Temporary": _queue(lambda queue: queue.definition.temporary),
    "RetroactiveResource": lambda control: False,
    "Durable": _queue(lambda queue: queue.definition.durable),
    "User": _queue(lambda queue: queue.definition.user),
    "RoutingType": _queue(lambda queue: ROUTING_TYPE_NAMES[queue.definition.routing_type]),
    "Filter": _queue(lambda queue: queue.definition.filter_string),
    "MessageCount": _queue(lambda queue: queue.message_count),
    "PersistentSize": _queue(lambda queue: queue.persistent_size),
    "DurableMessageCount": _queue(lambda queue: queue.durable_message_count),
    "DurablePersistentSize": _queue(lambda queue: queue.durable_size),
    "InternalQueue": _queue(lambda queue: queue.definition.internal),
    "ScheduledCount": _queue(lambda queue: queue.scheduled.count),
    "ScheduledSize": _queue(lambda queue: queue.scheduled.size),
    "DurableScheduledCount": _queue(lambda queue: queue.scheduled.durable_count if queue.durable else 0),
    "DurableScheduledSize": _queue(lambda queue: queue.scheduled.durable_size if queue.durable else 0),
    "ConsumerCount": _queue(lambda queue: queue.consumer_count),
    "DeliveringCount": _queue(lambda queue: queue.delivering),
    "MessagesAdded": _queue(lambda queue: queue.messages_added),
    "MessagesAcknowledged": _queue(lambda queue: queue.messages_acknowledged),
    "MessagesExpired": _queue(lambda queue: queue.messages_expired),
    "MessagesKilled": _queue(lambda queue: queue.messages_killed),
    "MessagesRedistributed": _queue(lambda queue: queue.messages_redistributed),
    "MessagesReplaced": _queue(lambda queue: queue.messages_replaced),
    "FirstMessageAsJSON": lambda control: control.first_message("[{}]", "[{}]"),
    "FirstMessageTimestamp": lambda control: control.first_timestamp(),
    "FirstMessageAge": lambda control: control.first_age(),
    "ExpiryAddress": lambda control: control.settings.expiry_address,
    "DeadLetterAddress": lambda control: control.settings.dead_letter_address,
    "MaxConsumers": _queue(lambda queue: queue.definition.max_consumers),
    "PurgeOnNoConsumers": _queue(lambda queue: queue.definition.purge_on_no_consumers),
    "Enabled": _queue(lambda queue: queue.definition.enabled),
    "ConfigurationManaged": _queue(lambda queue: queue.definition.configuration_managed),
    "Exclusive": _queue(lambda queue: queue.definition.exclusive),
    "GroupBuckets": _queue(lambda queue: queue.definition.group_buckets),
    "GroupRebalance": _queue(lambda queue: queue.definition.group_rebalance),
    "GroupRebalancePauseDispatch": _queue(lambda queue: queue.definition.group_rebalance_pause_dispatch),
    "GroupFirstKey": _queue(lambda queue: queue.definition.group_first_key),
    "LastValue": _queue(lambda queue: queue.definition.last_value),
    "LastValueKey": _queue(lambda queue: queue.definition.last_value_key),
    "ConsumersBeforeDispatch": _queue(lambda queue: queue.definition.consumers_before_dispatch),
    "DelayBeforeDispatch": _queue(lambda queue: queue.definition.delay_before_dispatch),
    "PreparedTransactionMessageCount": lambda control: control.server.messaging.branches.acknowledged_on(control.queue),
    "Paused": _queue(lambda queue: queue.paused),
    "PersistedPause": lambda control: control.server.messaging.pauses.is_kept(control.queue),
    "GroupCount": _queue(lambda queue: queue.groups.count if queue.groups is not None else 0),
    "RingSize": _queue(lambda queue: queue.definition.ring_size),
    "ReaderCount": _queue(lambda queue: 0 if queue.log is None else len(queue.log.readers)),
    "AutoDelete": _queue(lambda queue: queue.definition.auto_delete),
}

QueueControl.OPERATIONS = {
    **MESSAGE_OPERATIONS,
    "listMessagesAsJSON": Operation(QueueControl.list_messages_as_json, 0, 1),
    "listMessages": Operation(QueueControl.list_messages, 0, 1),
    "listScheduledMessagesAsJSON": Operation(QueueControl.list_scheduled_as_json),
    "listScheduledMessages": Operation(QueueControl.list_scheduled),
    "listReaders": Operation(lambda control: list_readers(control.server, control.queue)),
    "listConsumersAsJSON": Operation(lambda control: json.dumps(control.list_consumers())),
    "countMessages": Operation(QueueControl.count_messages, 0, 2),
    "peekFirstMessageAsJSON": Operation(QueueControl.first_message),
    "removeMessage": Operation(_by_id(QueueControl.remove), 1),
    "removeMessages": Operation(_with_flush_limit, 1, 2),
    "removeAllMessages": Operation(QueueControl.purge),
    "expireMessage": Operation(_by_id(QueueControl.expire), 1),
    "expireMessages": Operation(_by_filter(QueueControl.expire), 0, 1),
    "retryMessage": Operation(_by_id(QueueControl.retry), 1),
    "retryMessages": Operation(_by_filter(QueueControl.retry), 0, 1),
    "moveMessage": Operation(_by_id(QueueControl.move), 2, 3),
    "moveMessages": Operation(_move_some, 2, 5),
    "sendMessageToDeadLetterAddress": Operation(_by_id(QueueControl.dead_letter), 1),
    "sendMessagesToDeadLetterAddress": Operation(_by_filter(QueueControl.dead_letter), 0, 1),
    "changeMessagePriority": Operation(_by_id(QueueControl.change_priority), 2),
    "changeMessagesPriority": Operation(_by_filter(QueueControl.change_priority), 2),
    "pause": Operation(QueueControl.pause, 0, 1),
    "resume": Operation(QueueControl.resume),
    "enable": Operation(lambda control: control.set_enabled(True)),
    "disable": Operation(lambda control: control.set_enabled(False)),
    "listGroupsAsJSON": Operation(lambda control: json.dumps(control.list_groups())),
    "resetAllGroups": Operation(QueueControl.reset_groups),
    "resetGroup": Operation(lambda control, group_id: control.reset_groups(str(group_id)), 1),
    "flushExecutor": Operation(lambda control: None),
    "resetMessagesAdded": Operation(lambda control: setattr(control.queue, "messages_added", 0)),
    "resetMessagesAcknowledged": Operation(lambda control: setattr(control.queue, "messages_acknowledged", 0)),
    "resetMessagesExpired": Operation(lambda control: setattr(control.queue, "messages_expired", 0)),
    "resetMessagesKilled": Operation(lambda control: setattr(control.queue, "messages_killed", 0)),
}
