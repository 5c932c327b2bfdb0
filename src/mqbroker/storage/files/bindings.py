"""Addresses, queues and settings as the records of the bindings journal say them: JSON objects.

address: ``id``, ``name``, ``types`` (routing types), ``auto``.  queue: ``id``, ``name``, ``address``, ``type``, ``filter``, ``attributes``.
setting: ``kind``, ``key``, ``value`` (a JSON text).
"""

from __future__ import annotations

from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.replay import JsonObject


def address_key(address_id: int) -> JsonObject:
    return {"id": address_id}


def address_value(record: AddressRecord) -> JsonObject:
    return {"id": record.address_id, "name": record.name, "types": [*sorted(record.routing_types)], "auto": record.auto_created}


def queue_key(queue_id: int) -> JsonObject:
    return {"id": queue_id}


def queue_value(record: QueueRecord) -> JsonObject:
    return {
        "id": record.queue_id,
        "name": record.name,
        "address": record.address,
        "type": record.routing_type,
        "filter": record.filter_string,
        "attributes": {**record.attributes},
    }


def setting_key(kind: str, key: str) -> JsonObject:
    return {"kind": kind, "key": key}


def setting_value(kind: str, key: str, value: str) -> JsonObject:
    return {"kind": kind, "key": key, "value": value}


def to_address(value: JsonObject) -> AddressRecord:
    match value:
        case {"id": int(address_id), "name": str(name), "types": list(types), "auto": bool(auto)}:
            return AddressRecord(address_id, name, frozenset(each for each in types if isinstance(each, int)), auto)
    raise StorageFormatError(f"not an address: {value}")


def to_queue(value: JsonObject) -> QueueRecord:
    match value:
        case {
            "id": int(queue_id),
            "name": str(name),
            "address": str(address),
            "type": int(routing_type),
            "filter": (str() | None) as text,
            "attributes": dict(attributes),
        }:
            plain = {key: each for key, each in attributes.items() if each is None or isinstance(each, bool | int | str)}
            return QueueRecord(queue_id, name, address, routing_type, text, plain)
    raise StorageFormatError(f"not a queue: {value}")


def to_setting(value: JsonObject) -> tuple[tuple[str, str], str]:
    match value:
        case {"kind": str(kind), "key": str(key), "value": str(text)}:
            return (kind, key), text
    raise StorageFormatError(f"not a setting: {value}")
