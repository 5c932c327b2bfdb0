"""Discovery groups: the brokers that announce themselves where this one listens (Artemis manual, "Clusters")."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from mqbroker.config.model.cluster import DiscoveryGroupConfiguration
from mqbroker.server.observation.gauges import Gauges
from mqclient.core.discovery.discovery import DiscoveryListener
from mqclient.core.runtime import Runtime, Timer
from mqclient.errors import NotConnectedError
from mqclient.protocol import discovery
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint
from mqclient.wire.primitives import TransportConfiguration
from mqclient.wire.properties import STRING, TypedValue

Notify = Callable[[str, Mapping[str, TypedValue]], object]

RETRY_SECONDS = 5.0
"""Seconds between attempts to join a group while the system refuses: the network may come up after the broker."""


class Discovery(Protocol):
    """Finds the places of other brokers."""

    @property
    def listeners(self) -> list[Callable[[], object]]:
        """Called when there are other places, or :attr:`contested` has changed."""

    @property
    def rival_listeners(self) -> list[Callable[[TransportConfiguration], object]]:
        """Called with the connector of another broker that has the node id of this one."""

    @property
    def contested(self) -> tuple[str, ...]:
        """Node ids that two brokers have at the same time."""

    def connectors(self) -> list[TransportConfiguration]:
        """One connector for each broker."""


def endpoint_in(endpoint: Endpoint, folder: str) -> Endpoint:
    """``endpoint`` with the stack file of a JGroups channel looked up in ``folder`` (``etc`` of the instance)."""
    if isinstance(endpoint, JGroupsEndpoint):
        return replace(endpoint, file=posixpath.join(folder, endpoint.file))
    return endpoint


class DiscoveryGroup:
    """Listens for the brokers of a cluster.

    ``own_node_id`` is not listed; another broker that announces it with another id than ``own_unique_id`` makes it contested.  ``notify``
    sends DISCOVERY_GROUP_STARTED and DISCOVERY_GROUP_STOPPED.
    """

    def __init__(
        self,
        name: str,
        configuration: DiscoveryGroupConfiguration,
        runtime: Runtime,
        own_node_id: str | None,
        own_unique_id: str | None = None,
        notify: Notify | None = None,
    ) -> None:
        self.name = name
        self.configuration = configuration
        self.started = False
        self._runtime = runtime
        self._notify = notify
        self._own_node_id = own_node_id
        self._listener = DiscoveryListener(
            runtime,
            discovery.DiscoveryGroupConfiguration(
                configuration.endpoint, configuration.refresh_timeout, configuration.initial_wait_timeout
            ),
            own_node_id,
            own_unique_id,
        )
        self.discovered = self._listener.discovered
        """The brokers that were heard of, and the numbers of datagrams."""
        self._retry: Timer | None = None
        self._refused = False

    def start(self) -> None:
        """Listen from now on, or as soon as the system permits.  Raises ValueError for an endpoint that cannot be used."""
        if self.started:
            return
        self._join()
        self.started = True
        if self._notify is not None:
            self._notify("DISCOVERY_GROUP_STARTED", {"name": (STRING, self.name)})

    def stop(self) -> None:
        """Listen no more and forget all announcements."""
        if not self.started:
            return
        self.started = False
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._listener.stop()
        if self._notify is not None:
            self._notify("DISCOVERY_GROUP_STOPPED", {"name": (STRING, self.name)})

    def connectors(self) -> list[TransportConfiguration]:
        """One connector for each announced broker."""
        return self.discovered.connectors()

    @property
    def listeners(self) -> list[Callable[[], object]]:
        """Called when a broker appeared, left or changed its connectors, and when :attr:`contested` changed."""
        return self.discovered.listeners

    @property
    def rival_listeners(self) -> list[Callable[[TransportConfiguration], object]]:
        """Called with the connector of another broker that announces the node id of this one, at each of its announcements."""
        return self.discovered.rival_listeners

    @property
    def contested(self) -> tuple[str, ...]:
        """Node ids that two brokers announce at the same time."""
        return self.discovered.contested

    def problem(self) -> str | None:
        """For the health of this broker: whether another one has its node id."""
        if self._own_node_id in self.contested:
            return f"discovery group {self.name}: another broker announces the node id of this one ({self._own_node_id})"
        return None

    def register(self, gauges: Gauges) -> Callable[[], None]:
        """Show this group's metrics.  Returns the function that removes them."""
        discovered = self.discovered
        return gauges.register_all(
            {"discovery_group": self.name},
            ("discovery.brokers", "Brokers known to a discovery group", lambda: len(discovered.brokers)),
            ("discovery.contested", "Node ids that two brokers announce", lambda: len(discovered.contested)),
            ("discovery.datagrams", "Datagrams received by a discovery group", lambda: discovered.datagrams),
            ("discovery.damaged", "Datagrams that could not be read", lambda: discovered.damaged),
            ("discovery.refused", "Datagrams of brokers beyond the limit", lambda: discovered.refused),
        )

    def _join(self) -> None:
        self._retry = None
        try:
            self._listener.start()
        except NotConnectedError as error:
            if not self._refused:
                self._refused = True
                self._runtime.log_warning(f"discovery group {self.name}: {error}; it is tried again every {RETRY_SECONDS:g} s")
            self._retry = self._runtime.call_later(RETRY_SECONDS, self._join)
        else:
            self._refused = False
