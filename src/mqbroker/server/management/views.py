"""Queues, addresses, messages and connections as rows of management answers, and the paged lists of such rows.

Source: Artemis manual, chapter "Management"; the field names are taken from Artemis's consoles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ROUTING_TYPE_NAMES
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.management.registry import ManagementError, as_int, as_object
from mqclient.wire.message import user_id_text

if TYPE_CHECKING:
    from mqbroker.server.cluster_port import ColocatedFigures
    from mqbroker.server.session.consumers import ServerConsumer
    from mqbroker.server.session.session import ServerSession
    from mqbroker.server.transport.connection import ServerConnection

Row = dict[str, Any]


_NUMBERS = frozenset(("lastDeliveredTime", "lastAcknowledgedTime"))
"""Fields of the paged lists whose values are JSON numbers; all others are JSON strings."""


def text(value: Any) -> str:
    """A value as the JSON string that the paged lists show."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def queue_row(queue: Queue, pause_kept: bool) -> Row:
    """``pause_kept``: the queue will be paused after a restart, too."""
    definition = queue.definition
    return {
        "id": queue.queue_id,
        "name": queue.name,
        "address": definition.address,
        "filter": definition.filter_string,
        "durable": definition.durable,
        "paused": queue.paused,
        "persistedPause": pause_kept,
        "temporary": definition.temporary,
        "purgeOnNoConsumers": definition.purge_on_no_consumers,
        "consumerCount": queue.consumer_count,
        "maxConsumers": definition.max_consumers,
        "autoCreated": definition.auto_created,
        "user": definition.user,
        "routingType": ROUTING_TYPE_NAMES[definition.routing_type],
        "messagesAdded": queue.messages_added,
        "messageCount": queue.message_count,
        "messagesAcked": queue.messages_acknowledged,
        "messagesExpired": queue.messages_expired,
        "deliveringCount": queue.delivering,
        "messagesKilled": queue.messages_killed,
        "directDeliver": False,
        "exclusive": queue.definition.exclusive,
        "lastValue": definition.last_value,
        "lastValueKey": definition.last_value_key,
        "scheduledCount": queue.scheduled.count,
        "groupRebalance": definition.group_rebalance,
        "groupRebalancePauseDispatch": definition.group_rebalance_pause_dispatch,
        "groupBuckets": definition.group_buckets,
        "groupFirstKey": definition.group_first_key,
        "enabled": definition.enabled,
        "ringSize": definition.ring_size,
        "consumersBeforeDispatch": definition.consumers_before_dispatch,
        "delayBeforeDispatch": definition.delay_before_dispatch,
        "autoDelete": definition.auto_delete,
        "internalQueue": definition.internal,
    }


def routing_types(address: Address) -> str:
    return ",".join(sorted(ROUTING_TYPE_NAMES[kind] for kind in address.routing_types))


def address_row(address: Address, duplicate_ids: int) -> Row:
    """``duplicate_ids`` is the number of duplicate ids that are remembered for the address."""
    return {
        "id": address.address_id,
        "name": address.name,
        "routingTypes": routing_types(address),
        "queueCount": len(address.queues),
        "internal": address.internal,
        "temporary": address.temporary,
        "autoCreated": address.auto_created,
        "paused": address.paused,
        "currentDuplicateIdCacheSize": duplicate_ids,
        "retroactiveResource": False,
        "unroutedMessageCount": address.unrouted_messages,
        "routedMessageCount": address.routed_messages,
        "messageCount": sum(queue.message_count for queue in address.queues),
        "addressLimitPercent": address.limit_percent,
        "numberOfPages": address.memory.page_count,
        "addressSize": address.memory.size,
        "maxPageReadBytes": address.settings.max_read_page_bytes,
        "maxPageReadMessages": address.settings.max_read_page_messages,
        "prefetchPageBytes": address.settings.prefetch_page_bytes,
        "prefetchPageMessages": address.settings.prefetch_page_messages,
        "numberOfBytesPerPage": address.settings.page_size_bytes,
        "paging": address.memory.paging is not None,
    }


def connection_row(connection: ServerConnection) -> Row:
    sessions = connection.sessions.values()
    return {
        "connectionID": connection.connection_id,
        "remoteAddress": connection.remote,
        "users": ",".join(sorted({session.subject.name or "" for session in sessions})),
        "creationTime": connection.created_ms,
        "implementation": "RemotingConnectionImpl",
        "protocol": "CORE",
        "clientID": connection.client_id,
        "localAddress": "",
        "sessionCount": len(connection.sessions),
        "proxyAddress": "",
        "proxyProtocolVersion": "",
    }


def session_row(session: ServerSession) -> Row:
    return {
        "id": session.name,
        "user": session.subject.name,
        "validatedUser": session.subject.name,
        "creationTime": session.created_ms,
        "consumerCount": len(session.consumers.by_id),
        "producerCount": len(session.sends.producers),
        "connectionID": session.connection.connection_id,
        "clientID": session.connection.client_id,
    }


def consumer_row(consumer: ServerConsumer) -> Row:
    session, queue = consumer.session, consumer.queue
    return {
        "id": consumer.sequential_id,
        "session": session.name,
        "clientID": session.connection.client_id,
        "user": session.subject.name,
        "validatedUser": session.subject.name,
        "protocol": "CORE",
        "queue": queue.name,
        "queueType": ROUTING_TYPE_NAMES[queue.definition.routing_type].lower(),
        "filter": None if consumer.filter is None else consumer.filter.text,
        "address": queue.definition.address,
        "localAddress": "",
        "remoteAddress": session.connection.remote,
        "creationTime": consumer.created_ms,
        **_consumer_figures(consumer),
    }


