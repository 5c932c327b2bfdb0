"""The ``twistd mqbroker`` command: options, and the service that twistd runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python import usage

from mqbroker.app import Broker, BrokerSettings, StartError
from mqbroker.checks import check_loaded
from mqbroker.config.instance import BasicSecurity, read_instance, resolve_paths
from mqbroker.config.jaas import JaasError, LoginModule, parse_login_config
from mqbroker.config.parse import load_configuration
from mqbroker.config.problems import ConfigurationError, Problem
from mqbroker.quiet_log import without_debug_lines

log = Logger(namespace="mqbroker")

MARKER_CHECK_SECONDS = 0.5
"""How often an instance folder is looked at for STOP_ME and KILL_ME, as the Artemis commands expect."""

LOGIN_DOMAIN = "activemq"
"""The entry of login.config that holds without a bootstrap.xml, as in Artemis's own instances."""


class Options(usage.Options):
    synopsis = "(--config FILE | --instance DIR)"
    longdesc = "Runs a message broker that speaks the Artemis CORE protocol, on Artemis's own configuration."
    optParameters = [
        ["properties", "p", None, "Properties files, with commas between, that override broker.xml; DIR/ means all of that folder."],
        ["config", "c", None, "The broker.xml to start with; relative paths in it are taken from the current folder."],
        ["instance", "i", None, "An instance folder as 'mqbroker create' or 'artemis create' makes it."],
        ["data", "d", None, "Folder that relative paths of --config are taken from instead of the current one."],
    ]
    optFlags = [["allow-kill", None, "Let the file etc/KILL_ME of the instance end the process at once."]]

    def postOptions(self) -> None:
        if (self["config"] is None) == (self["instance"] is None):
            raise usage.UsageError("give either --config FILE or --instance DIR")
        if self["data"] is not None and self["config"] is None:
            raise usage.UsageError("--data goes with --config")


