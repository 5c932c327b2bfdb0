"""Names as clients write them: prefixes that choose a routing type, and fully qualified queue names."""

from __future__ import annotations

from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqclient.errors import IllegalStateError

QUALIFIER = "::"
"""Separates address and queue in a fully qualified queue name."""

_OLD_PREFIXES = {ANYCAST: "jms.queue.", MULTICAST: "jms.topic."}
_OLD_KINDS = (*_OLD_PREFIXES.values(), "jms.tempqueue.", "jms.temptopic.")


NAME_LENGTH_MAX = 1024
"""Characters of a name that a client chooses (address, queue, session, user): the broker remembers many names."""


def check_length(name: str | None) -> None:
    """Raises IllegalStateError for a name that is too long."""
    if name is not None and len(name) > NAME_LENGTH_MAX:
        raise IllegalStateError(f"a name of {len(name)} characters, at most {NAME_LENGTH_MAX} are allowed: {name[:40]}…")


def split_qualified(name: str) -> tuple[str, str | None]:
    """(address, queue); the queue is None unless the name is fully qualified."""
    address, found, queue = name.partition(QUALIFIER)
    return (address, queue) if found else (name, None)


def queue_part(name: str) -> str:
    """The queue in ``name``, fully qualified or not; empty for ``address::``, which names no queue."""
    address, queue = split_qualified(name)
    return address if queue is None else queue


class Naming:
    """The name rules of one acceptor.

    A listed prefix is taken off names in requests and fixes the routing type (acceptor parameters ``anycastPrefix`` and
    ``multicastPrefix``).
    """

    __slots__ = ("_prefixes",)

    def __init__(self, anycast_prefixes: tuple[str, ...] = (), multicast_prefixes: tuple[str, ...] = ()) -> None:
        self._prefixes = [(prefix, ANYCAST) for prefix in anycast_prefixes if prefix]
        self._prefixes += [(prefix, MULTICAST) for prefix in multicast_prefixes if prefix]
        self._prefixes.sort(key=lambda entry: -len(entry[0]))

    def strip(self, name: str) -> tuple[str, int | None]:
        """(name without prefix, routing type that the prefix stands for).  Raises IllegalStateError for a name that is too long."""
        check_length(name)
        for prefix, routing_type in self._prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :], routing_type
        return name, None

    @staticmethod
    def for_old_client(name: str, routing_type: int) -> str:
        """``name`` as a JMS client before protocol version 129 expects it, with ``jms.queue.`` or ``jms.topic.`` before it."""
        return name if name.startswith(_OLD_KINDS) else _OLD_PREFIXES[routing_type] + name
