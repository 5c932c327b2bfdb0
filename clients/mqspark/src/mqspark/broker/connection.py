"""One connection to one broker, reopened when it is lost, for calls that may be repeated."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from mqclient.core.connection.connection import describe
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.core.session.session import Session
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError, NotConnectedError
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.protocol.retry import load_balancing_policy
from mqclient.protocol.topology import distinct
from mqclient.sockets import SocketRuntime
from mqclient.wire.primitives import TransportConfiguration
from mqspark.broker.failures import OF_THE_CONNECTION, failure
from mqspark.broker.nodes import Node, places, with_tls_of
from mqspark.errors import BrokerUnreachableError, MqsparkError
from mqspark.options import Options

T = TypeVar("T")
_log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.1
"""Pause before the second attempt to connect; it doubles with each attempt."""
PAUSE_SECONDS_MAX = 0.5
CLOSE_SECONDS = 5.0
"""Limit of an orderly close."""
FIRST_ELEMENT = "FirstElement"
"""The policy that takes the connectors in their order."""


class Connection:
    """The connection of a :class:`mqspark.broker.broker.Broker`.  ``settings``: fields of the locator's settings; they win over the URL."""

    def __init__(self, options: Options, node: Node | None, settings: dict[str, Any]) -> None:
        self._options = options
        self._node = node
        self._overrides = settings
        self._runtime = SocketRuntime()
        self._locator: Locator | None = None
        self._factory: SessionFactory | None = None
        self._session: Session | None = None
        self._places = ""
        self._seen: tuple[TransportConfiguration, ...] = ()
        """Connectors of the members that were there last."""

    # --- members

    @property
    def runtime(self) -> SocketRuntime:
        """The runtime of the connections: ``broker.runtime.run(session.commit())``."""
        return self._runtime

    @property
    def place(self) -> str:
        """Host and port, for messages."""
        return describe(self._factory.connector) if self._factory is not None else self._places

    @property
    def node_id(self) -> str:
        """Raises :class:`MqsparkError` when the broker does not say which member of its cluster it is."""
        if self._node is not None and self._node.node_id:
            return self._node.node_id
        found = self._own_id()
        if found is None:
            raise MqsparkError(
                f"the broker at {self.place} is not the address of any connector of its cluster, so it is not known which member it is: "
                "give the address of a connector in the option url"
            )
        return found

    @property
    def alive(self) -> bool:
        """Is the connection there, as far as this side can know without asking?"""
        self._runtime.pump(0)
        return self._session is not None and not self._session.closed

    def members(self) -> list[Node]:
        """The brokers of the cluster as this one knows them now, in the order of their node ids.

        When this one is away, any other that it knew tells.
        """
        if not self.alive:
            limit = self._options.reconnect_timeout
            self._live(self._runtime.now() + limit / 1000, limit, self._seen)
        assert self._locator is not None and self._factory is not None
        own = self._own_id()
        found = []
        for member in self._locator.topology:
            first = [self._factory.connector] if member.node_id == own else []
            connectors = distinct([*first, *(with_tls_of(self._factory.connector, each) for each in member.connectors)])
            if connectors:
                # A broker in no cluster announces no connector: the client takes its own for that.
                alone = member.primary is self._factory.connector and member.backup is None
                found.append(Node(member.node_id, tuple(connectors), alone=alone))
        if not found:
            raise BrokerUnreachableError(f"the broker at {self.place} does not say who belongs to its cluster; is it active?")
        self._seen = tuple(connector for node in found for connector in node.connectors)
        return sorted(found, key=lambda node: node.node_id)

    # --- calls, and sessions of one's own

    def call(self, doing: str, function: Callable[[Session], Awaitable[T]], *, repeat: bool = True) -> T:
        """The result of ``function``, over a new connection if the present one is lost; ``doing`` begins the sentence of an error.

        With ``repeat`` false a lost connection is an error, because the broker may have done the work or not.
        """
        limit = self._options.reconnect_timeout
        deadline = None
        while True:
            session = self._live(self._runtime.now() + limit / 1000 if deadline is None else deadline, limit)
            try:
                return self._runtime.run(function(session))
            except OF_THE_CONNECTION as error:
                place = self.place
                self._drop()
                if not repeat:
                    text = f"{doing}: the connection to {place} was lost before the answer came, so it is not known whether it was done"
                    raise BrokerUnreachableError(f"{text}: {error}") from error
                deadline = self._runtime.now() + limit / 1000 if deadline is None else deadline
                if self._runtime.now() >= deadline:
                    raise BrokerUnreachableError(f"{doing}: {place} gives no answer within {limit} ms: {error}") from error
                _log.warning("%s: the connection to %s was lost (%s); connecting again", doing, place, error)
            except MQError as error:
                raise failure(error, f"{doing} at {self.place}") from error

    def session(self, **arguments: Any) -> Session:
        """Another session on this connection, with the arguments of :meth:`mqclient.core.api.ClientSessionFactory.create_session`.

        The session ends with the connection: its calls, run by :attr:`runtime`, raise errors of :mod:`mqclient.errors`; after one of
        :data:`mqspark.broker.failures.OF_THE_CONNECTION` ask for another session.
        """

        async def create(session: Session) -> Session:
            assert self._factory is not None
            return await self._factory.create_session(**arguments)

        return self.call("opening a session", create)

    def failed(self, error: MQError, doing: str) -> NoReturn:
        """Raise the user's error for ``error`` of a session that :meth:`session` has made; ``doing`` begins the sentence."""
        if isinstance(error, OF_THE_CONNECTION):
            raise BrokerUnreachableError(f"{doing}: the connection to {self.place} was lost: {error}") from error
        raise failure(error, doing) from error

    # --- the connection

    def open(self, patient: bool) -> None:
        """Connect, for :func:`connect`."""
        limit = self._options.reconnect_timeout if patient else self._options.connect_timeout
        self._live(self._runtime.now() + limit / 1000, limit)

    def close(self) -> None:
        """Safe to call twice; never raises for reasons of the network."""
        self._drop(CLOSE_SECONDS)
        self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be sent to another process: send the Options and the Node, and connect there")

    # --- inside

    def _live(self, deadline: float, limit: int, others: Sequence[TransportConfiguration] = ()) -> Session:
        """The session, over a new connection if need be: to one of ``others`` if the connectors of the URL do not answer."""
        if self._session is not None and not self._session.closed:
            return self._session
        pause = PAUSE_SECONDS
        while True:
            self._drop()
            try:
                self._session = self._connect(max(deadline - self._runtime.now(), PAUSE_SECONDS), others)
                return self._session
            except OF_THE_CONNECTION as error:
                if self._runtime.now() + pause >= deadline:
                    text = f"no broker can be reached at {self._places} within {limit} ms"
                    if self._node is not None and self._node.node_id:
                        text = f"node {self._node.node_id} cannot be reached at {self._places} within {limit} ms"
                    raise BrokerUnreachableError(f"{text}: {error}") from error
            except MQError as error:
                raise failure(error, f"logging in at {self._places}") from error
            self._runtime.pump(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    def _connect(self, seconds: float, others: Sequence[TransportConfiguration]) -> Session:
        """Connect to the first broker that answers.  One that is silent leaves time for those behind it, such as its backup."""
        configuration = self._options.configuration()
        brokers: Sequence[TransportConfiguration] | DiscoveryGroupConfiguration = configuration.brokers
        settings = self._settings(configuration.settings)
        if self._node is not None:
            brokers = self._node.connectors
            settings.connection_load_balancing_policy_class_name = FIRST_ELEMENT
        elif others and not isinstance(brokers, DiscoveryGroupConfiguration):
            brokers = distinct([*brokers, *others])
            settings.connection_load_balancing_policy_class_name = FIRST_ELEMENT
        self._places = places(brokers)
        if isinstance(brokers, DiscoveryGroupConfiguration):
            return self._connect_to(brokers, settings, seconds)
        policy = load_balancing_policy(settings.connection_load_balancing_policy_class_name, self._runtime.random_below)
        first = policy.select(len(brokers))
        settings.connection_load_balancing_policy_class_name = FIRST_ELEMENT
        deadline = self._runtime.now() + seconds
        for left, broker in zip(range(len(brokers), 0, -1), (*brokers[first:], *brokers[:first]), strict=True):
            try:
                return self._connect_to([broker], settings, max((deadline - self._runtime.now()) / left, PAUSE_SECONDS))
            except OF_THE_CONNECTION:
                if left == 1:
                    raise
                self._drop()
        raise AssertionError("there is always a connector")

    def _connect_to(
        self, brokers: Sequence[TransportConfiguration] | DiscoveryGroupConfiguration, settings: LocatorSettings, seconds: float
    ) -> Session:
        self._locator = Locator(self._runtime, brokers, settings)
        self._factory = self._runtime.run(self._locator.create_session_factory(), timeout=seconds)
        found = self._own_id()
        if self._node is not None and self._node.node_id and found not in (None, self._node.node_id):
            raise NotConnectedError(f"another node answers there: {found}")
        return self._runtime.run(self._factory.create_session(), timeout=seconds)

    def _settings(self, settings: LocatorSettings) -> LocatorSettings:
        """Reconnecting is done here, so that a call knows whether it was made."""
        settings.ha = True  # only then the topology forgets departed members
        settings.initial_connect_attempts = 1
        settings.reconnect_attempts = settings.failover_attempts = 0
        settings.pre_acknowledge = False  # messages that come along unwanted go back
        for name, value in self._overrides.items():
            setattr(settings, name, value)
        return settings

    def _drop(self, seconds: float = 0.0) -> None:
        """Leave the connection; with ``seconds`` for a goodbye."""
        locator, self._locator = self._locator, None
        self._factory = self._session = None
        if locator is None:
            return
        try:
            if seconds:
                self._runtime.run(locator.close(), timeout=seconds)
            else:
                locator.leave()
                self._runtime.pump(0)
        except MQError as error:
            _log.info("leaving %s: %s", self._places, error)

    def _own_id(self) -> str | None:
        if self._factory is None or self._locator is None:
            return None
        members = [member.node_id for member in self._locator.topology]
        return self._factory.node_id or (members[0] if len(members) == 1 else None)
