"""The network between brokers that reach each other through proxies: which of them hear each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mqbroker.cli.demo.proxy import Proxy, never

CONNECTIONS = Path("/proc/net/tcp")


def socket_of(port: int, other: int, connections: Iterable[str]) -> str | None:
    """The inode of the socket on ``port`` that is connected to the port ``other``, by the lines of /proc/net/tcp."""
    ends = (f":{port:04X}", f":{other:04X}")
    for line in connections:
        words = line.split()
        if words[1].endswith(ends[0]) and words[2].endswith(ends[1]):
            return words[9]
    return None


def has_socket(pid: int, inode: str) -> bool:
    """Has this process the socket open?"""
    with contextlib.suppress(OSError):  # the process has ended, or has closed the file
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(file.readlink()) == f"socket:[{inode}]":
                    return True
    return False


class Network:
    """Connections are told apart by the process that dials; clients get through always.

    ``proxies`` lead to the brokers, by number; ``processes`` gives the ids of those that run.
    """

    def __init__(self, proxies: Sequence[Proxy], processes: Callable[[], Mapping[int, int]]) -> None:
        self._proxies = proxies
        self._processes = processes
        self._cuts: frozenset[tuple[int, int]] = frozenset()
        for number, proxy in enumerate(proxies):
            proxy.silence_of = partial(self._silence_of, number)

    def cut(self, cuts: Iterable[tuple[int, int]]) -> None:
        """From now on nothing passes, in either direction, over connections that the first of two brokers has dialled to the second."""
        self._cuts = frozenset(cuts)

    def heal(self, lost: bool) -> None:
        """``lost``: connections end with what was on the way; otherwise it arrives now."""
        if lost:
            for proxy in self._proxies:
                proxy.cut()
        self._cuts = frozenset()

    def _silence_of(self, target: int, port: int) -> Callable[[], bool]:
        dialler = self._dialler(port, self._proxies[target].port)
        return never if dialler is None else lambda: (dialler, target) in self._cuts

    def _dialler(self, port: int, proxy: int) -> int | None:
        inode = socket_of(port, proxy, CONNECTIONS.read_text().splitlines()[1:])
        for number, process in self._processes().items():
            if inode is not None and has_socket(process, inode):
                return number
        return None


def both_ways(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each pair, and the same the other way round."""
    return [way for one, other in pairs for way in ((one, other), (other, one))]
