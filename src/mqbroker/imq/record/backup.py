"""The change record in a file, for ``-backup`` and ``-restore`` [B8.7].

Equal to OpenMQ's file: it begins with a version and a signature, has each change by itself with the reset record first, and a closing mark
without which it counts as damaged.  Different: it is a text with one JSON value in each line, because its changes are ours, and the closing
line has a checksum.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from mqbroker.imq.record.codec import change_from, text_of
from mqbroker.imq.record.record import ChangeRecord

VERSION = 1
SIGNATURE = "ConfigChangeRecord of mqbroker"


class BackupError(ValueError):
    """A file that is no backup of a change record, or a damaged one; the text says why."""


def backup_of(record: ChangeRecord) -> bytes:
    """The file of ``record``."""
    lines = [json.dumps({"version": VERSION, "signature": SIGNATURE}), *(text_of(change) for change in record.changes)]
    content = "".join(f"{line}\n" for line in lines).encode()
    closing = json.dumps({"end": len(lines) - 1, "crc32": zlib.crc32(content)})
    return content + f"{closing}\n".encode()


def record_of(data: bytes) -> ChangeRecord:
    """The record in a file.  Raises :class:`BackupError`."""
    content, closing = _split(data)
    try:
        lines = content.decode().removesuffix("\n").split("\n")
        end = json.loads(closing)
        first = json.loads(lines[0])
    except (ValueError, IndexError, RecursionError) as error:
        raise BackupError(f"this is no backup of a change record: {error}") from error
    _check(first, end, lines, content)
    return _load(lines[1:])


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The file without its last line, and that line."""
    if not data.endswith(b"\n"):
        raise BackupError("the file does not end with a whole line: its end is missing")
    at = data.rfind(b"\n", 0, len(data) - 1) + 1
    return data[:at], data[at:-1]


def _check(first: Any, end: Any, lines: list[str], content: bytes) -> None:
    if not isinstance(first, dict) or first.get("signature") != SIGNATURE:
        raise BackupError(f"the file does not begin with the signature {SIGNATURE!r}")
    if first.get("version") != VERSION:
        raise BackupError(f"the file has the version {first.get('version')}; expected {VERSION}")
    if not isinstance(end, dict) or "end" not in end:
        raise BackupError("the file has no closing line: its end is missing")
    if end["end"] != len(lines) - 1:
        raise BackupError(f"the file has {len(lines) - 1} changes, and should have {end['end']}")
    if end.get("crc32") != zlib.crc32(content):
        raise BackupError("the file is damaged: its checksum is another one")


def _load(lines: Iterable[str]) -> ChangeRecord:
    try:
        return ChangeRecord.load(map(change_from, lines))
    except ValueError as error:
        raise BackupError(f"the file has a wrong change: {error}") from error
