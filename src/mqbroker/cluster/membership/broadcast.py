"""Broadcast groups: this broker announces by which connectors it can be reached (Artemis manual, "Clusters")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqbroker.cluster.membership.discovery import Notify
from mqbroker.config.model.cluster import BroadcastGroupConfiguration
from mqbroker.server.observation.gauges import Gauges
from mqclient.core.runtime import BroadcastLink, Runtime, Timer, new_uuid
from mqclient.errors import NotConnectedError
from mqclient.protocol.discovery import encode_announcement
from mqclient.wire.primitives import TransportConfiguration
from mqclient.wire.properties import STRING


class BroadcastGroup:
    """Announces ``connectors``, the first of them as the most important; peers from Artemis take no other.

    ``unique_id`` distinguishes this broker from another one with the same node id; all groups of a broker share it, None makes one.
    ``notify`` sends BROADCAST_GROUP_STARTED and BROADCAST_GROUP_STOPPED.  Raises ValueError when the announcement would be too great.
    """

    def __init__(
        self,
        configuration: BroadcastGroupConfiguration,
        connectors: Sequence[TransportConfiguration],
        runtime: Runtime,
        node_id: str,
        unique_id: str | None = None,
        notify: Notify | None = None,
    ) -> None:
        self.name = configuration.name
        self.configuration = configuration
        self.started = False
        self.sent = 0
        """The number of announcements sent."""
        self._runtime = runtime
        self._notify = notify
        self._announcement = encode_announcement(node_id, unique_id or new_uuid(runtime), connectors)
        self._link: BroadcastLink | None = None
        self._timer: Timer | None = None
        self._refused = False

    def start(self) -> None:
        """Announce now and then every ``broadcast-period``.  Raises ValueError for an endpoint that cannot be used."""
        if self.started:
            return
        self._open()
        self.started = True
        if self._notify is not None:
            self._notify("BROADCAST_GROUP_STARTED", {"name": (STRING, self.name)})
        self._announce()

    def stop(self) -> None:
        """Announce no more.  As with Artemis, no packet tells of the end."""
        if not self.started:
            return
        self.started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if self._notify is not None:
            self._notify("BROADCAST_GROUP_STOPPED", {"name": (STRING, self.name)})

    def register(self, gauges: Gauges) -> Callable[[], None]:
        """Show this group's metrics.  Returns the function that removes them."""
        labels = {"broadcast_group": self.name}
        return gauges.register("broadcast.sent", "Announcements sent by a broadcast group", labels, lambda: self.sent)

    def _announce(self) -> None:
        if self._link is None:
            self._open()
        if self._link is not None:
            self._link.send(self._announcement)
            self.sent += 1
        self._timer = self._runtime.call_later(self.configuration.broadcast_period / 1000, self._announce)

    def _open(self) -> None:
        try:
            self._link = self._runtime.open_broadcast(self.configuration.endpoint, None)
        except NotConnectedError as error:
            if not self._refused:
                self._refused = True
                self._runtime.log_warning(f"broadcast group {self.name}: {error}; it is tried again every broadcast-period")
        else:
            self._refused = False
