"""Small files that processes show each other in a folder; called in a thread, for the disk may be slow."""

from __future__ import annotations

import contextlib
from pathlib import Path


def read_files(path: str, suffix: str, files_max: int, size_max: int) -> list[bytes]:
    """The content of at most ``files_max`` files of at most ``size_max`` bytes, the newest first; none when there is no such folder."""
    found: list[tuple[float, Path]] = []
    try:
        entries = [entry for entry in Path(path).iterdir() if entry.name.endswith(suffix) and not entry.name.startswith(".")]
    except FileNotFoundError:
        return []
    for entry in entries:
        with contextlib.suppress(OSError):  # its owner may just be leaving
            state = entry.stat()
            if state.st_size <= size_max and entry.is_file():
                found.append((state.st_mtime, entry))
    contents = []
    for _, entry in sorted(found, key=lambda pair: pair[0], reverse=True)[:files_max]:
        with contextlib.suppress(OSError):
            contents.append(entry.read_bytes()[:size_max])
    return contents


def write_file(path: str, name: str, content: bytes) -> None:
    """Write a file so that no reader sees a part of it; a missing folder is made."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}.new"  # not found by its suffix
    draft.write_bytes(content)
    draft.replace(folder / name)


def remove_file(path: str, name: str) -> None:
    """Nothing happens when there is no such file."""
    (Path(path) / name).unlink(missing_ok=True)
