"""Bodies of large messages: a local file as they come in, and rows of pieces with the first batch that names them.

The local file is kept as long as a message in memory uses the body.  A body without a local file is brought from the database when it is
read, and only its reader waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.database import Connection, DatabaseAwayError
from mqbroker.storage.sql.schema import table

PIECE_SIZE = 256 * 1024
"""Bytes of a body in one row."""

LOOKED_AT_MAX = 64
"""Bodies in local files that nobody holds: browsers and readers look at them, and come back for the next part."""

_IS_NAMED = table("SELECT 1 FROM {message} WHERE session IN (?, ?) AND body = ? LIMIT 1")
_ADD_PIECE = table("INSERT INTO {body} (session, body, piece, data) VALUES (?, ?, ?, ?)")
_HAS_BODY = table("SELECT 1 FROM {body} WHERE session = ? AND body = ? LIMIT 1")
PIECE = table("SELECT data FROM {body} WHERE session IN (?, ?) AND body = ? AND piece = ? LIMIT 1")
_COPY = table(
    "INSERT INTO {body} (session, body, piece, data) SELECT ?, body, piece, data FROM {body} WHERE session = ? AND body = ? "
    "ON CONFLICT DO NOTHING"
)


class SqlLargeBody(FileLargeBody):
    """A body whose pieces may be in the database alone, in the rows of ``session``; those of the own one are looked for as well."""

    __slots__ = ("__weakref__", "absent", "kept", "session")

    def __init__(
        self, owner: LargeBodies, session: int, body_id: int, path: str, size: int = 0, holders: int = 1, *, absent: bool = False
    ) -> None:
        super().__init__(owner, body_id, path, size, holders)
        self.session = session
        self.absent = absent
        """Is the local file missing?"""
        self.kept = False
        """The thread that writes has made the local file, which is all that there is."""
        self.stored = self.finished = absent


class SqlBodies(LargeBodies):
    """Bodies in the folder ``directory`` and in the database.  The thread ``reading`` brings them; ``call_later`` is the clock's."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        writer: DiskWriter,
        reading: DiskWriter,
        connections: Connections,
        call_later: Callable[..., object],
        after_sync: Callable[[Callable[[], object]], object],
        on_failure: Callable[[BaseException], object],
        pause: float,
    ) -> None:
        super().__init__(file_system, directory, writer, False, after_sync, on_failure)
        self.session = 0
        self._files = file_system
        self._reading = reading
        self._connections = connections
        self._call_later = call_later
        self._failed = on_failure
        self._pause = pause
        self._known: WeakValueDictionary[int, SqlLargeBody] = WeakValueDictionary()
        self._coming: dict[int, list[Callable[[], object]]] = {}
        self._let_go: set[int] = set()
        """The bodies of ``_coming`` whose last holder has gone; browsers and readers that only look are no holders."""
        self._looked_at: dict[int, SqlLargeBody] = {}
        """The bodies in local files that nobody holds, the one that was read last at the end."""
        self._going: dict[str, list[Callable[[], object]]] = {}
        """Files that the writing thread is about to remove, with who waits for that: the reading thread must not bring them before."""

    def create(self, body_id: int) -> SqlLargeBody:
        body = self._known[body_id] = SqlLargeBody(self, self.session, body_id, self.path(body_id))
        return body

    def stored(self, body_id: int, size: int, session: int) -> SqlLargeBody:
        """The body of a message that was read from the database, in a session; nobody holds a new one."""
        body = self._known.get(body_id)
        if body is None or body.removed:
            body = self._known[body_id] = SqlLargeBody(self, session, body_id, self.path(body_id), size, 0, absent=size > 0)
        elif session != self.session:
            body.session = session
        return body

    def storing(self, body: LargeBody, session: int) -> Callable[[Connection], object]:
        """The step that puts the pieces of ``body`` into the database, unless they are there; run where the database is written."""
        assert isinstance(body, SqlLargeBody), "a large message's body must come from this store"
        body.stored = True
        if not body.size or (body.absent and body.session == session):
            return _nothing
        self.flush()
        return partial(self._store, body, body.size, session)

    def outlives(self, body: LargeBody) -> bool:
        """A message that names ``body`` goes: does somebody in memory go on using it, with the database as its only place?

        That is a copy that is not stored, such as an expired message that is not durable.
        """
        assert isinstance(body, SqlLargeBody)
        return body.absent and body.holders > 1

    def keeping(self, body: LargeBody) -> Callable[[Connection], object]:
        """The step that makes the local file before the last pieces of ``body`` go, in the transaction that removes them."""
        assert isinstance(body, SqlLargeBody)
        return partial(self._keep, body)

    def written(self, body: SqlLargeBody) -> None:
        """A transaction that needed ``body`` is over: it is held for that no longer."""
        if body.kept and body.body_id not in self._coming:
            body.absent = False
        body.release()

    def read(self, body: FileLargeBody, offset: int, size: int) -> bytes:
        if isinstance(body, SqlLargeBody) and body.removed and body.stored:
            # The last message in memory has taken the local file along, and a reader of pages has found the body before.
            body = self.stored(body.body_id, body.size, body.session)
        if isinstance(body, SqlLargeBody) and body.absent:
            if body.body_id not in self._coming:
                self._coming[body.body_id] = []
                self._bring(body)
            raise NotYet(self._coming[body.body_id].append)
        looked_at = self._looked_at.pop(body.body_id, None)
        if looked_at is not None:
            self._looked_at[body.body_id] = looked_at
        return super().read(body, offset, size)

    def close(self) -> None:
        super().close()
        self._coming.clear()
        self._looked_at.clear()

    def _remove(self, body: FileLargeBody) -> None:
        if body.removed:
            return
        if isinstance(body, SqlLargeBody) and body.absent:
            if body.body_id in self._coming:
                self._let_go.add(body.body_id)
            return
        super()._remove(body)
        if body.removed and body.size:
            self._looked_at.pop(body.body_id, None)
            self._going[body.path] = []

    def _removed(self, path: str, error: Exception | None) -> None:
        super()._removed(path, error)
        for function in self._going.pop(path):
            function()

    # --- steps of the writing and of the reading thread

    def _store(self, body: SqlLargeBody, size: int, session: int, connection: Connection) -> None:
        self._check()
        if connection.rows(_HAS_BODY, (session, body.body_id)):
            return
        if body.session != session and connection.run(_COPY, (session, body.session, body.body_id)):
            return
        for number, offset in enumerate(range(0, size, PIECE_SIZE)):
            data = self._files.read(body.path, offset, min(PIECE_SIZE, size - offset))
            connection.run(_ADD_PIECE, (session, body.body_id, number, data))

    def _keep(self, body: SqlLargeBody, connection: Connection) -> None:
        sessions = self.session, body.session
        if connection.rows(_IS_NAMED, (*sessions, body.body_id)):
            return
        file = self._files.open(body.path)
        try:
            for number, offset in enumerate(range(0, body.size, PIECE_SIZE)):
                [(data,)] = connection.rows(PIECE, (*sessions, body.body_id, number))
                file.write(offset, bytes(data))
        finally:
            file.close()
        body.kept = True

    def _fetch(self, body: SqlLargeBody) -> None:
        file = self._files.open(body.path)
        try:
            for number, offset in enumerate(range(0, body.size, PIECE_SIZE)):
                wanted = (self.session, body.session, body.body_id, number)
                found = self._connections.read(lambda connection, wanted=wanted: connection.rows(PIECE, wanted))  # type: ignore[misc]
                if not found:
                    return  # its message has been removed meanwhile; who still needs it has the local file
                file.write(offset, bytes(found[0][0]))
        finally:
            file.close()

    # --- on the loop

    def _bring(self, body: SqlLargeBody) -> None:
        going = self._going.get(body.path)
        if going is not None:
            going.append(partial(self._bring_again, body))
        else:
            self._reading.submit([partial(self._fetch, body)], partial(self._brought, body))

    def _brought(self, body: SqlLargeBody, error: Exception | None) -> None:
        if self.closed:
            return
        if isinstance(error, DatabaseAwayError):
            self._call_later(self._pause, self._bring_again, body)
            return
        if error is not None:
            self._failed(error)
            return
        body.absent = False
        for function in self._coming.pop(body.body_id):
            function()
        if body.body_id in self._let_go:
            self._let_go.discard(body.body_id)
            self._remove(body)
        elif body.holders <= 0 and not body.removed:
            self._looked_at[body.body_id] = body
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Remove the local files of bodies that were read longest ago; a browser or reader that still looks at one has it brought again."""
        while len(self._looked_at) > LOOKED_AT_MAX:
            body = self._looked_at.pop(next(iter(self._looked_at)))
            if body.holders <= 0:
                body.absent = True
                self._going[body.path] = []
                self._writer.submit([partial(self._files.remove, body.path)], partial(self._removed, body.path))

    def _bring_again(self, body: SqlLargeBody) -> None:
        if not self.closed:
            self._bring(body)


def _nothing(connection: Connection) -> None: ...
