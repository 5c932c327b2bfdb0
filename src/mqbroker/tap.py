"""The ``twistd mqbroker`` command: options, and the service that twistd runs."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python import usage

from mqbroker.app import Broker, BrokerSettings, StartError
from mqbroker.config.imq.files import GIVEN_PROPERTIES, PREFIX
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.problems import ConfigurationError
from mqbroker.process.descriptors import raise_limit
from mqbroker.process.garbage import collection_paused
from mqbroker.process.quiet_log import quieten
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.security.users import UserError
from mqbroker.settings import settings_from_file, settings_from_instance

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqStart

log = Logger(namespace="mqbroker")

MARKER_CHECK_SECONDS = 0.5
"""The time between two looks for STOP_ME and KILL_ME in an instance folder, as the Artemis commands expect."""

COLLECTION_THRESHOLDS = 10_000, 10, 50
"""Thresholds of the garbage collector, greater than usual because waiting messages are many objects that live long."""

_ANY_USER = "USER"
"""Stands in a printed command for a name that the broker does not know, such as one in a certificate."""

_ONCE = ("--imq-backup", "--imq-restore", "--imq-reset")
"""Options about the next start alone."""

_FOLDERS = {
    "journal": "journal_directory",
    "bindings": "bindings_directory",
    "large-messages": "large_messages_directory",
    "paging": "paging_directory",
}


class Options(usage.Options):
    synopsis = "(--config FILE | --instance DIR)"
    longdesc = "Runs a message broker that speaks the Artemis CORE protocol, on Artemis's own configuration."
    optParameters = [
        ["properties", "p", None, "Properties files, separated by commas, that override broker.xml; DIR/ means all files of that folder."],
        ["config", "c", None, "The broker.xml to start with; relative paths in it start from the current folder."],
        ["instance", "i", None, "An instance folder made by 'mqbroker create' or 'artemis create'."],
        ["data", "d", None, "Folder that relative paths of --config start from, instead of the current one."],
        ["broker", None, None, "The broker.xml to use for --instance, instead of the one that its bootstrap.xml names."],
        ["journal", None, None, "Folder of the messages, instead of the one in broker.xml."],
        ["bindings", None, None, "Folder of the bindings, instead of the one in broker.xml."],
        ["large-messages", None, None, "Folder of the large messages, instead of the one in broker.xml."],
        ["paging", None, None, "Folder of paged messages, instead of the one in broker.xml."],
        ["imq-installation", None, None, "The properties of the installation, for an instance of Open Message Queue."],
        ["imq-backup", None, None, "Such an instance, the master: write its change record to this file."],
        ["imq-restore", None, None, "Such an instance: take over the change record in this file."],
    ]
    optFlags = [["allow-kill", None, "Let the file etc/KILL_ME of the instance end the process at once."]]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self["definitions"] = {}
        self["imq-options"] = {}
        self["imq-resets"] = []

    def opt_define(self, text: str) -> None:
        """A system property, name=value: it stands for ${name} in broker.xml; one of Open Message Queue for an instance of it."""
        name, _, value = text.partition("=")
        self["definitions"][name] = value

    opt_D = opt_define

    def opt_imq_option(self, text: str) -> None:
        """A property, name=value, above all others of an instance of Open Message Queue."""
        name, _, value = text.partition("=")
        self["imq-options"][name] = value

    def opt_imq_reset(self, text: str) -> None:
        """messages or durables: such an instance forgets them at this start."""
        self["imq-resets"].append(text)

    def postOptions(self) -> None:
        if (self["config"] is None) == (self["instance"] is None):
            raise usage.UsageError("give either --config FILE or --instance DIR")
        if self["data"] is not None and self["config"] is None:
            raise usage.UsageError("--data can only be used with --config")
        if self["broker"] is not None and self["instance"] is None:
            raise usage.UsageError("--broker can only be used with --instance")


class BrokerService(Service):
    """The broker as a Twisted service.

    ``etc`` is the folder of marker files, None without an instance; ``announce`` is called after the start.  ``twistd_options`` say where
    the application logs; None leaves its log.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        reactor: Any,
        etc: Path | None,
        allow_kill: bool,
        announce: Callable[[Broker], None],
        twistd_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.broker = Broker(settings, reactor, self._failed, self._stop_wanted, lambda: self._announce(self.broker), self._restart_wanted)
        self._reactor = reactor
        self._etc = etc
        self._allow_kill = allow_kill
        self._announce = announce
        self._twistd_options = twistd_options
        self._markers: LoopingCall | None = None

    def setServiceParent(self, parent: Any) -> None:
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]
        if self._twistd_options is not None:
            quieten(parent, self._twistd_options)

    def startService(self) -> None:
        self._hold_signals()
        raise_limit()
        self.running = 1
        gc.collect()
        # A stop that is asked for as soon as clients can connect is heard.
        left_over = [path for path in self._marker_files() if path.exists()]
        with collection_paused():
            try:
                self.broker.start()
            except StartError as error:
                # By now twistd has made sys.stderr a part of its log, which may go to standard output; a daemon has only the log.
                log.critical("the start was refused: {error}", error=error)
                print(f"mqbroker: {error}", file=sys.__stderr__, flush=True)
                raise SystemExit(1) from error
            # The objects of the start stay: a full collection need not look at them again each time.
            gc.freeze()
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        if self._etc is not None:
            for path in left_over:
                path.unlink(missing_ok=True)
            self._markers = LoopingCall(self._check_markers)
            self._markers.clock = self._reactor
            self._markers.start(MARKER_CHECK_SECONDS, now=False)

    def stopService(self) -> Deferred[None]:
        self.running = 0
        if self.broker.scales_down:
            self._cut_short_by_signals()
        if self._markers is not None and self._markers.running:
            self._markers.stop()
        return self.broker.stop()

    def _hold_signals(self) -> None:
        """Let a signal before the reactor runs stop the broker once it runs: clients can connect before."""
        with contextlib.suppress(ValueError):  # not the main thread, which has the signals
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._reactor.sigTerm)
            if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
                signal.signal(signal.SIGINT, self._reactor.sigInt)

    def _stop_wanted(self) -> None:
        self._reactor.stop()

    def _restart_wanted(self) -> None:
        """Stop in order; then the process begins anew, with the same arguments and the same process id."""
        self._reactor.addSystemEventTrigger("after", "shutdown", _begin_anew)
        self._reactor.stop()

    def _cut_short_by_signals(self) -> None:
        """A stop may take long while messages move to another broker: the next signal ends that."""
        with contextlib.suppress(ValueError):  # not the main thread, which has the signals
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self._reactor.callFromThread(self.broker.cut_short))

    def _marker_files(self) -> list[Path]:
        return [] if self._etc is None else [self._etc / name for name in ("STOP_ME", "KILL_ME")]

    def _check_markers(self) -> None:
        assert self._etc is not None
        if (self._etc / "STOP_ME").exists():
            (self._etc / "STOP_ME").unlink(missing_ok=True)
            assert self._markers is not None
            self._markers.stop()
            self._reactor.callLater(0, self._reactor.stop)
            self._reactor.addSystemEventTrigger("after", "shutdown", print, "Server stopped!", flush=True)
        elif self._allow_kill and (self._etc / "KILL_ME").exists():
            os._exit(0)

    def _failed(self, reason: str) -> None:
        """The broker cannot go on: end the process at once, so that no further message is acknowledged."""
        sys.stderr.write(f"mqbroker: {reason}\n")
        sys.stderr.flush()
        os._exit(1)


