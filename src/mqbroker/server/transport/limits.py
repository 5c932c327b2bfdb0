"""Limits per user (``resource-limit-settings``) and per connection (decision 18)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mqbroker.config.model.configuration import ResourceLimit
from mqbroker.messaging.queues.queue import Queue
from mqclient.errors import (
    FrameTooLargeError,
    IllegalStateError,
    MalformedPacketError,
    MaxConsumerLimitExceededError,
    MQError,
    SecurityError,
    SessionCreationRejectedError,
)

if TYPE_CHECKING:
    from mqbroker.server.transport.connection_session import ConnectionSession


SESSIONS_MAX = 1_000
"""Sessions of one connection: a pool of sessions has some hundreds."""

CONSUMERS_MAX = 2_000
"""Consumers of one connection, over all its sessions."""

TEMPORARY_QUEUES_MAX = 1_000
"""Temporary queues of one connection."""

PRODUCERS_MAX = 10_000
"""Producers of one connection that are remembered for statistics."""

CREDIT_REQUESTS_WAITING_MAX = 10_000
"""Credit requests of one connection that may wait for room; a client asks again only after an answer."""

UPLOAD_HEADERS_MAX = 4 * 1024 * 1024
"""Bytes of headers and properties of the large messages that one connection has begun; they stay in memory until the body is complete."""

UPLOAD_BODIES_MAX = 16 * 1024 * 1024 * 1024
"""Bytes on the disk for the bodies of the large messages that one connection has begun and not ended; a message that exceeds the limit is
thrown away and refused."""

CONTROL_FRAME_SIZE_MAX = 1024 * 1024
"""Bytes of a frame without a message: no request needs more, and longer ones would cost memory and work."""

REFUSALS_MAX = 100
"""Requests beyond a limit of the connection that are answered with an error; the next one ends the connection."""


REQUESTS_MAX = 20
"""Requests of one connection, other than sends and acknowledgements, that are handled in one turn, before all other connections have
theirs; ``REQUESTS_SECONDS`` may end the turn sooner."""

REQUESTS_SECONDS = 0.003
"""Time for the requests of one connection in one turn, since some requests cost more than others."""


COSTLY_FILTER_LENGTH = 1024
"""Characters: a peer with a longer filter waits for its next turn, and for :data:`FILTER_PAUSE_SECONDS`."""

FILTERS_LENGTH_MAX = 256 * 1024
"""Characters of the filters of one connection's consumers and temporary queues: a parsed filter takes up to thirty times as many bytes.
Filters up to 1024 characters are not refused."""

FILTER_PAUSE_SECONDS = 5e-6
"""The pause for each character of such a filter: a few times the longest time that parsing takes."""


def check_control_size(data: bytes) -> None:
    """Raises FrameTooLargeError for a frame without a message beyond :data:`CONTROL_FRAME_SIZE_MAX`."""
    if len(data) > CONTROL_FRAME_SIZE_MAX:
        raise FrameTooLargeError(f"a frame of {len(data)} bytes without a message, {CONTROL_FRAME_SIZE_MAX} are allowed")


METADATA_LENGTH_MAX = 1024 * 1024
"""Characters of the metadata of all sessions of one connection."""


class LimitedConnection(Protocol):
    """A connection, as its limits see it."""

    @property
    def sessions(self) -> Mapping[int, ConnectionSession]: ...

    @property
    def temporary_queues(self) -> Collection[Queue]: ...

    def refuse(self, error: MQError) -> MQError:
        """Count a request beyond a limit; returns ``error``."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one connection.

    A request beyond a limit is answered with an error; after :data:`REFUSALS_MAX` of them the connection ends.
    """

    sessions: int = SESSIONS_MAX
    consumers: int = CONSUMERS_MAX
    temporary_queues: int = TEMPORARY_QUEUES_MAX
    producers: int = PRODUCERS_MAX
    credit_requests: int = CREDIT_REQUESTS_WAITING_MAX
    upload_headers: int = UPLOAD_HEADERS_MAX
    upload_bodies: int = UPLOAD_BODIES_MAX
    metadata_length: int = METADATA_LENGTH_MAX
    filters_length: int = FILTERS_LENGTH_MAX

    def check_sessions(self, connection: LimitedConnection) -> None:
        if len(connection.sessions) >= self.sessions:
            raise connection.refuse(SessionCreationRejectedError(f"the connection has {self.sessions} sessions already"))

    def check_consumers(self, connection: LimitedConnection) -> None:
        if sum(len(session.consumer_filters()) for session in connection.sessions.values()) >= self.consumers:
            raise connection.refuse(MaxConsumerLimitExceededError(f"the connection has {self.consumers} consumers already"))

    def check_filters(self, connection: LimitedConnection, text: str | None) -> None:
        """May another consumer or temporary queue have this filter?  Short filters are limited by the number of consumers and queues."""
        if text is None or len(text) <= COSTLY_FILTER_LENGTH:
            return
        kept = [filter for session in connection.sessions.values() for filter in session.consumer_filters()]
        kept += [queue.filter for queue in connection.temporary_queues]
        if len(text) + sum(len(filter.text) for filter in kept if filter is not None) > self.filters_length:
            raise connection.refuse(IllegalStateError(f"the filters of the connection have {self.filters_length} characters already"))

    def check_temporary_queues(self, connection: LimitedConnection) -> None:
        if len(connection.temporary_queues) >= self.temporary_queues:
            raise connection.refuse(IllegalStateError(f"the connection has {self.temporary_queues} temporary queues already"))

    def check_producers(self, connection: LimitedConnection) -> None:
        if sum(len(session.send_load().producers) for session in connection.sessions.values()) >= self.producers:
            raise MalformedPacketError("CREATE_PRODUCER", "producer_id", f"the connection has {self.producers} producers already")

    def check_credit_requests(self, connection: LimitedConnection) -> None:
        if sum(session.send_load().requests_waiting for session in connection.sessions.values()) >= self.credit_requests:
            raise MalformedPacketError("SESS_PRODUCER_REQUEST_CREDITS", "credits", f"{self.credit_requests} requests are waiting already")

    def check_metadata(self, connection: LimitedConnection, length: int) -> None:
        """May a session keep ``length`` more characters?"""
        kept = sum(len(data) for session in connection.sessions.values() for data in session.metadata.values())
        if length + kept > self.metadata_length:
            raise connection.refuse(IllegalStateError(f"the connection has {self.metadata_length} characters of metadata already"))

    def check_upload(self, connection: LimitedConnection, size: int) -> None:
        """May a large message with ``size`` bytes of headers be begun?"""
        if size + sum(session.send_load().upload_size for session in connection.sessions.values()) > self.upload_headers:
            raise connection.refuse(
                IllegalStateError(f"the headers of the large messages that the connection sends exceed {self.upload_headers} bytes")
            )

    def check_upload_bodies(self, connection: LimitedConnection, size: int) -> None:
        """May ``size`` bytes of a large message be added?"""
        if size + sum(session.send_load().upload_body_size for session in connection.sessions.values()) > self.upload_bodies:
            raise IllegalStateError(f"the large messages that the connection sends exceed {self.upload_bodies} bytes")


class ResourceLimits:
    """The limits of single users: ``max_connections`` of their sessions, ``max_queues`` of their queues; -1 = no limit."""

    def __init__(self, limits: dict[str, ResourceLimit], queues: Callable[[], Iterable[Queue]]) -> None:
        self._limits = limits
        self._queues = queues

    def check_sessions(self, user: str | None, sessions: Iterable[ConnectionSession]) -> None:
        limit = self._limits.get(user or "")
        if limit is None or limit.max_connections < 0:
            return
        if sum(session.subject.name == user for session in sessions) >= limit.max_connections:
            raise SessionCreationRejectedError(
                f"AMQ229110: Too many sessions for user '{user}'. Sessions allowed: {limit.max_connections}."
            )

    def check_queues(self, user: str | None) -> None:
        limit = self._limits.get(user or "")
        if limit is None or limit.max_queues < 0:
            return
        if sum(queue.definition.user == user for queue in self._queues()) >= limit.max_queues:
            raise SecurityError(f"AMQ229111: Too many queues created by user '{user}'. Queues allowed: {limit.max_queues}.")
