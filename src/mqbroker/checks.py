"""What is checked in a configuration that has been read, before a broker starts with it: the same for a start and for ``check config``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mqbroker.config.parse import Loaded
from mqbroker.config.problems import ConfigurationError, Problem
from mqbroker.messaging.filter import parse_filter
from mqclient.errors import InvalidFilterExpressionError
from mqclient.text import nearest_name


def check_loaded(loaded: Loaded, file: str, login_domains: Collection[str]) -> None:
    """Check that filters of queues can be read, and that login domains of acceptors are entries of login.config.

    ``file`` is the broker.xml, ``login_domains`` are the names of the entries.  Raises :class:`ConfigurationError`.
    """
    problems = [*_bad_filters(loaded), *_missing_domains(loaded, file, login_domains)]
    if problems:
        raise ConfigurationError(problems)


def _bad_filters(loaded: Loaded) -> Iterator[Problem]:
    for written in loaded.filters:
        try:
            parse_filter(written.text)
        except InvalidFilterExpressionError as error:
            yield Problem(written.file, written.line, f"filter: {error}")


def _missing_domains(loaded: Loaded, file: str, login_domains: Collection[str]) -> Iterator[Problem]:
    for uri in loaded.configuration.acceptors:
        domain = uri.parameters.get("securityDomain")
        if domain is not None and domain not in login_domains:
            known = nearest_name(domain, login_domains) or ", ".join(login_domains) or "none"
            yield Problem(file, 0, f"acceptor {uri.name}: securityDomain={domain} is no entry of login.config; expected: {known}")
