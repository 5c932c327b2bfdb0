"""Looking up connection factories and destinations by name, as JNDI does in Java.

The properties are those of ``ActiveMQInitialContextFactory`` (Artemis manual, "JNDI")::

    java.naming.factory.initial=org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory
    java.naming.provider.url=tcp://localhost:61616
    connectionFactory.orders=(tcp://a:61616,tcp://b:61616)?ha=true
    queue.jobs=jobs.incoming
    topic.news=news

``connection.NAME`` of the early documentation means ``connectionFactory.NAME``.  A factory may also name its brokers by an address list of
Open Message Queue (:mod:`mqclient.openmq`): ``connectionFactory.orders=mq://a:7676,mq://b:7676?imqReconnectEnabled=true``.  All other keys
are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import javaproperties

from mqclient.jms.destinations import Destination, Queue, Topic
from mqclient.jms.exceptions import InvalidDestinationException
from mqclient.jms.factory import DEFAULT_URL, ConnectionFactory
from mqclient.jms.xa import XAConnectionFactory
from mqclient.openmq import connection_url
from mqclient.text import nearest_name

FILE_NAME: Final = "jndi.properties"
PROVIDER_URL: Final = "java.naming.provider.url"
DYNAMIC_QUEUES: Final = "dynamicQueues/"
DYNAMIC_TOPICS: Final = "dynamicTopics/"

_FACTORY_PREFIXES: Final = ("connectionFactory.", "connection.")
_DEFAULT_NAMES: Final = {
    "CF": "ConnectionFactory",
    "XA_CF": "XAConnectionFactory",
    "QUEUE_CF": "QueueConnectionFactory",
    "TOPIC_CF": "TopicConnectionFactory",
    "QUEUE_XA_CF": "XAQueueConnectionFactory",
    "TOPIC_XA_CF": "XATopicConnectionFactory",
}
"""The names that the provider URL is bound to: all of these, or the one of its parameter ``type``."""

_XA_KINDS: Final = frozenset(kind for kind in _DEFAULT_NAMES if "XA" in kind)

Bound = ConnectionFactory | Queue | Topic
D = TypeVar("D", bound=Destination)


class NamingException(LookupError):
    """No object is bound to the name."""


class InitialContext(Mapping[str, Bound]):
    """The objects that a ``jndi.properties`` file names: connection factories, queues and topics; read-only, also usable as a mapping.

    Every lookup of a name gives the same object.  ``dynamicQueues/NAME`` and ``dynamicTopics/NAME`` need no entry.
    """

    def __init__(
        self, properties: str | Path | Mapping[str, str] = FILE_NAME, *, password_codec: Callable[[str], str] | None = None
    ) -> None:
        """``properties``: the file, the folder that holds it, or its content as a mapping.

        Raises OSError for a file that cannot be read and ValueError, naming the file or the key, for an escape, a URL or a name that cannot
        be.
        """
        entries = properties if isinstance(properties, Mapping) else _read(Path(properties))
        self._bound: dict[str, Bound] = {}
        provider = entries.get(PROVIDER_URL, "").strip()
        if provider:
            self._bind_provider(provider, password_codec)
        for key, value in entries.items():
            text = value.strip()
            for prefix in _FACTORY_PREFIXES:
                if key.startswith(prefix):
                    url = text or DEFAULT_URL
                    self._bound[key.removeprefix(prefix)] = _factory(key, url, _kind(key, url) or "CF", password_codec)
            if key.startswith("queue."):
                self._bound[key.removeprefix("queue.")] = _destination(Queue, key, text)
            elif key.startswith("topic."):
                self._bound[key.removeprefix("topic.")] = _destination(Topic, key, text)

    def _bind_provider(self, url: str, password_codec: Callable[[str], str] | None) -> None:
        chosen = _kind(PROVIDER_URL, url)
        made: dict[bool, ConnectionFactory] = {}
        for kind, name in _DEFAULT_NAMES.items():
            if chosen in (None, kind):
                xa = kind in _XA_KINDS
                self._bound[name] = made[xa] = made.get(xa) or _factory(PROVIDER_URL, url, kind, password_codec)

    def lookup(self, name: str) -> Bound:
        """The object that is bound to ``name``.  Raises :class:`NamingException`."""
        found = self._bound.get(name)
        if found is not None:
            return found
        if name.startswith(DYNAMIC_QUEUES) and len(name) > len(DYNAMIC_QUEUES):
            return self._bound.setdefault(name, Queue(name.removeprefix(DYNAMIC_QUEUES)))
        if name.startswith(DYNAMIC_TOPICS) and len(name) > len(DYNAMIC_TOPICS):
            return self._bound.setdefault(name, Topic(name.removeprefix(DYNAMIC_TOPICS)))
        nearest = nearest_name(name, self._bound)
        raise NamingException(f"nothing is bound to {name}{f'; did you mean {nearest}?' if nearest else ''}")

    def connection_factory(self, name: str = "ConnectionFactory") -> ConnectionFactory:
        """The connection factory bound to ``name``."""
        found = self.lookup(name)
        if not isinstance(found, ConnectionFactory):
            raise NamingException(f"{name} is a {type(found).__name__}, not a connection factory")
        return found

    def xa_connection_factory(self, name: str = "XAConnectionFactory") -> XAConnectionFactory:
        """The connection factory for distributed transactions bound to ``name`` (its URL says ``type=XA_CF``)."""
        found = self.lookup(name)
        if not isinstance(found, XAConnectionFactory):
            raise NamingException(f"{name} is a {type(found).__name__}, not a connection factory with type=XA_CF")
        return found

    def queue(self, name: str) -> Queue:
        """The queue bound to ``name``."""
        found = self.lookup(name)
        if not isinstance(found, Queue):
            raise NamingException(f"{name} is a {type(found).__name__}, not a queue")
        return found

    def topic(self, name: str) -> Topic:
        """The topic bound to ``name``."""
        found = self.lookup(name)
        if not isinstance(found, Topic):
            raise NamingException(f"{name} is a {type(found).__name__}, not a topic")
        return found

    def __getitem__(self, name: str) -> Bound:
        try:
            return self.lookup(name)
        except NamingException as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._bound)

    def __len__(self) -> int:
        return len(self._bound)


def _kind(key: str, url: str) -> str | None:
    """The parameter ``type`` of a URL."""
    try:
        kind = connection_url(url).parameters.get("type")
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
    if kind is None or kind.upper() in _DEFAULT_NAMES:
        return kind and kind.upper()
    raise ValueError(f"{key}: type={kind}: expected one of {', '.join(_DEFAULT_NAMES)}")


def _factory(key: str, url: str, kind: str, password_codec: Callable[[str], str] | None) -> ConnectionFactory:
    try:
        return (XAConnectionFactory if kind in _XA_KINDS else ConnectionFactory)(url, password_codec=password_codec)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _destination(kind: type[D], key: str, name: str) -> D:
    try:
        return kind(name)
    except InvalidDestinationException as error:
        raise ValueError(f"{key}: {error}") from error


def _read(path: Path) -> dict[str, str]:
    file = path / FILE_NAME if path.is_dir() else path
    try:
        return dict(javaproperties.loads(file.read_text("latin-1")))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
