"""The former contents of a replica's folders: before a copy they are put into ``oldreplica.n`` of each folder, or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twisted.logger import Logger

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.files.folders import make_folder
from mqbroker.storage.mirror.roots import LOST_AND_FOUND, Roots, is_own

PREFIX = "oldreplica."
KEPT = "kept"
"""The file that says that an ``oldreplica.n`` is never removed, and has all that was put away with it."""

log = Logger(namespace="mqbroker.storage")

_BEING_KEPT = "being-kept"
"""The name of that file as long as a part may still be missing."""


def empty_folders(file_system: FileSystem, roots: Roots, saved: int) -> None:
    """Make the folders there, and empty but for what belongs to the broker itself; durably.  Blocks.

    ``saved`` is ``max-saved-replicated-journals-size``: how many ``oldreplica.n`` stay, 0 = what is there is removed, -1 = all stay.  A
    crash in between leaves a part here and a part there, so whoever calls this has noted durably that the folders are of no use.
    Raises OSError.
    """
    _make_folders(file_system, roots)
    number = _next_number(file_system, roots)
    for root in roots:
        directory = roots.path(root)
        former = _former(file_system, roots, root)
        target = _former_folder(roots, root, number)
        if former and saved:
            _make_directory(file_system, directory, target)
        _move(file_system, roots, root, former, target if saved else None)
        if saved >= 0:
            _remove_oldest(file_system, roots, root, saved)


def keep_for_good(file_system: FileSystem, roots: Roots) -> None:
    """Put what is in the folders into one ``oldreplica.n`` that stays, whatever :func:`empty_folders` saves; durably.  Blocks.

    After a crash in between it is to be called again, and goes on with the same n, so that all of it is there together.  Raises OSError.
    """
    _make_folders(file_system, roots)
    begun = [
        number
        for root in roots
        for number in former_numbers(file_system, roots.path(root))
        if file_system.exists(join(_former_folder(roots, root, number), _BEING_KEPT))
    ]
    if not begun and not any(_former(file_system, roots, root) for root in roots):
        return
    number = begun[0] if begun else _next_number(file_system, roots)
    for root in roots:
        target = _former_folder(roots, root, number)
        _make_directory(file_system, roots.path(root), target)
        if not file_system.exists(join(target, KEPT)):
            file_system.open(join(target, _BEING_KEPT)).close()
            file_system.sync_directory(target)
    for root in roots:
        _move(file_system, roots, root, _former(file_system, roots, root), _former_folder(roots, root, number))
    for root in roots:
        target = _former_folder(roots, root, number)
        if file_system.exists(join(target, _BEING_KEPT)):
            file_system.rename(join(target, _BEING_KEPT), join(target, KEPT))
            file_system.sync_directory(target)


def former_numbers(file_system: FileSystem, directory: str) -> Iterator[int]:
    """The n of each ``oldreplica.n`` in a folder of the store, in no order."""
    for name in file_system.list(directory):
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdecimal():
            yield int(number)


def _next_number(file_system: FileSystem, roots: Roots) -> int:
    return 1 + max((number for root in roots for number in former_numbers(file_system, roots.path(root))), default=0)


def _former_folder(roots: Roots, root: str, number: int) -> str:
    return join(roots.path(root), f"{PREFIX}{number}")


def _make_folders(file_system: FileSystem, roots: Roots) -> None:
    for root in roots:
        make_folder(file_system, roots.path(root))


def _former(file_system: FileSystem, roots: Roots, root: str) -> list[str]:
    """The names in a folder of the store that belong to it."""
    return [name for name in file_system.list(roots.path(root)) if name != LOST_AND_FOUND and not is_own(root, name)]


def _move(file_system: FileSystem, roots: Roots, root: str, names: Sequence[str], target: str | None) -> None:
    """Move ``names`` from a folder of the store to ``target``, or remove them."""
    directory = roots.path(root)
    for name in names:
        if roots.has_folders(root):
            _empty_folder(file_system, join(directory, name), None if target is None else join(target, name))
        elif target is None:
            file_system.remove(join(directory, name))
        else:
            file_system.rename(join(directory, name), join(target, name))
    if target is not None and file_system.exists(target):
        file_system.sync_directory(target)
    # Before anything is copied no former file may come back after a crash.
    file_system.sync_directory(directory)
    if names and target is not None:
        log.info("AMQ222162: the former data of {folder} are in {target}", folder=directory, target=target)


def _empty_folder(file_system: FileSystem, folder: str, target: str | None) -> None:
    """The files of a folder go to ``target``, or away; then the folder goes.  A file in its place goes the same way."""
    try:
        names = file_system.list(folder)
    except NotADirectoryError:  # a file of somebody else, where folders are expected
        if target is None:
            file_system.remove(folder)
        else:
            file_system.rename(folder, target)
        return
    if target is not None:
        _make_directory(file_system, target.rpartition("/")[0], target)
    for name in names:
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
    for each in counted[: max(len(counted) - saved, 0)]:
        if roots.has_folders(root):
            for name in file_system.list(each):
                _empty_folder(file_system, join(each, name), None)
            file_system.remove_directory(each)
        else:
            _empty_folder(file_system, each, None)
