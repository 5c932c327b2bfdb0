"""Checks of a configuration that was read, before a broker starts with it: a start and ``check config`` make the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mqbroker.config.model.monitoring_ports import bindings
from mqbroker.config.problems import ConfigurationError, Problem, WrittenFilter
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.transformers import TransformerError, load_transformer
from mqbroker.server.security.login import LoginBrokenError, PropertiesLoginModule, TextFileCertificateLoginModule, login_steps
from mqbroker.server.transport.acceptor import is_secure, speaks_core, starts_itself
from mqbroker.server.transport.tls import server_context
from mqbroker.server.transport.tls_policy import TlsConfigurationError
from mqclient.errors import InvalidFilterExpressionError
from mqclient.text import nearest_name

if TYPE_CHECKING:
    from mqbroker.config.instance.broker_settings import BrokerSettings
    from mqbroker.config.model.configuration import Configuration

ReadFile = Callable[[str], bytes]


def check_settings(
    settings: BrokerSettings, filters: Iterable[WrittenFilter], broker_xml: str, login_config: str, read_file: ReadFile
) -> list[Problem]:
    """The problems in ``settings`` that would stop a start, without those of the machine, such as ports in use and data folders.

    Opens key and trust stores and the files of the login modules; changes nothing.  ``filters`` are those of the configured queues.
    """
    problems = [
        *_bad_filters(filters),
        *_bad_acceptors(settings, broker_xml, read_file),
        *_bad_logins(settings, login_config, read_file),
        *_bad_diverts(settings.configuration, broker_xml),
        *_bad_network_check(settings.configuration, broker_xml),
        *_bad_lock_manager(settings.configuration, broker_xml),
    ]
    try:
        bindings(settings.configuration.metrics, settings.web)
    except ValueError as error:
        problems.append(Problem(broker_xml, 0, str(error)))
    return problems


def _bad_network_check(configuration: Configuration, file: str) -> Iterator[Problem]:
    if configuration.checks_network:
        from mqbroker.reachability import places_of

        try:
            places_of(configuration)
        except ValueError as error:
            yield Problem(file, 0, str(error))


def _bad_lock_manager(configuration: Configuration, file: str) -> Iterator[Problem]:
    if configuration.replication is not None and configuration.replication.manager is not None:
        from mqbroker.lock_managers import make_lock_manager

        try:
            make_lock_manager(configuration.replication.manager)
        except ValueError as error:
            yield Problem(file, 0, str(error))


def idle_parts(configuration: Configuration) -> Iterator[str]:
    """Warnings about configured parts without effect."""
    if configuration.grouping_handler is not None and not configuration.cluster_connections:
        yield "the grouping-handler has no effect without a cluster connection: within one broker queues keep groups together"


def odd_settings(settings: BrokerSettings, read_file: ReadFile) -> list[str]:
    """The warnings of the parts of a broker that starts with ``settings``, beside the warnings in the settings."""
    from mqbroker.availability import start_warnings

    configuration = settings.configuration
    told = bindings(configuration.metrics, settings.web)[1]
    told.extend(idle_parts(configuration))
    told += start_warnings(settings)
    if configuration.checks_network:
        from mqbroker.reachability import remarks_of

        told += remarks_of(configuration)
    for modules in settings.login_domains.values():
        told += login_steps(modules, "", read_file)[1]
    return told


def _bad_filters(filters: Iterable[WrittenFilter]) -> Iterator[Problem]:
    for written in filters:
        try:
            parse_filter(written.text)
        except InvalidFilterExpressionError as error:
            yield Problem(written.file, written.line, f"filter: {error}")


def _bad_diverts(configuration: Configuration, file: str) -> Iterator[Problem]:
    """Missing transformers; names, addresses and filters are checked when the configuration is read."""
    for divert in configuration.diverts:
        try:
            if divert.transformer is not None:
                load_transformer(divert.transformer, f"divert {divert.name}")
        except TransformerError as error:
            yield Problem(file, 0, str(error))


def _bad_acceptors(settings: BrokerSettings, file: str, read_file: ReadFile) -> Iterator[Problem]:
    places: dict[tuple[str, int], str] = {}
    for uri in settings.configuration.acceptors:
        if uri.scheme == "vm":
            if not uri.host.isdecimal():
                yield Problem(file, 0, f"acceptor {uri.name}: {uri} has no number; expected vm://0")
            continue
        if not speaks_core(uri):
            continue
        domain = uri.parameters.get("securityDomain")
        if domain and domain not in settings.login_domains:
            known = nearest_name(domain, settings.login_domains) or ", ".join(settings.login_domains) or "none"
            yield Problem(file, 0, f"acceptor {uri.name}: securityDomain={domain} is not an entry of login.config; expected: {known}")
        if not starts_itself(uri):
            continue
        for host in uri.hosts:
            other = places.setdefault((host, uri.port), uri.name)
            if uri.port and other != uri.name:
                yield Problem(file, 0, f"acceptor {uri.name}: acceptor {other} listens on {host}:{uri.port} already")
        if is_secure(uri):
            try:
                server_context(uri.parameters, read_file)
            except TlsConfigurationError as error:
                yield Problem(file, 0, f"acceptor {uri.name}: {error}")


def _bad_logins(settings: BrokerSettings, file: str, read_file: ReadFile) -> Iterator[Problem]:
    """Unknown login modules, and unreadable files of login modules in use."""
    configuration = settings.configuration
    named = [uri.parameters.get("securityDomain") for uri in configuration.acceptors]
    used = [settings.login, settings.certificate_login, *(settings.login_domains.get(name) for name in named if name)]
    folder = str(settings.etc or settings.base)
    for modules in {id(each): each for each in (*used, *settings.login_domains.values()) if each}.values():
        try:
            steps, _ = login_steps(modules, folder, read_file)
        except ConfigurationError as error:
            yield from (Problem(file, problem.line, problem.text) for problem in error.problems)
            continue
        if configuration.security_enabled and any(modules is each for each in used):
            yield from _bad_files([step.module for step in steps], file)


def _bad_files(modules: Sequence[object], file: str) -> Iterator[Problem]:
    for module in modules:
        if isinstance(module, (PropertiesLoginModule, TextFileCertificateLoginModule)):
            try:
                module.check()
            except LoginBrokenError as error:
                yield Problem(file, 0, str(error))
