"""The log of ``twistd mqbroker`` has no debug lines, and goes where twistd's options say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.application.service import Application, Service
from twisted.logger import ILogObserver, Logger, LogLevel
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from mqbroker.app import BrokerSettings
from mqbroker.config.configuration import Configuration
from mqbroker.quiet_log import without_debug_lines
from mqbroker.tap import BrokerService


@implementer(ILogObserver)
class Recorder:
    def __call__(self, event: Any) -> None: ...


class QuietLogTests(SynchronousTestCase):
    def application(self) -> Any:
        return Application("mqbroker")  # type: ignore[no-untyped-call]

    def test_lines_from_info_on_go_to_the_file_that_twistd_was_given(self) -> None:
        path = Path(self.mktemp())
        application = self.application()
        without_debug_lines(application, {"logfile": str(path), "nodaemon": True})
        log = Logger(namespace="mqbroker", observer=application.getComponent(ILogObserver))
        for level in LogLevel.iterconstants():
            log.emit(level, "a line of level {name}", name=level.name)
        self.assertEqual(
            [line.split()[-1] for line in path.read_text(encoding="utf-8").splitlines()],
            [level.name for level in LogLevel.iterconstants() if level is not LogLevel.debug],
        )

    def test_a_log_that_somebody_chose_stays(self) -> None:
        application = self.application()
        without_debug_lines(application, {"logger": Recorder, "nodaemon": True})
        self.assertIsNone(application.getComponent(ILogObserver, None))
        chosen = Recorder()
        application.setComponent(ILogObserver, chosen)
        without_debug_lines(application, {"nodaemon": True})
        self.assertIs(application.getComponent(ILogObserver), chosen)

    def test_the_service_prepares_the_log_of_the_application_that_it_becomes_part_of(self) -> None:
        prepared: list[Any] = []
        service = BrokerService(
            BrokerSettings(Configuration(), Path()), None, None, allow_kill=False, announce=lambda broker: None, prepare_log=prepared.append
        )
        application = self.application()
        service.setServiceParent(application)
        self.assertEqual(prepared, [application])
        self.assertIsInstance(service, Service)
