"""Writing the data of a broker as Artemis's XML (``mqbroker data exp``)."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.xml_messages import attributes_text, write_message
from mqbroker.cli.status import CommandError
from mqbroker.config.schema.values import ROUTING_TYPES
from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqbroker.storage.files.bindings import to_address, to_queue
from mqclient.storageformat.records import ADDRESS_BINDING, BRANCH_PREPARED, QUEUE_BINDING, MessageRecord
from mqclient.storageformat.replay import State
from mqclient.wire.message import decode_headers, decode_message

if TYPE_CHECKING:
    from mqbroker.storage.sql.contents import Contents

_ROUTING_TYPES: Final = {number: name for name, number in ROUTING_TYPES.items()}
_CHUNK: Final = 256 * 1024


@dataclass(slots=True)
class Exported:
    """The contents of an export.  Each message comes with the ids of its queues, and with its body when that is a large one.

    ``prepared`` is the number of branches that nobody has decided on.
    """

    addresses: Iterable[AddressRecord]
    queues: Iterable[QueueRecord]
    messages: Iterable[tuple[MessageRecord, Iterable[int], Iterable[bytes] | None]]
    prepared: int


def of_files(state: State, folders: DataFolders) -> Exported:
    """The contents of a journal.

    Messages sent in prepared branches are left out, and messages acknowledged in them are not: the format has no place for undecided work.
    """
    bindings = sorted(state.bindings, key=lambda key: str(key[1]).zfill(20))

    def messages() -> Iterator[tuple[MessageRecord, Iterable[int], Iterable[bytes] | None]]:
        for message_id in sorted(message_id for message_id, stored in state.messages.items() if not stored.record.branch_id):
            stored = state.messages[message_id]
            body_id = stored.record.body_id
            body = None if body_id is None else body_chunks(folders.large_body(body_id), stored.record.body_size)
            yield stored.record, stored.reference_table(), body

    return Exported(
        [to_address(state.bindings[key].value) for key in bindings if key[0] == ADDRESS_BINDING],
        [to_queue(state.bindings[key].value) for key in bindings if key[0] == QUEUE_BINDING],
        messages(),
        sum(stored.record.state == BRANCH_PREPARED for stored in state.branches.values()),
    )


def of_rows(contents: Contents) -> Exported:
    """The same of a database; a message that cannot be read is an error."""

    def messages() -> Iterator[tuple[MessageRecord, Iterable[int], Iterable[bytes] | None]]:
        known = {queue.queue_id for queue in queues}
        for row in contents.messages():
            record = row.record
            if record.branch_id:
                continue
            if row.damage:
                advice = "'mqbroker data recover' saves the rest"
                raise CommandError(f"{contents.name}: the message at place {row.place} cannot be read: {row.damage}; {advice}")
            body = None if record.body_id is None else contents.body(record.body_id, record.body_size)
            held = [queue_id for queue_id in record.queue_ids if queue_id in known]
            if held:
                yield record, held, body

    queues = [to_queue(record.value) for record in contents.queues()]
    prepared = sum(branch.state == BRANCH_PREPARED for branch in contents.branches())
    return Exported([to_address(record.value) for record in contents.addresses()], queues, messages(), prepared)


def export(data: Exported, out: TextIO) -> tuple[int, int]:
    """Write all bindings and messages; returns the numbers of queues and of messages.

    Raises OSError when the body of a large message is missing or cut off.
    """
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n<activemq-journal>\n   <bindings>\n')
    for address in data.addresses:
        types = ",".join(_ROUTING_TYPES[number] for number in sorted(address.routing_types))
        attributes = {"routing-types": types, "name": address.name, "id": str(address.address_id)}
        out.write(f"      <address-binding {attributes_text(attributes)}/>\n")
    names: dict[int, str] = {}
    for queue in data.queues:
        names[queue.queue_id] = queue.name
        attributes = {"address": queue.address, "filter-string": queue.filter_string or "", "name": queue.name, "id": str(queue.queue_id)}
        out.write(f"      <queue-binding {attributes_text(attributes | {'routing-type': _ROUTING_TYPES[queue.routing_type]})}/>\n")
    out.write("   </bindings>\n   <messages>\n")
    count = 0
    for record, queue_ids, body in data.messages:
        held = [names[queue_id] for queue_id in queue_ids]
        if body is None:
            write_message(out, decode_message(record.buffer), held, None)
        else:
            write_message(out, decode_headers(record.buffer, record.headers), held, body)
        count += 1
    out.write("   </messages>\n</activemq-journal>\n")
    return len(names), count


def body_chunks(file: Path, size: int) -> Iterator[bytes]:
    """The body of a large message of this size, piece by piece.  Raises OSError where the file is missing or cut off."""
    if not size:  # such a body has no file
        return
    with file.open("rb") as body:
        while size and (chunk := body.read(min(_CHUNK, size))):
            size -= len(chunk)
            yield chunk
    if size:
        raise OSError(errno.EIO, f"the body of a large message ends {size} bytes too early", str(file))
