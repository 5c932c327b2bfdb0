"""Errors of the client and answers of the broker, as errors for the user of a query."""

from __future__ import annotations

from typing import Final

from mqclient.errors import (
    AddressDoesNotExistError,
    ConnectionTimedOutError,
    DisconnectedError,
    InvalidFilterExpressionError,
    MalformedPacketError,
    MQError,
    NotConnectedError,
    ObjectClosedError,
    OperationTimeoutError,
    QueueDoesNotExistError,
    RemoteDisconnectError,
    SecurityError,
    SessionCreationRejectedError,
    UnblockedError,
)
from mqspark.errors import (
    BadOptionError,
    DuplicateCacheError,
    FencedError,
    LoginError,
    MessageFormatError,
    MessageGoneError,
    MissingQueueError,
    MqsparkError,
    PermissionDeniedError,
    ReaderMissingError,
    ReaderRefusedError,
)

OF_THE_CONNECTION = (
    NotConnectedError,
    ConnectionTimedOutError,
    DisconnectedError,
    RemoteDisconnectError,
    UnblockedError,
    ObjectClosedError,
    OperationTimeoutError,
    SessionCreationRejectedError,
)
"""Errors of the connection, not of the request: the same request may succeed over another connection."""

OF_CODES: Final[dict[str, type[MqsparkError]]] = {
    "AMQ229901": ReaderMissingError,
    "AMQ229902": FencedError,
    "AMQ229903": BadOptionError,
    "AMQ229904": ReaderRefusedError,
    "AMQ229905": ReaderRefusedError,
    "AMQ229908": MessageGoneError,
    "AMQ229909": DuplicateCacheError,
}
"""Errors about readers and duplicate ids, by the code that the broker's sentence begins with (``docs/operations.md``)."""


def failure(error: MQError, doing: str) -> MqsparkError:
    """The error for the user; ``doing`` begins its sentence: ``reading queue orders``."""
    text = str(error) or type(error).__name__
    code = text.partition(":")[0]
    if isinstance(error, SecurityError):
        kind: type[MqsparkError] = LoginError if code == "AMQ229031" else PermissionDeniedError
    else:
        kind = OF_CODES.get(code) or next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), MqsparkError)
    return kind(f"{doing}: {text}")


_KINDS: Final[tuple[tuple[type[MQError], type[MqsparkError]], ...]] = (
    (QueueDoesNotExistError, MissingQueueError),
    (AddressDoesNotExistError, MissingQueueError),
    (InvalidFilterExpressionError, BadOptionError),
    (MalformedPacketError, MessageFormatError),
)