def consumers_of(sessions: Iterable[ServerSession]) -> Iterator[ServerConsumer]:
    return (consumer for session in sessions for consumer in session.consumers.by_id.values())


def consumer_entry(consumer: ServerConsumer) -> Row:
    """A consumer as the older lists show it; their fields have other names than those of the paged list."""
    return {
        "consumerID": consumer.consumer_id,
        "sequentialId": consumer.sequential_id,
        "connectionID": consumer.session.connection.connection_id,
        "sessionID": consumer.session.name,
        "browseOnly": consumer.browse_only,
        "creationTime": consumer.created_ms,
        **_consumer_figures(consumer),
    }


def _consumer_figures(consumer: ServerConsumer) -> Row:
    """The counters and times of a consumer, which all lists show alike."""
    session, queue = consumer.session, consumer.queue
    return {
        "messagesInTransit": len(consumer.unacknowledged),
        "messagesInTransitSize": consumer.bytes_in_transit,
        "messagesDelivered": consumer.messages_delivered,
        "messagesDeliveredSize": 0,
        "messagesAcknowledged": consumer.messages_acknowledged,
        "messagesAcknowledgedAwaitingCommit": sum(reference.queue is queue for reference in session.transaction.acknowledged),
        "lastDeliveredTime": consumer.last_delivered_ms,
        "lastAcknowledgedTime": consumer.last_acknowledged_ms,
        "status": "Orphaned" if queue.deleted else "OK",
    }


def message_map(message: Message, size_limit: int) -> Row:
    """A message as an object: its properties, and its headers under their manual names.

    Property values longer than ``size_limit`` characters or bytes (-1 = no limit) are cut; a text then says so.
    """

    def shown(value: Any) -> Any:
        cut = 0 <= size_limit < len(value) if isinstance(value, str | bytes) else False
        if isinstance(value, bytes):
            return list(value[:size_limit] if cut else value)
        return f"{value[:size_limit]}, + {len(value) - size_limit} more" if cut else value

    row: Row = {key: shown(value) for key, (_, value) in message.properties.items()}
    content = message.decoded()
    row["messageID"] = message.message_id
    row["type"] = content.type
    user_id = content.user_id
    if user_id is not None:
        row["userID"] = f"ID:{user_id_text(user_id)}"
    row.update(
        address=message.address,
        durable=message.durable,
        expiration=message.expiration,
        timestamp=message.timestamp,
        priority=message.priority,
    )
    return row


def page(rows: Iterable[Row], options: Any, page_number: Any, page_size: Any) -> str:
    """One page of a list as the consoles ask for it: filtered and sorted by ``options`` (a JSON text), pages counted from 1.

    Raises ManagementError when the options cannot be understood.
    """
    selected = list(rows)
    wanted = _options(options)
    fields = {name.lower(): name for name in selected[0]} if selected else {}
    if fields and wanted.get("field"):
        field = _field(str(wanted["field"]), fields)
        judge = _judge(str(wanted.get("operation", "CONTAINS")).upper(), str(wanted.get("value", "")))
        selected = [row for row in selected if judge(row[field])]
    sort_field = wanted.get("sortField") or wanted.get("sortColumn")
    if fields and sort_field:
        key = _field(str(sort_field), fields)
        order = str(wanted.get("sortOrder", "asc")).lower()
        selected.sort(key=lambda row: _sort_key(row[key]), reverse=order == "desc")
    count = len(selected)
    size, number = as_int(page_size), max(as_int(page_number), 1)
    if size >= 0:
        selected = selected[(number - 1) * size : number * size]
    data = [{name: value if name in _NUMBERS else text(value) for name, value in row.items()} for row in selected]
    return json.dumps({"data": data, "count": count}, ensure_ascii=False)


def hosted_backups(colocated: ColocatedFigures | None) -> str:
    """The backups of other brokers in this process, as JSON."""
    hosted = () if colocated is None else colocated.hosted
    return json.dumps([{"name": each.name, "nodeID": each.node_id, "state": each.state} for each in hosted])


def _field(name: str, fields: dict[str, str]) -> str:
    """The field for a name that a client sends: ``consumerCount`` in any case, or ``CONSUMER_COUNT`` as the Artemis commands write it."""
    found = fields.get(name.lower()) or (fields.get(name.replace("_", "").lower()) if name.isupper() else None)
    if found is None:
        raise ManagementError(f"there is no field {name}; expected one of {', '.join(fields.values())}")
    return found


def _options(options: Any) -> dict[str, Any]:
    if options is None or options == "":
        return {}
    return as_object(options, "the options are")


def _judge(operation: str, value: str) -> Callable[[Any], bool]:
    if operation in ("GREATER_THAN", "LESS_THAN"):
        try:
            limit = float(value)
        except ValueError:
            return lambda found: False
        sign = 1 if operation == "GREATER_THAN" else -1
        return lambda found: not isinstance(found, str | None) and (float(found) - limit) * sign > 0
    judges: dict[str, Callable[[Any], bool]] = {
        "CONTAINS": lambda found: value in text(found),
        "NOT_CONTAINS": lambda found: value not in text(found),
        "EQUALS": lambda found: text(found) == value,
        "NOT_EQUALS": lambda found: text(found) != value,
    }
    judge = judges.get(operation)
    if judge is None:
        raise ManagementError(
            f"the operation {operation} is not known; expected one of {', '.join([*judges, 'GREATER_THAN', 'LESS_THAN'])}"
        )
    return judge


def _sort_key(value: Any) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return (0, float(value), "")
    return (1, 0.0, text(value))
