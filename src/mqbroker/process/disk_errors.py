"""Errors of files and folders in an operator's words: the path, the reason, and the remedy."""

from __future__ import annotations

import errno
import os
import pwd


def located(error: OSError, path: str, wanted: int | None = None) -> OSError:
    """``error`` with the path; on a full disk also with the free bytes, and the ``wanted`` bytes, as far as known."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = _free_bytes(path)
        if free is not None:
            reason += f" ({free} bytes are free{'' if wanted is None else f', {wanted} are wanted'})"
    return OSError(error.errno, reason, path)


def advice(error: OSError) -> str:
    """One sentence about an error that has prevented a start: the path, the reason, and the remedy, if one is known."""
    if error.filename is None:
        return str(error)
    path = os.fsdecode(error.filename)
    todo = _TO_DO.get(error.errno or 0)
    return f"{path}: {error.strerror}" + ("" if todo is None else f"; {todo.format(user=_user())}")


_NEEDS_ROOM = "make room on that disk, or move the folder to a larger one"
_NEEDS_RIGHTS = "the user {user} must be able to read and write there: change the owner of the folder, or run the broker as its owner"
_TO_DO = {
    errno.ENOSPC: _NEEDS_ROOM,
    errno.EDQUOT: _NEEDS_ROOM,
    errno.EACCES: _NEEDS_RIGHTS,
    errno.EPERM: _NEEDS_RIGHTS,
    errno.EROFS: "mount that disk for writing, or move the folder",
    errno.ENOTDIR: "a part of this path is a file: remove it, or correct the folder in broker.xml",
    errno.EEXIST: "a file stands where the broker needs a folder: remove it, or correct the folder in broker.xml",
}


def _user() -> str:
    """The user of this process, by number where it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _free_bytes(path: str) -> int | None:
    """Bytes that this process may still write on the disk of ``path``, which need not exist; None when that is not known."""
    folder = os.path.abspath(path)
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize
