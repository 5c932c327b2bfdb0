"""A network namespace of its own for brokers that take no loopback addresses: what runs in it has only these addresses, and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "MQBROKER_TEST_NAMESPACE"
"""Set in the environment of what runs in the namespace."""
WAYS = (("unshare", "--net"), ("unshare", "--map-root-user", "--net"))
"""As root, and as somebody else where that is allowed."""
REAL, OURS = "10.77.0", "10.77.1"
"""The first three numbers of the addresses: brokers of Open Message Queue, and home brokers."""


class NoNamespace(Exception):
    """None can be made here; the message says why."""


def inside() -> bool:
    return os.environ.get(INSIDE) == "1"


def addresses(prefix: str, count: int) -> list[str]:
    return [f"{prefix}.{number + 1}" for number in range(count)]


def way_in() -> Sequence[str]:
    """The command in front of another one that makes a namespace for it; raises NoNamespace."""
    reasons = []
    for way in WAYS:
        try:
            tried = subprocess.run([*way, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, timeout=30, check=False)
        except OSError as error:
            raise NoNamespace(str(error)) from error
        if tried.returncode == 0:
            return way
        reasons.append(tried.stderr.strip())
    raise NoNamespace("; ".join(reasons))


def enter(module: str, arguments: Sequence[str]) -> int:
    """Run a module of this checkout again in a namespace; returns its exit status.  Raises NoNamespace."""
    return subprocess.run([*way_in(), sys.executable, "-m", module, *arguments], env=os.environ | {INSIDE: "1"}, check=False).returncode


def prepare(*prefixes: str, count: int = 3) -> None:
    """Called inside: give the loopback interface the addresses."""
    assert inside()
    commands = [["ip", "link", "set", "lo", "up"]]
    commands += [["ip", "addr", "add", f"{each}/32", "dev", "lo"] for prefix in prefixes for each in addresses(prefix, count)]
    for command in commands:
        subprocess.run(command, check=True, timeout=30)
