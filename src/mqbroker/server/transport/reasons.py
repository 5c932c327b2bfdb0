"""The log lines about refused requests and ended connections: the first reasons of each peer, then a count.

A hostile or broken peer repeats itself.  The first reasons get a line each; further ones within :data:`REPEATED_REASON_SECONDS` are counted
by kind, and one line at the end of that time tells the numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.ports import Cancellable, Clock

REPEATED_REASON_SECONDS = 60.0
"""The time within which the same reason is written once for each peer."""

REASONS_MAX = 1000
"""Pairs of peer and code that the log tells apart; all others count as "other peers"."""

KINDS_WRITTEN_MAX = 8
"""Lines of the log about one peer and code in a minute; further reasons are counted by kind, and told in one line.  A hostile peer can give
a reason for each packet type."""

KINDS_MAX = 100
"""Kinds of reasons of one peer and code that are counted separately."""

KINDS_NAMED = 20
"""Kinds that the line with the numbers names, the most frequent first."""

_CODE = re.compile(r"AMQ\d{6}(: [A-Z_]{4,})?")
_FAILED = re.compile(r"[A-Z0-9_]{4,} failed: (AMQ\d{6})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_REASON_LENGTH = 200
_OTHERS = ("other peers", "")
_OTHER_KINDS = "other reasons"

log = Logger(namespace="mqbroker.server")


class _Entry:
    """The reasons of one peer and code: the number of reasons without a line by kind, and the timer of the line with the numbers."""

    __slots__ = ("counts", "reason", "timer")

    def __init__(self, reason: str, timer: Cancellable) -> None:
        self.reason = _printable(reason[:_REASON_LENGTH])
        self.timer = timer
        self.counts: dict[str, int] = {}

    def admit(self, reason: str) -> bool:
        """Is a line to be written for ``reason``?  If not, ``reason`` is counted."""
        kind = _kind(reason)
        counts = self.counts
        if kind not in counts:
            if len(counts) < KINDS_WRITTEN_MAX:
                counts[kind] = 0
                return True
            if len(counts) >= KINDS_MAX:
                kind = _OTHER_KINDS
        counts[kind] = counts.get(kind, 0) + 1
        return False

    def what(self) -> str:
        """The counted kinds as a text; the whole reason when there was only one kind."""
        if len(self.counts) == 1:
            return self.reason
        counted = sorted(((count, kind) for kind, count in self.counts.items() if count), key=lambda one: (-one[0], one[1]))
        named = [f"{kind} ({count})" for count, kind in counted[:KINDS_NAMED]]
        rest = counted[KINDS_NAMED:]
        if rest:
            named.append(f"{len(rest)} more kinds ({sum(count for count, _ in rest)})")
        return ", ".join(named)


class ReasonLog:
    """Writes reasons.  A peer is a host: the port changes with every connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._stopped = False

    def warn(self, remote: str, reason: str) -> None:
        """A connection was given up."""
        if self._admit(host_of(remote), reason):
            log.warn("{reason}", reason=_printable(reason))

    def info(self, remote: str, reason: str) -> None:
        """Log a refused request to which the peer expects no answer."""
        if self._admit(host_of(remote), reason):
            log.info("{reason}", reason=_printable(reason))

    def failure(self, remote: str, reason: str, write: Callable[[], object]) -> None:
        """Log an unexpected failure: ``write`` logs it with its traceback, once per peer."""
        if self._admit(host_of(remote), reason):
            write()

    def _admit(self, host: str, reason: str) -> bool:
        """Is a line to be written for ``reason``?  If not, ``reason`` is counted."""
        if self._stopped:
            return True
        key = (host, _code(reason))
        entry = self._entries.get(key)
        if entry is None and len(self._entries) >= REASONS_MAX:
            key = _OTHERS
            entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(reason, self._clock.call_later(REPEATED_REASON_SECONDS, self._over, key))
        return entry.admit(reason)

    def _over(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key)
        count = sum(entry.counts.values())
        if count:
            log.warn(
                "{count} more times within {seconds:g} s from {host}: {reason}",
                count=count,
                seconds=REPEATED_REASON_SECONDS,
                host=key[0],
                reason=entry.what(),
            )

    def stop(self) -> None:
        """Write the counts so far; later reasons are all written."""
        self._stopped = True
        for key, entry in list(self._entries.items()):
            entry.timer.cancel()
            self._over(key)


def host_of(remote: str) -> str:
    """The host of ``host:port``."""
    return remote.rpartition(":")[0] or remote


def _code(reason: str) -> str:
    """The code in ``reason``, for which operators search; without a code the kind of the reason."""
    if reason.startswith("AMQ"):
        return reason[:9]
    failed = _FAILED.match(reason)
    if failed is not None:
        return failed[1] or "failed"
    return _kind(reason)


def _kind(reason: str) -> str:
    """The common part of similar reasons: the code and the packet, else the words before a number."""
    found = _CODE.match(reason) or _FAILED.match(reason)
    return found[0] if found else _printable(re.sub(r"[\d'\"].*", "", reason, flags=re.DOTALL)[:60])


def _printable(reason: str) -> str:
    """``reason`` with control characters escaped, because reasons quote texts of the peer."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), reason)
