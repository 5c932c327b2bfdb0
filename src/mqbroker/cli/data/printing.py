"""The records of a journal, or the rows of a database, for a person (``mqbroker data print``)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TextIO

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.process.localfs import LocalFileSystem
from mqclient.errors import MQError
from mqclient.storageformat.images import LogImage, find_images
from mqclient.storageformat.records import (
    DeliveryCountRecord,
    DuplicateIdRecord,
    DuplicateIdsRecord,
    MessageRecord,
    Record,
    ScheduleRecord,
    decode_records,
)
from mqclient.storageformat.replay import replay
from mqclient.wire.message import CoreMessage, decode_headers, decode_message, user_id_text

if TYPE_CHECKING:
    from mqbroker.storage.sql.contents import Contents


def print_journals(folders: DataFolders, out: TextIO, *, safe: bool, bindings: bool, journal: bool) -> None:
    """Print all records, then the state that they result in.  ``safe`` leaves out properties, bodies and duplicate ids."""
    images = find_images(LocalFileSystem(), str(folders.journal), str(folders.bindings))
    if images.bindings.node_id is not None:
        out.write(f"Server's ID={images.bindings.node_id.hex()}\n")
    if bindings:
        out.write(f"\nB I N D I N G S  J O U R N A L\nJournal path: {folders.bindings}\n")
        _print(images.bindings, out, safe)
    if journal:
        out.write(f"\nM E S S A G E S  J O U R N A L\nJournal path: {folders.journal}\n")
        _print(images.messages, out, safe)
        state = replay(images)
        counts = {"messages": len(state.messages), "duplicateIDs": len(state.duplicates), "branches": len(state.branches)}
        out.write(f"\nS U M M A R Y\n{_totals(counts | {'bindings': len(state.bindings)}, state.id_limit)}\n")


def print_rows(contents: Contents, out: TextIO, *, safe: bool, bindings: bool, journal: bool) -> None:
    """As :func:`print_journals`, of a database: what counts after a start, in the words of the records that a journal would have."""
    sessions = f"session {contents.session}"
    if contents.inherited:
        sessions += f", and what was inherited: {', '.join(map(str, contents.inherited))}"
    defined = [*contents.addresses(), *contents.queues(), *contents.settings()]
    out.write(f"Server's ID={contents.node_id.replace('-', '')}\n")
    if bindings:
        out.write(f"\nB I N D I N G S\nDatabase: {contents.name} ({sessions})\n")
        for binding in defined:
            out.write(f"{describe(binding, safe)}\n")
    if not journal:
        return
    out.write(f"\nM E S S A G E S\nDatabase: {contents.name} ({sessions})\n")
    branches = contents.branches()
    for branch in branches:
        out.write(f"{describe(branch, safe)}\n")
    duplicates = messages = 0
    for duplicate in contents.duplicate_ids():
        duplicates += 1
        out.write(f"{describe(duplicate, safe)}\n")
    for row in contents.messages():
        messages += 1
        out.write(f"place={row.place};{describe(row.record, safe)}\n")
        for queue_id, deliveries, due in row.references:
            if deliveries:
                out.write(f"place={row.place};{describe(DeliveryCountRecord(queue_id, row.record.message_id, deliveries), safe)}\n")
            if due >= 0:
                out.write(f"place={row.place};{describe(ScheduleRecord(queue_id, row.record.message_id, due), safe)}\n")
    counts = {"messages": messages, "duplicateIDs": duplicates, "branches": len(branches), "bindings": len(defined)}
    out.write(f"\nS U M M A R Y\n{_totals(counts, contents.next_id())}\n")


def _print(image: LogImage, out: TextIO, safe: bool) -> None:
    current = None
    for segment, frame in image.frames():
        if segment is not current:
            current = segment
            out.write(f"#{segment.path} (id = {segment.header.sequence}, size = {segment.end})\n")
        for record in decode_records(frame.content):
            out.write(f"offset={frame.offset};{describe(record, safe)}\n")


def describe(record: Record, safe: bool) -> str:
    """One line about a record."""
    name = type(record).__name__.removesuffix("Record")
    if isinstance(record, MessageRecord):
        large = "" if record.body_id is None else f";largeBody={record.body_id};largeBodySize={record.body_size}"
        branch = f";branch={record.branch_id}" if record.branch_id else ""
        queues = ",".join(map(str, record.queue_ids))
        return f"operation@{name};recordID={record.message_id};queues=[{queues}]{branch}{large};{_message(record, safe)}"
    values = {entry.name: getattr(record, entry.name) for entry in fields(record)}
    if safe and isinstance(record, DuplicateIdRecord):
        values["duplicate_id"] = f"{len(record.duplicate_id)} bytes"
    if safe and isinstance(record, DuplicateIdsRecord):
        values["ids"] = f"{len(record.ids)} bytes"
    return f"operation@{name};" + ";".join(f"{key}={value}" for key, value in values.items())


def _message(record: MessageRecord, safe: bool) -> str:
    try:
        message: CoreMessage = decode_message(record.buffer) if record.headers else decode_headers(record.buffer)
    except MQError as error:
        return f"not readable: {error}"
    user_id = None if message.user_id is None else user_id_text(message.user_id)
    headers = {"type": message.type, "priority": message.priority, "userID": user_id, "timestamp": message.timestamp}
    text = ";".join(f"{name}={value}" for name, value in ({"address": record.address or message.address} | headers).items())
    if safe:
        return f"{text};properties={len(message.properties)};bodySize={len(message.body)}"
    properties = {name: value for name, (_, value) in message.properties.items()}
    return f"{text};properties={properties};body={message.body.hex()}"


def _totals(counts: dict[str, int], id_limit: int) -> str:
    return ";".join(f"{name}={number}" for name, number in counts.items()) + f";idLimit={id_limit}"
