"""What a failure of the client or an answer of the broker means to somebody who runs a query."""

from __future__ import annotations

from mqclient.errors import (
    AddressDoesNotExistError,
    ConnectionTimedOutError,
    DisconnectedError,
    IllegalStateError,
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
    FencedError,
    LoginError,
    MessageFormatError,
    MissingQueueError,
    MqsparkError,
    PermissionDeniedError,
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
"""Nothing was wrong with the request: the connection is gone or does not come into being; another one may help."""

FENCED = "was opened by another one"
"""Part of the broker's sentence (``protocol-spec/``, chapter "Readers")."""


def failure(error: MQError, doing: str) -> MqsparkError:
    """The error for the user; ``doing`` begins its sentence: ``reading queue orders``."""
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), MqsparkError)
    if isinstance(error, SecurityError) and "AMQ229031" in str(error):
        kind = LoginError
    if isinstance(error, IllegalStateError):
        kind = FencedError if FENCED in str(error) else ReaderRefusedError if "reader" in doing else MqsparkError
    return kind(f"{doing}: {str(error) or type(error).__name__}")


_KINDS: tuple[tuple[type[MQError], type[MqsparkError]], ...] = (
    (QueueDoesNotExistError, MissingQueueError),
    (AddressDoesNotExistError, MissingQueueError),
    (SecurityError, PermissionDeniedError),
    (InvalidFilterExpressionError, BadOptionError),
    (MalformedPacketError, MessageFormatError),
)
