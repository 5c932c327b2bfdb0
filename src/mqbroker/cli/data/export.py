"""Writing a journal as Artemis's XML (``mqbroker data exp``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.xml_messages import attributes_text, write_message
from mqbroker.config.schema.values import ROUTING_TYPES
from mqbroker.storage.files.bindings import to_address, to_queue
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING
from mqclient.storageformat.replay import State, StoredMessage
from mqclient.wire.message import decode_headers, decode_message

_ROUTING_TYPES: Final = {number: name for name, number in ROUTING_TYPES.items()}
_CHUNK: Final = 256 * 1024


def export(state: State, folders: DataFolders, out: TextIO) -> tuple[int, int]:
    """Write all bindings and messages; returns the numbers of queues and of messages.

    Messages sent in prepared branches are left out, and messages acknowledged in them are not: the format has no place for undecided work.
    Raises OSError when the body of a large message is missing.
    """
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<activemq-journal>\n   <bindings>\n')
    for key in sorted((key for key in state.bindings if key[0] == ADDRESS_BINDING), key=lambda key: str(key[1]).zfill(20)):
        address = to_address(state.bindings[key].value)
        types = ",".join(_ROUTING_TYPES[number] for number in sorted(address.routing_types))
        attributes = {"routing-types": types, "name": address.name, "id": str(address.address_id)}
        out.write(f"      <address-binding {attributes_text(attributes)}/>\n")
    names: dict[int, str] = {}
    for key in sorted((key for key in state.bindings if key[0] == QUEUE_BINDING), key=lambda key: str(key[1]).zfill(20)):
        queue = to_queue(state.bindings[key].value)
        names[queue.queue_id] = queue.name
        attributes = {"address": queue.address, "filter-string": queue.filter_string or "", "name": queue.name, "id": str(queue.queue_id)}
        out.write(f"      <queue-binding {attributes_text(attributes | {'routing-type': _ROUTING_TYPES[queue.routing_type]})}/>\n")
    out.write("   </bindings>\n   <messages>\n")
    message_ids = sorted(message_id for message_id, stored in state.messages.items() if not stored.record.branch_id)
    for message_id in message_ids:
        _write(state.messages[message_id], names, folders, out)
    out.write("   </messages>\n</activemq-journal>\n")
    return len(names), len(message_ids)


def _write(stored: StoredMessage, names: dict[int, str], folders: DataFolders, out: TextIO) -> None:
    record = stored.record
    queues = [names[queue_id] for queue_id in stored.reference_table()]
    if record.body_id is None:
        message = decode_message(record.buffer)
        write_message(out, message, queues, None)
    else:
        message = decode_headers(record.buffer, record.headers)
        write_message(out, message, queues, body_chunks(folders.large_body(record.body_id)))


def body_chunks(file: Path) -> Iterator[bytes]:
    """The body of a large message, piece by piece.  Raises OSError."""
    with file.open("rb") as body:
        while chunk := body.read(_CHUNK):
            yield chunk
