"""The changes of a file system as bytes (``protocol-spec/19-replication.md`` has the format).

A stream of changes begins with :class:`Begin`; from there on each change has a number, 1 for that one.  Paths are those of
:mod:`mqbroker.storage.mirror.roots`.  Numbers are big endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mqbroker.storage.errors import StorageError
from mqbroker.storage.mirror.roots import check_path

VERSION = 1

WRITE_MAX = 1024 * 1024
"""Bytes of one write in the stream of changes; a longer one is told as several."""
PATH_MAX = 600
"""Bytes of a path in the stream of changes: the longest name of a root and two names of a file system."""
FILE_SIZE_MAX = 1 << 40
"""Bytes of a file that a stream of changes may write or allocate: more says that the stream is broken."""
HANDLES_MAX = 1 << 16
"""Files that a stream of changes may have open at once: more than a process gets."""

Buffer = bytes | bytearray | memoryview


class BrokenStreamError(StorageError):
    """The bytes are no stream of changes."""


class Begin(NamedTuple):
    """A copy begins: nothing that was in the folders before counts, and no file is open."""

    version: int = VERSION


class MakeDirectory(NamedTuple):
    path: str


class RemoveDirectory(NamedTuple):
    path: str


class SyncDirectory(NamedTuple):
    path: str


class Open(NamedTuple):
    """The file is created unless there is one; ``handle`` stands for it until it is closed."""

    handle: int
    path: str


class Allocate(NamedTuple):
    handle: int
    size: int


class Write(NamedTuple):
    handle: int
    offset: int
    data: Buffer


class Sync(NamedTuple):
    handle: int


class Close(NamedTuple):
    handle: int


class Rename(NamedTuple):
    """Replaces ``new``."""

    old: str
    new: str


class Remove(NamedTuple):
    path: str


Change = Begin | MakeDirectory | RemoveDirectory | SyncDirectory | Open | Allocate | Write | Sync | Close | Rename | Remove

_BEGIN, _MAKE, _REMOVE_DIRECTORY, _SYNC_DIRECTORY, _OPEN, _ALLOCATE, _WRITE, _SYNC, _CLOSE, _RENAME, _REMOVE = range(1, 12)

_KIND_AND_VERSION = struct.Struct(">BB")
_KIND_AND_HANDLE = struct.Struct(">BQ")
_KIND_HANDLE_SIZE = struct.Struct(">BQQ")
_WRITE_HEAD = struct.Struct(">BQQI")
_LENGTH = struct.Struct(">H")

_PATHS: dict[int, type[MakeDirectory | RemoveDirectory | SyncDirectory | Remove]] = {
    _MAKE: MakeDirectory,
    _REMOVE_DIRECTORY: RemoveDirectory,
    _SYNC_DIRECTORY: SyncDirectory,
    _REMOVE: Remove,
}
_HANDLES: dict[int, type[Sync | Close]] = {_SYNC: Sync, _CLOSE: Close}
_KINDS: dict[type[Any], int] = {kind: number for table in (_PATHS, _HANDLES) for number, kind in table.items()}


def encode_change(change: Change) -> list[Buffer]:
    """The change as buffers, in order; data that are written are among them as they are.  A write has ``WRITE_MAX`` bytes at most."""
    if isinstance(change, Write):
        handle, offset, data = change
        return [_WRITE_HEAD.pack(_WRITE, handle, offset, len(data)), data]
    if isinstance(change, Sync | Close):
        return [_KIND_AND_HANDLE.pack(_KINDS[type(change)], change.handle)]
    if isinstance(change, Open):
        return [_KIND_AND_HANDLE.pack(_OPEN, change.handle) + _encode_path(change.path)]
    if isinstance(change, Allocate):
        return [_KIND_HANDLE_SIZE.pack(_ALLOCATE, change.handle, change.size)]
    if isinstance(change, Begin):
        return [_KIND_AND_VERSION.pack(_BEGIN, change.version)]
    if isinstance(change, Rename):
        return [bytes((_RENAME,)) + _encode_path(change.old) + _encode_path(change.new)]
    return [bytes((_KINDS[type(change)],)) + _encode_path(change.path)]


def _encode_path(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogatepass")
    return _LENGTH.pack(len(raw)) + raw


class _Incomplete(Exception):
    """More bytes are needed: ``size`` from the beginning of the change, at least."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class ChangeDecoder:
    """Bytes in any pieces in, changes out.  ``number`` is that of the last one that came out, ``consumed`` are the bytes up to its end."""

    def __init__(self) -> None:
        self.number = 0
        self.consumed = 0
        self._left: list[Buffer] = []
        """The beginning of a change that is not complete, in pieces."""
        self._left_size = 0
        self._needed = 1
        """Bytes that it has at least."""
        self._handles: set[int] = set()
        self._readers: dict[int, Callable[[memoryview], tuple[Change, int]]] = {
            _BEGIN: self._begin,
            _OPEN: self._open,
            _ALLOCATE: self._allocate,
            _WRITE: self._write,
            _RENAME: self._rename,
            **dict.fromkeys(_PATHS, self._one_path),
            **dict.fromkeys(_HANDLES, self._one_handle),
        }

    def feed(self, data: Buffer) -> Iterator[Change]:
        """The changes that are complete with ``data``; the data of writes are views.  Raises BrokenStreamError, and is of no use then."""
        if self._left:
            self._left.append(data)
            self._left_size += len(data)
            if self._left_size < self._needed:
                return
            data = b"".join(self._left)
            self._left.clear()
        view = memoryview(data)
        at = 0
        while at < len(view):
            try:
                change, size = self._next(view[at:])
            except _Incomplete as incomplete:
                self._left.append(view[at:])
                self._left_size = len(view) - at
                self._needed = incomplete.size
                return
            at += size
            self.consumed += size
            self.number += 1
            yield change

    def _next(self, view: memoryview) -> tuple[Change, int]:
        kind = view[0]
        if (kind == _BEGIN) != (self.number == 0):
            raise self._broken("a stream begins with the beginning of a copy, and has no other one")
        reader = self._readers.get(kind)
        if reader is None:
            raise self._broken(f"there is no kind of change {kind}")
        return reader(view)

    def _begin(self, view: memoryview) -> tuple[Change, int]:
        _, version = self._unpack(_KIND_AND_VERSION, view)
        if version != VERSION:
            raise self._broken(f"its version is {version}, and this broker knows {VERSION}")
        return Begin(version), _KIND_AND_VERSION.size

    def _one_path(self, view: memoryview) -> tuple[Change, int]:
        path, end = self._path(view, 1)
        return _PATHS[view[0]](path), end

    def _rename(self, view: memoryview) -> tuple[Change, int]:
        old, end = self._path(view, 1)
        new, end = self._path(view, end)
        return Rename(old, new), end

    def _one_handle(self, view: memoryview) -> tuple[Change, int]:
        kind, handle = self._unpack(_KIND_AND_HANDLE, view)
        self._check_handle(handle)
        if kind == _CLOSE:
            self._handles.remove(handle)
        return _HANDLES[kind](handle), _KIND_AND_HANDLE.size

    def _open(self, view: memoryview) -> tuple[Change, int]:
        _, handle = self._unpack(_KIND_AND_HANDLE, view)
        path, end = self._path(view, _KIND_AND_HANDLE.size)
        if handle in self._handles:
            raise self._broken(f"file {handle} is open already")
        if len(self._handles) >= HANDLES_MAX:
            raise self._broken(f"more than {HANDLES_MAX} files are open")
        self._handles.add(handle)
        return Open(handle, path), end

    def _allocate(self, view: memoryview) -> tuple[Change, int]:
        _, handle, size = self._unpack(_KIND_HANDLE_SIZE, view)
        self._check_handle(handle)
        self._check_size(size)
        return Allocate(handle, size), _KIND_HANDLE_SIZE.size

    def _write(self, view: memoryview) -> tuple[Change, int]:
        _, handle, offset, length = self._unpack(_WRITE_HEAD, view)
        self._check_handle(handle)
        if length > WRITE_MAX:
            raise self._broken(f"a write has {length} bytes, and {WRITE_MAX} are allowed")
        self._check_size(offset + length)
        end = _WRITE_HEAD.size + length
        if len(view) < end:
            raise _Incomplete(end)
        return Write(handle, offset, view[_WRITE_HEAD.size : end]), end

    def _path(self, view: memoryview, at: int) -> tuple[str, int]:
        (length,) = self._unpack(_LENGTH, view, at)
        if length > PATH_MAX:
            raise self._broken(f"a path has {length} bytes, and {PATH_MAX} are allowed")
        end = at + _LENGTH.size + length
        if len(view) < end:
            raise _Incomplete(end)
        try:
            path = str(view[at + _LENGTH.size : end], "utf-8", "surrogatepass")
            check_path(path)
        except ValueError as error:
            raise self._broken(str(error)) from error
        return path, end

    def _unpack(self, form: struct.Struct, view: memoryview, at: int = 0) -> tuple[Any, ...]:
        if len(view) < at + form.size:
            raise _Incomplete(at + form.size)
        return form.unpack_from(view, at)

    def _check_handle(self, handle: int) -> None:
        if handle not in self._handles:
            raise self._broken(f"no file {handle} is open")

    def _check_size(self, size: int) -> None:
        if size > FILE_SIZE_MAX:
            raise self._broken(f"a file would have {size} bytes, and {FILE_SIZE_MAX} are allowed")

    def _broken(self, reason: str) -> BrokenStreamError:
        return BrokenStreamError(f"the stream of changes is broken at change {self.number + 1}: {reason}")
