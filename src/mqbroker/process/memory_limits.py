"""The memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

GLOBAL_MAX_SIZE = 1024 * 1024 * 1024
"""Bytes: the greatest default of ``global-max-size``; a quarter of the memory if that is less."""

_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_memory() -> int:
    """Bytes that the machine, or the control group of this process, has."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_FILES:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            available = min(available, int(text))
    return available


def default_global_max_size() -> int:
    """``global-max-size`` when broker.xml does not say: 1 GiB, or a quarter of the memory if that is less."""
    return min(GLOBAL_MAX_SIZE, available_memory() // 4)
