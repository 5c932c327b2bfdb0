"""A batch of the store in a database: its statements, and what they change in the accounts of the pages, applied at the commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, PagedMessage, PageFolder, PagePlace, PageReader, QueueRecord, StoreBatch
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.storage.files.bindings import address_value, queue_value
from mqbroker.storage.files.branches import encode_record
from mqbroker.storage.sql import removals, work
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.texts import kept
from mqbroker.storage.sql.work import Work

if TYPE_CHECKING:
    from mqbroker.storage.sql.bodies import SqlBodies
    from mqbroker.storage.sql.folder import SqlFolder
    from mqbroker.storage.sql.source import Origin, Source

_PUT_ADDRESS = table(
    "INSERT INTO {address} (session, id, value) VALUES (?, ?, ?) ON CONFLICT (session, id) DO UPDATE SET value = excluded.value"
)
_PUT_QUEUE = table(
    "INSERT INTO {queue} (session, id, value) VALUES (?, ?, ?) ON CONFLICT (session, id) DO UPDATE SET value = excluded.value"
)
_PUT_SETTING = table(
    "INSERT INTO {setting} (session, kind, name, value) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (session, kind, name) DO UPDATE SET value = excluded.value"
)
_PUT_BRANCH = table(
    "INSERT INTO {branch} (session, branch, record) VALUES (?, ?, ?) ON CONFLICT (session, branch) DO UPDATE SET record = excluded.record"
)
_REMOVE_ADDRESS = table("DELETE FROM {address} WHERE session = ? AND id = ?")
_REMOVE_QUEUE = table("DELETE FROM {queue} WHERE session = ? AND id = ?")
_REMOVE_SETTING = table("DELETE FROM {setting} WHERE session = ? AND kind = ? AND name = ?")
_REMOVE_BRANCH = table("DELETE FROM {branch} WHERE session = ? AND branch = ?")
_OF_BRANCH = "session = ? AND branch = ? AND branch <> 0"
"""The condition for the messages of a branch; its end is what the index has."""
_COMMIT_BRANCH = table(f"UPDATE {{message}} SET branch = 0 WHERE {_OF_BRANCH}")
_DROP_BRANCH_REFERENCES = table(
    f"DELETE FROM {{reference}} WHERE session = ? AND place IN (SELECT place FROM {{message}} WHERE {_OF_BRANCH})"
)
_DROP_BRANCH_MESSAGES = table(f"DELETE FROM {{message}} WHERE {_OF_BRANCH}")
_DROP_BRANCH_BODIES = table(
    f"DELETE FROM {{body}} WHERE session = ? AND body IN (SELECT body FROM {{message}} WHERE {_OF_BRANCH} AND body IS NOT NULL) "
    "AND NOT EXISTS (SELECT 1 FROM {message} m WHERE m.session = {body}.session AND m.body = {body}.body AND m.branch <> ?)"
)


class Kept:
    """The ``store_state`` of a message in memory that the database has: its place, and the queue that alone has it there, None = several.

    A queue that has become durable since may acknowledge a message, too, that the database has for another queue alone.
    """

    __slots__ = ("place", "single")

    def __init__(self, place: int, single: int | None) -> None:
        self.place = place
        self.single = single


class KeptElsewhere(Kept):
    """As :class:`Kept`, for a message in an inherited session."""

    __slots__ = ("origin",)

    def __init__(self, place: int, origin: Origin) -> None:
        super().__init__(place, None)
        self.origin = origin


class Origins:
    """The inherited sessions, also by the branches that are in them."""

    def __init__(self) -> None:
        self.all: list[Origin] = []
        self.branches: dict[int, Origin] = {}


class SqlBatch(StoreBatch):
    """See :class:`mqbroker.messaging.ports.StoreBatch`.

    ``effects`` change the accounts of pages, and which messages the database has, at the commit; ``paged`` are the messages for pages.
    """

    __slots__ = ("_bodies", "_origins", "_session", "effects", "held", "paged", "settled", "work")

    def __init__(self, session: int, bodies: SqlBodies, origins: Origins) -> None:
        self._session = session
        self._bodies = bodies
        self._origins = origins
        self.work = Work()
        self.effects: list[Callable[[], object]] = []
        self.held: list[Message] = []
        """Large messages whose bodies the store holds until they are written."""
        self.settled: list[LargeBody] = []
        """Bodies that a message named which goes."""
        self.paged: list[tuple[SqlFolder, Message, tuple[int, ...], tuple[int, ...], int]] = []

    # --- messages

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        if queue_ids:
            self.put_message(message, message.message_id, message.address, queue_ids, queue_ids, paged=False)

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        for message in messages:
            self.add_message(message, queue_ids)

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        if queue_ids:
            self.put_message(message, message.message_id, message.address, queue_ids, queue_ids, paged=False, branch=branch_id)

    def put_message(
        self,
        message: Message,
        place: int,
        folder: str,
        queue_ids: Sequence[int],
        durable_ids: Sequence[int],
        *,
        paged: bool,
        branch: int = 0,
    ) -> None:
        """The rows of a message."""
        body = message.large
        stated = None if message.address == folder else message.address
        size = None if body is None else body.size
        identity = None if body is None else body.body_id
        folder = kept(folder)
        row = (
            self._session,
            place,
            None if place == message.message_id else message.message_id,
            folder,
            stated and kept(stated),
            message.headers,
            message.buffer,
            int(message.durable),
            branch,
            identity,
            size,
        )
        self.work.add(work.ADD_MESSAGE, row)
        for queue_id in queue_ids:
            self.work.add(work.ADD_REFERENCE, (self._session, queue_id, place, folder, int(paged), int(queue_id in durable_ids)))
        if body is not None:
            self.held.append(message)
            self.work.store_bodies.append(self._bodies.storing(body, self._session))
        if not paged:
            self.effects.append(lambda: _keep(message, Kept(place, queue_ids[0] if len(queue_ids) == 1 else None)))
        due = scheduled_time_of(message)
        if due:
            for queue_id in queue_ids:
                self.work.add(work.SET_DUE, (due, self._session, queue_id, place))

    def acknowledge(self, queue_id: int, message: Message) -> None:
        state = message.store_state
        session, queue, place = self._row(queue_id, message)
        self.work.add(work.REMOVE_REFERENCE, (session, queue, place))
        alone = isinstance(state, Kept) and state.single == queue_id
        self.work.add(work.REMOVE_MESSAGE if alone else work.REMOVE_UNREFERENCED, (session, place))
        if message.large is not None:
            self.settled.append(message.large)
            self.work.bodies += work.body_removals(session, message.large.body_id, message.large.size)
        if isinstance(state, PagePlace):
            source: Source = state.page
            self.effects.append(lambda: source.folder.settled(queue_id, source, message.durable))
        elif isinstance(state, KeptElsewhere):
            self.effects.append(lambda: state.origin.acknowledged(queue_id, place))

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None:
        self.work.add(work.SET_DELIVERIES, (count, *self._row(queue_id, message)))

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        self.work.add(work.SET_DUE, (time_ms, *self._row(queue_id, message)))

    def _row(self, queue_id: int, message: Message) -> tuple[int, int, int]:
        """The reference of a queue: session, the queue's id there, place."""
        state = message.store_state
        if isinstance(state, PagePlace):
            source: Source = state.page
            return source.session, source.queue_id, state.index
        if isinstance(state, KeptElsewhere):
            return state.origin.session, state.origin.queues[queue_id], state.place
        return self._session, queue_id, state.place if isinstance(state, Kept) else message.message_id

    # --- pages

    def add_paged(self, folder: PageFolder, message: Message, queue_ids: Sequence[int], durable_ids: Sequence[int], page_size: int) -> None:
        own: SqlFolder = folder  # type: ignore[assignment]
        self.paged.append((own, message, tuple(queue_ids), tuple(durable_ids), page_size))

    def acknowledge_unread(self, reader: PageReader) -> int:
        passage = reader.unread()  # type: ignore[attr-defined]
        self.work.join(passage.work)
        self.effects.append(passage.go_on)
        messages: int = passage.messages
        return messages

    def acknowledge_until(self, reader: PageReader, key: int) -> tuple[int, bool, list[PagedMessage]]:
        passage = reader.unread_until(key)  # type: ignore[attr-defined]
        self.work.join(passage.work)
        self.effects.append(passage.go_on)
        return passage.messages, passage.more, passage.taken

    # --- duplicate ids, branches

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None:
        self.add_duplicate_ids(cache, len(duplicate_id), duplicate_id, record_id)

    def add_duplicate_ids(self, cache: str, size: int, ids: bytes, record_id: int) -> None:
        self.work.add(work.ADD_DUPLICATE, (self._session, record_id, kept(cache), size, bytes(ids)))

    def delete_duplicate_id(self, record_id: int) -> None:
        self.work.add(work.REMOVE_DUPLICATE, (self._session, record_id))

    def put_branch(self, record: BranchRecord) -> None:
        origin = self._origins.branches.get(record.branch_id)
        if origin is None:
            self._ordered(_PUT_BRANCH, self._session, record.branch_id, encode_record(record))
        else:
            self._put_elsewhere(origin, record)

    def _put_elsewhere(self, origin: Origin, record: BranchRecord) -> None:
        """A branch of an inherited session, with the queue ids of that session."""
        acknowledged = tuple((origin.queues[queue_id], number) for queue_id, number in record.acknowledged if queue_id in origin.queues)
        self._ordered(_PUT_BRANCH, origin.session, record.branch_id, encode_record(replace(record, acknowledged=acknowledged)))
        self.effects.append(lambda: origin.branches.setdefault(record.branch_id, []))

    def end_branch(self, branch_id: int, commit: bool) -> None:
        origin = self._origins.branches.get(branch_id)
        session = self._session if origin is None else origin.session
        if commit:
            self._ordered(_COMMIT_BRANCH, session, branch_id)
        else:
            self._ordered(_DROP_BRANCH_REFERENCES, session, session, branch_id)
            self._ordered(_DROP_BRANCH_BODIES, session, session, branch_id, branch_id)
            self._ordered(_DROP_BRANCH_MESSAGES, session, branch_id)
        self._ordered(_REMOVE_BRANCH, session, branch_id)
        if origin is not None:
            self.effects.append(lambda: origin.branch_ended(branch_id, commit))

    # --- definitions and settings

    def put_address(self, record: AddressRecord) -> None:
        self._ordered(_PUT_ADDRESS, self._session, record.address_id, json.dumps(address_value(record)))

    def delete_address(self, address_id: int) -> None:
        self._ordered(_REMOVE_ADDRESS, self._session, address_id)

    def put_queue(self, record: QueueRecord) -> None:
        self._ordered(_PUT_QUEUE, self._session, record.queue_id, json.dumps(queue_value(record)))

    def delete_queue(self, queue_id: int) -> None:
        remove_queue(self.work, self._session, queue_id)
        for origin in self._origins.all:
            if queue_id in origin.queues:
                remove_queue(self.work, origin.session, origin.queues[queue_id])
                self.effects.append(partial(origin.queue_gone, queue_id))

    def put_setting(self, kind: str, key: str, value: str) -> None:
        self._ordered(_PUT_SETTING, self._session, kept(kind), kept(key), kept(value))

    def delete_setting(self, kind: str, key: str) -> None:
        self._ordered(_REMOVE_SETTING, self._session, kept(kind), kept(key))

    def _ordered(self, statement: str, *parameters: object) -> None:
        self.work.ordered.append((statement, parameters))


def remove_queue(work: Work, session: int, queue_id: int) -> None:
    """A queue goes, with everything that a session has of it."""
    work.ordered.append((_REMOVE_QUEUE, (session, queue_id)))
    removals.mark_queue(work, session, queue_id)


def _keep(message: Message, kept: Kept) -> None:
    message.store_state = kept
