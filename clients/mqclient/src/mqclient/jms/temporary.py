"""Making and deleting temporary destinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqclient.jms.destinations import ANYCAST, PREFIX_1X, Destination, TemporaryQueue, TemporaryTopic
from mqclient.jms.exceptions import IllegalStateException, InvalidDestinationException
from mqclient.jms.lookup import Lookup

NEVER: Final = "_AMQX=-1"
"""The filter of a temporary topic's own queue: it never matches."""


class Temporaries:
    """The temporary destinations that one session makes; ``names`` are the names of all in its connection."""

    def __init__(self, lookup: Lookup, names: set[str], new_uuid: Callable[[], str], prefixed: bool) -> None:
        """``prefixed``: names get the prefixes of Artemis 1.x."""
        self._lookup = lookup
        self._names = names
        self._new_uuid = new_uuid
        self._prefixed = prefixed

    def create_queue(self) -> TemporaryQueue:
        name = self._create(TemporaryQueue, ANYCAST, None)
        return TemporaryQueue(name, lambda: self._delete_queue(name))

    def create_topic(self) -> TemporaryTopic:
        name = self._create(TemporaryTopic, None, NEVER)
        return TemporaryTopic(name, lambda: self._delete_topic(name))

    def _create(self, kind: type[Destination], routing_type: int | None, filter: str | None) -> str:
        name = (PREFIX_1X[kind] if self._prefixed else "") + self._new_uuid()
        self._lookup.create_temporary_queue(name, routing_type, filter)
        self._names.add(name)
        return name

    def _delete_queue(self, name: str) -> None:
        found = self._lookup.queue(name)
        if not found.exists:
            raise InvalidDestinationException(f"the temporary queue {name} no longer exists")
        if found.consumer_count > 0:
            raise IllegalStateException(f"the temporary queue {name} still has a consumer")
        self._delete(name)

    def _delete_topic(self, name: str) -> None:
        found = self._lookup.address(name)
        if not found.exists:
            raise InvalidDestinationException(f"the temporary topic {name} no longer exists")
        if len(found.queue_names) > 1:
            raise IllegalStateException(f"the temporary topic {name} still has subscribers")
        self._delete(name)

    def _delete(self, name: str) -> None:
        self._lookup.delete_queue(name)
        self._names.discard(name)
