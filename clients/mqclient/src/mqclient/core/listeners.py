"""The listeners of an application, for events of connections and of sends."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from mqclient.core.message import ClientMessage
from mqclient.errors import MQError


class SessionFailureListener(Protocol):
    """Hears of every connection failure, also when the reconnect succeeds."""

    def before_reconnect(self, error: MQError) -> None:
        """The connection failed with ``error``; attempts to reconnect follow."""

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        """The failure has been dealt with: ``failed_over`` is true when the sessions live on, false when they are closed now."""


class FailoverEvent(enum.Enum):
    FAILURE_DETECTED = 0
    FAILOVER_COMPLETED = 1
    FAILOVER_FAILED = 2


FailoverEventListener = Callable[[FailoverEvent], None]
"""Called with FAILURE_DETECTED and later with one of the other two."""


class SendAcknowledgementHandler(Protocol):
    """Hears the outcome of asynchronous sends.  Needs a confirmation window; without one it is called right after the write."""

    def send_acknowledged(self, message: ClientMessage) -> None:
        """The broker has the message (a durable one is stored)."""

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        """The broker refused the message, or the session ended before its answer came."""