class BrokerService(Service):
    """The broker as a Twisted service.

    ``etc`` is the folder of marker files, None without an instance.  ``prepare_log`` gets the application that the service becomes part
    of, before its log begins.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        reactor: Any,
        etc: Path | None,
        allow_kill: bool,
        announce: Callable[[Broker], None],
        prepare_log: Callable[[Any], None] = lambda application: None,
    ) -> None:
        self.broker = Broker(settings, reactor, self._failed)
        self._reactor = reactor
        self._etc = etc
        self._allow_kill = allow_kill
        self._announce = announce
        self._prepare_log = prepare_log
        self._markers: LoopingCall | None = None

    def setServiceParent(self, parent: Any) -> None:
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]
        self._prepare_log(parent)

    def startService(self) -> None:
        self.running = 1
        try:
            self.broker.start()
        except StartError as error:
            sys.stderr.flush()
            raise SystemExit(f"mqbroker: {error}") from error
        self._announce(self.broker)
        if self._etc is not None:
            for name in ("STOP_ME", "KILL_ME"):
                (self._etc / name).unlink(missing_ok=True)
            self._markers = LoopingCall(self._check_markers)
            self._markers.clock = self._reactor
            self._markers.start(MARKER_CHECK_SECONDS, now=False)

    def stopService(self) -> Deferred[None]:
        self.running = 0
        if self._markers is not None and self._markers.running:
            self._markers.stop()
        return self.broker.stop()

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
        """The disk can no longer be written: what was not acknowledged must not be, and the process ends."""
        sys.stderr.write(f"mqbroker: {reason}\n")
        sys.stderr.flush()
        os._exit(1)


def makeService(options: Options) -> BrokerService:
    """What twistd calls.  A configuration that cannot be used ends the process with one sentence per problem."""
    from twisted.internet import reactor

    try:
        if options["instance"] is not None:
            settings = settings_from_instance(Path(options["instance"]).absolute(), property_files(options["properties"]))
        else:
            settings = settings_from_file(Path(options["config"]), Path(options["data"] or "."), property_files(options["properties"]))
    except (ConfigurationError, OSError) as error:
        raise SystemExit(f"mqbroker: {error}") from error
    etc = settings.etc if options["instance"] is not None else None
    return BrokerService(settings, reactor, etc, bool(options["allow-kill"]), announce, partial(_prepare_log, options.parent))


def _prepare_log(twistd_options: Mapping[str, Any] | None, application: Any) -> None:
    if twistd_options is not None:
        without_debug_lines(application, twistd_options)


def property_files(text: str | None) -> list[str]:
    """The files that ``--properties`` names.  Raises OSError for a folder that cannot be read."""
    found: list[str] = []
    for part in (text or "").split(","):
        if part.endswith("/"):
            found += sorted(str(path) for path in Path(part).iterdir() if path.suffix in (".properties", ".json"))
        elif part:
            found.append(part)
    return found


def settings_from_instance(folder: Path, properties: Sequence[str] = ()) -> BrokerSettings:
    """The broker of an instance folder; ``properties`` are files that override its broker.xml.  Raises :class:`ConfigurationError`."""
    if not folder.is_dir():
        raise ConfigurationError([Problem(str(folder), 0, "there is no such instance folder")])
    instance = read_instance(str(folder), _read, os.environ)
    instance.property_files = (*instance.property_files, *properties)
    loaded = instance.load(_read)
    check_loaded(loaded, instance.broker_xml, instance.login_config)
    security = instance.security
    warnings = [str(warning) for warning in loaded.warnings]
    if isinstance(security, BasicSecurity):
        return BrokerSettings(
            loaded.configuration,
            folder,
            etc=Path(instance.etc),
            warnings=warnings,
            basic_security=security.properties,
            login_domains=instance.login_config,
            web=instance.web_bindings,
        )
    certificates = security.certificate_domain
    return BrokerSettings(
        loaded.configuration,
        folder,
        instance.login_config.get(security.domain, ()),
        None if certificates is None else instance.login_config.get(certificates, ()),
        Path(instance.etc),
        warnings,
        login_domains=instance.login_config,
        web=instance.web_bindings,
    )


def settings_from_file(path: Path, base: Path, properties: Sequence[str] = ()) -> BrokerSettings:
    """The broker of a single broker.xml; users are those of a login.config beside it.  Raises :class:`ConfigurationError`."""
    loaded = load_configuration(str(path), _read, os.environ, properties)
    configuration = loaded.configuration
    resolve_paths(configuration, str(base.absolute()))
    etc = path.parent.absolute()
    login_config = etc / "login.config"
    domains: Mapping[str, Sequence[LoginModule]] = {}
    if login_config.exists():
        try:
            domains = parse_login_config(login_config.read_text(encoding="utf-8"))
        except JaasError as error:
            raise ConfigurationError([Problem(str(login_config), error.line, error.text)]) from error
    check_loaded(loaded, str(path), domains)
    modules = domains.get(LOGIN_DOMAIN)
    if configuration.security_enabled and not modules:
        text = (
            f"security is enabled but there is no entry {LOGIN_DOMAIN!r} in a login.config beside broker.xml; "
            "add one, or set security-enabled to false"
        )
        raise ConfigurationError([Problem(str(path), 0, text)])
    warnings = [str(warning) for warning in loaded.warnings]
    return BrokerSettings(configuration, base.absolute(), modules, etc=etc, warnings=warnings, login_domains=domains)


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def announce(broker: Broker) -> None:
    """Tell on standard output where the broker is and how to try it."""
    for url in broker.urls:
        print(f"listening on {url}")
    print(f"data folder {broker.data_directory.parent if broker.data_directory else '(none: nothing is kept)'}")
    print(f"node id {broker.node_id}")
    if broker.urls:
        program = "mqbroker" if shutil.which("mqbroker") else Path(sys.executable).with_name("mqbroker")
        print(
            f"send a first message with: {program} producer --url {broker.urls[0]} --destination queue://first --message-count 1",
            flush=True,
        )
