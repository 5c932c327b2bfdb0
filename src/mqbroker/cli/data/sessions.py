"""Sessions of the core client for one command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mqbroker.cli.connection import broker_url, reason
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import CommandError, NoConnection
from mqclient.blocking import Runner, get_runner
from mqclient.core.api import ClientSession
from mqclient.errors import MQError, NotConnectedError, SecurityError
from mqclient.jms.settings import FactorySettings, read_url

OpenSession = Callable[..., ClientSession]
"""Opens a session with the login of the command; takes the keywords of ``create_session``."""


@contextmanager
def core_sessions(connection: ConnectionOptions) -> Iterator[tuple[Runner, OpenSession]]:
    """A connection of the core client, closed at the end; its calls go through the runner.

    Errors of the client inside become :class:`CommandError`, or :class:`NoConnection` where the broker cannot be reached or refuses the
    login.
    """
    settings = FactorySettings()
    try:
        connectors = read_url(broker_url(connection), settings)
    except ValueError as error:
        raise NoConnection(f"--url: {error}") from error
    # A URL may say otherwise, but a command has to know what the broker has.
    settings.block_on_durable_send = True
    # A body may be compressed already.
    settings.compress_large_message = False
    runner = get_runner()
    call: Callable[..., Any] = runner.call
    locator = runner.locator(connectors, settings)
    user, password = connection.user or settings.user, connection.password or settings.password
    try:
        factory = call(locator.create_session_factory)

        def open_session(**options: Any) -> ClientSession:
            session: ClientSession = call(factory.create_session, user, password, **options)
            return session

        yield runner, open_session
    except (NotConnectedError, SecurityError) as error:
        raise NoConnection(f"Connection failed::{reason(error)}") from error
    except MQError as error:
        raise CommandError(reason(error)) from error
    finally:
        call(locator.close)
