"""Bodies of large messages: one file each, written in pieces as they come in.

Chunks go to the disk writer; what waits there is bounded, and beyond that bound a chunk is written at once, which slows the loop
down to the speed of the disk.  Few files stay open between chunks: clients may begin any number of bodies.

A body is synced before the first record that names it is written.  Its file goes when no message holds the body and no stored record names
it, and not before the record that says so is durable.  A file that nobody names after a restart is removed.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from twisted.logger import Logger

from mqbroker.storage.disk.diskwriter import DiskWriter, Step
from mqbroker.storage.disk.filesystem import File, FileSystem, join
from mqclient.storageformat.files import BODY_SUFFIX

IN_FLIGHT_MAX = 8 * 1024 * 1024
"""Bytes of chunks of large messages that may wait for the disk writer, over all bodies."""

OPEN_FILES_MAX = 64
"""Files of incomplete large messages that stay open for their next chunk; those of others are opened again."""


class FileLargeBody:
    """A body in a file.  ``holders`` counts messages in memory, ``records`` stored messages that name it; a new one is held once."""

    __slots__ = (
        "_owner",
        "body_id",
        "durable",
        "finished",
        "holders",
        "path",
        "pending",
        "records",
        "removed",
        "size",
        "stored",
    )

    def __init__(self, owner: LargeBodies, body_id: int, path: str, size: int = 0, holders: int = 1, durable: bool = False) -> None:
        self._owner = owner
        self.body_id = body_id
        self.path = path
        self.size = size
        self.holders = holders
        self.records = holders if durable else 0
        self.durable = durable
        """Its sync was handed to the disk writer, before any record that names it."""
        self.stored = durable
        """A stored message names it, or did."""
        self.finished = durable
        self.removed = False
        self.pending: deque[tuple[int, bytes]] = deque()
        """Chunks not written yet, with their offsets, in order."""

    def append(self, chunk: bytes) -> None:
        if self.finished:
            raise ValueError(f"the body of large message {self.body_id} is complete")
        offset = self.size
        self.size += len(chunk)
        self._owner.write(self, offset, chunk)

    def complete(self) -> None:
        if not self.finished:
            self.finished = True
            self._owner.finish(self)

    def read(self, offset: int, size: int) -> bytes:
        wanted = min(size, self.size - offset)
        if wanted <= 0:
            return b""
        return self._owner.read(self, offset, wanted)

    def hold(self) -> None:
        self.holders += 1

    def release(self) -> None:
        self.holders -= 1
        if self.holders <= 0:
            self._owner.unused(self)

    def record_added(self) -> None:
        """A stored message names this body."""
        self.records += 1
        self.stored = True

    def record_gone(self) -> None:
        self.records -= 1
        if self.holders <= 0 and self.records <= 0:
            self._owner.unused(self)


class LargeBodies:
    """The folder of large messages.

    ``after_sync`` calls a function once everything committed so far is durable.  ``on_failure`` hears of a failed write.
    """

    _log = Logger()

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        writer: DiskWriter,
        sync: bool,
        after_sync: Callable[[Callable[[], object]], object],
        on_failure: Callable[[BaseException], object],
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._writer = writer
        self._sync = sync
        self._after_sync = after_sync
        self._on_failure = on_failure
        self._gathered: dict[FileLargeBody, list[tuple[int, bytes]]] = {}
        """Chunks with their offsets that the disk writer has not been given yet."""
        self._open: dict[FileLargeBody, File] = {}
        """Belongs to the disk writer; the one used last is the last one."""
        self._running = 0
        self._error: OSError | None = None
        """Of a write that failed, whose report may still be under way: what was to be written together with that one is missing, too."""
        self.in_flight = 0
        self.closed = False

    def path(self, body_id: int) -> str:
        return join(self._directory, f"{body_id}{BODY_SUFFIX}")

    def create(self, body_id: int) -> FileLargeBody:
        return FileLargeBody(self, body_id, self.path(body_id))

    def recovered(self, body_id: int, size: int, messages: int) -> FileLargeBody:
        """A body that ``messages`` recovered messages name, each of which holds it."""
        return FileLargeBody(self, body_id, self.path(body_id), size, messages, durable=True)

    def remove_orphans(self, named: Collection[int], below: int | None = None) -> list[str]:
        """Remove the files of bodies ``below`` an id (None = all) that nothing names; returns their names.  Blocks: for the start."""
        orphans = []
        for name in self._file_system.list(self._directory):
            number = name.removesuffix(BODY_SUFFIX)
            found = int(number) if name.endswith(BODY_SUFFIX) and number.isdecimal() else None
            if found is not None and found not in named and (below is None or found < below):
                self._file_system.remove(join(self._directory, name))
                orphans.append(name)
        return orphans

    def write(self, body: FileLargeBody, offset: int, chunk: bytes) -> None:
        """One more chunk of a body."""
        if self.closed or body.removed:
            return
        if self.in_flight + len(chunk) > IN_FLIGHT_MAX:
            try:
                file = self._file_system.open(body.path)
                try:
                    file.write(offset, chunk)
                finally:
                    file.close()
            except OSError as error:
                self._error = error
                self._on_failure(error)
            return
        piece = offset, chunk
        body.pending.append(piece)
        self.in_flight += len(chunk)
        self._gathered.setdefault(body, []).append(piece)
        if not self._running:
            self.flush()

    def finish(self, body: FileLargeBody) -> None:
        """No more chunks: the file is closed after the last one."""
        if body.size and not self.closed:
            self._gathered.setdefault(body, [])
            if not self._running:
                self.flush()

    def read(self, body: FileLargeBody, offset: int, size: int) -> bytes:
        try:
            data = self._file_system.read(body.path, offset, size)
        except FileNotFoundError:
            if not body.pending:
                raise
            data = b""  # the disk writer has not come to it yet
        if not body.pending:
            if len(data) < size:
                raise OSError(errno.EIO, f"the body of a large message ends {size - len(data)} bytes too early", body.path)
            return data
        written = memoryview(data.ljust(size, b"\0"))
        pieces: list[bytes | memoryview] = []
        end = offset
        for start, chunk in body.pending:
            low, high = max(start, offset), min(start + len(chunk), offset + size)
            if low < high:
                pieces += written[end - offset : low - offset], chunk[low - start : high - start]
                end = high
        pieces.append(written[end - offset :])
        return b"".join(pieces)

    def sync_steps(self, body: FileLargeBody) -> list[Step]:
        """The steps that make the body whole and durable, to be run before a record that names it; none when that was done."""
        if body.durable or not body.size:
            return []
        if not self._sync:
            return [self._check]
        body.durable = True
        return [partial(self._sync_file, body), partial(self._file_system.sync_directory, self._directory)]

    def flush(self) -> None:
        """Hand over what has gathered."""
        if self._gathered:
            gathered, self._gathered = self._gathered, {}
            self._running += 1
            self._writer.submit([partial(self._write, body, pieces) for body, pieces in gathered.items()], partial(self._written, gathered))

    def unused(self, body: FileLargeBody) -> None:
        """The last one let go; a stored record may still name it, or be about to vanish."""
        if body.records > 0 or body.removed or self.closed:
            return
        if body.stored:
            self._after_sync(partial(self._remove, body))
        else:
            self._remove(body)

    def close(self) -> None:
        """Nothing is written from now on; :meth:`close_files` follows."""
        self.closed = True
        self._gathered = {}

    def close_files(self) -> None:
        """Close the files of bodies that are still incomplete; a step of the disk writer."""
        while self._open:
            self._open.popitem()[1].close()

    def _remove(self, body: FileLargeBody) -> None:
        if body.holders > 0 or body.records > 0 or body.removed or self.closed:
            return
        body.removed = True
        body.finished = True
        if not body.size:
            return
        self.finish(body)
        self.flush()
        self._writer.submit([partial(self._file_system.remove, body.path)], partial(self._removed, body.path))

    def _removed(self, path: str, error: Exception | None) -> None:
        if error is not None:
            self._log.warn("cannot remove the file of a large message that no longer exists: {path}: {error}", path=path, error=error)

    def _write(self, body: FileLargeBody, pieces: list[tuple[int, bytes]]) -> None:
        """A step of the disk writer."""
        try:
            self._write_pieces(body, pieces)
        except OSError as error:
            self._error = error
            raise

    def _write_pieces(self, body: FileLargeBody, pieces: list[tuple[int, bytes]]) -> None:
        file = self._open.pop(body, None)
        try:
            if pieces:
                if file is None:
                    file = self._file_system.open(body.path)
                for offset, chunk in pieces:
                    file.write(offset, chunk)
        except OSError:
            if file is not None:
                file.close()
            raise
        if file is None:
            return
        if body.finished:
            file.close()
            return
        self._open[body] = file
        if len(self._open) > OPEN_FILES_MAX:
            self._open.pop(next(iter(self._open))).close()

    def _written(self, gathered: dict[FileLargeBody, list[tuple[int, bytes]]], error: Exception | None) -> None:
        self._running -= 1
        for body, pieces in gathered.items():
            for _, chunk in pieces:
                body.pending.popleft()
                self.in_flight -= len(chunk)
        if error is not None:
            self._on_failure(error)
        elif not self._running and not self.closed:
            self.flush()

    def _sync_file(self, body: FileLargeBody) -> None:
        self._check()
        file = self._file_system.open(body.path)
        try:
            file.sync()
        finally:
            file.close()

    def _check(self) -> None:
        """No record may name a body after a failed write; a step of the disk writer."""
        if self._error is not None:
            raise self._error
