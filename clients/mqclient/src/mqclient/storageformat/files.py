"""The files of a store, for reading: the file system's methods, and the names of the files.

A store has four folders: the journal of messages, the journal of bindings, the bodies of large messages (a file each), and pages (a folder
for each address, with a file for each page).
"""

from __future__ import annotations

import hashlib
import re
from typing import Protocol

from mqclient.storageformat.frames import KIND_BINDINGS, KIND_MESSAGES

PREFIXES = {KIND_MESSAGES: "mqbroker-data", KIND_BINDINGS: "mqbroker-bindings"}
SEGMENT_SUFFIX = ".mqj"
TEMPORARY = ".tmp"
"""At the end of the name of a segment that does not count yet, or not any more."""
PAGE_SUFFIX = ".page"
BODY_SUFFIX = ".msg"


class Files(Protocol):
    """The file system, as reading sees it.  Paths are strings; every method raises OSError when it fails."""

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        """At most ``size`` bytes from ``offset``; -1 = all."""

    def size(self, path: str) -> int: ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted; of one that does not exist: none."""

    def exists(self, path: str) -> bool: ...


UNREADABLE_PIECE = 4096
"""Bytes of a damaged file that are given up where the disk cannot read one of them."""


def read_beyond_errors(files: Files, path: str) -> bytes:
    """All of a file, with zeros where the disk cannot read it.  Raises OSError when nothing of it can be read."""
    try:
        return files.read(path)
    except OSError:
        pieces: list[bytes] = []
        failed = 0
        size = files.size(path)
        for at in range(0, size, UNREADABLE_PIECE):
            try:
                pieces.append(files.read(path, at, UNREADABLE_PIECE))
            except OSError:
                failed += 1
                pieces.append(bytes(min(UNREADABLE_PIECE, size - at)))
        if failed == len(pieces):
            raise
        return b"".join(pieces)


def join(directory: str, name: str) -> str:
    """A path below a directory."""
    return f"{directory.rstrip('/')}/{name}"


def segment_name(kind: int, sequence: int) -> str:
    return f"{PREFIXES[kind]}-{sequence:08d}{SEGMENT_SUFFIX}"


def segment_sequence(kind: int, name: str) -> int | None:
    """The sequence number in a file name, None when it is not a segment of this kind."""
    number = name.removeprefix(PREFIXES[kind] + "-").removesuffix(SEGMENT_SUFFIX)
    return int(number) if number.isdecimal() and segment_name(kind, int(number)) == name else None


def is_temporary(kind: int, name: str) -> bool:
    """Is this the name of a segment that does not count?  On a shared folder it tells the holder, too."""
    base, found, rest = name.partition(SEGMENT_SUFFIX)
    return bool(found) and rest.endswith(TEMPORARY) and segment_sequence(kind, base + SEGMENT_SUFFIX) is not None


def page_name(number: int) -> str:
    return f"{number:09d}{PAGE_SUFFIX}"


def page_number(name: str) -> int | None:
    """The number in a file name, None when it is not a page."""
    number = name.removesuffix(PAGE_SUFFIX)
    return int(number) if number.isdecimal() and page_name(int(number)) == name else None


def folder_name(address: str) -> str:
    """The folder with the pages of an address: a name that a person recognises, and that no other address has."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", address)[:80].lstrip(".")
    return f"{plain}-{hashlib.sha256(address.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def is_folder_name(name: str) -> bool:
    """Is this the name of a folder with the pages of an address?  All else belongs to somebody else."""
    return re.fullmatch(r".*-[0-9a-f]{16}", name, re.DOTALL) is not None


def page_path(directory: str, address: str, number: int) -> str:
    """The file of a page below the folder of all pages."""
    return join(join(directory, folder_name(address)), page_name(number))
