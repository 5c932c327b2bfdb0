"""Salvage of a damaged journal, or of a database, into a new journal (``mqbroker data recover``).

Every frame of a journal with a correct checksum is taken, in order; damaged bytes between are skipped.  The contents of an unreadable frame
are lost: its messages, and its acknowledgements, so that consumed messages may come again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mqbroker.cli.data.here import written_store
from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.status import CommandError
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered, RecoveredBranch, RecoveredDuplicateId, RecoveredReference
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.bindings import to_address, to_queue, to_setting
from mqbroker.storage.files.branches import to_branch
from mqbroker.storage.files.recover import SalvagedState, recovered_of, refill, refill_branches, refill_messages, salvage_state
from mqclient.storageformat.errors import Loss
from mqclient.storageformat.records import duplicate_ids_of
from mqclient.storageformat.replay import State

if TYPE_CHECKING:
    from mqbroker.storage.files.filestore import FileStore
    from mqbroker.storage.files.largebodies import FileLargeBody
    from mqbroker.storage.files.restore import Entry
    from mqbroker.storage.sql.contents import Contents, StoredRow

WRITE_SIZE: Final = 8 * 1024 * 1024


def salvage(folders: DataFolders) -> SalvagedState:
    """Read all readable records of both journals.  Changes nothing."""
    return salvage_state(LocalFileSystem(), folders.settings())


def write_journal(found: SalvagedState, source: DataFolders, target: DataFolders, unwritten_max: int = WRITE_SIZE) -> None:
    """Write the salvaged state into a new store in empty folders, with copies of the large bodies; all is on the disk when this returns.

    ``unwritten_max`` is the number of bytes that gather before they are written and synced.  Empties ``found.state``.  Raises
    :class:`CommandError` when the store cannot be made or written.
    """
    with _new_journal(target, found.node_id, found.state.id_limit, unwritten_max) as (store, written):
        refill(recovered_of(LocalFileSystem(), source.settings(), found.state), store, written)


def salvage_rows(contents: Contents, target: DataFolders, unwritten_max: int = WRITE_SIZE) -> tuple[SalvagedState, int]:
    """Write all readable rows of a database into a new store in empty folders.  Returns what is lost, and how many messages were saved.

    Raises :class:`CommandError` when the store cannot be made or written.
    """
    found = SalvagedState(State(), [], node_id=uuid.UUID(contents.node_id).bytes)
    rows = _Rows(contents, found)
    with _new_journal(target, found.node_id, contents.next_id(), unwritten_max) as (store, written):
        refill(rows.definitions(), store, written)
        bodies: dict[int, FileLargeBody] = {}
        refill_messages(rows.messages(), store, written, bodies)
        refill_branches(rows.branches.values(), store, written, bodies)
    return found, rows.saved


@contextmanager
def _new_journal(
    target: DataFolders, node_id: bytes | None, id_limit: int, unwritten_max: int
) -> Iterator[tuple[FileStore, Callable[[], object]]]:
    """A new store, and what lets it write when much has gathered; everything is on the disk at the end.  Raises CommandError."""
    with written_store(target) as (store, here):
        try:
            store.open(None if node_id is None else str(uuid.UUID(bytes=node_id)))
            store.load(max(id_limit, 1))
        except (StorageError, OSError) as error:
            raise CommandError(f"{target.journal}: {error}") from error
        yield store, lambda: here.run() if store.backlog > unwritten_max else None


class _Rows:
    """The rows of a database as a store takes them; what cannot be taken is told to ``found``."""

    def __init__(self, contents: Contents, found: SalvagedState) -> None:
        self.saved = 0
        self.branches = {branch.branch_id: RecoveredBranch(to_branch(branch)) for branch in contents.branches()}
        self._contents = contents
        self._found = found
        self._queues = [to_queue(record.value) for record in contents.queues()]
        self._known = {queue.queue_id for queue in self._queues}

    def definitions(self) -> Recovered:
        """The addresses, queues, settings and duplicate ids."""
        contents = self._contents
        recovered = Recovered()
        recovered.addresses = [to_address(record.value) for record in contents.addresses()]
        recovered.queues = self._queues
        recovered.settings = dict(to_setting(record.value) for record in contents.settings())
        recovered.duplicate_ids = [
            RecoveredDuplicateId(record.cache, duplicate_id, record.record_id)
            for record in contents.duplicate_ids()
            for duplicate_id in duplicate_ids_of(record)
        ]
        return recovered

    def messages(self) -> Iterator[Entry]:
        """The messages that belong to no branch; those of branches are added to :attr:`branches` on the way."""
        for row in self._contents.messages():
            record = row.record
            references = [
                RecoveredReference(queue_id, deliveries, max(due, 0))
                for queue_id, deliveries, due in row.references
                if queue_id in self._known
            ]
            if not self._lost(row, references):
                self.saved += 1
                body = None if record.body_id is None else RowBody(self._contents, record.body_id, record.body_size)
                entry = Message.read(record.buffer, record.headers, row.address, body), references
                if record.branch_id:
                    self.branches[record.branch_id].messages.append(entry)
                else:
                    yield entry

    def _lost(self, row: StoredRow, references: list[RecoveredReference]) -> bool:
        found, record, contents = self._found, row.record, self._contents
        if row.damage:
            place = f"{contents.name}, the message at place {row.place}"
            found.losses.append(Loss(place, 0, len(record.buffer), (record.message_id,), row.damage))
        elif not references:
            found.without_queue.append(record.message_id)
        elif record.branch_id and record.branch_id not in self.branches:
            found.without_branch.append(record.message_id)
        elif record.body_id is not None and not contents.has_body(record.body_id, record.body_size):
            found.missing_bodies[record.message_id] = record.body_id
        else:
            return False
        return True


class RowBody:
    """The body of a large message in a database, to be copied: see :class:`mqbroker.messaging.message.large_body.LargeBody`."""

    def __init__(self, contents: Contents, body_id: int, size: int) -> None:
        self.body_id = body_id
        self.size = size
        self._pieces = contents.body(body_id, size)
        self._rest = b""
        self._at = 0

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes; offsets ascend without a gap."""
        if offset != self._at:
            raise ValueError(f"the body is read once, from its start to its end: {self._at} comes next, not {offset}")
        while len(self._rest) < size and (piece := next(self._pieces, None)) is not None:
            self._rest += piece
        found, self._rest = self._rest[:size], self._rest[size:]
        self._at += len(found)
        return found

    def append(self, chunk: bytes) -> None:
        raise RuntimeError("this body is only read")

    def complete(self) -> None:
        """The body is complete."""

    def hold(self) -> None:
        """Nobody removes it."""

    def release(self) -> None:
        """Nobody removes it."""
