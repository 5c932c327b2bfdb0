"""Salvage of a damaged journal into a new one (``mqbroker data recover``).

Every frame with a correct checksum is taken, in order; damaged bytes between are skipped.  The contents of an unreadable frame are lost:
its messages, and its acknowledgements, so that consumed messages may come again.
"""

from __future__ import annotations

import os
import uuid
from typing import Final

from mqbroker.cli.data.here import Here
from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.status import CommandError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.recover import SalvagedState, recovered_of, refill, salvage_state

WRITE_SIZE: Final = 8 * 1024 * 1024


def salvage(folders: DataFolders) -> SalvagedState:
    """Read all readable records of both journals.  Changes nothing."""
    return salvage_state(LocalFileSystem(), folders.settings())


def write_journal(found: SalvagedState, source: DataFolders, target: DataFolders, unwritten_max: int = WRITE_SIZE) -> None:
    """Write the salvaged state into a new store in empty folders, with copies of the large bodies; all is on the disk when this returns.

    ``unwritten_max`` is the number of bytes that gather before they are written and synced.  Empties ``found.state``.  Raises
    :class:`CommandError` when the store cannot be made or written.
    """
    file_system = LocalFileSystem()
    here = Here()
    failures: list[str] = []
    store = FileStore(target.settings(), file_system, here, here, os.urandom, failures.append)
    try:
        store.open(None if found.node_id is None else str(uuid.UUID(bytes=found.node_id)))
        store.load(max(found.state.id_limit, 1))
    except (StorageError, OSError) as error:
        raise CommandError(f"{target.journal}: {error}") from error
    recovered = recovered_of(file_system, source.settings(), found.state)
    refill(recovered, store, lambda: here.run() if store.backlog > unwritten_max else None)
    store.stop(lambda: None)
    here.run()
    if failures:
        raise CommandError(f"{target.journal}: {failures[0]}")
