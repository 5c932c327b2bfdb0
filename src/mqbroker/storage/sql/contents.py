"""The contents of a database, read from one state of it in pieces, for commands that only read."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from mqbroker.storage.sql import schema
from mqbroker.storage.sql.bodies import PIECE_SIZE
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, DatabaseError
from mqbroker.storage.sql.removals import NOT_MARKED
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.texts import given
from mqclient.errors import MQError
from mqclient.storageformat.records import (
    ADDRESS_BINDING,
    QUEUE_BINDING,
    SETTING_BINDING,
    BindingRecord,
    BranchRecord,
    DuplicateIdsRecord,
    MessageRecord,
    decode_records,
)
from mqclient.wire.message import decode_headers, decode_message

PIECE_ROWS = 100
"""Messages, or records of duplicate ids, that are read at a time."""

_I64 = struct.Struct(">q")

_SESSIONS = table("SELECT session, node_id, broker, current FROM {session} ORDER BY broker, current, taken, session")
_NEXT_ID = table("SELECT next_id FROM {ids}")
_ADDRESSES = table("SELECT value FROM {address} WHERE session = ? ORDER BY id")
_QUEUES = table("SELECT value FROM {queue} WHERE session = ? ORDER BY id")
_SETTINGS = table("SELECT kind, name, value FROM {setting} WHERE session = ? ORDER BY kind, name")
_BRANCHES = table("SELECT record FROM {branch} WHERE session = ? ORDER BY branch")
_DUPLICATES = table("SELECT record, cache, size, ids FROM {duplicate} WHERE session = ? AND record > ? ORDER BY record LIMIT ?")
_MESSAGES = table(
    "SELECT place, folder, address, headers, buffer, branch, body, body_size FROM {message} "
    "WHERE session = ? AND place > ? ORDER BY place LIMIT ?"
)
_BODY_SIZE = table("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {body} WHERE session = ? AND body = ?")
_PIECE = table("SELECT data FROM {body} WHERE session = ? AND body = ? AND piece = ?")
_REFERENCES = table(
    "SELECT r.place, r.queue, r.deliveries, r.due FROM {reference} r "
    f"WHERE r.session = ? AND r.place > ? AND r.place <= ? AND r.durable = 1 AND {NOT_MARKED} ORDER BY r.place, r.queue"
)


class StoredRow(NamedTuple):
    """A message that counts after a start.

    ``references`` are (queue id, deliveries, time of delivery in ms since the epoch, -1 = the message's own).  ``damage`` says why its
    bytes cannot be read, and is empty for those that can; the id of a damaged message may be wrong.
    """

    place: int
    address: str
    record: MessageRecord
    references: list[tuple[int, int, int]]
    damage: str


class FoundSession(NamedTuple):
    """A session, and the broker that has it: its ``current`` one, or one that it has inherited."""

    number: int
    node_id: str
    broker: str
    current: bool


class Contents:
    """The sessions of one broker as a transaction sees them: those that it has inherited, in the order of their messages, then its own.

    Queues of inherited sessions have the ids that the own queues of the same name have.
    """

    def __init__(self, database: Database, connection: Connection, sessions: Sequence[FoundSession]) -> None:
        self.name = database.name
        self.node_id = sessions[-1].node_id
        self.session = sessions[-1].number
        self.inherited = [each.number for each in sessions[:-1]]
        self._sessions = [each.number for each in sessions]
        self._connection = connection

    def next_id(self) -> int:
        """A number above all ids."""
        return int(self._connection.rows(_NEXT_ID)[0][0])

    def addresses(self) -> list[BindingRecord]:
        return self._named(ADDRESS_BINDING, _ADDRESSES)

    def queues(self) -> list[BindingRecord]:
        return self._named(QUEUE_BINDING, _QUEUES)

    def _named(self, kind: int, statement: str) -> list[BindingRecord]:
        """The own definitions, and those of inherited sessions under other names."""
        found: dict[str, BindingRecord] = {}
        for number in reversed(self._sessions):
            for (text,) in self._connection.rows(statement, (number,)):
                value = json.loads(text)
                found.setdefault(value["name"], BindingRecord(kind, value))
        return list(found.values())

    @cached_property
    def _here(self) -> Mapping[int, Mapping[int, int]]:
        """By inherited session: the ids of queues by those that they have there."""
        ids: dict[Any, Any] = {record.value["name"]: record.value["id"] for record in self.queues()}
        found: dict[int, Mapping[int, int]] = {}
        for number in self.inherited:
            values = [json.loads(text) for (text,) in self._connection.rows(_QUEUES, (number,))]
            found[number] = {value["id"]: ids[value["name"]] for value in values}
        return found

    def _queue_id(self, session: int, queue_id: int) -> int:
        return queue_id if session == self.session else self._here[session].get(queue_id, queue_id)

    def settings(self) -> list[BindingRecord]:
        found = self._connection.rows(_SETTINGS, (self.session,))
        names = ("kind", "key", "value")
        return [BindingRecord(SETTING_BINDING, dict(zip(names, map(given, row), strict=True))) for row in found]

    def branches(self) -> list[BranchRecord]:
        found: list[BranchRecord] = []
        for number in self._sessions:
            for (record,) in self._connection.rows(_BRANCHES, (number,)):
                for each in decode_records(memoryview(bytes(record))):
                    if isinstance(each, BranchRecord):
                        held = tuple((self._queue_id(number, queue_id), message_id) for queue_id, message_id in each.acknowledged)
                        found.append(replace(each, acknowledged=held))
        return found

    def duplicate_ids(self) -> Iterator[DuplicateIdsRecord]:
        for number in self._sessions:
            yield from self._duplicate_ids(number)

    def _duplicate_ids(self, session: int) -> Iterator[DuplicateIdsRecord]:
        last = 0
        while rows := self._connection.rows(_DUPLICATES, (session, last, PIECE_ROWS)):
            for last, cache, size, ids in rows:
                yield DuplicateIdsRecord(last, given(cache), size, bytes(ids))

    def messages(self) -> Iterator[StoredRow]:
        """All messages, in order, also those of branches."""
        for number in self._sessions:
            yield from self._messages(number)

    def _messages(self, session: int) -> Iterator[StoredRow]:
        last = 0
        while rows := self._connection.rows(_MESSAGES, (session, last, PIECE_ROWS)):
            first, last = last, rows[-1][0]
            references: dict[int, list[tuple[int, int, int]]] = {}
            for place, queue_id, deliveries, due in self._connection.rows(_REFERENCES, (session, first, last)):
                references.setdefault(place, []).append((self._queue_id(session, queue_id), deliveries, due))
            for row in rows:
                if row[0] in references:
                    yield _stored(row, references[row[0]])

    def body(self, body_id: int, size: int) -> Iterator[bytes]:
        """The body of a large message, piece by piece.  Raises OSError where a piece is missing or cut off."""
        for number, offset in enumerate(range(0, size, PIECE_SIZE)):
            found = (rows for session in self._sessions if (rows := self._connection.rows(_PIECE, (session, body_id, number))))
            data = bytes(next(found, [(b"",)])[0][0])
            if len(data) != min(PIECE_SIZE, size - offset):
                raise OSError(f"{self.name}: the body {body_id} is missing or cut off")
            yield data

    def has_body(self, body_id: int, size: int) -> bool:
        """Is the whole body there?"""
        return any(int(self._connection.rows(_BODY_SIZE, (number, body_id))[0][0]) == size for number in self._sessions)


@contextmanager
def snapshot(database: Database) -> Iterator[tuple[Connection, list[FoundSession]]]:
    """A connection that sees one state of the database, and the sessions there; of one broker in the order that :class:`Contents` wants.

    Raises DatabaseError.
    """
    try:
        connection = database.connect()
        try:
            if schema.version_of(connection) is None:
                raise DatabaseError(f"{database.name}: there are no tables of a broker")
            connection.begin_reading()
            schema.check(database, connection)
            sessions = connection.rows(_SESSIONS)
            yield connection, [FoundSession(number, node_id, broker, bool(current)) for number, node_id, broker, current in sessions]
            connection.rollback()
        finally:
            connection.close()
    except DatabaseAwayError as error:
        raise DatabaseError(str(error)) from error


def _stored(row: tuple[Any, ...], references: list[tuple[int, int, int]]) -> StoredRow:
    place, folder, stated, headers, raw, branch, body, body_size = row
    buffer = bytes(raw)
    address = given(folder if stated is None else stated)
    damage, own = "", address
    try:
        message = decode_message(buffer) if body is None else decode_headers(buffer, headers)
        own = message.address or ""
    except (MQError, ValueError, IndexError, struct.error) as error:
        damage = str(error) or type(error).__name__
    message_id = _I64.unpack_from(buffer, headers)[0] if 0 <= headers <= len(buffer) - _I64.size else 0
    record = MessageRecord(
        message_id,
        headers,
        tuple(queue_id for queue_id, _, _ in references),
        buffer,
        None if own == address else address,
        body,
        body_size or 0,
        False,
        branch,
    )
    return StoredRow(place, address, record, references, damage)