def _begin_anew() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, arguments_again(sys.orig_argv))


def arguments_again(arguments: Sequence[str]) -> list[str]:
    """The arguments of this process without what is to be done once, each of which stands before its value."""
    found: list[str] = []
    skipped = False
    for argument in arguments:
        if not skipped and argument not in _ONCE:
            found.append(argument)
        skipped = not skipped and argument in _ONCE
    return found


def makeService(options: Options) -> BrokerService:
    """The entry point for twistd.  A configuration that cannot be used ends the process with one sentence per problem."""
    try:
        files = property_files(options["properties"])
        if options["instance"] is not None:
            folder = Path(options["instance"]).absolute()
            start = imq_start(options, os.environ)
            settings = settings_from_instance(folder, files, os.environ, options["definitions"], options["broker"], start)
        else:
            settings = settings_from_file(Path(options["config"]), Path(options["data"] or "."), files, os.environ | options["definitions"])
    except (ConfigurationError, OSError) as error:
        raise SystemExit(f"mqbroker: {error}") from error
    set_folders(settings.configuration, options)
    reactor = import_reactor(settings.configuration)
    etc = settings.etc if options["instance"] is not None else None
    return BrokerService(settings, reactor, etc, bool(options["allow-kill"]), announce, options.parent)


def imq_start(options: Options, environment: Mapping[str, str]) -> ImqStart | None:
    """How an instance of Open Message Queue is started; None where neither an option nor a variable is about that."""
    options["imq-options"] |= json.loads(environment.get(GIVEN_PROPERTIES, "{}"))
    definitions = {name: value for name, value in options["definitions"].items() if name.startswith(PREFIX)}
    names = ("imq-options", "imq-resets", "imq-installation", "imq-backup", "imq-restore")
    if not definitions and not any(options[name] for name in names):
        return None
    from mqbroker.config.imq.instance import ImqStart  # few brokers are such instances

    return ImqStart(
        definitions,
        options["imq-options"],
        options["imq-installation"],
        tuple(options["imq-resets"]),
        options["imq-backup"],
        options["imq-restore"],
    )


