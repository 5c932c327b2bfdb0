"""Why peers were refused or given up: one line per peer and reason, then a count.

A hostile or broken peer repeats itself.  Its first line says what happened; what follows within :data:`REPEATED_REASON_SECONDS` is counted,
and one line tells the number when that time is over.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.ports import Cancellable, Clock

REPEATED_REASON_SECONDS = 60.0
"""In this time the same reason is written once for each peer."""

REASONS_MAX = 1000
"""Peers and reasons that are told apart; what is beyond counts as "other peers"."""

_CODE = re.compile(r"AMQ\d{6}(: [A-Z_]{4,})?")
_OTHERS = ("other peers", "")

log = Logger(namespace="mqbroker.server")


class _Entry:
    """One peer and reason: how often it came again, and when that is told."""

    __slots__ = ("count", "reason", "timer")

    def __init__(self, reason: str, timer: Cancellable) -> None:
        self.reason = reason[:200]
        self.timer = timer
        self.count = 0


class ReasonLog:
    """Writes reasons.  A peer is a host: the port changes with every connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._stopped = False

    def warn(self, remote: str, reason: str) -> None:
        """A connection was given up."""
        if self._admit(host_of(remote), reason):
            log.warn("{reason}", reason=reason)

    def info(self, remote: str, reason: str) -> None:
        """A request was refused that nobody waits for."""
        if self._admit(host_of(remote), reason):
            log.info("{reason}", reason=reason)

    def failure(self, remote: str, reason: str, write: Callable[[], object]) -> None:
        """Something unexpected: ``write`` logs it with its traceback, once per peer."""
        if self._admit(host_of(remote), reason):
            write()

    def _admit(self, host: str, reason: str) -> bool:
        """Is this the first one?  Others are counted."""
        key = (host, _kind(reason))
        entry = self._entries.get(key)
        if entry is None and len(self._entries) >= REASONS_MAX:
            key = _OTHERS
            entry = self._entries.get(key)
        if entry is not None:
            entry.count += 1
            return False
        if not self._stopped:
            self._entries[key] = _Entry(reason, self._clock.call_later(REPEATED_REASON_SECONDS, self._over, key))
        return True

    def _over(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key)
        if entry.count:
            log.warn(
                "{count} more times within {seconds:g} s from {host}: {reason}",
                count=entry.count,
                seconds=REPEATED_REASON_SECONDS,
                host=key[0],
                reason=entry.reason,
            )

    def stop(self) -> None:
        """Write what was counted so far; nothing is counted any more."""
        self._stopped = True
        for key, entry in list(self._entries.items()):
            entry.timer.cancel()
            self._over(key)


def host_of(remote: str) -> str:
    """The host of ``host:port``."""
    return remote.rpartition(":")[0] or remote


def _kind(reason: str) -> str:
    """What reasons of one kind have in common: the code that operators search for, and the packet; else the words before a number."""
    found = _CODE.match(reason)
    return found[0] if found else re.sub(r"[\d'\"].*", "", reason)[:60]
