"""Connection factories: where everything begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from mqclient import blocking
from mqclient.core.api import TransportConfiguration
from mqclient.core.connection.configuration import one_kind
from mqclient.core.factories.locator import Locator
from mqclient.jms.closing import Closing
from mqclient.jms.connection import Connection
from mqclient.jms.exceptions import JMS_ERRORS, IllegalArgumentException, IllegalStateException
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.settings import FactorySettings, read_url
from mqclient.openmq import PREFIX
from mqclient.protocol.discovery import DiscoveryGroupConfiguration, UdpEndpoint, check_endpoint

if TYPE_CHECKING:
    from mqclient.jms.context import JMSContext

C = TypeVar("C", bound=Connection)
DEFAULT_URL: Final = "tcp://localhost:61616"


class _Made(NamedTuple):
    """The locator of a factory, and the connections that were made with it."""

    locator: Locator
    connections: set[Connection]


class ConnectionFactory(Closing):
    """Makes connections to a broker, or to the brokers of a cluster in turn.

    ``url`` is a connection URL, such as ``tcp://host:61616?reconnectAttempts=-1``, ``(tcp://a:61616,tcp://b:61616)?ha=true`` or
    ``udp://231.7.7.7:9876``; instead of it a sequence of connectors or a discovery group can be given.  Every parameter of the URL is also
    an attribute of ``settings`` and a keyword here, in Python spelling: ``ConnectionFactory("tcp://host", reconnect_attempts=-1)``; a
    keyword wins over the URL.  The attributes of Open Message Queue's connection factories are keywords, too, by their own names
    (``imqAddressList="mq://a:7676,mq://b:7676"``).  ``password_codec`` decodes a password that the URL holds as ``ENC(…)``.

    Raises IllegalArgumentException for a URL or a value that cannot be used, AttributeError for an unknown keyword.  ``close()`` closes all
    its connections.
    """

    def __init__(
        self,
        url: str | Sequence[TransportConfiguration] | DiscoveryGroupConfiguration = DEFAULT_URL,
        *,
        password_codec: Callable[[str], str] | None = None,
        runner: blocking.Runner | None = None,
        **settings: object,
    ) -> None:
        """``runner``: where the connections run; None takes the process's (:func:`mqclient.blocking.get_runner`)."""
        self.settings = FactorySettings()
        attributes = {name: _attribute_text(settings.pop(name)) for name in list(settings) if name.startswith(PREFIX)}
        if attributes and not isinstance(url, str):
            raise IllegalArgumentException(f"{', '.join(attributes)} go with a URL or an address list, not with connectors")
        brokers = read_url(url, self.settings, password_codec, attributes) if isinstance(url, str) else url
        self._discovery: DiscoveryGroupConfiguration | None = None
        self._connectors: tuple[TransportConfiguration, ...] = ()
        if isinstance(brokers, DiscoveryGroupConfiguration):
            check_endpoint(brokers.endpoint)
            self._discovery = brokers
            self.settings.refresh_timeout = brokers.refresh_timeout
            self.settings.discovery_initial_wait_timeout = brokers.initial_wait_timeout
        else:
            self._connectors = tuple(brokers)
        self.settings.update(**settings)
        self._runner = runner
        self._made: dict[blocking.Runner, _Made] = {}
        """By the runner that they belong to: a process that was forked has another one, and cannot use what its parent has made."""
        self._closed = False

    @classmethod
    def with_ha(cls, *brokers: TransportConfiguration | DiscoveryGroupConfiguration, **settings: object) -> Self:
        """A factory for some connectors or one discovery group whose connections also try the backup of their broker."""
        return cls(one_kind(brokers), **{**settings, "ha": True})  # type: ignore[arg-type]

    @classmethod
    def without_ha(cls, *brokers: TransportConfiguration | DiscoveryGroupConfiguration, **settings: object) -> Self:
        """As :meth:`with_ha`, with ``ha`` not set."""
        return cls(one_kind(brokers), **{**settings, "ha": False})  # type: ignore[arg-type]

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """The brokers that were named; none when they are discovered."""
        return self._connectors

    def create_connection(self, user: str | None = None, password: str | None = None) -> Connection:
        """Connect.  Without ``user`` the credentials of the settings are used.  The connection has to be started to receive.

        Raises JMSSecurityException for wrong credentials, InvalidClientIDException for a client id in use, and JMSException when no broker
        answers.
        """
        return self._connect(Connection, user, password)

    def _connect(self, kind: type[C], user: str | None, password: str | None) -> C:
        if self._closed:
            raise IllegalStateException("the connection factory is closed")
        if not isinstance(user, str | None) or not isinstance(password, str | None):
            raise IllegalArgumentException("user and password are texts; an acknowledgement mode is given as session_mode=…")
        runner, made = self._open()
        with JMS_ERRORS:
            factory = runner.call(made.locator.create_session_factory)
        credentials = (self.settings.user, self.settings.password) if user is None else (user, password)
        try:
            connection = kind(runner, made.locator.runtime, factory, self.settings, credentials)
        except BaseException:
            runner.call(factory.close)
            raise
        made.connections.difference_update([each for each in tuple(made.connections) if each.closed])
        made.connections.add(connection)
        return connection

    def create_context(
        self, user: str | None = None, password: str | None = None, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> JMSContext:
        """Connect and open a session, as one object (:class:`mqclient.jms.context.JMSContext`)."""
        from mqclient.jms.context import JMSContext

        return JMSContext(self.create_connection(user, password), session_mode)

    def _open(self) -> tuple[blocking.Runner, _Made]:
        self.settings.freeze()
        with JMS_ERRORS:
            runner = self._runner or blocking.get_runner()
            # Of two threads that come first together, both go on with what one of them makes.
            return runner, self._made.get(runner) or self._made.setdefault(runner, _Made(self._new_locator(runner), set()))

    def _new_locator(self, runner: blocking.Runner) -> Locator:
        try:
            return runner.locator(self._brokers(), self.settings)
        except ValueError as error:
            raise IllegalArgumentException(str(error)) from error

    def _brokers(self) -> Sequence[TransportConfiguration] | DiscoveryGroupConfiguration:
        if self._discovery is None:
            return self._connectors
        settings = self.settings
        return DiscoveryGroupConfiguration(self._discovery.endpoint, settings.refresh_timeout, settings.discovery_initial_wait_timeout)

    def close(self) -> None:
        """Close all connections that were made here, as :meth:`Connection.close` does; safe to call twice.

        Raises IllegalStateException in a listener of one of their sessions.
        """
        self._closed = True
        for runner, made in tuple(self._made.items()):
            if runner.usable:
                for connection in tuple(made.connections):
                    connection.close()
                runner.call(made.locator.close)

    def __repr__(self) -> str:
        return f"<ConnectionFactory {', '.join(self._shown()) or 'discovery'}>"

    def _shown(self) -> list[str]:
        if self._discovery is not None:
            endpoint = self._discovery.endpoint
            if isinstance(endpoint, UdpEndpoint):
                return [f"udp://{endpoint.group_address}:{endpoint.group_port}"]
            return [f"jgroups://{endpoint.channel}"]
        return [f"{dict(connector.parameters).get('host')}:{dict(connector.parameters).get('port')}" for connector in self._connectors]


def _attribute_text(value: object) -> str:
    """An attribute of Open Message Queue as a URL has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