def import_reactor(configuration: Configuration) -> Any:
    """The reactor of this process.

    Twisted loads all of OpenSSL with it, for the sake of its ``startTLS``: a sixth of the memory and a tenth of the time of a start.  Where
    nothing is configured for TLS that is left out.  TLS that management opens later is not lost: it is a protocol above a plain socket.
    """
    uris = (*configuration.acceptors, *configuration.connectors.values())
    secure = any(uri.parameters.get("sslEnabled", "").lower() == "true" for uri in uris)
    blocked = not secure and "OpenSSL" not in sys.modules
    if blocked:
        sys.modules["OpenSSL"] = None  # type: ignore[assignment]
    try:
        from twisted.internet import reactor
    finally:
        if blocked:
            del sys.modules["OpenSSL"]
    return reactor


def set_folders(configuration: Configuration, options: Mapping[str, str | None]) -> None:
    """Replace the folders of broker.xml by those of the options; relative folders start at the current folder."""
    for name, setting in _FOLDERS.items():
        path = options[name]
        if path is not None:
            setattr(configuration, setting, str(Path(path).absolute()))


def property_files(text: str | None) -> list[str]:
    """The files that ``--properties`` names.  Raises OSError for a folder that cannot be read."""
    found: list[str] = []
    for part in (text or "").split(","):
        if part.endswith("/"):
            found += sorted(str(path) for path in Path(part).iterdir() if path.suffix in (".properties", ".json"))
        elif part:
            found.append(part)
    return found


def announce(broker: Broker) -> None:
    """Print the URLs of the broker, its data folder, and a first command to try."""
    for url in broker.urls:
        print(f"listening on {url}")
    print(f"data folder {broker.data_directory.parent if broker.data_directory else '(none: nothing is kept)'}")
    print(f"node id {broker.node_id}")
    command = first_command(broker)
    if command is not None:
        print(f"send a first message with: {command}", flush=True)


def first_command(broker: Broker) -> str | None:
    """A command that sends a message from this machine, with a user where one is needed; None when no acceptor listens on a port."""
    listening = [acceptor for acceptor in broker.acceptors if acceptor.local_url is not None]
    if not listening:
        return None
    acceptor = min(listening, key=lambda each: each.secure)
    program = "mqbroker" if shutil.which("mqbroker") else Path(sys.executable).with_name("mqbroker")
    words = [str(program), "producer", "--url", str(acceptor.local_url)]
    security = broker.server.security
    if not security.takes_anonymous(acceptor.security_domain):
        words += ["--user", _some_user(security) if acceptor.security_domain is None else _ANY_USER]
    return shlex.join([*words, "--destination", "queue://first", "--message-count", "1"])


def _some_user(security: SecurityManager) -> str:
    users = security.users()
    try:
        found = [] if users is None else users.list()
    except UserError:
        found = []
    return str(found[0]["username"]) if found else _ANY_USER
