"""Why a store does not start, or stops."""

from __future__ import annotations

from mqclient.storageformat.errors import JournalDamagedError as JournalDamagedError
from mqclient.storageformat.errors import StorageError as StorageError


class StoreLockedError(StorageError):
    """Another broker uses the folder."""


class FencedError(StorageError):
    """Somebody else may write to the place from now on, and this store may not."""


class OwnerChangedError(FencedError):
    """Another broker owns the data now."""


class ForeignJournalError(StorageError):
    """The folder holds a journal of Apache ActiveMQ Artemis, which is left untouched."""
