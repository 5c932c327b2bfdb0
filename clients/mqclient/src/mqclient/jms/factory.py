"""Connection factories: where everything begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from mqclient import blocking
from mqclient.core.api import BlockingRunner, ServerLocator, TransportConfiguration
from mqclient.core.runtime import HasRuntime
from mqclient.jms.connection import Connection
from mqclient.jms.exceptions import JMS_ERRORS, IllegalStateException, JMSException
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.settings import FactorySettings, read_url

if TYPE_CHECKING:
    from mqclient.jms.context import JMSContext

T = TypeVar("T")
C = TypeVar("C", bound=Connection)
DEFAULT_URL: Final = "tcp://localhost:61616"


class ConnectionFactory:
    """Makes connections to a broker, or to the brokers of a cluster in turn.

    ``url`` is a connection URL, such as ``tcp://host:61616?reconnectAttempts=-1`` or ``(tcp://a:61616,tcp://b:61616)?ha=true``; instead
    of it a sequence of connectors can be given.  Every parameter of the URL is also an attribute of ``settings`` and a keyword here, in
    Python spelling: ``ConnectionFactory("tcp://host", reconnect_attempts=-1)``; a keyword wins over the URL.  ``password_codec`` decodes a
    password that the URL holds as ``ENC(…)``.

    Raises ValueError (:class:`mqclient.urls.UrlError`) for a URL that cannot be read.  ``close()`` closes all its connections.
    """

    def __init__(
        self,
        url: str | Sequence[TransportConfiguration] = DEFAULT_URL,
        *,
        password_codec: Callable[[str], str] | None = None,
        runner: BlockingRunner | None = None,
        **settings: object,
    ) -> None:
        """``runner``: where the connections run; None takes the process's (:func:`mqclient.blocking.get_runner`)."""
        self.settings = FactorySettings()
        self._text = url if isinstance(url, str) else None
        self._connectors = read_url(url, self.settings, password_codec) if isinstance(url, str) else tuple(url)
        self.settings.update(**settings)
        self._runner = runner
        self._locator: ServerLocator | None = None
        self._closed = False

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
        runner, locator = self._open()
        with JMS_ERRORS:
            factory = _call(runner, locator.create_session_factory)
        credentials = (self.settings.user, self.settings.password) if user is None else (user, password)
        try:
            return kind(runner, cast(HasRuntime, locator).runtime, factory, self.settings, credentials)
        except BaseException:
            _call(runner, factory.close)
            raise

    def create_context(
        self, user: str | None = None, password: str | None = None, *, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> JMSContext:
        """Connect and open a session, as one object (:class:`mqclient.jms.context.JMSContext`)."""
        from mqclient.jms.context import JMSContext

        return JMSContext(self.create_connection(user, password), session_mode)

    def _open(self) -> tuple[BlockingRunner, ServerLocator]:
        self.settings.freeze()
        with JMS_ERRORS:
            if self._runner is None:
                self._runner = blocking.get_runner()
            if self._locator is None:
                if not self._connectors:
                    raise JMSException(f"{self._text}: discovery of brokers is not supported by this version; name them in a list")
                self._locator = self._runner.locator(self._connectors, self.settings)
            return self._runner, self._locator

    def close(self) -> None:
        """Close all connections that were made here; safe to call twice."""
        self._closed = True
        if self._locator is not None and self._runner is not None:
            _call(self._runner, self._locator.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ConnectionFactory {', '.join(self._shown()) or 'discovery'}>"

    def _shown(self) -> list[str]:
        return [f"{dict(connector.parameters).get('host')}:{dict(connector.parameters).get('port')}" for connector in self._connectors]


def _call(runner: BlockingRunner, function: Callable[..., Awaitable[T]]) -> T:
    untyped: Callable[..., Any] = function
    result: T = runner.call(untyped)
    return result
