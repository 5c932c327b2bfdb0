"""The settings of a broker from its files.  A start and ``check config`` use the same functions, so that they refuse the same files."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mqbroker.checks import check_settings
from mqbroker.config.imq.files import PREFIX, PROPERTIES_FILE
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.instance.instance import BasicSecurity, read_instance, resolve_paths
from mqbroker.config.instance.jaas import JaasError, LoginModule, parse_login_config
from mqbroker.config.parse import Loaded, load_configuration
from mqbroker.config.problems import ConfigurationError, Findings, Problem

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqStart

LOGIN_DOMAIN = "activemq"
"""The entry of login.config that holds without a bootstrap.xml, as in Artemis's own instances."""


def settings_from_instance(
    folder: Path,
    properties: Sequence[str],
    environment: Mapping[str, str],
    definitions: Mapping[str, str] | None = None,
    broker_xml: str | None = None,
    imq: ImqStart | None = None,
) -> BrokerSettings:
    """The broker of an instance folder.

    ``properties`` are files that override its broker.xml, ``definitions`` stand for ``${name}`` before anything that the folder says;
    ``broker_xml`` takes the place of the file that its bootstrap.xml names.  ``imq`` is how an instance of Open Message Queue starts.
    Raises :class:`ConfigurationError` for everything that would stop a start with these files.
    """
    if not folder.is_dir():
        raise ConfigurationError([Problem(str(folder), 0, "there is no such instance folder")])
    instance = read_instance(str(folder), read_file, environment, definitions)
    if broker_xml is not None:
        instance.broker_xml = broker_xml
    instance.property_files = (*instance.property_files, *properties)
    loaded = instance.load(read_file)
    settings = BrokerSettings(
        loaded.configuration, folder, etc=Path(instance.etc), warnings=loaded.warnings, login_domains=instance.login_config
    )
    settings.web = instance.web_bindings
    security = instance.security
    if isinstance(security, BasicSecurity):
        settings.basic_security = security.properties
    else:
        settings.login = instance.login_config.get(security.domain, ())
        if security.certificate_domain is not None:
            settings.certificate_login = instance.login_config.get(security.certificate_domain, ())
    if imq is not None or (folder / PROPERTIES_FILE).exists():
        _make_imq(settings, instance.broker_xml, imq, definitions or {}, environment)
    return _checked(settings, loaded, instance.broker_xml, instance.login_config_file)


def _make_imq(
    settings: BrokerSettings, broker_xml: str, start: ImqStart | None, definitions: Mapping[str, str], environment: Mapping[str, str]
) -> None:
    """Without ``start`` those of ``definitions`` that are properties count."""
    from mqbroker.config.imq.instance import ImqStart, make_imq_instance, users_with_known_passwords  # few brokers are such instances

    findings = Findings()
    etc = settings.etc or settings.base
    start = start or ImqStart({name: value for name, value in definitions.items() if name.startswith(PREFIX)})
    start = replace(start, environment=environment)
    settings.imq = make_imq_instance(
        settings.configuration, str(settings.base), str(etc), broker_xml, start, _host_names(), read_file, findings
    )
    users = etc / "artemis-users.properties"
    try:
        known = users_with_known_passwords(users.read_bytes())
    except OSError:
        known = []
    for name in known:
        findings.warn(str(users), 0, f"user {name} has the password that every new instance gives: change it with `mqbroker user reset`")
    settings.warnings = [*settings.warnings, *findings.warnings]


def _host_names() -> list[str]:
    """The name of this machine, also with its domain, and its address."""
    name = socket.gethostname()
    try:
        return [name, socket.getfqdn(name), socket.gethostbyname(name)]
    except OSError:
        return [name]


def settings_from_file(path: Path, base: Path, properties: Sequence[str], environment: Mapping[str, str]) -> BrokerSettings:
    """The broker of a single broker.xml; users are those of a login.config beside it.

    Relative paths in it start at ``base``.  Raises :class:`ConfigurationError` for everything that would stop a start with these files.
    """
    loaded = load_configuration(str(path), read_file, environment, properties)
    configuration = loaded.configuration
    etc = path.parent.absolute()
    resolve_paths(configuration, str(base.absolute()), str(etc), read_file)
    login_config = etc / "login.config"
    domains: Mapping[str, Sequence[LoginModule]] = {}
    if login_config.exists():
        domains = _login_config(login_config)
    modules = domains.get(LOGIN_DOMAIN)
    settings = BrokerSettings(configuration, base.absolute(), modules, etc=etc, warnings=loaded.warnings, login_domains=domains)
    more: list[Problem] = []
    if configuration.security_enabled and not modules:
        text = (
            f"security is enabled but there is no entry {LOGIN_DOMAIN!r} in a login.config beside broker.xml; "
            "add one, or set security-enabled to false"
        )
        more.append(Problem(str(path), 0, text))
    return _checked(settings, loaded, str(path), str(login_config), more)


def _checked(settings: BrokerSettings, loaded: Loaded, broker_xml: str, login_config: str, found: Sequence[Problem] = ()) -> BrokerSettings:
    problems = [*found, *check_settings(settings, loaded.filters, broker_xml, login_config, read_file)]
    if problems:
        raise ConfigurationError(problems)
    return settings


def _login_config(path: Path) -> Mapping[str, Sequence[LoginModule]]:
    try:
        return parse_login_config(path.read_text(encoding="utf-8"))
    except JaasError as error:
        raise ConfigurationError([Problem(str(path), error.line, error.text)]) from error
    except (OSError, UnicodeError) as error:
        raise ConfigurationError([Problem(str(path), 0, f"cannot be read: {error}")]) from error


def read_file(path: str) -> bytes:
    return Path(path).read_bytes()
