"""The former contents of a replica's folders: before a copy they are put into ``oldreplica.n`` of each folder, or removed."""

from __future__ import annotations

from collections.abc import Iterator

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.files.folders import make_folder
from mqbroker.storage.mirror.roots import Roots, is_own

PREFIX = "oldreplica."
KEPT = "kept"
"""The file that says that an ``oldreplica.n`` is never removed."""


def empty_folders(file_system: FileSystem, roots: Roots, saved: int, for_good: bool = False) -> None:
    """Make the folders there, and empty but for what belongs to the broker itself; durably.  Blocks.

    ``saved`` is ``max-saved-replicated-journals-size``: how many ``oldreplica.n`` stay, 0 = what is there is removed, -1 = all stay.
    ``for_good``: what is there now is kept whatever ``saved`` says, and is never counted.  A crash in between leaves a part here and a part
    there, so whoever calls this has noted durably that the folders are of no use.  Raises OSError.
    """
    for root in roots:
        make_folder(file_system, roots.path(root))
    number = 1 + max((each for root in roots for each in former_numbers(file_system, roots.path(root))), default=0)
    for root in roots:
        directory = roots.path(root)
        former = [name for name in file_system.list(directory) if not is_own(root, name)]
        target = join(directory, f"{PREFIX}{number}")
        if former and (saved or for_good):
            _make_directory(file_system, directory, target)
            if for_good:
                file_system.open(join(target, KEPT)).close()
        for name in former:
            if roots.has_folders(root):
                _empty_folder(file_system, join(directory, name), join(target, name) if saved or for_good else None)
            elif saved or for_good:
                file_system.rename(join(directory, name), join(target, name))
            else:
                file_system.remove(join(directory, name))
        if file_system.exists(target):
            file_system.sync_directory(target)
        # Before anything is copied no former file may come back after a crash.
        file_system.sync_directory(directory)
        if saved >= 0:
            _remove_oldest(file_system, roots, root, saved)


def former_numbers(file_system: FileSystem, directory: str) -> Iterator[int]:
    """The n of each ``oldreplica.n`` in a folder of the store, in no order."""
    for name in file_system.list(directory):
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdecimal():
            yield int(number)


def _empty_folder(file_system: FileSystem, folder: str, target: str | None) -> None:
    """The files of a folder go to ``target``, or away; then the folder goes."""
    if target is not None:
        _make_directory(file_system, target.rpartition("/")[0], target)
    for name in file_system.list(folder):
        if target is None:
            file_system.remove(join(folder, name))
        else:
            file_system.rename(join(folder, name), join(target, name))
    if target is not None:
        file_system.sync_directory(target)
    file_system.remove_directory(folder)


def _make_directory(file_system: FileSystem, parent: str, directory: str) -> None:
    """Its name is durable before anything gets into it: with the name all of that would be lost."""
    file_system.make_directory(directory)
    file_system.sync_directory(parent)


def _remove_oldest(file_system: FileSystem, roots: Roots, root: str, saved: int) -> None:
    directory = roots.path(root)
    old = [join(directory, f"{PREFIX}{number}") for number in sorted(former_numbers(file_system, directory))]
    counted = [each for each in old if not file_system.exists(join(each, KEPT))]
    for each in counted[: len(counted) - saved]:
        if roots.has_folders(root):
            for name in file_system.list(each):
                _empty_folder(file_system, join(each, name), None)
            file_system.remove_directory(each)
        else:
            _empty_folder(file_system, each, None)
