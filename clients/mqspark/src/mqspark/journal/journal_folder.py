"""The data folder of a broker: its parts, and reading them while the broker changes them.

This module opens no file for writing and takes no lock.  While a broker runs, segments and pages come and go between two reads, and a write
may be seen by half.  So a place that looks damaged is read again: only a place that does not change is damaged.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from mqclient.storageformat.errors import JournalDamagedError, Loss
from mqclient.storageformat.files import join, segment_sequence
from mqclient.storageformat.frames import KIND_MESSAGES
from mqclient.storageformat.surviving import Index, StoreFolders, index_of, salvaged_index
from mqspark.errors import JournalError
from mqspark.options import Options

log: Final = logging.getLogger(__name__)

R = TypeVar("R")

ATTEMPTS_MAX: Final = 20
"""Attempts to read a folder that a running broker changes meanwhile."""
SAME_MAX: Final = 4
"""Attempts after which a place that fails in the same way each time is damage."""
WAIT_SECONDS: Final = 0.02
"""Pause before the second attempt; each further one is twice as long, up to half a second."""


class LocalFiles:
    """Files as the worker sees them (see :class:`mqclient.storageformat.files.Files`)."""

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


def find_folders(options: Options) -> StoreFolders:
    """The folders that the options name.  Raises JournalError when there is no journal."""
    data = None if options.path is None else _local(options.path)
    if data is not None and not os.path.isdir(join(data, "journal")) and os.path.isdir(join(join(data, "data"), "journal")):
        data = join(data, "data")

    def part(given: str | None, name: str, beside: str) -> str:
        return _local(given) if given is not None else join(data or beside, name)

    journal = part(options.journal_folder, "journal", "")
    beside = os.path.dirname(journal)
    folders = StoreFolders(
        journal,
        part(options.bindings_folder, "bindings", beside),
        part(options.large_messages_folder, "large-messages", beside),
        part(options.paging_folder, "paging", beside),
    )
    for name, folder in (("journal", folders.journal), ("bindings", folders.bindings)):
        if not os.path.isdir(folder):
            raise JournalError(
                f"there is no folder {folder} for the {name}: expected the data folder of a broker, or the option {name}Folder"
            )
    foreign = next((name for name in sorted(os.listdir(folders.journal)) if name.startswith("activemq-data-")), None)
    if foreign is not None:
        raise JournalError(f"{folders.journal} holds a journal of Apache ActiveMQ Artemis ({foreign}), which has another format")
    return folders


def _local(path: str) -> str:
    """Raises JournalError for a URL of another file system."""
    parts = urlsplit(path)
    if len(parts.scheme) < 2:
        return os.path.abspath(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return os.path.abspath(unquote(parts.path))
    raise JournalError(f"{path} is not a folder of this machine: a journal is read where its broker writes it, or from a copy")


class Patience:
    """Decides whether something that could not be read is tried again, and waits before that."""

    def __init__(self, sleep: Callable[[float], object] = time.sleep) -> None:
        self._sleep = sleep
        self._seen: list[str] = []
        self._wait = WAIT_SECONDS

    def again(self, problem: str) -> bool:
        """``problem`` was met.  False when it stays, or there were too many; else it returns after a while."""
        self._seen.append(problem)
        if len(self._seen) >= ATTEMPTS_MAX or self._seen[-SAME_MAX:] == [problem] * SAME_MAX:
            return False
        self._sleep(self._wait)
        self._wait = min(2 * self._wait, 0.5)
        return True


def steady(read: Callable[[], R], patience: Patience | None = None) -> R:
    """The result of ``read``, which is called again while a broker changes the files.  Raises JournalError."""
    patience = patience or Patience()
    while True:
        try:
            return read()
        except JournalDamagedError as error:
            problem = damage_text(Loss(error.file, error.offset, 0, error.message_ids, error.reason))
            cause: Exception = error
        except OSError as error:
            problem, cause = f"{error.filename or 'a file of the folder'} cannot be read: {error.strerror or error}", error
        if not patience.again(problem):
            raise JournalError(problem) from cause


def read_index(files: LocalFiles, folders: StoreFolders, skips: bool) -> Index:
    """The index of surviving messages; with ``skips`` also of messages beyond damage.  Raises JournalError."""
    if not skips:
        return steady(lambda: index_of(files, folders))
    try:
        return index_of(files, folders)
    except (JournalDamagedError, OSError):
        return steady(lambda: _salvaged(files, folders))


def _salvaged(files: LocalFiles, folders: StoreFolders) -> Index:
    """Raises JournalDamagedError when a broker seems to change the folder meanwhile: then files that look damaged may be whole."""
    before = _sequences(files, folders)
    index = salvaged_index(files, folders)
    if index.losses and _sequences(files, folders) != before:
        loss = index.losses[0]
        raise JournalDamagedError(loss.file, loss.offset, loss.message_ids, loss.reason)
    return index


def _sequences(files: LocalFiles, folders: StoreFolders) -> list[int]:
    return [number for name in files.list(folders.journal) if (number := segment_sequence(KIND_MESSAGES, name)) is not None]


def damage_text(loss: Loss) -> str:
    """One sentence: file, offset, the damage, and the messages concerned."""
    shown = ", ".join(map(str, loss.message_ids[:10])) or "none could be read"
    more = f" and {len(loss.message_ids) - 10} more" if len(loss.message_ids) > 10 else ""
    return (
        f"{loss.file} is damaged at offset {loss.offset}: {loss.reason}; message ids at and around this place: {shown}{more}. "
        "With onDamage=skip such places are left out; the table 'damage' lists them"
    )
