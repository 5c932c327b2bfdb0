"""twistd's log without debug lines, for which twistd has no option, and without the lines in which Twisted reports on itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from twisted.logger import (
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    LegacyLogObserverWrapper,
    LogEvent,
    LogLevel,
    LogLevelFilterPredicate,
    PredicateResult,
    formatEvent,
)
from twisted.scripts._twistd_unix import UnixAppLogger
from zope.interface import implementer

_OF_ITSELF = re.compile(
    r"\S+ starting on \S+|\(\S+ Port \S+ Closed\)|(?:Starting|Stopping) (?:protocol|factory) .*"
    r"|twistd \S+ .* starting up\.|reactor class: .*|Main loop terminated\.|Server Shut Down\."
)
"""Lines of Twisted and twistd for which the broker has better ones, such as AMQ221020 and AMQ221002."""


def _chosen_log(twistd_options: Mapping[str, Any]) -> ILogObserver:
    """The log of twistd's own options: standard output, a file that SIGUSR1 rotates, or syslog."""
    logger: Any = UnixAppLogger(twistd_options)  # type: ignore[no-untyped-call]
    chosen = logger._getLogObserver()
    return chosen if ILogObserver.providedBy(chosen) else LegacyLogObserverWrapper(chosen)


@implementer(ILogFilterPredicate)
class _WithoutTwisted:
    """Refuses the lines of level info in which Twisted reports on itself; the next predicate decides about other lines."""

    def __call__(self, event: LogEvent) -> Any:
        of_twisted = event.get("log_level") is LogLevel.info and str(event.get("log_namespace")).startswith(("twisted.", "log_legacy"))
        return PredicateResult.no if of_twisted and _OF_ITSELF.fullmatch(formatEvent(event)) else PredicateResult.maybe


def quieten(application: Any, twistd_options: Mapping[str, Any]) -> None:
    """Let ``application`` log where ``twistd_options`` say, from level info on and without Twisted's lines about itself.

    An observer that somebody chose (``--logger``) stays.
    """
    if twistd_options.get("logger") or application.getComponent(ILogObserver, None) is not None:
        return
    predicates = [_WithoutTwisted(), LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)]
    application.setComponent(ILogObserver, FilteringLogObserver(_chosen_log(twistd_options), predicates))
