"""Limits per user (``resource-limit-settings``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mqbroker.config.configuration import ResourceLimit
from mqbroker.messaging.queue import Queue
from mqclient.errors import SecurityError, SessionCreationRejectedError

if TYPE_CHECKING:
    from mqbroker.server.session import ServerSession


class ResourceLimits:
    """What single users may have: ``max_connections`` limits their sessions, ``max_queues`` their queues; -1 = no limit."""

    def __init__(self, limits: dict[str, ResourceLimit], queues: Callable[[], Iterable[Queue]]) -> None:
        self._limits = limits
        self._queues = queues

    def check_sessions(self, user: str | None, sessions: Iterable[ServerSession]) -> None:
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
