"""Opening a connection for a command: its URL and user, and the text of a failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqbroker.cli.options import DEFAULT_URL, ConnectionOptions
from mqbroker.cli.status import CommandError, NoConnection

if TYPE_CHECKING:
    from mqclient.jms import Connection

ATTEMPTS = 3
"""How often a person at a terminal is asked for other credentials."""


def broker_url(options: ConnectionOptions) -> str:
    """The URL to connect to: ``--url``, or the acceptor of the instance, or ``tcp://localhost:61616``."""
    if options.url:
        return options.url
    if options.instance is not None:
        found = acceptor_url(options.instance / "etc" / "broker.xml", options.acceptor)
        if found:
            return found
    return DEFAULT_URL


def acceptor_url(file: Path, name: str) -> str | None:
    """The URL for clients on this machine of the acceptor (or else connector) ``name`` in a broker.xml; None when there is none.

    A file that cannot be read, and a URL with ``${…}`` in it, count as none: the broker itself reports such errors.
    """
    from lxml import etree

    from mqclient.urls import UrlError, parse_transport_uri

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        tree = etree.parse(str(file), parser)
    except (OSError, etree.XMLSyntaxError):
        return None
    for kind in ("acceptor", "connector"):
        for element in tree.iter(f"{{*}}{kind}"):
            if element.get("name") != name or not element.text:
                continue
            try:
                uri = parse_transport_uri(element.text.strip())
            except UrlError:
                return None
            host = uri.hosts[0] if uri.hosts else "localhost"
            host = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
            tls = "?sslEnabled=true" if uri.parameters.get("sslEnabled", "").lower() == "true" else ""
            return f"{uri.scheme}://{host}:{uri.port}{tls}"
    return None


@contextmanager
def connected(options: ConnectionOptions) -> Iterator[Connection]:
    """A started connection, closed at the end.

    Errors of the JMS API inside become :class:`CommandError`.  Raises :class:`NoConnection` when the broker cannot be reached or
    refuses the login; at a terminal, and without ``--silent``, other credentials are asked for first.
    """
    from mqclient.jms import JMSException

    connection = _open(options)
    try:
        connection.start()
        yield connection
    except JMSException as error:
        raise CommandError(reason(error)) from error
    finally:
        connection.close()


def reason(error: BaseException) -> str:
    """The sentence of an error, without the class name; the class name when there is no sentence."""
    return str(error) or type(error).__name__


def _open(options: ConnectionOptions) -> Connection:
    from mqclient.jms import ConnectionFactory, JMSException, JMSSecurityException
    from mqclient.urls import UrlError, masked

    url = broker_url(options)
    if not options.quiet:
        click.echo(f"Connection brokerURL = {masked(url)}")
    try:
        factory = ConnectionFactory(url)
    except (UrlError, ValueError) as error:
        raise NoConnection(f"--url: {error}") from error
    user, password = options.user, options.password
    for attempt in range(ATTEMPTS):
        try:
            connection = factory.create_connection(user, password)
            if options.client_id:
                connection.client_id = options.client_id
            return connection
        except JMSSecurityException as error:
            if options.silent or not sys.stdin.isatty() or attempt == ATTEMPTS - 1:
                raise NoConnection(f"Connection failed::{reason(error)}") from error
            if user is None or password is not None:
                click.echo(f"Connection failed::{reason(error)}", err=True)
                user = str(click.prompt("--user", default=user))
            password = str(click.prompt("--password", hide_input=True))
        except JMSException as error:
            raise NoConnection(f"Connection failed::{reason(error)}") from error
    raise AssertionError("unreachable")
