"""``server.epoch``: who was the last to take a folder, for those whose lock may be lost without their knowledge (decision 35).

Layout: the epoch (8 bytes), which grows by one each time, and 16 random bytes, which tell two brokers apart that take the folder at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.errors import FencedError

EPOCH_FILE = "server.epoch"

_CONTENT = struct.Struct(">Q16s")


class Epoch:
    """The epoch of one folder.  ``number`` is that of this holder, 0 as long as it has not taken the folder."""

    def __init__(self, file_system: FileSystem, directory: str, entropy: Callable[[int], bytes]) -> None:
        self._file_system = file_system
        self._directory = directory
        self._path = join(directory, EPOCH_FILE)
        self._entropy = entropy
        self._own = b""
        self.number = 0

    @property
    def token(self) -> str:
        """A text that no other holder has, for the names of files."""
        return f"{self.number}-{self._own[-4:].hex()}"

    def begin(self) -> None:
        """From now on the folder is ours, and every former holder finds that out.  Raises OSError."""
        file_system = self._file_system
        found = file_system.read(self._path) if file_system.exists(self._path) else b""
        number = _CONTENT.unpack(found)[0] + 1 if len(found) == _CONTENT.size else 1
        own = _CONTENT.pack(number, self._entropy(16))
        file = file_system.open(self._path)
        try:
            file.write(0, own)
            file.sync()
        finally:
            file.close()
        file_system.sync_directory(self._directory)
        self.number, self._own = number, own

    def check(self) -> None:
        """Raises FencedError unless this is still the last holder.  The file is opened anew: only so NFS shows what others have written."""
        try:
            found = self._file_system.read(self._path)
        except OSError as error:
            raise FencedError(f"{self._path} cannot be read: {error}") from error
        if not self.number or found != self._own:
            raise FencedError(f"{self._path}: another broker has taken this folder")
