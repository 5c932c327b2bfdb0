"""All connections of one server: made for a transport, checked for signs of life, ended together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.server.transport.connection import ConnectionTransport, ServerConnection
from mqbroker.server.transport.handshake import HANDSHAKE_TIMEOUT_SECONDS
from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqbroker.server.transport.naming import Naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.ports import Cancellable
    from mqbroker.server.transport.connection_owner import ConnectionOwner
    from mqclient.wire.packets import DisconnectV3

log = Logger(namespace="mqbroker.server")


LOOK_SECONDS = 0.25
"""The time between two looks at the peers that are not heard: the precision of their signs of life."""


class _Unheard:
    """Sends peers that are not heard, so that their pings are not answered, a sign of life in each quarter of the TTL they declared."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._due: dict[ServerConnection, float] = {}
        self._timer: Cancellable | None = None
        self._stopped = False

    def add(self, connection: ServerConnection) -> None:
        """The broker has stopped reading what the peer sends."""
        if connection not in self._due and not self._stopped:
            self._due[connection] = self._next(connection)
            if self._timer is None:
                self._look_later()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self, connection: ServerConnection) -> float:
        ttl_ms = connection.liveness.ttl_ms
        return self._owner.clock.monotonic() + (ttl_ms if ttl_ms > 0 else CONNECTION_TTL_MS) / 4000

    def _look_later(self) -> None:
        self._timer = self._owner.clock.call_later(LOOK_SECONDS, self._owner.turn.run, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._owner.clock.monotonic()
        for connection, due in list(self._due.items()):
            if not connection.held_back or connection.transport_lost or connection.closed:
                del self._due[connection]
            elif now >= due:
                connection.show_life()
                self._due[connection] = self._next(connection)
        if self._due:
            self._look_later()


class Connections:
    """The open connections, ``by_id``; ``total`` counts all connections ever made.

    ``control`` handles the frames of control channels, ``new_id`` gives random texts, rarely the same one twice, and every
    ``check_interval_ms`` (0 = never) each peer is checked for signs of life.
    """

    def __init__(
        self,
        owner: ConnectionOwner,
        control: Callable[[ServerConnection, int, int, bytes], None],
        new_id: Callable[[], str],
        check_interval_ms: int,
    ) -> None:
        self.by_id: dict[str, ServerConnection] = {}
        self.total = 0
        self._owner = owner
        self._control = control
        self._new_id = new_id
        self._check_interval_ms = check_interval_ms
        self._checker: Cancellable | None = None
        self._unheard = _Unheard(owner)

    def connect(
        self,
        transport: ConnectionTransport,
        remote: str,
        naming: Naming | None = None,
        certificate: object = None,
        *,
        handshake_timeout_seconds: float = HANDSHAKE_TIMEOUT_SECONDS,
        security_domain: str | None = None,
        cluster_connection: str | None = None,
    ) -> ServerConnection:
        """A transport was opened.  0 seconds: the peer may take any time to begin."""
        connection_id = self._new_id()
        while connection_id in self.by_id:
            # Ids are short and random: where thousands of connections stay and thousands come and go, the same one comes again.
            connection_id = self._new_id()
        connection = ServerConnection(
            self._owner,
            self._control,
            self._unheard.add,
            transport,
            connection_id,
            remote,
            naming or Naming(),
            certificate,
            handshake_timeout_seconds,
            security_domain,
            cluster_connection,
        )
        self.by_id[connection_id] = connection
        self.total += 1
        return connection

    def start(self) -> None:
        """Begin to check the peers for signs of life."""
        if self._check_interval_ms > 0:
            self._checker = self._owner.clock.call_later(self._check_interval_ms / 1000, self._check_due)

    def _check_due(self) -> None:
        # A process that stood still has the peers' signs of life in its sockets: they are read before a peer counts as silent.
        self._checker = self._owner.clock.call_later(0, self._check)

    def _check(self) -> None:
        now = self._owner.clock.monotonic()
        for connection in list(self.by_id.values()):
            try:
                self._owner.turn.run(connection.check_alive, now)
            except Exception:
                log.failure("the check of connection {id} failed", id=connection.connection_id)
        self.start()

    def stop(self, notice: DisconnectV3) -> None:
        """Send every peer away with ``notice``, but those to whom a link goes on: its owner ends it."""
        if self._checker is not None:
            self._checker.cancel()
            self._checker = None
        self._unheard.stop()
        self.send_away(notice, lambda connection: connection.link is None)

    def send_away(self, notice: DisconnectV3, whom: Callable[[ServerConnection], bool]) -> None:
        """Disconnect these peers with ``notice``."""
        for connection in [each for each in self.by_id.values() if whom(each)]:
            try:
                self._owner.turn.run(connection.disconnect, notice)
            except Exception:
                log.failure("connection {id} could not be disconnected in order", id=connection.connection_id)
