"""The mount of a folder that brokers share, compared with the options that the manual asks for on NFS.

Source: the Artemis manual, chapter "High Availability and Failover", shared store.
"""

from __future__ import annotations

import re
from pathlib import Path

_WANTED = ("sync", "noac", "soft", "lookupcache=none")
"""``intr`` is left out: present kernels always behave so, and do not show it."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


def read_mounts() -> str:
    """The mounts that this process sees; empty where the system does not tell."""
    try:
        return Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ""


def nfs_remarks(folder: str, mounts: str) -> list[str]:
    """Sentences for the log about the NFS mount of ``folder``, an absolute path without links; none when it is on something else."""
    found = ("", "", "")
    for line in mounts.splitlines():
        fields = [_ESCAPED.sub(lambda match: chr(int(match[1], 8)), field) for field in line.split(" ")]
        # Of two mounts at one place the later one is seen.
        if len(fields) >= 4 and Path(folder).is_relative_to(fields[1]) and len(fields[1]) >= len(found[0]):
            found = fields[1], fields[2], fields[3]
    place, kind, text = found
    if not kind.startswith("nfs"):
        return []
    options = text.split(",")
    remarks = []
    missing = ",".join(option for option in _WANTED if option not in options)
    if missing:
        remarks.append(f"{place}: a shared folder on NFS needs the mount options {missing}: without them a lost lock is noticed late")
    values = dict(option.partition("=")[::2] for option in options)
    timeout, attempts = values.get("timeo", ""), values.get("retrans", "")
    if timeout.isdecimal() and attempts.isdecimal():
        seconds = int(timeout) / 10 * int(attempts)
        remarks.append(f"{place}: a server that does not answer is noticed after {seconds:g} s (timeo {timeout} x retrans {attempts})")
    return remarks
