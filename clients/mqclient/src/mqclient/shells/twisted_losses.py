"""Why a connection of Twisted has ended, in words."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure


def loss_reason(failure: Failure) -> str:
    """The reason for people: Twisted calls it clean when the other side ends without a word, also by ``kill -9``."""
    return "the peer has closed the connection" if isinstance(failure.value, ConnectionDone) else failure.getErrorMessage()
