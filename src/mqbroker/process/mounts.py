"""The mount of a folder that brokers share, compared with the options that the manual asks for on NFS.

Source: the Artemis manual, chapter "High Availability and Failover", shared store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_WANTED = ("sync", "noac", "soft", "lookupcache=none")
"""``intr`` is left out: present kernels always behave so, and do not show it."""

_LOCKED_HERE = ("nolock", "local_lock=posix", "local_lock=all")
"""With these other machines do not see the locks of this one."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


def read_mounts() -> str:
    """The mounts that this process sees; empty where the system does not tell."""
    try:
        return Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class NfsMount:
    """``place`` is where it is mounted, ``missing`` the options that are wanted, with commas between.

    ``locked_here`` is the option that keeps locks on this machine, empty where they hold for all.  ``timeo`` (tenths of a second) and
    ``retrans`` are None where the system does not tell them.
    """

    place: str
    missing: str
    locked_here: str
    timeo: int | None
    retrans: int | None

    @property
    def wait(self) -> tuple[str, float] | None:
        """How long a server that does not answer goes unnoticed: the options that say it, and seconds."""
        if self.timeo is None or self.retrans is None:
            return None
        return f"timeo={self.timeo} x retrans={self.retrans} of {self.place}", self.timeo / 10 * self.retrans

    def refusal(self) -> str | None:
        """Why brokers cannot have their locks there; None where they can."""
        if not self.locked_here:
            return None
        return (
            f"{self.place}: with its mount option {self.locked_here} locks do not exclude brokers of other machines, so that two may be "
            "active; mount it without nolock, and with local_lock=none"
        )

    def remarks(self) -> list[str]:
        """Sentences for the log."""
        remarks = []
        if self.missing:
            remarks.append(
                f"{self.place}: a shared folder on NFS needs the mount options {self.missing}: without them a lost lock is noticed late"
            )
        if self.wait is not None:
            options, seconds = self.wait
            remarks.append(f"{self.place}: a server that does not answer is noticed after {seconds:g} s ({options})")
        return remarks


def nfs_mount(folder: str, mounts: str) -> NfsMount | None:
    """The NFS mount of ``folder``, an absolute path without links; None when it is on something else."""
    place, kind, text = _mount(folder, mounts)
    if not kind.startswith("nfs"):
        return None
    options = text.split(",")
    values = dict(option.partition("=")[::2] for option in options)
    numbers = [int(value) if value.isdecimal() else None for value in (values.get("timeo", ""), values.get("retrans", ""))]
    missing = ",".join(option for option in _WANTED if option not in options)
    return NfsMount(place, missing, next((option for option in _LOCKED_HERE if option in options), ""), *numbers)


def file_system_kind(folder: str, mounts: str) -> str:
    """The kind of the file system that ``folder``, an absolute path, lies on; empty where the system does not tell."""
    return _mount(folder, mounts)[1]


def _mount(folder: str, mounts: str) -> tuple[str, str, str]:
    """Place, kind and options of the mount of ``folder``."""
    found = ("", "", "")
    for line in mounts.splitlines():
        fields = [_ESCAPED.sub(lambda match: chr(int(match[1], 8)), field) for field in line.split(" ")]
        # Of two mounts at one place the later one is seen.
        if len(fields) >= 4 and Path(folder).is_relative_to(fields[1]) and len(fields[1]) >= len(found[0]):
            found = fields[1], fields[2], fields[3]
    return found
