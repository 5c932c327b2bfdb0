"""The memory that this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

GLOBAL_MAX_SIZE = 1024 * 1024 * 1024
"""Bytes: the greatest default of ``global-max-size``; a quarter of the memory if that is less."""

_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The limits of the highest control group that this process sees: in a container its own."""

_OWN_GROUPS = "/proc/self/cgroup"
_GROUP_FILES = {"": "/sys/fs/cgroup{}/memory.max", "memory": "/sys/fs/cgroup/memory{}/memory.limit_in_bytes"}
"""The limits of a control group by the controller beside it in that file: none in version 2."""


def available_memory() -> int:
    """Bytes that the machine, or the control group of this process, has."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in (*_CGROUP_FILES, *_files_of_groups()):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            available = min(available, int(text))
    return available


def _files_of_groups() -> Iterator[str]:
    """The files with the limits of the control groups that this process is in: that of its unit of systemd, and the slices above it."""
    try:
        lines = Path(_OWN_GROUPS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in _GROUP_FILES:
                yield from (_GROUP_FILES[controller].format(each) for each in (group, *Path(group).parents))


def default_global_max_size() -> int:
    """``global-max-size`` when broker.xml does not say: 1 GiB, or a quarter of the memory if that is less."""
    return min(GLOBAL_MAX_SIZE, available_memory() // 4)
