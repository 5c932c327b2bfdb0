"""Queues and topics as the application names them.

A destination's name may carry options behind a question mark (``orders?max-consumers=1&consumer-priority=5``; Artemis manual, "Queue
Attributes"): they take effect when this client creates the queue, ``consumer-priority`` always.  ``address::queue`` names one queue of an
address ("Fully Qualified Queue Names").  Where a text stands for a destination the prefixes ``queue://``, ``topic://``,
``temp-queue://`` and ``temp-topic://`` tell its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final
from urllib.parse import parse_qsl

from mqclient.jms.exceptions import InvalidDestinationException
from mqclient.text import nearest_name

MULTICAST: Final = 0
ANYCAST: Final = 1


class Destination:
    """The name of an address of unknown kind; usually one of the subclasses is used.

    ``address`` and ``queue_name`` are the names on the broker; ``attributes`` are the options of the name, as texts.  Two destinations are
    equal when their kinds and their names without options are equal.
    """

    prefix: ClassVar[str] = ""
    routing_type: ClassVar[int | None] = None
    temporary: ClassVar[bool] = False

    __slots__ = ("address", "attributes", "name", "queue_name")

    def __init__(self, name: str) -> None:
        self.name, _, options = name.partition("?")
        if not self.name:
            raise InvalidDestinationException(f"{name!r} does not name a destination")
        self.address, separator, queue = self.name.partition("::")
        if separator and not (self.address and queue):
            raise InvalidDestinationException(f"{name!r}: a fully qualified name is address::queue")
        self.queue_name = queue or self.name
        self.attributes: dict[str, str] = dict(parse_qsl(options.replace(";", "&"), keep_blank_values=True))

    @property
    def fully_qualified(self) -> bool:
        """Whether the name is ``address::queue``."""
        return self.address != self.name

    @property
    def text(self) -> str:
        """The name with the prefix of its kind, as in a message's reply-to."""
        return self.prefix + self.name

    @property
    def consumer_priority(self) -> int:
        """The option ``consumer-priority``; 0 without it."""
        text = self.attributes.get("consumer-priority", "0")
        try:
            return int(text)
        except ValueError:
            raise InvalidDestinationException(f"{self.name}: consumer-priority={text} is not a number") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash((self.prefix, self.name))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Queue(Destination):
    """Each message goes to one consumer."""

    prefix = "queue://"
    routing_type = ANYCAST
    __slots__ = ()


class Topic(Destination):
    """Each subscription gets every message."""

    prefix = "topic://"
    routing_type = MULTICAST
    __slots__ = ()


class _Temporary(Destination):
    temporary = True
    __slots__ = ("_delete",)

    def __init__(self, name: str, delete: Callable[[], None] | None = None) -> None:
        super().__init__(name)
        self._delete = delete

    def delete(self) -> None:
        """Remove it from the broker; only the connection that made it may.  Raises JMSException while it has a consumer."""
        if self._delete is None:
            raise InvalidDestinationException(f"{self} was made by another connection")
        self._delete()


class TemporaryQueue(_Temporary, Queue):
    """A queue that lives as long as the connection that made it."""

    prefix = "temp-queue://"
    __slots__ = ()


class TemporaryTopic(_Temporary, Topic):
    """A topic that lives as long as the connection that made it."""

    prefix = "temp-topic://"
    __slots__ = ()


PREFIX_1X: Final[dict[type[Destination], str]] = {
    Queue: "jms.queue.",
    Topic: "jms.topic.",
    TemporaryQueue: "jms.tempqueue.",
    TemporaryTopic: "jms.temptopic.",
}
"""The prefixes that Artemis 1.x put in front of every address."""

_KINDS: Final[tuple[type[Destination], ...]] = (TemporaryQueue, TemporaryTopic, Queue, Topic)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def parse_destination(text: str, default: type[Destination] = Destination) -> Destination:
    """The destination that ``text`` names; without a prefix it is of the kind ``default``."""
    for kind in _KINDS:
        if text.startswith(kind.prefix):
            return kind(text[len(kind.prefix) :])
    return default(text)


def as_destination(destination: Destination | str) -> Destination:
    """A destination from an object or a text; a text without a prefix is a queue.

    Raises InvalidDestinationException for a text with another prefix, and for other objects.
    """
    if isinstance(destination, str):
        found = parse_destination(destination, Queue)
        scheme = _SCHEME.match(destination) if found.name == destination.partition("?")[0] else None
        if scheme is not None:
            nearest = nearest_name(scheme[0], [kind.prefix for kind in _KINDS])
            hint = f"; did you mean {nearest}{destination[scheme.end() :]}?" if nearest else ""
            raise InvalidDestinationException(f"{destination}: expected queue://NAME, topic://NAME, or the name of a queue{hint}")
        return found
    if not isinstance(destination, Destination):
        kind = type(destination).__name__
        raise InvalidDestinationException(f"a destination was expected, a Queue, a Topic or a text such as queue://orders, not {kind}")
    return destination


def looks_like_destination(text: object) -> bool:
    """Is it an object or a text that can only be meant as a destination?"""
    if isinstance(text, str):
        return " " not in text and any(text.startswith(kind.prefix) and text != kind.prefix for kind in _KINDS)
    return isinstance(text, Destination)


def check_plain_name(name: str) -> None:
    """Raises InvalidDestinationException for a text with a prefix where the name alone was asked for."""
    if looks_like_destination(name):
        raise InvalidDestinationException(f"{name}: expected the name alone, without a prefix")
