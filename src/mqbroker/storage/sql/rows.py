"""Reading pieces of pages: a bounded number of rows, asked for in another thread than the loop's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.database import DatabaseAwayError
from mqbroker.storage.sql.removals import NOT_MARKED
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.texts import kept

PIECE_ROWS = 64
"""Messages that are read at a time."""

PIECES_KEPT = 64
"""Pieces that have come and were not used yet; the oldest are forgotten."""

_PIECE = table(
    "SELECT r.place, m.headers, m.buffer, m.address, m.body, m.body_size, r.deliveries, r.due, r.durable "
    "FROM {reference} r JOIN {message} m ON m.session = r.session AND m.place = r.place "
    "WHERE r.session = ? AND r.queue = ? AND r.folder = ? AND r.place > ? AND r.place <= ? "
    "AND (r.place <= ? AND r.durable = 1 OR r.place > ? AND r.paged = 1) "
    f"AND m.branch = 0 AND {NOT_MARKED} ORDER BY r.place LIMIT ?"
)


class PageRow(NamedTuple):
    """A message of a queue as the database has it.  ``due`` is ms since the epoch, 0 at once, -1 as the message says."""

    place: int
    headers: int
    buffer: bytes
    address: str | None
    body: int | None
    body_size: int | None
    deliveries: int
    due: int
    durable: int


class Piece(NamedTuple):
    """The rows that are wanted: those of a queue in a folder behind ``after``, up to ``readable``.

    ``adopted`` as in :class:`mqbroker.storage.sql.source.Source`.
    """

    session: int
    queue_id: int
    folder: str
    after: int
    readable: int
    adopted: int


class RowsRead:
    """The pieces that were asked for, read by the thread ``reading``.  ``failed`` hears of a database that refuses.

    As long as ``late`` is false everything is read at once.  A database that is away is asked again after ``pause`` seconds.
    """

    def __init__(
        self,
        connections: Connections,
        reading: DiskWriter,
        call_later: Callable[..., object],
        failed: Callable[[BaseException], object],
        pause: float,
    ) -> None:
        self.late = False
        self._connections = connections
        self._reading = reading
        self._call_later = call_later
        self._failed = failed
        self._pause = pause
        self._there: dict[Piece, list[PageRow]] = {}
        self._asked: dict[Piece, list[Callable[[], object]]] = {}
        self._closed = False

    def piece(self, piece: Piece) -> list[PageRow]:
        """The rows, in order.  Raises NotYet until they have come."""
        if not self.late:
            return self._read(piece)
        found = self._there.pop(piece, None)
        if found is not None:
            return found
        self.ask(piece)
        raise NotYet(partial(self._when_there, piece))

    def ask(self, piece: Piece) -> None:
        """Read a piece that will soon be wanted."""
        if self.late and piece not in self._asked and piece not in self._there and not self._closed:
            self._asked[piece] = []
            self._submit(piece)

    def close(self) -> None:
        """Nobody is called any more."""
        self._closed = True
        self._asked.clear()
        self._there.clear()

    def _when_there(self, piece: Piece, function: Callable[[], object]) -> None:
        waiting = self._asked.get(piece)
        if waiting is None:
            self._call_later(0, function)
        else:
            waiting.append(function)

    def _submit(self, piece: Piece) -> None:
        found: list[PageRow] = []
        self._reading.submit([lambda: found.extend(self._read(piece))], partial(self._came, piece, found))

    def _came(self, piece: Piece, found: list[PageRow], error: Exception | None) -> None:
        if self._closed:
            return
        if isinstance(error, DatabaseAwayError):
            self._call_later(self._pause, self._again, piece)
            return
        if error is not None:
            self._failed(error)
            return
        self._there[piece] = found
        while len(self._there) > PIECES_KEPT:
            del self._there[next(iter(self._there))]
        for function in self._asked.pop(piece):
            function()

    def _again(self, piece: Piece) -> None:
        if not self._closed:
            self._submit(piece)

    def _read(self, piece: Piece) -> list[PageRow]:
        session, queue_id, folder, after, readable, adopted = piece
        parameters = (session, queue_id, kept(folder), after, readable, adopted, adopted, PIECE_ROWS)
        return [PageRow(*row) for row in self._connections.read(lambda connection: connection.rows(_PIECE, parameters))]
