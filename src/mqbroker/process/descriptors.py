"""The number of files and sockets that this process may have open.

A process that has none left cannot write its journal on: it would end although its disk is sound.
"""

from __future__ import annotations

import fcntl
import resource

DESCRIPTORS_MAX = 1 << 20
"""Descriptors of files and sockets that the broker asks the system for at most: some systems allow a thousand million, and others have
tables for them."""

HIGH_MAX = 1 << 16
"""Descriptors above this one would cost the system a larger table: it has 8 bytes for each up to the highest one."""

ABOVE_HIGH = 64
"""Descriptors that stay free at the top of what is allowed, for the next high ones."""

FILES_SHARE = 4
"""One descriptor in this many is kept for files: segments, the page that each paging address writes, and files that are read."""


def raise_limit() -> None:
    """Raise the limit of this process to the system's maximum; the initial limit is for programs that cannot use more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def sockets_max() -> int:
    """The number of connections that leaves enough descriptors for files; -1 = any number."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return -1 if soft == resource.RLIM_INFINITY else soft - soft // FILES_SHARE


def high_descriptor(descriptor: int) -> int:
    """Another descriptor of the same file, above those of nearly all others.  Raises OSError when none is free there.

    Linux closes what a killed process had open from the highest descriptor down.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = HIGH_MAX if soft == resource.RLIM_INFINITY else min(soft, HIGH_MAX)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(limit - ABOVE_HIGH, 0))
