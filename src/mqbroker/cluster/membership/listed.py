"""Brokers that somebody lists, again and again: the members of a cluster that find each other through a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqclient.wire.primitives import TransportConfiguration


class ListedBrokers:
    """A :class:`~mqbroker.cluster.membership.discovery.Discovery` of the brokers of the last list."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], object]] = []
        self.rival_listeners: list[Callable[[TransportConfiguration], object]] = []
        """Nobody is listed by a node id."""
        self.contested: tuple[str, ...] = ()
        self._connectors: list[TransportConfiguration] = []

    def connectors(self) -> list[TransportConfiguration]:
        return list(self._connectors)

    def change(self, connectors: Sequence[TransportConfiguration]) -> None:
        """The brokers are at these places from now on; links to others stay until they are lost."""
        if list(connectors) != self._connectors:
            self._connectors = list(connectors)
            for listener in list(self.listeners):
                listener()
