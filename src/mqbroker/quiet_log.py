"""twistd's log without debug lines: twistd itself writes every level and has no option for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.logger import FilteringLogObserver, ILogObserver, LegacyLogObserverWrapper, LogLevel, LogLevelFilterPredicate
from twisted.scripts._twistd_unix import UnixAppLogger


class _ChosenLog(UnixAppLogger):
    """What twistd's own options ask for: standard output, a file that SIGUSR1 rotates, or syslog."""

    def __init__(self, twistd_options: Mapping[str, Any]) -> None:
        super().__init__(twistd_options)  # type: ignore[no-untyped-call]

    def observer(self) -> ILogObserver:
        chosen = self._getLogObserver()  # type: ignore[no-untyped-call]
        return chosen if ILogObserver.providedBy(chosen) else LegacyLogObserverWrapper(chosen)


def without_debug_lines(application: Any, twistd_options: Mapping[str, Any]) -> None:
    """Let ``application`` log where ``twistd_options`` say, from level info on.  An observer that somebody chose (``--logger``) stays."""
    if twistd_options.get("logger") or application.getComponent(ILogObserver, None) is not None:
        return
    from_info_on = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
    application.setComponent(ILogObserver, FilteringLogObserver(_ChosenLog(twistd_options).observer(), [from_info_on]))
