"""The folders of a store by name, so that those of a replica may lie elsewhere.

A mirrored path is the name of a root, then at most one name (a file), below ``paging`` at most two (a folder and a file): ``journal``,
``journal/mqbroker-data-00000001.mqj``, ``paging/orders-0123456789abcdef/000000017.page``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mqbroker.storage.disk.filesystem import join
from mqbroker.storage.errors import StorageError
from mqbroker.storage.settings import StoreSettings

BINDINGS, JOURNAL, LARGE_MESSAGES, PAGING = "bindings", "journal", "large-messages", "paging"

NAME_MAX = 255
"""Bytes of one name in a mirrored path: what file systems take."""

LOST_AND_FOUND = "lost+found"
"""The folder at the top of a disk of its own, which often nobody but the system may look into."""

_DEPTHS = {BINDINGS: 1, JOURNAL: 1, LARGE_MESSAGES: 1, PAGING: 2}
"""Names that may follow the name of a root."""

_OWN = re.compile(r"server(lock)?\..*|oldreplica\.\d+")
"""Files that belong to a broker and not to its store: locks, epoch and sequence of activations, and data that a replica has put away."""


def is_own(root: str, name: str) -> bool:
    """Does this name, directly below a root, belong to a broker alone?  Folders of addresses end with a checksum, and are never its own."""
    found = _OWN.fullmatch(name)
    return found is not None and (root != PAGING or name.startswith("oldreplica."))


def check_path(path: str) -> None:
    """Raises ValueError, which names the path, unless it is a mirrored one."""
    root, *names = path.split("/")
    if root not in _DEPTHS:
        raise ValueError(f"{path!r}: there is no folder {root!r}")
    if len(names) > _DEPTHS[root]:
        raise ValueError(f"{path!r} has more than {_DEPTHS[root]} names below {root!r}")
    for name in names:
        if name in ("", ".", "..") or "\0" in name or "\\" in name or len(name.encode("utf-8", "surrogatepass")) > NAME_MAX:
            raise ValueError(f"{path!r}: {name!r} is no name of a file")
    if names and is_own(root, names[0]):
        raise ValueError(f"{path!r}: {names[0]!r} belongs to the broker there")


class Roots:
    """The folders of one broker, by the names of the roots.  Raises StorageError when one of them is, or lies in, another one."""

    def __init__(self, directories: Mapping[str, str]) -> None:
        self._directories = {name: directories[name].rstrip("/") or "/" for name in _DEPTHS if name in directories}
        for name, directory in self._directories.items():
            for other, above in self._directories.items():
                if name != other and (directory == above or directory.startswith(join(above, ""))):
                    raise StorageError(
                        f"the folder of {name}, {directory}, is or lies in that of {other}, {above}: with replication each has to be apart"
                    )

    @classmethod
    def of(cls, settings: StoreSettings) -> Roots:
        """The roots of a file store."""
        directories = {
            BINDINGS: settings.bindings_directory,
            JOURNAL: settings.journal_directory,
            LARGE_MESSAGES: settings.large_messages_directory,
        }
        if settings.paging_directory is not None:
            directories[PAGING] = settings.paging_directory
        return cls(directories)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._directories)

    def has_folders(self, root: str) -> bool:
        """Do files stand in folders below this root, and not in itself?"""
        return _DEPTHS[root] > 1

    def mirrored(self, path: str) -> str | None:
        """The mirrored path of a path of this broker; None for what is not mirrored."""
        path = path.rstrip("/")
        for root, directory in self._directories.items():
            if path == directory:
                return root
            if path.startswith(directory) and path[len(directory)] == "/":
                name = path[len(directory) + 1 :]
                return None if is_own(root, name.partition("/")[0]) else f"{root}/{name}"
        return None

    def path(self, mirrored: str) -> str:
        """The path here of a mirrored one.  Raises ValueError for one that is none, or whose root this broker does not have."""
        check_path(mirrored)
        root, _, name = mirrored.partition("/")
        if root not in self._directories:
            raise ValueError(f"{mirrored!r}: this broker has no folder {root!r}")
        directory = self._directories[root]
        return join(directory, name) if name else directory
