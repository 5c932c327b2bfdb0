"""The folders of a file store before it starts (decision 5)."""

from __future__ import annotations

import re

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.errors import ForeignJournalError, StorageError
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.files import segment_sequence
from mqclient.storageformat.frames import HEADER_SIZE, KIND_BINDINGS, KIND_MESSAGES, StorageFormatError, decode_segment_header

_ARTEMIS_JOURNAL = re.compile(r"activemq-(data-.*\.amq|bindings-.*)")

JOURNAL_MARK = "not-for-artemis.amq"
BINDINGS_MARK = "not-for-artemis.bindings"
"""Apache ActiveMQ Artemis reads every file with these suffixes as a part of its journal, whatever stands before."""

MARK = b"""mqbroker keeps its data in this folder.

Apache ActiveMQ Artemis must not start here: the queues would look empty. This file makes its start fail with AMQ149002.
Move the data with 'mqbroker data exp', and 'artemis data imp' in another folder.
""".ljust(4096, b"\n")
"""Its first four bytes are no version of a journal.  A whole block, since a reader may bypass the cache of the system."""


def check_folders(file_system: FileSystem, settings: StoreSettings) -> None:
    """Refuse folders that hold a journal of Apache ActiveMQ Artemis; raises :class:`ForeignJournalError` before anything is touched."""
    for directory in (settings.journal_directory, settings.bindings_directory):
        for name in file_system.list(directory):
            if _ARTEMIS_JOURNAL.fullmatch(name):
                raise ForeignJournalError(
                    f"{directory} holds a journal of Apache ActiveMQ Artemis ({name}), which mqbroker cannot read and does not touch. "
                    "Export it with 'artemis data exp', give mqbroker an empty folder and import the data with 'mqbroker data imp'."
                )


def make_folders(file_system: FileSystem, settings: StoreSettings) -> None:
    """Create the folders that are missing, where that is allowed."""
    for directory, allowed, name in (
        (settings.journal_directory, settings.create_journal_directory, "create-journal-dir"),
        (settings.bindings_directory, settings.create_bindings_directory, "create-bindings-dir"),
        (settings.large_messages_directory, True, ""),
        (settings.paging_directory, True, ""),
        (settings.node_directory, True, ""),
    ):
        if directory is None or file_system.exists(directory):
            continue
        if not allowed:
            raise StorageError(f"{directory} does not exist, and {name} is false")
        make_folder(file_system, directory)


def mark_folders(file_system: FileSystem, settings: StoreSettings) -> None:
    """See to it that Artemis refuses the folders of the journals, instead of starting empty under the node id in ``server.lock``."""
    for directory, name in ((settings.journal_directory, JOURNAL_MARK), (settings.bindings_directory, BINDINGS_MARK)):
        path = join(directory, name)
        # Artemis removes a file that a crash has left empty; one that it has made longer is as good as before.
        if file_system.exists(path) and file_system.read(path, 0, len(MARK)) == MARK:
            continue
        file = file_system.open(path)
        try:
            file.write(0, MARK)
            file.sync()
        finally:
            file.close()
        file_system.sync_directory(directory)


def make_folder(file_system: FileSystem, directory: str) -> None:
    """Create it, and those above it: all of their names are durable, for with a name everything below would be lost."""
    missing = [directory]
    while not file_system.exists(parent := _parent(missing[-1])) and parent != missing[-1]:
        missing.append(parent)
    file_system.make_directory(directory)
    for path in reversed(missing):
        file_system.sync_directory(_parent(path))


def _parent(directory: str) -> str:
    path = directory.rstrip("/")
    return path.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")


def journal_node_id(file_system: FileSystem, settings: StoreSettings) -> bytes | None:
    """The node id in the newest readable segment, for a folder whose ``server.lock`` is lost."""
    for directory, kind in ((settings.journal_directory, KIND_MESSAGES), (settings.bindings_directory, KIND_BINDINGS)):
        for name in reversed(file_system.list(directory)):
            if segment_sequence(kind, name) is not None:
                try:
                    return decode_segment_header(file_system.read(join(directory, name), 0, HEADER_SIZE)).node_id
                except (OSError, StorageFormatError):
                    continue
    return None
