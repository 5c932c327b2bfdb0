"""The log of ``twistd mqbroker`` has no debug lines and none about Twisted, and goes where twistd's options say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.application.service import Application, Service
from twisted.logger import FilteringLogObserver, ILogObserver, Logger, LogLevel
from twisted.logger import LogPublisher as NewPublisher
from twisted.python.log import LogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from mqbroker.app import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.process.quiet_log import quieten
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
        quieten(application, {"logfile": str(path), "nodaemon": True})
        log = Logger(namespace="mqbroker", observer=application.getComponent(ILogObserver))
        for level in LogLevel.iterconstants():
            log.emit(level, "a line of level {name}", name=level.name)
        self.assertEqual(
            [line.split()[-1] for line in path.read_text(encoding="utf-8").splitlines()],
            [level.name for level in LogLevel.iterconstants() if level is not LogLevel.debug],
        )

    def test_lines_of_twisted_about_itself_are_left_out(self) -> None:
        """Those that are worth something stay: a signal, a warning, and whatever else uses its older interface."""
        path = Path(self.mktemp())
        application = self.application()
        quieten(application, {"logfile": str(path), "nodaemon": True})
        observer = application.getComponent(ILogObserver)
        older = LogPublisher(publishPublisher=NewPublisher(observer))
        twistd = Logger(namespace="twisted.scripts._twistd_unix.UnixAppLogger", observer=observer)
        loop = Logger(namespace="twisted.internet.base", observer=observer)
        twistd.info("twistd {version} ({exe} {number}) starting up.", version="26.10.0", exe="/usr/bin/python", number="3.11.7")
        twistd.info("reactor class: {reactor}.", reactor="twisted.internet.epollreactor.EPollReactor")
        older.msg("BrokerFactory starting on 61616")
        older.msg("Starting protocol <mqbroker._Datagrams object at 0x7f0000000000>")
        loop.info("Received {name}, shutting down.", name="SIGTERM")
        older.msg("(TCP Port 61616 Closed)")
        older.msg("a transformer tells something")
        loop.info("Main loop terminated.")
        twistd.warn("reactor class: a warning")
        Logger(namespace="mqbroker", observer=observer).info("Server Shut Down.")
        twistd.info("Server Shut Down.")
        lines = [line.partition("] ")[2] for line in path.read_text(encoding="utf-8").splitlines()]
        expected = ["Received SIGTERM, shutting down.", "a transformer tells something", "reactor class: a warning", "Server Shut Down."]
        self.assertEqual(lines, expected)

    def test_a_log_that_somebody_chose_stays(self) -> None:
        application = self.application()
        quieten(application, {"logger": Recorder, "nodaemon": True})
        self.assertIsNone(application.getComponent(ILogObserver, None))
        chosen = Recorder()
        application.setComponent(ILogObserver, chosen)
        quieten(application, {"nodaemon": True})
        self.assertIs(application.getComponent(ILogObserver), chosen)

    def test_the_service_prepares_the_log_of_the_application_that_it_becomes_part_of(self) -> None:
        service = BrokerService(
            BrokerSettings(Configuration(), Path()),
            None,
            None,
            allow_kill=False,
            announce=lambda broker: None,
            twistd_options={"nodaemon": True},
        )
        application = self.application()
        service.setServiceParent(application)
        self.assertIsInstance(application.getComponent(ILogObserver), FilteringLogObserver)
        self.assertIsInstance(service, Service)
